#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lists what other projects ask of CUDA's libraries, and compares the lists with what is modelled.

Usage: sim/list_imports.py FOLDER PACKAGE...   # writes imports/PACKAGE-VERSION.txt for each installed package
       sim/list_imports.py --check [LIBRARY...]

FOLDER is a site-packages folder, or an unpacked wheel. A name counts if a library of the package links it,
if it is one of the texts of such a library, which may ask the loader for it (dlsym), or if it stands in a
source that the package compiles or that calls with ctypes.

With --check, fails if a name is not modelled, unless imports/not_modelled.txt says why. Fails too if a given
stand-in lacks a name, or if a reason is no longer needed. A function of the runtime is modelled if the
simulated driver models each function that the stand-in calls for it.
"""
import datetime
import fnmatch
import importlib.metadata
import pathlib
import re
import subprocess
import sys
import textwrap

import list_blas
import list_runtime

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "driver"))
import functions  # noqa: E402

LISTS, REASONS = HERE / "imports", HERE / "imports" / "not_modelled.txt"
# The libraries, by how their names begin. NCCL has a list and a test of its own.
PREFIXES = {"libcuda": r"cu(?!da[A-Z]|blas)[A-Z]", "libcudart": r"(?:__)?cuda[A-Z]",
            "libcublas": r"cublas(?!Lt)[A-Z]", "libcublasLt": r"cublasLt[A-Z]", "libnvidia-ml": r"nvml[A-Z]"}
# The sources that call CUDA when the program runs. Others, such as tables of names, call nothing.
SOURCES = ("numba_cuda/numba/cuda/cudadrv/*.py", "triton/backends/nvidia/driver.c")
# Tools of CUDA that a package brings.
TOOLS = "*/lib/cupti*/*"
# A library with more names of the runtime among its texts has a runtime inside.
MOST_TEXTS = 300


def driver():
    """The names of the driver's functions, and those that are modelled."""
    rows = functions.read()
    modelled = [each for each in rows if "simulator" in each.uses or "header" in each.uses]
    return [{name for each in part for name in (each.name, each.symbol)} for part in (rows, modelled)]


def modelled():
    known = driver()[1]
    nvml = set(re.findall(r"^NVML [^(]*?(nvml\w+)\(", (HERE / "nvml/nvml.cpp").read_text(), re.MULTILINE))
    return {"libcuda": known,
            "libcudart": {name for name, called in list_runtime.calls().items() if called <= known},
            "libcublas": list_blas.modelled("cublas"), "libcublasLt": list_blas.modelled("cublasLt"),
            "libnvidia-ml": nvml}


def existing():
    """All names of each library that are known, to tell them from other texts. Of NVML, none are."""
    return {"libcuda": driver()[0],
            "libcudart": set(list_runtime.modelled()) | set(list_runtime.listed()),
            **{f"lib{name}": list_blas.modelled(name) | list_blas.listed(name) for name in list_blas.SOURCES}}


class Asked:
    """What one package asks for."""

    def __init__(self):
        self.names = {library: set() for library in PREFIXES}
        self.runtimes = []  # the libraries that have a runtime inside
        self.known = existing()

    def add_library(self, path, shown):
        listed = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True).stdout
        texts = {text.decode() for text in re.findall(rb"(?<=\0)(?:__)?(?:cu|nvml)[A-Z_a-z]\w+(?=\0)",
                                                      path.read_bytes())}
        if sum(text in self.known["libcudart"] for text in texts) > MOST_TEXTS:
            self.runtimes.append(shown)
            return
        for library, prefix in PREFIXES.items():
            known = self.known.get(library)
            linked = set(re.findall(rf"\b({prefix}\w+)", listed))
            asked = {text for text in texts if re.match(prefix, text)}
            names = linked or asked
            self.names[library] |= names if known is None else names & known

    def add_source(self, path):
        words = set(re.findall(r"\b(?:__)?cu\w+", path.read_text()))
        for library, known in self.known.items():
            self.names[library] |= words & known


def read_package(folder, package):
    found = next(importlib.metadata.distributions(name=package, path=[folder]), None)
    if found is None:
        sys.exit(f"{package} is not in {folder}")
    asked = Asked()
    for file in found.files:
        path = pathlib.Path(found.locate_file(file))
        if re.search(r"\.so(\.\d+)*$", path.name) and path.is_file() \
                and not fnmatch.fnmatch(str(file), TOOLS):
            asked.add_library(path, str(file))
        elif any(fnmatch.fnmatch(str(file), pattern) for pattern in SOURCES):
            asked.add_source(path)
    return found.version, asked


def write(package, version, asked):
    text = f"# What {package} {version} asks of CUDA's libraries. sim/list_imports.py has read its wheel on\n"
    text += f"# {datetime.date.today()}.\n"
    for runtime in sorted(asked.runtimes):
        text += f"# {runtime} has a runtime of its own inside.\n"
    for library, names in asked.names.items():
        if names:
            rows = textwrap.fill(" ".join(sorted(names)), 110, initial_indent="  ", subsequent_indent="  ")
            text += f"\n{library}:\n{rows}\n"
    (LISTS / f"{package}-{version}.txt").write_text(text)


def lists():
    """The names of each list, by library."""
    found = {}
    for path in sorted(LISTS.glob("*-*.txt")):
        names = found[path.stem] = {}
        for library, rows in re.findall(r"^(lib[\w-]+):\n((?:  .+\n)+)", path.read_text(), re.MULTILINE):
            names[library] = set(rows.split())
    return found


def reasons():
    return dict(re.findall(r"^(\w[\w*\[\]]+): (.+)$", REASONS.read_text(), re.MULTILINE))


def check(libraries):
    found, known, patterns = lists(), modelled(), reasons()
    problems, needed = [], set()
    for package, asked in found.items():
        counts = []
        for library, names in asked.items():
            missing = names - known[library]
            counts.append(f"{library} {len(names) - len(missing)} of {len(names)}")
            for name in sorted(missing):
                fit = {pattern for pattern in patterns if fnmatch.fnmatchcase(name, pattern)}
                needed |= fit
                if not fit:
                    problems.append(f"{package}: {name} of {library} is not modelled")
        print(f"{package}: modelled names of {', '.join(counts)}")
    problems += [f"the reason for {each} is no longer needed" for each in patterns if each not in needed]
    for path in libraries:
        library = pathlib.Path(path).name.split(".")[0]
        linked = set().union(*(asked.get(library, set()) for asked in found.values()))
        if library == "libnvidia-ml":  # programs look for its functions, and go on without
            linked &= known[library]
        missing = linked - list_runtime.exported(path)
        problems += [f"{path} does not export {name}" for name in sorted(missing)]
    if not found:
        problems.append("there are no lists")
    sys.exit("\n".join(problems) or 0)


def main():
    if sys.argv[1:2] == ["--check"]:
        check(sys.argv[2:])
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for package in sys.argv[2:]:
        version, asked = read_package(sys.argv[1], package)
        write(package, version, asked)
        print(f"{package} {version}:", ", ".join(f"{len(n)} of {l}" for l, n in asked.names.items()))


if __name__ == "__main__":
    main()
