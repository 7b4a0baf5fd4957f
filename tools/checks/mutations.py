# SPDX-License-Identifier: MIT
"""The changes that tools/checks/mutate makes to a C++ file."""
import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str
    start: int  # the replaced part of the file
    end: int
    kind: str
    text: str
    before: str  # the changed lines, on one line
    after: str

    @property
    def name(self):
        return f"{self.file}:{self.start}: {self.before} -> {self.after}"

    @property
    def change(self):
        return self.file, self.before, self.after


def code_of(text):
    """The text with comments, literals, directives, attributes and static assertions blanked out."""
    skipped = (r"//[^\n]*|/\*.*?\*/"
               r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z])\'(?:\\.|[^\'\\\n])+\''
               r"|^[ \t]*#(?:\\\n|[^\n])*|template <[^\n]*>$"
               r"|\[\[[^\]]*\]\]|static_assert\s*\((?:[^()]|\([^()]*\))*\)")
    flags = re.DOTALL | re.MULTILINE
    return re.sub(skipped, lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=flags)


def closing(code, start):
    """The place of the bracket that closes the one at `start`."""
    depth = 0
    for at in range(start, len(code)):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if depth == 0:
            return at
    return len(code) - 1


def split(code, start, end, separator):
    """The parts of code[start:end] between separators outside of brackets, as (start, end)."""
    parts, depth, begin = [], 0, start
    for at in range(start, end):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if code[at] == separator and depth == 0:
            parts.append((begin, at))
            begin = at + 1
    return parts + [(begin, end)]


SWAPS = {
    "comparison": {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ",
                   " != ": " == "},
    "logical operator": {" && ": " || ", " || ": " && "},
    "arithmetic": {" + ": " - ", " - ": " + ", " * ": " / ", " / ": " * ", " % ": " * ", " += ": " -= ",
                   " -= ": " += ", " << ": " >> ", " >> ": " << "},
    "step": {"++": "--", "--": "++"},
    "bits": {" & ": " | ", " | ": " & "},
    "boundary": {" + 1": "", " - 1": "", "std::min": "std::max", "std::max": "std::min"},
}


def swaps(code):
    for kind, pairs in SWAPS.items():
        for old, new in pairs.items():
            end = r"(?!\w)" if old[-1].isalnum() else ""
            for found in re.finditer(re.escape(old) + end, code):
                yield kind, found.start(), found.end(), new


def constants(code):
    for found in re.finditer(r"(?<![\w.'])(\d[\d']*)(?![\w.'])", code):
        value = int(found[1].replace("'", ""))
        yield "constant", found.start(), found.end(), str(value + 1)
        if value > 1:
            yield "constant", found.start(), found.end(), str(value - 1)
    for old, new in (("true", "false"), ("false", "true"), ("CUDA_SUCCESS", "CUDA_ERROR_UNKNOWN")):
        for found in re.finditer(rf"\b{old}\b", code):
            yield "constant", found.start(), found.end(), new
    for found in re.finditer(r"\bCUDA_ERROR_(?!UNKNOWN\b)\w+", code):
        yield "error code", found.start(), found.end(), "CUDA_ERROR_UNKNOWN"


def conditions(code, text):
    for found in re.finditer(r"\b(?:if|while) \(", code):
        begin, end = split(code, found.end(), closing(code, found.end() - 1), ";")[-1]
        begin += len(code[begin:end]) - len(code[begin:end].lstrip())
        yield "negated condition", begin, end, f"!({text[begin:end]})"
    for found in re.finditer(r"!(?=\w)", code):
        yield "removed negation", found.start(), found.end(), ""


def memory_orders(code):
    for found in re.finditer(r"(?:std::memory_order_|__ATOMIC_)(?!relaxed|RELAXED|seq)\w+", code):
        relaxed = "std::memory_order_relaxed" if found[0].startswith("std") else "__ATOMIC_RELAXED"
        yield "memory order", found.start(), found.end(), relaxed


def statements(code):
    """Statements that can go, and values that are returned."""
    for found in re.finditer(r"(?<=[;{}\n)])[ \t]*([\w*:(~][^;{}]*(?:\{[^{}]*\}[^;{}]*)*);", code):
        words, begin = found[1], found.start(1)
        if re.match(r"const std::(?:lock_guard|unique_lock|scoped_lock)\b|[\w.>-]*\b(?:lock|unlock)\(",
                    words):
            yield "removed lock", begin, found.end(), ";"
        elif re.match(r"return\b", words):
            value = words[6:].strip()
            if value not in ("", "{}", "CUDA_SUCCESS", "nullptr", "false", "true", "0"):
                yield "return value", begin, found.end(), "return {};"
        elif re.match(r"[\w.\[\]>*:()-]+(?: [-+|&]?= |\+\+|--)|(?:\+\+|--)", words):
            yield "removed assignment", begin, found.end(), ";"
        elif re.match(r"[\w.:>*()\[\]-]+\(", words) or words in ("break", "continue"):
            yield "removed statement", begin, found.end(), ";"


# A parameter of a declaration
DECLARED = re.compile(r"^(?:const |unsigned )?[\w:<>, ]+[*&]* [*&]?\w+(?: = .*)?$|^[\w:]+ ?[*&]+$")


def arguments(code, text):
    for found in re.finditer(r"\b(?!(?:min|max|gcd)\()\w+\(", code):  # not those that are symmetric
        parts = split(code, found.end(), closing(code, found.end() - 1), ",")
        for (begin, middle), (again, end) in zip(parts, parts[1:]):
            first, second = text[begin:middle].strip(), text[again:end].strip()
            begin += len(text[begin:middle]) - len(text[begin:middle].lstrip())
            if first != second and not any(DECLARED.search(code[at:to].strip()) for at, to in parts):
                yield "swapped arguments", begin, end, f"{second}, {first}"


def mutants_of(file, text):
    code = code_of(text)
    sites = [site for find in (swaps, constants, memory_orders, statements) for site in find(code)]
    sites += [site for find in (conditions, arguments) for site in find(code, text)]
    for kind, start, end, new in sorted(set(sites)):
        first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        before, after = text[first:last], text[first:start] + new + text[end:last]
        yield Mutant(file, start, end, kind, new, " ".join(before.split()), " ".join(after.split()))
