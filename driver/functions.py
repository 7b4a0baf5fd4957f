# SPDX-License-Identifier: MIT
"""Reads functions.txt, the table of driver functions. README.md explains its format."""
import dataclasses
import pathlib
import re
import typing

TABLE = pathlib.Path(__file__).resolve().parent / "functions.txt"
FIELDS = {"library", "simulator", "watch", "unwatched", "transcript", "header"}
HEAD = re.compile(r"(?P<symbol>cu\w+)(?: = (?P<name>cu\w+))? (?P<version>\d+)"
                  r"(?:, (?P<other_name>cu\w+) (?P<other_version>\d+))?"
                  r"(?:, (?P<suffix>ptsz|ptds) (?P<thread_version>\d+))?: ?(?P<parameters>.*)$")


class BadTable(Exception):
    """What is wrong, and in which line."""


class Parameter(typing.NamedTuple):
    kind: str  # the type in C
    name: str
    role: str  # "in": a list that the call reads, although its type is not const


@dataclasses.dataclass
class Function:
    """One exported function: one signature of one name."""
    symbol: str  # that libcuda exports
    name: str  # for cuGetProcAddress
    version: int  # of CUDA, that introduced this signature
    other_name: tuple  # another name and version with which cuGetProcAddress finds it, or ()
    suffix: str  # of the variant for per-thread default streams: "ptsz" or "ptds"; or ""
    thread_version: int  # of CUDA, that introduced this variant
    parameters: list  # of Parameter
    subject: str
    fields: dict

    def variants(self):
        """The exported symbols, each with its version and whether it is for per-thread default streams."""
        yield self.symbol, self.version, False
        if self.suffix:
            yield f"{self.symbol}_{self.suffix}", self.thread_version, True


def parameter(text):
    """`CUgraphNode* nodes (in)` as its type, its name and its role. An array has the type of a pointer."""
    found = re.match(r"(.*[ *])(\w+)(\[\w*\])?(?: \((\w+)\))?$", text.strip())
    if not found:
        raise BadTable(f"`{text}` is not a type and a name")
    if found[4] not in (None, "in"):
        raise BadTable(f"`{found[4]}` is not a role: in")
    kind = re.sub(r" ?\* ?", "*", found[1].strip())
    return Parameter(kind + ("*" if found[3] else ""), found[2], found[4] or "")


def fields_of(text):
    fields = {}
    for part in text.split(";"):
        word, _, value = part.strip().partition(" ")
        if word not in FIELDS:
            raise BadTable(f"`{word}` is not a column: {', '.join(sorted(FIELDS))}")
        if word in fields:
            raise BadTable(f"`{word}` stands there twice")
        fields[word] = value.strip()
    return fields


def logical_lines(text):
    """The lines with the lines that continue them: a row has two, and a continuation four more spaces."""
    lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("      ") and lines:
            lines[-1][1] += " " + line.strip()
        elif line.strip():
            lines.append([number, line])
    return lines


def read(path=TABLE):
    """All functions, in the order of the file. Raises BadTable."""
    functions, subject = [], None
    for number, line in logical_lines(path.read_text(encoding="utf-8")):
        try:
            if line.startswith("## "):
                subject = line[3:]
            elif line.startswith("#"):
                continue
            elif line.startswith("  "):
                if not functions or functions[-1].fields:
                    raise BadTable("these columns belong to no function")
                functions[-1].fields = fields_of(line)
            else:
                head = HEAD.match(line)
                if not head or subject is None:
                    raise BadTable("neither a function nor its columns")
                functions.append(Function(
                    symbol=head["symbol"], name=head["name"] or head["symbol"], version=int(head["version"]),
                    other_name=(head["other_name"], int(head["other_version"])) if head["other_name"] else (),
                    suffix=head["suffix"] or "", thread_version=int(head["thread_version"] or 0),
                    parameters=[parameter(each) for each in head["parameters"].split(",") if each.strip()],
                    subject=subject, fields={}))
        except BadTable as error:
            raise BadTable(f"{path.name}:{number}: {error}") from None
    symbols = [function.symbol for function in functions]
    for symbol in symbols:
        if symbols.count(symbol) > 1:
            raise BadTable(f"{path.name}: {symbol} has two rows")
    return functions
