#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes MODELLED.md: the functions that the simulator models, and those that it does not.

Usage: sim/list_modelled.py [--check] FOLDER_OF_CUDA_H

With --check, compares the committed page with what it would write, and writes nothing. Exits with 77, which
a test counts as skipped, if the headers are older than CUDA 13.0.
"""
import importlib.machinery
import pathlib
import re
import sys
import textwrap
import types

import list_runtime

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "driver"))
import functions  # noqa: E402

NEIGHBOURS = HERE.parent / "conformance/neighbours"
PAGE = HERE / "MODELLED.md"
OLDEST = 13000  # the attributes of devices have their names in this header


def wrapped(text):
    return textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False)


def hidden_attributes(header):
    """The attributes that announce on a device what the simulator does not model."""
    text = (HERE / "src/device_attributes.hpp").read_text()
    values = re.findall(r"none|-?\d+", re.sub(r"//[^\n]*", "", text[text.index("device_attributes{"):]))
    names = dict((int(number), name) for name, number in
                 re.findall(r"CU_DEVICE_ATTRIBUTE_(\w+) *= *(\d+)", header))
    return [names[number] for number, value in enumerate(values, 1) if value == "none"]


def neighbours_asked(modelled):
    """Paragraphs about how many neighbours of valid calls of each function a device was asked."""
    recording = types.ModuleType("recording")
    importlib.machinery.SourceFileLoader("recording", str(NEIGHBOURS / "recording")).exec_module(recording)
    answers = recording.unpacked((NEIGHBOURS / "h200.txt").read_text().splitlines())
    counts = dict.fromkeys((function.symbol for function in modelled), 0)
    for question in answers:
        counts[question.partition("(")[0]] += 1
    median = sorted(counts.values())[len(counts) // 2]
    few = sorted((count, symbol) for symbol, count in counts.items() if count < 10)
    return [
        wrapped(
            f"A device has answered {len(answers)} calls that differ from a valid call in one or two "
            "arguments, in the current context, or by a capture of the thread "
            f"(`conformance/neighbours/h200.txt`). The median is {median} answers for a function. {len(few)} "
            "functions have fewer than ten:"),
        "",
        wrapped(", ".join(f"`{symbol}` ({count})" for count, symbol in few)),
    ]


def page(table, header):
    of_driver = [function for function in table if "header" not in function.uses]
    modelled = [function for function in of_driver if "simulator" in function.uses]
    subjects = {}
    for function in modelled:
        subjects.setdefault(function.subject, []).append(function.symbol)
    aborting = sorted(function.symbol for function in of_driver if "simulator" not in function.uses)
    all_variants, modelled_variants = (sum(1 + bool(each.suffix) for each in some)
                                       for some in (of_driver, modelled))
    newest = max(version for each in of_driver for _, version, _ in each.variants())
    lines = [
        "# What the simulator models",
        "",
        wrapped(
            "`sim/list_modelled.py` writes this page. An installed `libcuda.so.1` has it next to it, as "
            f"`modelled.txt`. The simulator models {modelled_variants} of the {all_variants} "
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
        "## Calls that a device was asked about",
        "",
        *neighbours_asked(modelled),
        "",
        "## Functions that abort",
        "",
        wrapped(
            "A call prints the name of the function and the caller's stack, and aborts. With "
            "`CUEVENT_SIM_UNMODELLED=missing`, `cuGetProcAddress` does not find these functions."),
        "",
        wrapped(", ".join(f"`{symbol}`" for symbol in aborting)),
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
    text = page(functions.read(), header)
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif text != PAGE.read_text():
        sys.exit(f"{PAGE.name} is not up to date: run sim/list_modelled.py")


main()
