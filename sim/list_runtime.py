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
    command = ["nm", "-D", "--defined-only", library]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.findall(r"\b((?:__)?cuda\w+)", lines)


def main():
    libraries = [a for a in sys.argv[1:] if a != "--check" and pathlib.Path(a).is_file()]
    if not libraries:
        print("there is no libcudart")
        sys.exit(77)
    names = {name for library in libraries for name in exported(library)} | set(listed())
    rows = textwrap.fill(" ".join(f"NAME({name})" for name in sorted(names - set(modelled()))), 110)
    text = ("// SPDX-License-Identifier: MIT\n"
            "// The functions of libcudart that the stand-in does not model.\n"
            "// Do not edit: run sim/list_runtime.py.\n"
            f"\n// clang-format off\n{rows}\n")
    if "--check" not in sys.argv:
        TARGET.write_text(text)
    elif text != TARGET.read_text():
        sys.exit(f"{TARGET.name} is not up to date: run sim/list_runtime.py")


if __name__ == "__main__":
    main()
