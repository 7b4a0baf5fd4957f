# SPDX-License-Identifier: MIT
"""Checks what docs/from-torch.md says about PyTorch, CuPy and Numba, on a GPU."""
import faulthandler
import importlib.metadata
import importlib.util
import sys
import threading
import time
from types import SimpleNamespace

import torch  # before cuevent_torch, which needs its libraries

import cuevent_torch

CYCLES_PER_SECOND = 2_000_000_000  # of torch.cuda._sleep, at most


def raises(kind, text, function, *arguments):
    try:
        function(*arguments)
    except kind as error:
        assert text in str(error), f"{text!r} is not in {error}"
    else:
        raise AssertionError(f"no {kind.__name__}")


def others_run_during(function):
    """Whether other Python threads run while `function` blocks in one. Prints how long it blocked."""
    torch.cuda.synchronize()
    times = [0.0, 0.0]

    def block():
        times[0] = time.monotonic()
        function()
        times[1] = time.monotonic()

    thread = threading.Thread(target=block)
    thread.start()
    longest, last = 0.0, time.monotonic()
    while thread.is_alive():
        time.sleep(0.005)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    torch.cuda.synchronize()
    print(f"    blocked for {times[1] - times[0]:.2f} s, other threads for {longest:.2f} s")
    assert times[1] - times[0] > 0.4, "nothing blocked"
    return longest < 0.2


def fill(stream, submit):
    """Submits more than a launch queue takes, while the stream is held back."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(CYCLES_PER_SECOND)
        for _ in range(1500):
            submit()


def check_streams():
    stream = torch.cuda.Stream(0)
    event = cuevent_torch.Event(0)
    event.record(stream)
    event.wait(torch.cuda.default_stream(0))
    assert event.synchronize(5) and event.query()
    assert torch.cuda.default_stream(0).cuda_stream == 0
    with torch.cuda.stream(stream):  # record() takes the current stream
        torch.cuda._sleep(CYCLES_PER_SECOND // 4)
        event.record()
        assert not event.query()
    assert event.synchronize(5)
    if torch.cuda.device_count() > 1:
        other = torch.cuda.default_stream(1)
        assert other.cuda_stream == 0
        raises(cuevent_torch.DriverError, "context", event.record, other)
        event.wait(other)


def check_lazy_events():
    event = torch.cuda.Event(enable_timing=True)
    assert event.cuda_event == 0
    raises(ValueError, "record() first", cuevent_torch.Event.borrow, event, 0)
    event.record()
    start = cuevent_torch.Event.borrow(event, 0)
    assert start.cuda_event == event.cuda_event != 0
    end = cuevent_torch.Event(0, timing=True)
    end.record(torch.cuda.current_stream())
    assert end.synchronize(5) and start.elapsed_time(end) >= 0
    shared = torch.cuda.Event(interprocess=True)
    shared.ipc_handle()
    assert shared.cuda_event != 0  # exporting creates it too


def check_gil():
    stream = torch.cuda.Stream(0)
    ours, theirs = cuevent_torch.Event(0, timing=True), torch.cuda.Event(enable_timing=True)
    data = torch.zeros(16, device="cuda:0")
    print("  record of this extension:")
    assert others_run_during(lambda: fill(stream, lambda: ours.record(stream)))
    print("  synchronize of this extension:")

    def synchronize():
        with torch.cuda.stream(stream):
            torch.cuda._sleep(CYCLES_PER_SECOND)
        ours.record(stream)
        assert ours.synchronize(5)

    assert others_run_during(synchronize)
    print("  torch.cuda.Event.record:")
    assert others_run_during(lambda: fill(stream, lambda: theirs.record(stream)))
    print("  an operator of PyTorch:")
    assert others_run_during(lambda: fill(stream, lambda: data.add_(1)))
    print("  torch.cuda.CUDAGraph.replay:")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        data.add_(1)
    assert others_run_during(lambda: fill(stream, graph.replay))


def check_garbage():
    """Destroying an event of this extension does not wait for a thread that is blocked."""
    stream, event = torch.cuda.Stream(0), cuevent_torch.Event(0, timing=True)
    waste = [cuevent_torch.Event(0) for _ in range(10)]
    theirs = torch.cuda.Event()
    theirs.record(stream)
    torch.cuda.synchronize()
    thread = threading.Thread(target=lambda: fill(stream, lambda: event.record(stream)))
    thread.start()
    time.sleep(0.15)
    begin = time.monotonic()
    waste.clear()
    ours = time.monotonic() - begin
    assert thread.is_alive() and ours < 0.1
    ticks, ended = [], threading.Event()

    def tick():
        while not ended.wait(0.005):
            ticks.append(time.monotonic())

    ticker = threading.Thread(target=tick)
    ticker.start()
    begin = time.monotonic()
    del theirs
    end = time.monotonic()
    ended.set()
    ticker.join()
    thread.join()
    others = sum(begin < time < end for time in ticks)
    print(f"  ten events of this extension: {ours * 1e6:.0f} us, one of PyTorch: {end - begin:.3f} s, "
          f"meanwhile other threads ran {others} times")


def check_capture():
    """A query of this extension harms no capture of torch.cuda.graph; one of PyTorch does."""
    outcome = {}
    for name, event in (("cuevent", cuevent_torch.Event(0)), ("PyTorch", torch.cuda.Event())):
        event.record(torch.cuda.current_stream())
        torch.cuda.synchronize()
        data, graph = torch.zeros(16, device="cuda"), torch.cuda.CUDAGraph()
        answers = []

        def ask():
            try:
                answers.append(event.query())
            except RuntimeError as error:
                answers.append(str(error).split("\n")[0])

        try:
            with torch.cuda.graph(graph):
                data.add_(1)
                thread = threading.Thread(target=ask)
                thread.start()
                thread.join()
                data.add_(1)
            outcome[name] = True
        except RuntimeError as error:
            outcome[name] = False
            print("   ", str(error).split("\n")[0])
        print(f"  {name}: query answered {answers}, the capture lived: {outcome[name]}")
    assert outcome["cuevent"] and not outcome["PyTorch"]


def check_graphs():
    timer, stream = cuevent_torch.StageTimer(0), torch.cuda.current_stream()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        captured = torch.cuda.current_stream()
        timer.open(captured, "random")
        numbers = torch.rand(4, device="cuda")
        torch.cuda._sleep(1_000_000)
        timer.close(captured)
    timed = timer.instantiate(graph)
    drawn = []
    for _ in range(3):
        timed.replay(stream)
        drawn.append(numbers.tolist())
    timer.collect()
    report = timer.report()["random"]
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    torch.cuda._sleep(1_000_000)
    end.record()
    end.synchronize()
    print(f"  {report}; the same kernel outside: {begin.elapsed_time(end) * 1e3:.1f} us")
    assert report["count"] == 3
    assert drawn[0] == drawn[1] == drawn[2], "a launch draws the same random numbers as the one before"
    replayed = []
    for _ in range(2):  # PyTorch can still replay the graph itself
        graph.replay()
        torch.cuda.synchronize()
        replayed.append(numbers.tolist())
    assert replayed[0] != replayed[1]
    raises(RuntimeError, "keep_graph", timer.instantiate, _small_graph())


def _small_graph():
    graph, data = torch.cuda.CUDAGraph(), torch.zeros(1, device="cuda")
    with torch.cuda.graph(graph):
        data.add_(1)
    return graph


def check_backward_threads():
    threads = set()
    layer = torch.nn.Linear(8, 8).cuda()
    layer.register_full_backward_hook(lambda *_: threads.add(threading.get_ident()))
    layer(torch.zeros(2, 8, device="cuda", requires_grad=True)).sum().backward()
    assert threads and threading.get_ident() not in threads


def check_watchdog():
    watchdog, stream = cuevent_torch.Watchdog(0, limit=0.2), torch.cuda.Stream(0)
    watchdog.beat(stream)
    torch.cuda.synchronize()
    time.sleep(0.3)
    assert watchdog.completed == 1 and not watchdog.stuck
    with torch.cuda.stream(stream):
        torch.cuda._sleep(CYCLES_PER_SECOND)
    watchdog.beat(stream)
    time.sleep(0.4)
    assert watchdog.stuck and watchdog.error is None
    torch.cuda.synchronize()
    time.sleep(0.2)
    assert watchdog.completed == 2 and not watchdog.stuck


def check_cupy():
    import cupy
    theirs = cupy.cuda.Stream(non_blocking=True)
    event = cuevent_torch.Event(0)
    for stream in (torch.cuda.ExternalStream(theirs.ptr, device=0),
                   SimpleNamespace(cuda_stream=theirs.ptr, device_index=theirs.device_id)):
        with theirs:
            cupy.arange(10).sum()
        event.record(stream)
        assert event.synchronize(5)
    null = cupy.cuda.Stream.null
    assert theirs.device_id == 0 and null.device_id == -1 and null.ptr == 0
    done = cupy.cuda.Event(disable_timing=True)  # exists at once
    assert done.ptr != 0
    done.record(theirs)
    borrowed = cuevent_torch.Event.borrow(SimpleNamespace(cuda_event=done.ptr), 0)
    borrowed.wait(torch.cuda.Stream(0))
    assert borrowed.synchronize(5) and done.done
    ours = torch.cuda.Stream(0)
    with cupy.cuda.Stream.from_external(ours):  # the other way round
        cupy.arange(10).sum()
    event.record(ours)
    assert event.synchronize(5)
    print("  CuPy", cupy.__version__)


def check_numba():
    import numpy
    from numba import cuda

    theirs = cuda.stream()
    print("  numba-cuda", importlib.metadata.version("numba-cuda"))
    assert int(cuda.default_stream().handle) == 0
    stream = torch.cuda.ExternalStream(int(theirs.handle), device=0)
    event = cuevent_torch.Event(0)
    array = cuda.to_device(numpy.arange(3), stream=theirs)
    event.record(stream)
    assert event.synchronize(5)
    done = cuda.event(timing=False)
    done.record(theirs)
    borrowed = cuevent_torch.Event.borrow(SimpleNamespace(cuda_event=int(done.handle)), 0)
    borrowed.wait(torch.cuda.Stream(0))
    assert borrowed.synchronize(5) and done.query()
    ours = torch.cuda.Stream(0)
    cuda.to_device(numpy.arange(3), stream=cuda.external_stream(ours.cuda_stream))
    event.record(ours)
    assert event.synchronize(5)
    assert array.size == 3


def main():
    if not torch.cuda.is_available():
        print("there is no GPU")
        sys.exit(77)
    faulthandler.dump_traceback_later(80, exit=True)
    torch.cuda.init()
    failures = 0
    for name, check in list(globals().items()):
        if not name.startswith("check_") or (len(sys.argv) > 1 and name[6:] not in sys.argv[1:]):
            continue
        if name in ("check_cupy", "check_numba") and not importlib.util.find_spec(name[6:]):
            print(name, "skipped: it is not installed")
            continue
        print(name.replace("_", " "), flush=True)
        try:
            check()
        except Exception as error:  # the other checks still run
            failures += 1
            print(f"  FAILED: {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
