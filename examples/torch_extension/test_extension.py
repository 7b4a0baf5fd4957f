# SPDX-License-Identifier: MIT
"""Tests the extension without PyTorch, on the driver that CUEVENT_DRIVER names or on libcuda.so.1."""
import ctypes
import faulthandler
import importlib.util
import os
import threading
import time
from collections import namedtuple

if importlib.util.find_spec("torch"):
    import torch  # noqa: F401; if setup.py built the extension, it needs the libraries of PyTorch
import cuevent_torch

# What the extension needs of a torch.cuda.Stream.
Stream = namedtuple("Stream", "cuda_stream device_index")
try:
    cuda = ctypes.CDLL(os.environ.get("CUEVENT_DRIVER", "libcuda.so.1"))
except OSError as error:
    print(error)
    raise SystemExit(77)


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, f"{name} returned {result}"


class Gate:
    """Holds a stream back until open(). Opens by itself after ten seconds."""

    def __init__(self, stream):
        memory = ctypes.c_void_p()
        call("cuMemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(4), 2)  # 2: CU_MEMHOSTALLOC_DEVICEMAP
        self.word = ctypes.c_uint32.from_address(memory.value)
        self.word.value = 0
        call("cuStreamWaitValue32_v2", ctypes.c_void_p(stream.cuda_stream), memory, 1, 0)
        self.timer = threading.Timer(10, self.open)
        self.timer.start()

    def open(self):
        self.word.value = 1
        self.timer.cancel()


def new_stream():
    handle = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(handle), 1)  # 1: CU_STREAM_NON_BLOCKING
    return Stream(handle.value, 0)


def test_event_completes_when_the_stream_gets_there():
    stream, other = new_stream(), new_stream()
    gate = Gate(stream)
    done, after = cuevent_torch.Event(0), cuevent_torch.Event(0)
    done.record(stream)
    done.wait(other)
    after.record(other)
    assert not done.query() and not after.synchronize(0.05)
    gate.open()
    assert after.synchronize(5) and done.query()


def test_handle_0_means_the_device_of_the_stream():
    event = cuevent_torch.Event(0, timing=True)
    event.record(Stream(0, 0))
    end = cuevent_torch.Event(0, timing=True)
    end.record(Stream(0, 0))
    assert end.synchronize(5) and event.elapsed_time(end) >= 0


def test_something_else_than_a_stream_is_a_type_error():
    try:
        cuevent_torch.Event(0).record(7)
    except TypeError as error:
        assert "torch.cuda.Stream" in str(error)
    else:
        raise AssertionError("7 is not a stream")


def test_event_of_pytorch_must_exist():
    Lazy = namedtuple("Lazy", "cuda_event")
    try:
        cuevent_torch.Event.borrow(Lazy(0), 0)
    except ValueError as error:
        assert "record() first" in str(error)
    else:
        raise AssertionError("an event without a handle was borrowed")
    event = cuevent_torch.Event(0)
    assert cuevent_torch.Event.borrow(event, 0).cuda_event == event.cuda_event


def test_record_that_blocks_lets_other_threads_run():
    stream, other = new_stream(), new_stream()
    watchdog = cuevent_torch.Watchdog(0, limit=0.2)
    event, waste = cuevent_torch.Event(0, timing=True), cuevent_torch.Event(0)
    gate = Gate(stream)
    progress = [0]

    def fill():
        watchdog.beat(stream)
        for progress[0] in range(1, 1501):
            event.record(stream)

    thread = threading.Thread(target=fill)
    thread.start()
    before = -1
    while before != progress[0] or before < 1000:  # until the thread is blocked
        before = progress[0]
        time.sleep(0.2)
    assert thread.is_alive() and progress[0] < 1500, "the launch queue takes everything"
    begin = time.monotonic()
    assert not event.query()
    mark = cuevent_torch.Event.borrow(waste, 0)
    mark.record(other)  # a stream that is not full
    del mark, waste  # retires the event: destroying it would wait for the blocked thread
    assert time.monotonic() - begin < 5
    while not watchdog.stuck:
        assert time.monotonic() - begin < 5
        time.sleep(0.01)
    gate.open()
    thread.join()
    assert event.synchronize(5) and progress[0] == 1500
    while watchdog.completed != 1:
        assert time.monotonic() - begin < 15
    assert not watchdog.stuck and watchdog.error is None


def test_timer_reports_stages():
    timer, stream = cuevent_torch.StageTimer(0), new_stream()
    for _ in range(3):
        timer.open(stream, "outer")
        timer.open(stream, "inner")
        timer.close(stream)
        timer.close(stream)
    timer.collect()
    report = timer.report()
    assert list(report) == ["outer", "inner"]
    assert report["inner"]["count"] == 3 and report["inner"]["dropped"] == 0
    assert report["outer"]["mean_us"] >= report["inner"]["mean_us"] >= 0
    try:
        timer.close(stream)
    except cuevent_torch.DriverError as error:
        assert "no stage is open" in str(error)
    else:
        raise AssertionError("a stage was closed twice")


def test_semaphore_orders_streams():
    semaphore, stream, other = cuevent_torch.Semaphore(0), new_stream(), new_stream()
    joined = cuevent_torch.Semaphore.join(0, semaphore.export_handle())
    after = cuevent_torch.Event(0)
    joined.wait(other, 2)  # before the signal
    after.record(other)
    assert not joined.synchronize(2, 0.05) and not after.query()
    semaphore.signal(stream, 2)
    assert joined.synchronize(2, 5) and after.synchronize(5) and semaphore.value == 2


def main():
    faulthandler.dump_traceback_later(25, exit=True)  # also if a call blocks with the GIL
    result = cuda.cuInit(0)
    if result != 0:
        print(f"no device: cuInit returned {result}")
        raise SystemExit(77)
    cuevent_torch.Event(0)  # retains the primary context
    context = ctypes.c_void_p()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            print(name.replace("_", " "), flush=True)
            test()


if __name__ == "__main__":
    main()
