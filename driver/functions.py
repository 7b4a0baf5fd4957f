# SPDX-License-Identifier: MIT
"""Reads functions.txt, the table of driver functions. README.md explains its format."""
import dataclasses
import pathlib
import re
import typing

import roles

TABLE = pathlib.Path(__file__).resolve().parent / "functions.txt"
USES = {"library", "simulator", "watch", "unwatched", "transcript", "header"}
KINDS = {"kernel", "copy", "fill", "host", "values", "semaphores", "graph", "empty", "record", "wait",
         "allocation", "free", "other", "any"}
# The words that can follow an effect. README.md explains them.
EFFECTS = {
    "submits": KINDS - {"empty", "record", "wait", "any"},
    "node": KINDS,
    "orders": {"", "less"},
    "captures": {"begins", "ends"},
    "asks": {""},
    "sets": {""},
    "waits": {"itself", "early", "event", "stream", "context", "process", "no"},
    "blocks": {"queue", "lock", "no"},
    "context": {"needed", "stream", "told", "no"},
    "capture": {"node", "safe", "unsafe", "refused"},
    "in_callbacks": {"made", "refused"},
}
HEAD = re.compile(r"(?P<symbol>cu\w+)(?: = (?P<name>cu\w+))? (?P<version>\d+)"
                  r"(?:, (?P<other_name>cu\w+) (?P<other_version>\d+))?"
                  r"(?:, (?P<suffix>ptsz|ptds) (?P<thread_version>\d+))?: ?(?P<parameters>.*)$")


class BadTable(Exception):
    """What is wrong, and in which line."""


class Parameter(typing.NamedTuple):
    kind: str  # the type in C
    name: str
    given: str  # the role that the row gives it, or ""


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
    effects: dict = dataclasses.field(default_factory=dict)
    uses: dict = dataclasses.field(default_factory=dict)

    def variants(self):
        """The exported symbols, each with its version and whether it is for per-thread default streams."""
        yield self.symbol, self.version, False
        if self.suffix:
            yield f"{self.symbol}_{self.suffix}", self.thread_version, True

    def roles(self):
        """Of the parameters, in their order. Raises BadTable if nothing tells one."""
        found = []
        for parameter in self.parameters:
            try:
                role = roles.role_of(parameter, self)
            except ValueError as error:
                raise BadTable(f"{self.symbol}: {error}") from None
            if role is None:
                raise BadTable(f"{self.symbol}: the role of `{parameter.kind} {parameter.name}` does not "
                               "follow from its type: give it in parentheses, see README.md")
            found.append(role)
        return found

    def work(self):
        """The kind of work that the call submits or makes a node of, or ""."""
        return self.effects.get("submits") or self.effects.get("node") or ""

    def is_of_interest(self):
        """Whether `cuevent watch` has to know about it."""
        changes = any(role.use in ("made", "ends") and role.what in roles.WATCHED for role in self.roles())
        return (changes or bool(self.effects.keys() & {"submits", "node", "orders", "captures"}) or
                self.effects.get("waits", "no") != "no")


def parameter(text):
    """`CUgraphNode* nodes (in)` as its type, its name and its role. An array has the type of a pointer."""
    found = re.match(r"(.*[ *])(\w+)(\[\w*\])?(?: \(([^()]*)\))?$", text.strip())
    if not found:
        raise BadTable(f"`{text}` is not a type and a name")
    kind = re.sub(r" ?\* ?", "*", found[1].strip())
    return Parameter(kind + ("*" if found[3] else ""), found[2], found[4] or "")


def columns_of(function, text):
    """Effects and uses have a line each, or the row has one of the two."""
    columns = {}
    for part in text.split(";"):
        word, _, value = part.strip().partition(" ")
        if word not in USES and word not in EFFECTS:
            raise BadTable(f"`{word}` is not a column: {', '.join(sorted(USES | EFFECTS.keys()))}")
        if word in columns:
            raise BadTable(f"`{word}` stands there twice")
        columns[word] = value.strip()
        if value.strip() not in EFFECTS.get(word, {value.strip()}):
            raise BadTable(f"`{word}` is followed by one of: {', '.join(sorted(EFFECTS[word]))}")
    if columns.keys() <= EFFECTS.keys() and not function.effects and not function.uses:
        function.effects = columns
    elif columns.keys() <= USES and not function.uses:
        function.uses = columns
    else:
        raise BadTable("a function has one line of effects, and then one line that says who uses it")


def logical_lines(text):
    """The lines with the lines that continue them: columns have two spaces, and a continuation four more."""
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
                if not functions:
                    raise BadTable("these columns belong to no function")
                columns_of(functions[-1], line)
            else:
                head = HEAD.match(line)
                if not head or subject is None:
                    raise BadTable("neither a function nor its columns")
                functions.append(Function(
                    symbol=head["symbol"], name=head["name"] or head["symbol"], version=int(head["version"]),
                    other_name=(head["other_name"], int(head["other_version"])) if head["other_name"] else (),
                    suffix=head["suffix"] or "", thread_version=int(head["thread_version"] or 0),
                    parameters=[parameter(each) for each in head["parameters"].split(",") if each.strip()],
                    subject=subject))
        except BadTable as error:
            raise BadTable(f"{path.name}:{number}: {error}") from None
    symbols = [function.symbol for function in functions]
    for symbol in symbols:
        if symbols.count(symbol) > 1:
            raise BadTable(f"{path.name}: {symbol} has two rows")
    for function in functions:
        function.roles()
    return functions
