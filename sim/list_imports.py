#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lists what the libraries of other projects import from libcudart, from their wheels.

Usage: sim/list_imports.py WHEEL...            # adds or replaces the wheels' lists in runtime/imports.txt
       sim/list_imports.py --check [LIBCUDART...]

With --check, fails if the stand-in does not model a name of the list, unless imports.txt says why. Fails too
if a given stand-in does not export a name. A name is modelled if the simulated driver models each function
that the stand-in calls for it.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import list_runtime

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "driver"))
import functions  # noqa: E402

TARGET = pathlib.Path(__file__).resolve().parent / "runtime" / "imports.txt"
HEAD = """# What the libraries of other projects import from libcudart: WHEEL, VERSION and NAMES.
# sim/list_imports.py writes the lists from wheels. `not modelled NAME: REASON` says which names the stand-in
# does not model.
"""


def read():
    """The names of each wheel, and the reasons."""
    lists, reasons, names = {}, {}, None
    for line in TARGET.read_text().splitlines() if TARGET.exists() else []:
        if line.startswith("#") or not line:
            continue
        if reason := re.fullmatch(r"not modelled (\w+): (.+)", line):
            reasons[reason[1]] = reason[2]
        elif wheel := re.fullmatch(r"(\S+) (\S+):", line):
            names = lists.setdefault((wheel[1], wheel[2]), [])
        else:
            names += line.split()
    return lists, reasons


def write(lists, reasons):
    text = HEAD
    for (wheel, version), names in sorted(lists.items()):
        text += f"\n{wheel} {version}:\n" + "".join(f"  {name}\n" for name in sorted(names))
    text += "\n" + "".join(f"not modelled {name}: {reason}\n" for name, reason in sorted(reasons.items()))
    TARGET.write_text(text)


def imported(wheel):
    """The names that any library in the wheel wants from libcudart."""
    names = set()
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        for member in archive.namelist():
            if not re.search(r"\.so(\.\d+)*$", member):
                continue
            library = archive.extract(member, folder)
            listed = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True)
            names |= set(re.findall(r"\b((?:__)?cuda[A-Z]\w+)", listed.stdout))
            pathlib.Path(library).unlink()
    return names


def modelled():
    """The functions of the runtime whose calls of the driver are modelled too."""
    driver = {name for each in functions.read() if "simulator" in each.uses or "header" in each.uses
              for name in (each.name, each.symbol)}
    return {name for name, called in list_runtime.calls().items() if called <= driver}


def check(libraries):
    lists, reasons = read()
    known = modelled()
    wanted = {name for names in lists.values() for name in names}
    problems = [f"{name} is imported and not modelled" for name in sorted(wanted - known - set(reasons))]
    for name in sorted(set(reasons) - (wanted - known)):
        print(f"note: the reason for {name} is no longer needed")
    for library in libraries:
        missing = wanted - set(list_runtime.exported(library))
        problems += [f"{name} is not exported by {library}" for name in sorted(missing)]
    for problem in problems:
        print(problem)
    for (wheel, version), names in sorted(lists.items()):
        print(f"{wheel} {version}: {len(set(names) & known)} of {len(names)} names are modelled")
    return 1 if problems or not lists else 0


def main():
    if sys.argv[1:2] == ["--check"]:
        sys.exit(check(sys.argv[2:]))
    if not sys.argv[1:]:
        sys.exit(__doc__)
    lists, reasons = read()
    for wheel in sys.argv[1:]:
        name, version = pathlib.Path(wheel).name.split("-")[:2]
        lists[name, version] = imported(wheel)
        print(f"{name} {version}: {len(lists[name, version])} names")
    write(lists, reasons)


if __name__ == "__main__":
    main()
