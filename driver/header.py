# SPDX-License-Identifier: MIT
"""Compares the table with cuda.h and cudaTypedefs.h."""
import pathlib
import re
import subprocess

import functions

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Names of functions that probably submit, wait or order. A row that says otherwise has to be measured.
SUSPICIOUS = re.compile(r"Async$|^cu(Memcpy|Memset|Launch)|Cpy|Wait|Signal|Synchronize|Record|Upload|"
                        r"MapResources")
EXPLAINED = {"submits", "node", "orders", "waits", "captures", "asks", "sets"}


def declared(folder):
    """What cuda.h declares in every variant: {symbol: types of the parameters}, and the structures with a
    stream."""
    command = ["c++", "-E", "-P", "-x", "c++", "-D__CUDA_API_VERSION_INTERNAL", "-isystem", folder, "-"]
    text = subprocess.run(command, input="#include <cuda.h>\n#include <cudaProfiler.h>\n", check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    found = {}
    for symbol, parameters in re.findall(r"\bCUresult\s+(cu\w+)\s*\(([^;{]*?)\)\s*;", text):
        each = [] if parameters.strip() == "void" else parameters.split(",")
        found[symbol] = [functions.parameter(" ".join(one.split())).kind for one in each]
    holders = {name for body, name in re.findall(r"typedef struct \w+\s*\{([^}]*)\}\s*(\w+)\s*;", text)
               if re.search(r"\bCUstream\s+\w+;", body)}
    holders.update(name for old, name in re.findall(r"typedef (\w+) (\w+);", text) if old in holders)
    return found, holders


def versions(folder):
    """The names and versions for which cudaTypedefs.h has a type, also of per-thread variants."""
    text = "".join((pathlib.Path(folder) / name).read_text()
                   for name in ("cudaTypedefs.h", "cudaProfilerTypedefs.h"))
    return {(name, int(version), kind[1:])
            for name, version, kind in re.findall(r"PFN_(cu\w+?)_v(\d{4,5})(_ptds|_ptsz)?\)", text)}


def recorded_answers():
    """Of a device, in lines that begin with the name of their scenario."""
    transcript = ROOT / "conformance/transcript"
    return subprocess.run([transcript / "recording", "unpack", transcript / "h200.txt"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout


def unwatched(table, holders, answers):
    """Functions of which `cuevent watch` has to know, and functions that look like one."""
    for function in table:
        kinds = {re.sub(r"const |\*", "", each.kind) for each in function.parameters}
        has_stream = bool(kinds & ({"CUstream"} | holders))
        is_suspicious = has_stream or SUSPICIOUS.search(function.name)
        if is_suspicious and not function.is_of_interest() and not function.effects.keys() & EXPLAINED:
            yield (f"{function.symbol} looks like a function that submits work, waits or orders: it needs "
                   f"`submits KIND`, `waits FOR`, `orders`, `asks` or `sets`")
        reason = function.uses.get("unwatched")
        if "watch" in function.uses or function.version < 3020 and reason:
            continue
        claims_less = SUSPICIOUS.search(function.name) and has_stream
        if function.is_of_interest() or claims_less:
            measured = re.search(r"\(scenario (\S+)\)", reason or "")
            if measured is None or f"\n{measured[1]}." not in answers:
                yield (f"{function.symbol} submits work, waits, orders, makes or ends something: it needs "
                       f"`watch VERB`, or `unwatched REASON (scenario NAME)`")


def compare(table, folder):
    """Says what the header has and the table lacks, or has differently. The header may be older."""
    newest = int(re.search(r"#define CUDA_VERSION (\d+)", (pathlib.Path(folder) / "cuda.h").read_text())[1])
    found, holders = declared(folder)
    typed = versions(folder)
    known = {symbol: (function, version, thread) for function in table
             for symbol, version, thread in function.variants()}
    if len(found) < 500:
        yield f"{folder}: only {len(found)} functions were found, so the header was not understood"
    for symbol in sorted(found.keys() - known.keys()):
        yield f"{symbol} has no row: {', '.join(found[symbol])}"
    for symbol, (function, version, thread) in known.items():
        if "header" in function.uses or version > newest:
            continue
        if symbol not in found:
            yield f"{symbol} has a row, and cuda.h {newest} lacks it"
            continue
        if [each.kind for each in function.parameters] != found[symbol]:
            yield f"{symbol} has other parameters in cuda.h: {', '.join(found[symbol])}"
        if (function.name, version, function.suffix if thread else "") not in typed:
            yield f"{symbol} is not {function.name} of version {version}: see cudaTypedefs.h"
    yield from unwatched(table, holders, recorded_answers())


def newest_header():
    known = (path.stem for path in (ROOT / "tools/headers").glob("*.txt"))
    newest = max(known, key=lambda version: [int(part) for part in version.split(".")])
    return subprocess.run([ROOT / "tools/fetch-headers", newest], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip()
