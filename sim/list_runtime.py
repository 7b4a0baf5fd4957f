#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes runtime/unmodelled.inc: the functions of the CUDA runtime that the stand-in only exports.

Usage: sim/list_runtime.py [--check] LIBCUDART...

The names are those that the libraries export, and those that the list had before. With --check, writes
nothing and fails if the list is not up to date. Exits with 77, which a test counts as skipped, if there is no
library.
"""
import pathlib
import re
import subprocess
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent / "runtime"
TARGET = HERE / "unmodelled.inc"
FUNCTION = re.compile(r"(__)?cuda\w")


def modelled():
    text = "".join(path.read_text() for path in sorted(HERE.glob("*.cpp")))
    return re.findall(r"^RUNTIME [^(]*?(\w+)\(", text, re.MULTILINE)


def listed():
    """The names that the stand-in only exports."""
    return re.findall(r"\bNAME\((\w+)\)", TARGET.read_text()) if TARGET.exists() else []


def calls():
    """The functions of the driver that each function calls itself."""
    found = {}
    for path in sorted(HERE.glob("*.cpp")):
        parts = re.split(r"^RUNTIME ", path.read_text(), flags=re.MULTILINE)
        for part in parts[1:]:
            name = re.match(r"[^(]*?(\w+)\(", part)[1]
            body = part[:part.find("\n}\n")]
            found.setdefault(name, set()).update(re.findall(r"\b(cu(?!da|event)[A-Z]\w+)", body))
    return found


def exported(library):
    """The names that a library exports."""
    command = ["nm", "-D", "--defined-only", library]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" [TW] (\w+)", lines))


def text_of_list(library, rows, script):
    """The text of a list: a row for each name that the stand-in only exports."""
    return ("// SPDX-License-Identifier: MIT\n"
            f"// The functions of {library} that the stand-in does not model.\n"
            f"// Do not edit: run sim/{script}.\n"
            f"\n// clang-format off\n{textwrap.fill(' '.join(rows), 110)}\n")


def main():
    libraries = [a for a in sys.argv[1:] if a != "--check" and pathlib.Path(a).is_file()]
    if not libraries:
        print("there is no libcudart")
        sys.exit(77)
    names = set(listed()).union(*(exported(library) for library in libraries))
    rows = [f"NAME({name})" for name in sorted(names - set(modelled())) if FUNCTION.match(name)]
    text = text_of_list("libcudart", rows, "list_runtime.py")
    if "--check" not in sys.argv:
        TARGET.write_text(text)
    elif text != TARGET.read_text():
        sys.exit(f"{TARGET.name} is not up to date: run sim/list_runtime.py")


if __name__ == "__main__":
    main()
