# SPDX-License-Identifier: MIT
"""Controls the simulated CUDA driver of this process: what a test can do that a device cannot.

    from cuevent import sim

    sim.reset(mode="stepped")  # fresh devices
    sim.hold(stream)           # a CuPy, PyTorch, cuda.core or PyCUDA stream, or its handle as a number
    ...
    sim.release(stream)
    sim.run_until_idle()

It works in a program that `cuevent sim -- python ...` has started. Elsewhere each function raises
NotSimulated; available() tells. The functions are as in the C++ header cuevent/sim.hpp, with the same
names. Times are seconds. A call that makes no sense raises Error, and has changed nothing.

Thread-safety: any thread may call any function here. No other thread may be inside a driver call while
reset() runs. A host function may not call any function here.
"""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import enum
import math
import os
import sys
import threading
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Union

__all__ = ["Error", "HandleCounts", "Machine", "Mode", "NotSimulated", "Unmodelled", "advance", "available",
           "calls", "context_stack", "end_kernels", "endless", "fail_next", "hold", "live_handles",
           "make_context_fault", "now", "pending", "pending_operations", "release", "reset", "run_until_idle",
           "set_conditional", "set_kernel", "shut_down", "step", "take_unmodelled"]

endless = math.inf
"""The duration of a kernel that runs until end_kernels() ends it."""

Result = Union[int, str]
"""A CUresult: its number, its name such as "CUDA_ERROR_ILLEGAL_ADDRESS", or the enumerator of a binding."""


class Error(RuntimeError):
    """A control call that makes no sense. It has changed nothing."""


class NotSimulated(Error):
    """The simulated driver is not the driver of this process."""


class Mode(str, enum.Enum):
    """What makes time pass."""
    stepped = "stepped"  # work progresses only inside calls, on a virtual clock
    running = "running"  # on wall time, as on a device


class Unmodelled(str, enum.Enum):
    """What happens to a call that the simulator does not model."""
    abort = "abort"
    missing = "missing"
    error = "error"


class HandleCounts(NamedTuple):
    """The number of handles of each kind that exist."""
    contexts: int
    streams: int
    events: int
    graphs: int
    graph_execs: int
    user_objects: int
    modules: int
    allocations: int


# The driver

_TEXT = ctypes.c_char_p
_POINTER = ctypes.c_void_p
_PARAMETERS = {
    "Reset": [_TEXT],
    "Now": [ctypes.POINTER(ctypes.c_longlong)],
    "Advance": [ctypes.c_longlong],
    "Step": [ctypes.POINTER(ctypes.c_int)],
    "RunUntilIdle": [],
    "Hold": [_POINTER, _POINTER],
    "Release": [_POINTER, _POINTER],
    "Pending": [_POINTER, _POINTER, ctypes.POINTER(ctypes.c_size_t)],
    "PendingOperations": [ctypes.POINTER(_TEXT)],
    "Result": [_TEXT, ctypes.POINTER(ctypes.c_int)],
    "SetKernel": [_TEXT, ctypes.c_longlong, ctypes.c_int],
    "EndKernels": [_TEXT],
    "SetConditional": [_POINTER, ctypes.c_ulonglong, ctypes.c_uint],
    "FailNext": [_TEXT, ctypes.c_int],
    "MakeContextFault": [_POINTER, ctypes.c_int],
    "ShutDown": [],
    "LiveHandles": [ctypes.POINTER(ctypes.c_size_t)],
    "ContextStack": [ctypes.POINTER(_POINTER), ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)],
    "Calls": [ctypes.POINTER(ctypes.c_ulonglong)],
    "OnUnmodelled": [_POINTER],
    "TakeUnmodelled": [ctypes.POINTER(_TEXT)],
}
_lock = threading.Lock()
_driver: Optional[ctypes.CDLL] = None


_places: Dict[str, str] = {}  # the Python callers of what is not modelled


def _note(name: bytes) -> None:
    """The driver calls this on the thread of each refused call."""
    caller = sys._getframe().f_back
    if caller is None:  # a thread of another language
        return
    file = caller.f_code.co_filename
    with contextlib.suppress(OSError):  # the current folder may be gone
        here = os.getcwd() + "/"
        file = file[len(here):] if file.startswith(here) else file
    _places.setdefault(name.decode(), f"{file}:{caller.f_lineno} in {caller.f_code.co_name}")


_note_for_driver = ctypes.CFUNCTYPE(None, _TEXT)(_note)


def _file_of_driver() -> str:
    with contextlib.suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            name = line.rstrip("\n").partition("/")[2]
            if name.rpartition("/")[2].startswith("libcuda.so"):
                return "/" + name
    return "libcuda.so.1"


def _load(may_load: bool = True) -> ctypes.CDLL:
    """The driver that the process has loaded. In a run of `cuevent sim` the loader finds the simulated one,
    so it may also be loaded here. Elsewhere nothing is loaded: it could be the driver of a device."""
    global _driver
    with _lock:
        if _driver is not None:
            return _driver
        loads = may_load and bool(os.environ.get("CUEVENT_SIM_REPORT"))
        try:
            driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_LAZY | (0 if loads else os.RTLD_NOLOAD))
        except OSError:
            raise NotSimulated("this process has loaded no CUDA driver: start it with "
                               "`cuevent sim -- python ...`") from None
        try:
            for name, parameters in _PARAMETERS.items():
                function = getattr(driver, "cueventSim" + name)
                function.argtypes, function.restype = parameters, _TEXT
        except AttributeError:
            raise NotSimulated(f"the CUDA driver of this process, {_file_of_driver()}, is not the simulated "
                               "driver of this version of cuevent: start the program with "
                               "`cuevent sim -- python ...`") from None
        driver.cueventSimOnUnmodelled(_note_for_driver)
        atexit.register(driver.cueventSimOnUnmodelled, None)  # the interpreter ends before the driver
        _driver = driver
        return driver


def _call(name: str, *arguments: Any) -> None:
    wrong = getattr(_load(), "cueventSim" + name)(*arguments)
    if wrong is not None:
        raise Error(wrong.decode(errors="replace"))


def _lines(name: str) -> List[str]:
    text = _TEXT()
    _call(name, ctypes.byref(text))
    return (text.value or b"").decode(errors="replace").splitlines()


# Arguments

def _handle(given: Any, what: str) -> int:
    """The number of a handle, from whatever a library has for it."""
    if hasattr(given, "__cuda_stream__"):
        protocol = given.__cuda_stream__
        version, handle = (protocol() if callable(protocol) else protocol)[:2]
        if version != 0:
            raise TypeError(f"version {version} of __cuda_stream__ is not known: pass the handle as a number")
        return _handle(handle, what)
    for name in ("cuda_stream", "ptr", "handle"):
        if hasattr(given, name):
            return _handle(getattr(given, name), what)
    if isinstance(given, ctypes.c_void_p):
        return given.value or 0
    try:
        number = int(given)
    except (TypeError, ValueError):
        number = -1
    if isinstance(given, (str, bytes, float, bool)) or not 0 <= number < 1 << 64:
        raise TypeError(f"{given!r} is no {what}: pass its handle as a number, or an object with "
                        "__cuda_stream__, cuda_stream, ptr or handle")
    return number


def _context(given: Any) -> Optional[int]:
    return None if given is None else _handle(given, "context")


def _nanoseconds(seconds: float) -> int:
    if not 0 <= seconds < 9e9:
        raise ValueError(f"{seconds!r} is no time: pass seconds, at least 0")
    return round(seconds * 1e9)


def _result(given: Result) -> int:
    number = ctypes.c_int()
    _call("Result", (given if isinstance(given, str) else str(int(given))).encode(), ctypes.byref(number))
    return number.value


# Sessions

def available() -> bool:
    """Whether this process runs on the simulated driver. If it does not, each function of this module raises
    NotSimulated."""
    try:
        _load()
    except NotSimulated:
        return False
    return True


def reset(**options: Any) -> None:
    """Starts a new session: fresh devices. No handle, context, fault or setting of the old session remains,
    and virtual time starts at zero. A call with a handle of the old session is a call that is not modelled,
    also for a primary context that the program has kept. The thread has no current context. If the program
    has called cuInit, it need not call cuInit again.

    The options are those of `cuevent sim`, changed by what is named here, as in cuevent/sim.hpp: `mode`,
    `devices` (1 to 8), `driver_version` (12040 for CUDA 12.4), `random_order` and `reuse_handles` (a seed or
    None), `patience` in seconds, `queue_limit`, `memory_operations_64_bit` and `unmodelled`."""
    lines = []
    for name, value in options.items():
        if value is None and name in ("random_order", "reuse_handles"):
            value = "none"
        elif isinstance(value, enum.Enum):
            value = value.value
        elif name == "patience":
            value = _nanoseconds(value) // 1_000_000
        elif isinstance(value, bool):
            value = int(value)
        elif not isinstance(value, (int, str)) or "\n" in str(value):
            raise TypeError(f"reset: {name}={value!r} is no value of this option")
        lines.append(f"{name}={value}")
    _call("Reset", "\n".join(lines).encode())


@contextlib.contextmanager
def Machine(**options: Any) -> Iterator[None]:
    """A session for a `with` statement: reset(**options) at its begin, and reset() at its end."""
    reset(**options)
    try:
        yield
    finally:
        reset()


# Time. In running mode, now() is the wall time since the session began, and the other three only run work
# that is due.

def now() -> float:
    """The virtual time since the session began, in seconds."""
    nanoseconds = ctypes.c_longlong()
    _call("Now", ctypes.byref(nanoseconds))
    return nanoseconds.value / 1e9


def advance(seconds: float) -> None:
    """Advances the virtual clock by this time, and runs all work that is due by then."""
    _call("Advance", _nanoseconds(seconds))


def step() -> bool:
    """Advances to the next completion of an operation. Returns False if nothing can complete by itself."""
    moved = ctypes.c_int()
    _call("Step", ctypes.byref(moved))
    return moved.value != 0


def run_until_idle() -> None:
    """Runs until nothing can complete by itself."""
    _call("RunUntilIdle")


# Streams. A stream is a number, or an object with __cuda_stream__, cuda_stream, ptr or handle. 0 and 1 are
# the legacy stream of the context, and 2 is the calling thread's per-thread stream. Without an argument, the
# context is the current one.

def hold(stream: Any, context: Any = None) -> None:
    """Stops the stream from starting work until release(). Running work continues."""
    _call("Hold", _handle(stream, "stream"), _context(context))


def release(stream: Any, context: Any = None) -> None:
    """Lets the stream start work again."""
    _call("Release", _handle(stream, "stream"), _context(context))


def pending(stream: Any, context: Any = None) -> int:
    """The number of operations of this stream that have not completed yet."""
    count = ctypes.c_size_t()
    _call("Pending", _handle(stream, "stream"), _context(context), ctypes.byref(count))
    return count.value


def pending_operations() -> List[str]:
    """All operations that have not completed yet, in the order of submission: for each one, what it is, its
    stream, and what it waits for. For people to read: the texts may change."""
    return _lines("PendingOperations")


# Kernels and faults

def set_kernel(name: str, duration: float = 10e-6, fault: Result = 0) -> None:
    """Sets what kernels of this name do from their next launch on: how many seconds they run, and the fault
    with which they end, which becomes the sticky error of the process. The empty name applies to all other
    kernels."""
    nanoseconds = -1 if duration == endless else _nanoseconds(duration)
    _call("SetKernel", name.encode(), nanoseconds, _result(fault))


def end_kernels(name: str) -> None:
    """Ends the running endless kernels of this name."""
    _call("EndKernels", name.encode())


def set_conditional(exec: Any, handle: Any, value: int) -> None:
    """Sets what the kernels of the next launches of an executable graph give to a conditional handle. An IF
    node runs its first body if the value is not 0, and otherwise its second body; a SWITCH node runs the body
    with this index; a WHILE node runs its body this often. Without this function, each handle keeps its
    initial value, which is 0 if the handle has no default. Then a launch of a WHILE node whose initial value
    is not 0 is not modelled."""
    if not 0 <= value < 1 << 32:
        raise ValueError(f"{value!r} is no value of a conditional handle: pass a number from 0 to 2**32 - 1")
    _call("SetConditional", _handle(exec, "executable graph"), _handle(handle, "conditional handle"), value)


def fail_next(function: str, result: Result) -> None:
    """The next call of this function, such as "cuMemAlloc", changes nothing and returns the result. The name
    is the documented one, without a version. Calls that work before cuInit cannot fail."""
    _call("FailNext", function.encode(), _result(result))


def make_context_fault(context: Any, result: Result) -> None:
    """Gives the process of this context a sticky fault, as if a kernel had written to an illegal address."""
    _call("MakeContextFault", _handle(context, "context"), _result(result))


def shut_down() -> None:
    """Begins to unload the driver: every call returns CUDA_ERROR_DEINITIALIZED, until reset()."""
    _call("ShutDown")


# Handles and counts

def live_handles() -> HandleCounts:
    """The number of handles of each kind that exist."""
    counts = (ctypes.c_size_t * len(HandleCounts._fields))()
    _call("LiveHandles", counts)
    return HandleCounts(*counts)


def context_stack() -> List[int]:
    """The contexts pushed on the calling thread. The current context is the last one."""
    count, contexts = ctypes.c_size_t(), (_POINTER * 0)()
    _call("ContextStack", contexts, 0, ctypes.byref(count))
    contexts = (_POINTER * count.value)()
    _call("ContextStack", contexts, count, ctypes.byref(count))
    return [context or 0 for context in contexts]


def calls() -> int:
    """The number of driver calls in this session. Look-ups do not count."""
    count = ctypes.c_ulonglong()
    _call("Calls", ctypes.byref(count))
    return count.value


def take_unmodelled() -> Dict[str, str]:
    """The functions called since the last time that are not modelled, as a whole or with the arguments of the
    call. Each has its first caller: a line of Python; for calls from other threads or before the first use of
    this module, a function or a library; or "" if nothing is known. There are some only with
    Unmodelled.error."""
    found = {}
    for line in _lines("TakeUnmodelled"):
        name, _, caller = line.partition("\t")
        found[name] = _places.pop(name, caller)
    return found
