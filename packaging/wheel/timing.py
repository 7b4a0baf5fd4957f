# SPDX-License-Identifier: MIT
"""Times work on the device, and proves that all of it was timed.

    import cuevent

    print(cuevent.measure(lambda: model(x)))            # on PyTorch's or CuPy's current stream
    print(cuevent.measure(work, stream=stream))         # any stream with __cuda_stream__, or a handle
    print(cuevent.compare(lambda: a(x), lambda: b(x)))  # in turns

The work is called some dozen times, without arguments, and submits to the stream. While it does, the whole
context is held on the device, so that the device never waits for the host. Times are seconds. What is
proved, and what makes times wrong, is in docs/timing.md of cuevent.

Thread-safety: one measurement of a context at a time. Python's lock is free while a call waits.
"""
from __future__ import annotations

import contextlib
import ctypes
import glob
import json
import os
import sys
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from .sim import _handle

__all__ = ["Comparison", "Error", "Measurement", "Sample", "compare", "measure"]


class Error(RuntimeError):
    """A measurement that was refused, with the reason."""


class Sample(NamedTuple):
    """One sample. MeasuredSample of measure.hpp says what each one is."""
    time: float
    tail: float
    held: bool
    escaped: bool
    disturbed: bool


class Measurement:
    """What measure() found: the members of Measurement in measure.hpp, with times in seconds."""
    samples: List[Sample]
    median: float
    low: float
    high: float
    minimum: float
    first_quartile: float
    third_quartile: float
    maximum: float
    outliers: int
    trend: float
    drifts: bool
    warm_up: int
    empty_pair: float
    resolution: float
    margin: float
    escaped: int
    late: int
    disturbed: int
    unheld: int
    scope: str
    end: str
    proved: bool
    doubt: str

    def __init__(self, found: Dict[str, Any]) -> None:
        self._text: str = found.pop("text")
        vars(self).update(found)
        self.samples = [Sample(*sample) for sample in found["samples"]]

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Measurement: {self._text}>"


class Comparison:
    """What compare() found: the members of Comparison in measure.hpp."""
    a: Measurement
    b: Measurement
    ratio: float
    low: float
    high: float
    doubt: str

    def __init__(self, found: Dict[str, Any]) -> None:
        self._text: str = found["text"]
        self.a, self.b = Measurement(found["a"]), Measurement(found["b"])
        self.ratio, self.low, self.high = found["ratio"], found["low"], found["high"]
        self.doubt = found["doubt"]

    @property
    def proved(self) -> bool:
        return self.a.proved and self.b.proved

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Comparison: {self._text}>"


class _Options(ctypes.Structure):
    _fields_ = [("precision", ctypes.c_double), ("least_samples", ctypes.c_ulonglong),
                ("most_samples", ctypes.c_ulonglong), ("time_limit", ctypes.c_double),
                ("hold_limit", ctypes.c_double), ("between", ctypes.c_void_p),
                ("overwrite", ctypes.c_ulonglong), ("overwrite_bytes", ctypes.c_ulonglong)]


_WORK = ctypes.CFUNCTYPE(ctypes.c_int)
_lock = threading.Lock()
_library: Optional[ctypes.CDLL] = None


def _load() -> ctypes.CDLL:
    global _library
    with _lock:
        if _library is None:
            folder = os.path.dirname(os.path.realpath(__file__))
            pattern = os.path.join(glob.escape(folder), "lib", "**", "libcuevent.so.*[0-9]")
            found = glob.glob(pattern, recursive=True)
            if not found:
                raise Error(f"libcuevent.so is not in {folder}/lib: install the wheel with pip")
            library = ctypes.CDLL(found[0])
            library.cuevent_python_measure.restype = ctypes.c_void_p
            library.cuevent_python_measure.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
                                                       ctypes.POINTER(_Options)]
            library.cuevent_python_free.restype = None
            library.cuevent_python_free.argtypes = [ctypes.c_void_p]
            _library = library
        return _library


def _current_stream() -> Any:
    """Of the library that the program uses."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and torch.cuda.is_available():
        return torch.cuda.current_stream()
    if cupy is not None:
        return cupy.cuda.get_current_stream()
    raise Error("it is not known to which stream the work is submitted, because neither PyTorch nor CuPy is "
                "loaded: name it, as measure(work, stream=stream)")


def _made_current(stream: Any) -> Any:
    """While it is entered, the library of the stream submits to it."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(stream, torch.cuda.Stream):
        return torch.cuda.stream(stream)
    if type(stream).__module__.startswith("cupy.") and hasattr(stream, "__enter__"):
        return stream
    return contextlib.nullcontext()


def _measure(works: List[Callable[[], Any]], stream: Any, between: Optional[Callable[[], Any]],
             **options: Any) -> Dict[str, Any]:
    for work in works if between is None else [*works, between]:
        if not callable(work):
            raise TypeError(f"{work!r} cannot be called: pass a function without arguments")
    stream = _current_stream() if stream is None else stream
    raised: List[BaseException] = []

    def guarded(work: Callable[[], Any]) -> Callable[[], int]:
        def run() -> int:
            try:
                work()
                return 0
            except BaseException as error:  # also KeyboardInterrupt: it is raised again below
                raised.append(error)
                return 1
        return run

    callbacks = [_WORK(guarded(work)) for work in works]
    before = None if between is None else _WORK(guarded(between))
    addresses = [None if callback is None else ctypes.cast(callback, ctypes.c_void_p).value
                 for callback in (callbacks + [None, None])[:2] + [before]]
    given = _Options(between=addresses[2], **options)
    library = _load()
    with _made_current(stream):
        text = library.cuevent_python_measure(_handle(stream, "stream"), addresses[0], addresses[1],
                                              ctypes.byref(given))
    if raised:
        library.cuevent_python_free(text)
        raise raised[0]
    if not text:
        raise MemoryError
    try:
        found = json.loads(ctypes.string_at(text))
    finally:
        library.cuevent_python_free(text)
    if "error" in found:
        raise Error(found["error"])
    return found


def measure(work: Callable[[], Any], *, stream: Any = None, precision: float = 0.005, least_samples: int = 20,
            most_samples: int = 10_000, time_limit: float = 5.0, hold_limit: float = 0.5,
            between: Optional[Callable[[], Any]] = None, overwrite: int = 0,
            overwrite_bytes: int = 0) -> Measurement:
    """How long the work takes on the device. MeasureOptions in measure.hpp describes the options; times are
    seconds. Without a stream, it is PyTorch's or CuPy's current stream."""
    return Measurement(_measure([work], stream, between, precision=precision, least_samples=least_samples,
                                most_samples=most_samples, time_limit=time_limit, hold_limit=hold_limit,
                                overwrite=overwrite, overwrite_bytes=overwrite_bytes))


def compare(a: Callable[[], Any], b: Callable[[], Any], *, stream: Any = None, precision: float = 0.005,
            least_samples: int = 20, most_samples: int = 10_000, time_limit: float = 5.0,
            hold_limit: float = 0.5, between: Optional[Callable[[], Any]] = None, overwrite: int = 0,
            overwrite_bytes: int = 0) -> Comparison:
    """How many times as long `a` takes as `b`, measured in turns. measure() has the same options."""
    return Comparison(_measure([a, b], stream, between, precision=precision, least_samples=least_samples,
                               most_samples=most_samples, time_limit=time_limit, hold_limit=hold_limit,
                               overwrite=overwrite, overwrite_bytes=overwrite_bytes))
