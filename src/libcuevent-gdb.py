# SPDX-License-Identifier: MIT
"""Shows values of cuevent in GDB. GDB loads this file together with libcuevent.so.

A value is shown as to_string() shows it, followed by what only a debugger can see. The printers read memory
and call no function of the program, so they also work on a core file.
"""
import re

import gdb
import gdb.printing
import gdb.types

FLAGS = ((1, "blocking_sync"), (4, "interprocess"), (0x100, "timing"), (0x200, "retire"))
LEASED = 1  # DriverEvent::Check


def context_text(context):
    handle, identity = int(context["context_"]), int(context["identity_"])
    if handle == 0:
        return "no context"
    if identity <= 0:
        return f"context {handle:#x} (id {-identity})"
    kind = gdb.types.get_basic_type(context.type).name
    shared = gdb.Value(identity).cast(gdb.lookup_type(kind + "::Shared").pointer())
    return f"context {handle:#x} (id {int(shared['id'])}), holders: {int(shared['references'])}"


def event_text(handle, owner, leased=""):
    """The text of an event whose flags and context are in the DriverEvent `owner`."""
    if handle == 0:
        return "no event"
    flags = [name for bit, name in FLAGS if int(owner["flags_"]) & bit]
    text = f"{leased}event {handle:#x}" + (f" ({' | '.join(flags)})" if flags else "")
    return text + (f", {context_text(owner['context_'])}" if int(owner["context_"]["context_"]) else "")


class Driver:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        version = int(self.value["table_"]["version"])
        return f"driver of CUDA {version // 1000}.{version % 1000 // 10}" if version else "no driver"


class Context:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return context_text(self.value)


class DriverEvent:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        handle = int(self.value["event_"])
        owned = ", owned" if handle and int(self.value["ownership_"]) else ""
        return event_text(handle, self.value) + owned


class EventAccess:
    """An EventRef or a lease: whether its event was recorded by this lease, and the number of holders."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        handle, owner = int(self.value["event_"]), self.value["owner_"].dereference()
        checks = int(owner["checks_"])
        if not handle or not checks & LEASED:
            return event_text(handle, owner)
        namespace = gdb.types.get_basic_type(owner.type).name.rpartition("::")[0]
        leased = owner.cast(gdb.lookup_type(namespace + "::LeasedEvent"))
        recorded = "not recorded by this lease" if checks < 0 else "recorded"
        holders = f", holders: {int(leased['holders'])}" if int(leased["holders"]) else ""
        return f"{event_text(handle, owner, 'leased ')}, {recorded}{holders}"


class Graph:
    def __init__(self, value, member="graph_", name="graph"):
        self.value, self.member, self.name = value, member, name

    def to_string(self):
        handle = int(self.value[self.member])
        if not handle:
            return f"no {self.name}"
        return f"{self.name} {handle:#x}, {context_text(self.value['context_'])}"


class GraphExec(Graph):
    def __init__(self, value):
        super().__init__(value, "exec_", "executable graph")


class EntryPoint:
    """A function of the driver's table, without the class around it."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        return self.value["function_"]


class Status:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        result = self.value["result"]
        return f"{result} ({int(result)}) of {self.value['call'].string()}"


class DriverError:
    """An exception. GDB knows its members only if the library has debug information, so they are found by
    place: a std::system_error of four words, the name of the call, four words about the parts of the text,
    and a std::runtime_error, whose second word points to the text.
    """

    def __init__(self, value):
        self.value = value

    def to_string(self):
        texts = self.value.address.cast(gdb.lookup_type("char").pointer().pointer())
        return texts[10].string()


def base_of_exception(name):
    """The name of the base class. The third word of a class's type information points to the base's."""
    word = gdb.lookup_type("unsigned long")
    info = gdb.parse_and_eval(f"(unsigned long)&'typeinfo for {name}'").cast(word.pointer())
    symbol = gdb.execute(f"info symbol {int(info[2]):#x}", to_string=True)
    return symbol.split(" in section ")[0].removeprefix("typeinfo for ")


def is_error(kind):
    """Whether the class, whose members GDB does not know, derives from DriverError."""
    name = kind.name
    while name.startswith("cuevent::"):
        if class_of(name) == "DriverError":
            return True
        try:
            name = base_of_exception(name)
        except gdb.error:
            return False
    return False


def class_of(name):
    """The class that users know by this name, without the inline namespace and template arguments."""
    return re.sub(r"^cuevent::\w+::", "", name).split("<")[0]


PRINTERS = {printer.__name__: printer
            for printer in (Driver, Context, DriverEvent, EventAccess, Graph, GraphExec, EntryPoint, Status)}


def printer_of(value):
    """The printer of the value's class, or of its first base class that has one."""
    kind = gdb.types.get_basic_type(value.type)
    while kind.code == gdb.TYPE_CODE_STRUCT and (kind.name or "").startswith("cuevent::"):
        printer = PRINTERS.get(class_of(kind.name))
        if printer is not None:
            return printer(value.cast(kind))
        if is_error(kind):
            return DriverError(value)
        bases = [field for field in kind.fields() if field.is_base_class]
        if not bases:
            return None
        kind = gdb.types.get_basic_type(bases[0].type)
    return None


gdb.printing.register_pretty_printer(gdb.current_objfile(), printer_of)
