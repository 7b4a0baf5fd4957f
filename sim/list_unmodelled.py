#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes src/unmodelled.inc, the functions of cuda.h that the simulator does not model, and MODELLED.md.

Usage: sim/list_unmodelled.py [--check] FOLDER_OF_CUDA_H

The list has the functions of the newest header with which it was ever made. Older headers from CUDA 13.0 on
keep the functions that came later, and only move functions that are modelled now.

With --check, compares the committed files with what it would write, and writes nothing. Exits with 77, which
a test counts as skipped, if the headers are older than CUDA 13.0. The files are committed because a build
must not need Python, and because a build with older headers exports the same names.
"""
import pathlib
import re
import subprocess
import sys
import textwrap

import list_runtime

HERE = pathlib.Path(__file__).resolve().parent / "src"
TARGET = HERE / "unmodelled.inc"
PAGE = HERE.parent / "MODELLED.md"
OLDEST = 13000  # the attributes of devices have their names in this header
SUFFIXES = re.compile(r"(_v[2-9])?(_ptds|_ptsz)?$")
PER_THREAD = ("_ptds", "_ptsz")


def preprocessed(folder, text):
    """The prototypes of every variant: this is the definition with which the simulator is compiled."""
    command = ["c++", "-E", "-P", "-x", "c++", "-D__CUDA_API_VERSION_INTERNAL", "-isystem", folder, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def modelled():
    """The symbols, each with the comment in driver_functions.inc under which it stands."""
    symbols = {}
    subject = ""
    for line in (HERE / "driver_functions.inc").read_text().splitlines():
        row = re.match(r"(STREAM_)?ENTRY\((.*?)\(", line)
        if line.startswith("// "):
            subject = line[3:]
        if not row:
            continue
        fields = [field.strip() for field in row.group(2).split(",")]
        symbol = fields[5] if row.group(1) else fields[3]
        symbols[symbol] = subject
        if row.group(1):
            symbols[symbol + "_" + fields[4]] = subject
    return symbols


def rows(folder):
    symbols = set(re.findall(r"\bCUresult\s+(cu\w+)\s*\(", preprocessed(folder, "#include <cuda.h>\n")))
    versions = {}  # by name and kind: the versions that introduced a variant, oldest first
    typedefs = (pathlib.Path(folder) / "cudaTypedefs.h").read_text()
    for name, version, kind in set(re.findall(r"PFN_(cu\w+?)_v(\d{4,5})(_ptds|_ptsz)?\)", typedefs)):
        versions.setdefault((name, kind), set()).add(int(version))
    profiler = (pathlib.Path(folder) / "cudaProfilerTypedefs.h").read_text()
    for name, version in set(re.findall(r"PFN_(cuProfiler\w+)_v(\d+)", profiler)):
        yield name, name, int(version), "false"
    variants = {}
    for symbol in symbols:
        variant, kind = SUFFIXES.search(symbol).groups()
        name = SUFFIXES.sub("", symbol)
        variants.setdefault((name, kind or ""), []).append((variant or "", symbol))
    for (name, kind), found in sorted(variants.items()):
        since = sorted(versions.get((name, kind), []))
        found.sort()
        if len(found) != len(since):
            sys.exit(f"cudaTypedefs.h has {len(since)} variants of {name}{kind}, and cuda.h {len(found)}")
        # The variants and their versions have the same order.
        for (_, symbol), version in zip(found, since):
            yield symbol, name, version, "true" if kind else "false"


def listed():
    """The rows of the committed list, and the version of the header from which they are."""
    text = TARGET.read_text()
    found = re.findall(r"^UNMODELLED\((\w+), (\w+), (\d+), (\w+)\)$", text, re.MULTILINE)
    version = int(re.search(r"of cuda.h (\d+)", text).group(1))
    return {(symbol, name, int(since), kind) for symbol, name, since, kind in found}, version


def wrapped(text):
    return textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False)


def hidden_attributes(header):
    """The attributes that announce on a device what the simulator does not model."""
    text = (HERE / "device_attributes.hpp").read_text()
    values = re.findall(r"none|-?\d+", re.sub(r"//[^\n]*", "", text[text.index("device_attributes{"):]))
    names = dict((int(number), name) for name, number in
                 re.findall(r"CU_DEVICE_ATTRIBUTE_(\w+) *= *(\d+)", header))
    return [names[number] for number, value in enumerate(values, 1) if value == "none"]


def page(unmodelled, header, newest):
    symbols = modelled()
    subjects = {}
    for symbol, subject in symbols.items():
        if not symbol.endswith(PER_THREAD):
            subjects.setdefault(subject, []).append(symbol)
    lines = [
        "# What the simulator models",
        "",
        wrapped(
            "`sim/list_unmodelled.py` writes this page. An installed `libcuda.so.1` has it next to it, as "
            f"`modelled.txt`. The simulator models {len(symbols)} of the {len(symbols) + len(unmodelled)} "
            f"functions of cuda.h and cudaProfiler.h {newest // 1000}.{newest % 1000 // 10}, counting every "
            "variant. The variants for per-thread default streams are not listed. [The simulator's "
            "page](README.md#what-it-models) lists the known differences from a device."),
        "",
        "| subject | functions |",
        "| --- | --- |",
    ]
    for subject, names in subjects.items():
        lines.append(f"| {subject} | {', '.join(f'`{name}`' for name in names)} |")
    lines += [
        "",
        "## The CUDA runtime",
        "",
        wrapped(
            "`libcudart.so.12` and `libcudart.so.13`, next to the drop-in, have these functions. They export "
            "the other functions of the runtime too. A call of one of those prints its name and aborts."),
        "",
        wrapped(", ".join(f"`{name}`" for name in list_runtime.modelled())),
        "",
        "## Device attributes",
        "",
        wrapped(
            "All attributes of CUDA 13.0 have the values of an H100, except for its place on the PCI bus. "
            "These are 0 instead, because they announce what the simulator does not model. The names are "
            "without `CU_DEVICE_ATTRIBUTE_`."),
        "",
        wrapped(", ".join(f"`{name}`" for name in hidden_attributes(header))),
        "",
        "## Functions that abort",
        "",
        wrapped(
            "A call prints the name of the function and the caller's stack, and aborts. With "
            "`CUEVENT_SIM_UNMODELLED=missing`, `cuGetProcAddress` does not find these functions."),
        "",
        wrapped(", ".join(f"`{row[0]}`" for row in unmodelled if not row[0].endswith(PER_THREAD))),
    ]
    return "\n".join(lines) + "\n"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    header = (pathlib.Path(arguments[0]) / "cuda.h").read_text()
    version = int(re.search(r"#define CUDA_VERSION (\d+)", header).group(1))
    if version < OLDEST:
        print(f"the list needs cuda.h of CUDA 13.0 or later, and these headers have version {version}")
        sys.exit(77)
    before, newest = listed()
    newest = max(newest, version)
    known = modelled()
    unmodelled = sorted(row for row in before | set(rows(arguments[0])) if row[0] not in known)
    lines = [
        "// SPDX-License-Identifier: MIT",
        f"// The functions of cuda.h {newest} that the simulator does not model.",
        "// Do not edit: add a row to driver_functions.inc and run sim/list_unmodelled.py.",
        "//",
        "// UNMODELLED(symbol, name, version, per_thread)",
        "//   version      the CUDA version that introduced this variant",
        "//   per_thread   a variant for per-thread default streams",
        "",
        "// clang-format off",
    ]
    for symbol, name, version, per_thread in unmodelled:
        lines.append(f"UNMODELLED({symbol}, {name}, {version}, {per_thread})")
    for path, text in (TARGET, "\n".join(lines) + "\n"), (PAGE, page(unmodelled, header, newest)):
        if "--check" not in sys.argv:
            path.write_text(text)
        elif text != path.read_text():
            sys.exit(f"{path.name} is not up to date: run sim/list_unmodelled.py")


main()
