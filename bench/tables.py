# SPDX-License-Identifier: MIT
"""Tables of the measurements in Markdown, and the comparison with the budgets."""
from measurements import CONTROL

OPERATIONS = {
    "create_destroy": "create, destroy",
    "create_destroy_timed": "create, destroy, timed",
    "record": "record",
    "record_timed": "record, timed",
    "query_done": "query, completed",
    "query_pending": "query, pending",
    "synchronize_done": "synchronize, completed",
    "wait": "a stream waits",
    "elapsed": "elapsed time",
    "create_record_destroy": "create, record, destroy",
    "fork_join": "fork and join of two streams",
    "thousand_records": "1,000 records, synchronize",
}
PEERS = {"cuevent": "cuevent", "cccl": "CCCL", "runtime": "CUDA runtime", "torch": "PyTorch"}

# The highest ratio to the bare call. A ratio within the spread of the control is accepted too.
RATIO_BUDGETS = [(operation, "cuevent", 1.03) for operation in
                 ("record", "record_timed", "wait", "query_done", "query_pending", "synchronize_done",
                  "elapsed")]
RATIO_BUDGETS += [("create_destroy", "cuevent", 1.20), ("create_destroy", "cuevent_owned", 1.20),
                  ("create_destroy", "cuevent_pushed", 1.55)]
# The highest time of a call in ns.
TIME_BUDGETS = [("pool", 1, 20), ("pool", 16, 60), ("reached", 1, 3), ("reached", 16, 3)]


def number(value):
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def is_like_raw(measurements, operation, ratio, threads):
    """Whether the control, the same code a second time, differs as much."""
    control = measurements.ratio(operation, CONTROL, threads)
    return control is not None and control.holds(ratio.median)


def ratio_cell(measurements, operation, contestant, threads=1):
    ratio = measurements.ratio(operation, contestant, threads)
    if ratio is None:
        return "–"
    sign = "≈ " if contestant != CONTROL and is_like_raw(measurements, operation, ratio, threads) else ""
    return f"{sign}{ratio.median:.2f} <sub>{ratio.low:.2f}–{ratio.high:.2f}</sub>"


def row(cells):
    return "| " + " | ".join(cells) + " |\n"


def present_peers(measurements):
    return [peer for peer in PEERS
            if any(measurements.ratio(each, peer) for each in measurements.operations())]


def ratio_table(measurements):
    """All peers with one thread."""
    peers = present_peers(measurements)
    text = row(["one thread", "bare call, ns", "bare call again"] + [PEERS[peer] for peer in peers])
    text += row(["---"] + ["---:"] * (len(peers) + 2))
    for operation in measurements.operations():
        text += row([OPERATIONS[operation], number(measurements.time(operation, "raw").median),
                     ratio_cell(measurements, operation, CONTROL)] +
                    [ratio_cell(measurements, operation, peer) for peer in peers])
        if operation == "create_destroy" and measurements.ratio(operation, "cuevent_owned"):
            blank = [""] * (len(peers) - 1)
            for contestant, what in (("cuevent_owned", "in an owned context"),
                                     ("cuevent_pushed", "the context has to be pushed")):
                text += row([what, "", "", ratio_cell(measurements, operation, contestant)] + blank)
            for contestant, what in (("raw_pushed", "bare: push, create, pop, destroy"),
                                     ("raw_asking",
                                      "bare, with the checks of cuevent: push, create, pop, destroy")):
                if measurements.time(operation, contestant):
                    text += row([what, number(measurements.time(operation, contestant).median),
                                 ratio_cell(measurements, operation, contestant), ""] + blank)
    return text


def threads_of(count):
    return "1 thread" if count == 1 else f"{count} threads"


def thread_table(measurements):
    """cuevent and the bare call. Each thread has its own event and stream."""
    counts = measurements.threads()
    text = row(["bare call, ns; ratio of cuevent"] + [threads_of(count) for count in counts])
    text += row(["---"] + ["---:"] * len(counts))
    for operation in measurements.operations():
        cells = [f"{number(measurements.time(operation, 'raw', count).median)}; "
                 f"{ratio_cell(measurements, operation, 'cuevent', count)}"
                 if measurements.time(operation, "raw", count) else "–" for count in counts]
        text += row([OPERATIONS[operation]] + cells)
    return text


def budget_lines(measurements):
    for operation, contestant, bound in RATIO_BUDGETS:
        ratio = measurements.ratio(operation, contestant)
        if ratio is None:
            continue
        median = round(ratio.median, 2)  # rounded like the bounds
        met = median <= bound or is_like_raw(measurements, operation, ratio, 1)
        yield f"{operation}: {contestant}", f"{median:.2f}", f"{bound:.2f}", "met" if met else "MISSED"
    for contestant, threads, bound in TIME_BUDGETS:
        times = dict(measurements.growth("threads", contestant))
        if threads in times:
            verdict = "met" if times[threads] <= bound else f"MISSED by {times[threads] - bound:.2f} ns"
            yield f"{contestant}, {threads_of(threads)}", f"{times[threads]:.2f} ns", f"{bound} ns", verdict


def budget_table(measurements):
    text = row(["budget", "measured", "bound", ""]) + row(["---", "---:", "---:", "---"])
    return text + "".join(map(row, budget_lines(measurements)))


def absent_peers(measurements):
    return "".join(f"{name}: {measurements.context[peer]}. " for peer, name in PEERS.items()
                   if measurements.context.get(peer, "present") != "present")
