# SPDX-License-Identifier: MIT
"""Runs bench/peers, keeps its results, and computes the ratios within each round."""
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

CONTROL = "raw_again"


class Spread:
    """The median of some numbers and the quartiles around it."""

    def __init__(self, values):
        values = list(values)
        self.median = statistics.median(values)
        self.low, _, self.high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3

    def holds(self, value):
        return self.low <= value <= self.high


class Measurements:
    """The rounds of one run. A round has the ns of a call for each contestant, measured in turns."""

    def __init__(self, context, rounds):
        self.context = context
        self.rounds = rounds

    def _rounds_of(self, name, threads, **arguments):
        return [entry["ns"] for entry in self.rounds
                if entry["name"] == name and entry["threads"] == threads and entry["arguments"] == arguments]

    def operations(self):
        return list(dict.fromkeys(entry["name"] for entry in self.rounds if entry["name"] != "growth"))

    def threads(self):
        return sorted({entry["threads"] for entry in self.rounds if entry["name"] != "growth"})

    def time(self, name, contestant, threads=1, **arguments):
        times = [ns[contestant] for ns in self._rounds_of(name, threads, **arguments) if contestant in ns]
        return Spread(times) if times else None

    def ratio(self, name, contestant, threads=1):
        """The ratio to the bare call of the same round."""
        ratios = [ns[contestant] / ns["raw"] for ns in self._rounds_of(name, threads) if contestant in ns]
        return Spread(ratios) if ratios else None

    def growth(self, axis, contestant):
        """Pairs of the growing number and the ns."""
        points = {}
        for entry in self.rounds:
            if entry["name"] != "growth":
                continue
            sizes = {**entry["arguments"], "threads": entry["threads"]}
            one_event_a_stream = axis == "streams" and sizes["events"] == sizes["streams"]
            fixed = {"events", "streams", "threads"} - {axis} - ({"events"} if one_event_a_stream else set())
            if all(sizes[size] == 1 for size in fixed):
                points.setdefault(sizes[axis], []).append(entry["ns"][contestant])
        return [(size, statistics.median(times)) for size, times in sorted(points.items())]

    def is_simulated(self):
        return "simulated" in self.context["device"]

    def date(self):
        return self.context["date"][:10]

    def title(self):
        cuda = int(self.context["cuda"])
        version = f"{cuda // 1000}.{cuda % 1000 // 10}"
        return f"{self.context['device']}, driver {self.context['driver']} (CUDA {version}), {self.date()}"

    def file_name(self):
        name = "-".join([self.context["device"], self.context["driver"], self.date()])
        return re.sub(r"[^a-z0-9.]+", "-", name.lower()) + ".json"

    def save(self, path):
        """One line for each benchmark, with the ns of all rounds of each contestant."""
        path.parent.mkdir(parents=True, exist_ok=True)
        benchmarks = {}
        for entry in self.rounds:
            what = {key: entry[key] for key in ("name", "threads", "arguments")}
            benchmarks.setdefault(json.dumps(what), []).append(entry["ns"])
        lines = []
        for what, rounds in benchmarks.items():
            contestants = sorted(set().union(*rounds))
            ns = {each: [ns.get(each) for ns in rounds] for each in contestants}
            lines.append(json.dumps({**json.loads(what), "ns": ns}))
        context, lines = json.dumps(self.context), ",\n".join(lines)
        path.write_text(f'{{"context": {context},\n"benchmarks": [\n{lines}\n]}}\n')


def load(path):
    kept = json.loads(path.read_text())
    rounds = []
    for entry in kept["benchmarks"]:
        for ns in zip(*entry["ns"].values()):
            measured = {each: value for each, value in zip(entry["ns"], ns) if value is not None}
            rounds.append({**entry, "ns": measured})
    return Measurements(kept["context"], rounds)


def driver_version():
    """The version of the kernel module. The driver API returns only the version of CUDA."""
    module = pathlib.Path("/proc/driver/nvidia/version")
    text = module.read_text() if module.exists() else ""
    found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    if found:
        return found[1]
    try:
        asked = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                               text=True,
                               capture_output=True, check=True).stdout
        return asked.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def _parse(text):
    try:
        return json.loads(text)
    except json.JSONDecodeError:  # the run ended early; the part that it wrote is valid
        end = text.rfind("    }")
        if end < 0:
            sys.exit("it has measured nothing")
        return json.loads(text[: end + 5] + "]}")


def _round(entry):
    name, *rest = entry["name"].split("/")
    arguments = {key: int(value) for key, value in (each.split(":") for each in rest if ":" in each)
                 if key in ("events", "streams")}
    known = {"family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads",
             "iterations",
             "real_time", "cpu_time"}
    ns = {key: round(value, 3) for key, value in entry.items()
          if isinstance(value, (int, float)) and not isinstance(value, bool) and key not in known}
    return {"name": name, "threads": entry["threads"], "arguments": arguments, "ns": ns}


def run(program, repetitions, names, timeout):
    """Uses one process for the operations and one for the growth, so that each starts fresh."""
    context, rounds = {}, []
    for part in ("-growth", "growth"):
        if names and (part == "growth") != ("growth" in names):
            continue
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            command = [program, f"--benchmark_repetitions={repetitions}",
                       f"--benchmark_filter={names or part}",
                       f"--benchmark_out={out.name}", "--benchmark_out_format=json",
                       "--benchmark_display_aggregates_only=true"]
            print("running", " ".join(map(str, command)), flush=True)
            try:
                subprocess.run(command, check=True, timeout=timeout, stdout=subprocess.DEVNULL)
            except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
                print(f"  cut short: {error}")
            result = _parse(pathlib.Path(out.name).read_text())
        context = {**result["context"], **context}
        rounds += [_round(entry) for entry in result["benchmarks"] if entry["run_type"] == "iteration"]
    kept = {key: context[key] for key in ("device", "cuda", "runtime", "torch", "cccl", "num_cpus",
                                          "mhz_per_cpu",
                                          "load_avg", "library_build_type") if key in context}
    kept |= {"driver": driver_version(),
             "date": datetime.datetime.now(datetime.timezone.utc).isoformat()[:19] + "Z"}
    return Measurements(kept, rounds)
