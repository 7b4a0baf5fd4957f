#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes blas/unmodelled_*.inc: the functions of cuBLAS and cuBLASLt that the stand-ins only export.

Usage: sim/list_blas.py LIBRARY...            # libcublas.so.N and libcublasLt.so.N of any versions
       sim/list_blas.py --check    # a name that is modelled must not be in a list

The names are those that the libraries export, and those that a list had before.
"""
import pathlib
import re
import sys

import list_runtime

HERE = pathlib.Path(__file__).resolve().parent / "blas"
SOURCES = {"cublas": "cublas.cpp", "cublasLt": "cublas_lt.cpp"}
# The functions of the first interface that return no status.
NO_STATUS = re.compile(r"cublas(I?[SDCZ][a-z]\w*|Xerbla|GetError)$")


def modelled(stand_in):
    text = (HERE / SOURCES[stand_in]).read_text().replace("cublas##LETTER##", "cublas@")
    names = re.findall(r"^ *BLAS [^(@]*?\b(cublas@?\w+)\(", text, re.MULTILINE)
    return {name.replace("@", letter) for name in names for letter in ("SDCZ" if "@" in name else " ")}


def target(stand_in):
    return HERE / f"unmodelled_{stand_in}.inc"


def listed(stand_in):
    text = target(stand_in).read_text() if target(stand_in).exists() else ""
    return set(re.findall(r"\((cublas\w+)\)", text))


def row(name, names):
    is_first = NO_STATUS.match(name) and name + "_v2" in names or name in ("cublasXerbla", "cublasGetError")
    return f"WITHOUT_STATUS({name})" if is_first else f"NAME({name})"


def main():
    libraries = [each for each in sys.argv[1:] if each != "--check"]
    problems = []
    for stand_in in SOURCES:
        before = listed(stand_in)
        if "--check" in sys.argv:
            problems += [f"{name} is modelled: remove it from {target(stand_in).name}"
                         for name in sorted(before & modelled(stand_in))]
            continue
        names = before.union(*(list_runtime.exported(each) for each in libraries
                               if pathlib.Path(each).name.startswith(f"lib{stand_in}.so")))
        known = names | modelled(stand_in)
        rows = [row(name, known) for name in sorted(names - modelled(stand_in)) if name.startswith("cublas")]
        target(stand_in).write_text(list_runtime.text_of_list(f"lib{stand_in}", rows, "list_blas.py"))
    sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
    main()
