// SPDX-License-Identifier: MIT
// Mistakes of kinds that people report about programs which use events, written without looking at the rules.
#include "suite.hpp"

#include <sys/wait.h>
#include <unistd.h>

namespace {

MISTAKE(one_event_for_three_streams,
        "each record replaces the one before, so the wait orders one stream only") {
  CUevent done = gpu.event();
  CUstream main = gpu.stream();
  for (CUstream each : {gpu.a, gpu.b, gpu.stream()}) {
    slow(each);
    record(done, each); //!
  }
  wait(main, done);
  gpu.work(main);
  finish(main);
}

MISTAKE(watchdog_polls_during_capture,
        "a thread that polls an event breaks the global capture of another thread") {
  CUevent done = gpu.event();
  slow(gpu.b);
  record(done, gpu.b);
  begin(gpu.a);
  on_another_thread([&] {
    cuEventQuery(done); //!
  });
  cuMemsetD8Async(gpu.memory, 1, 64, gpu.a);
  try_end(gpu.a);
}

MISTAKE(event_of_the_current_device,
        "the event belongs to the context that happened to be current, not the stream's") {
  gpu.other_context();
  CUevent done = gpu.event();
  expect(cuCtxSetCurrent(gpu.context));
  gpu.work(gpu.a);
  cuEventRecord(done, gpu.a); //!
  wait(gpu.b, done);
  gpu.work(gpu.b);
}

MISTAKE(static_pool_after_reset, "a pool that outlives the reset of the device destroys its events") {
  struct Pool {
    std::vector<CUevent> events;
    ~Pool() {
      for (CUevent each : events)
        cuEventDestroy(each); //!
    }
  } pool{{gpu.event(), gpu.event()}};
  record(pool.events[0], gpu.a);
  finish(gpu.a);
  expect(cuDevicePrimaryCtxReset(0));
}

MISTAKE(consumer_waits_first, "the consumer's thread waits before the producer has recorded") {
  CUevent ready = gpu.event();
  on_another_thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    cuStreamWaitEvent(gpu.b, ready, 0); //!
    gpu.work(gpu.b);
  });
  gpu.work(gpu.a);
  record(ready, gpu.a);
}

MISTAKE(dispatch_without_its_hook, "the caller forgets to join the stream on which a library works") {
  CUevent start = gpu.event(), done = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  order(gpu.a, start, gpu.b);
  gpu.work(gpu.b);
  record(done, gpu.b);
  try_end(gpu.a); //!
}

MISTAKE(timer_without_timing, "the timer's events were created without timing") {
  CUevent start = gpu.event(), stop = gpu.event();
  record(start, gpu.a);
  gpu.work(gpu.a);
  record(stop, gpu.a);
  finish(gpu.a);
  time_between(start, stop); //!
}

MISTAKE(elapsed_too_early, "the time is read before the work is complete, and the error is ignored") {
  CUevent start = gpu.event(0), stop = gpu.event(0);
  record(start, gpu.a);
  slow(gpu.a);
  record(stop, gpu.a);
  time_between(start, stop); //!
}

MISTAKE_WITH("--leaks", event_per_iteration, "each iteration creates an event that nothing destroys") {
  for (int i = 0; i < 100; ++i) {
    CUevent done = nullptr;
    cuEventCreate(&done, CU_EVENT_DISABLE_TIMING); //!
    gpu.work(gpu.a);
    record(done, gpu.a);
    expect(cuEventSynchronize(done));
  }
}

MISTAKE(copied_owner, "a copy of an owner destroys the same event again") {
  struct Owner {
    CUevent event;
    ~Owner() {
      cuEventDestroy(event); //!
    }
  };
  Owner first{gpu.event()};
  Owner second = first;
  record(second.event, gpu.a);
  finish(gpu.a);
}

MISTAKE(pool_hands_out_a_used_event,
        "an event is recorded for somebody else before its consumer has waited for it") {
  CUevent pooled = gpu.event();
  slow(gpu.a);
  record(pooled, gpu.a);
  gpu.work(gpu.b);
  record(pooled, gpu.b); //!
  CUstream consumer = gpu.stream();
  wait(consumer, pooled); // for the work of `a`
  gpu.work(consumer);
  finish(consumer);
}

MISTAKE(captured_event_waited_for_later,
        "an event that was recorded in a capture is waited for after the capture") {
  CUevent done = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  record(done, gpu.a);
  CUgraphExec exec = instantiate(end(gpu.a));
  expect(cuGraphLaunch(exec, gpu.a));
  cuEventSynchronize(done); //!
}

MISTAKE(allocator_polls_in_capture,
        "an allocator polls the events of its blocks in the middle of a capture") {
  std::vector<CUevent> of_blocks{gpu.event(), gpu.event()};
  for (CUevent each : of_blocks)
    record(each, gpu.b);
  finish(gpu.b);
  begin(gpu.a, thread_local_mode);
  for (CUevent each : of_blocks)
    if (cuEventQuery(each) != CUDA_SUCCESS) break; //!
  try_end(gpu.a);
}

MISTAKE(item_in_capture, "a value is read back, so the host waits for the stream that is being captured") {
  begin(gpu.a);
  gpu.work(gpu.a);
  cuStreamSynchronize(gpu.a); //!
  try_end(gpu.a);
}

MISTAKE(default_stream_in_capture,
        "some code still uses the default stream while a blocking stream is captured") {
  CUstream captured = gpu.stream(CU_STREAM_DEFAULT);
  begin(captured);
  gpu.work(captured);
  cuMemsetD8Async(gpu.memory, 0, 64, nullptr); //!
  try_end(captured);
}

MISTAKE(waits_for_the_warm_up, "a capture waits for an event of the warm-up, which was not captured") {
  CUevent warm = gpu.event();
  gpu.work(gpu.b);
  record(warm, gpu.b);
  begin(gpu.a);
  cuStreamWaitEvent(gpu.a, warm, 0); //!
  try_end(gpu.a);
}

MISTAKE(temporary_event_in_a_graph,
        "an event that a graph records is destroyed before the graph is launched") {
  CUevent done = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  expect(cuEventRecordWithFlags(done, gpu.a, CU_EVENT_RECORD_EXTERNAL));
  CUgraphExec exec = instantiate(end(gpu.a));
  cuEventDestroy(done); //!
  expect(cuGraphLaunch(exec, gpu.a));
}

MISTAKE(times_the_default_stream,
        "both events are recorded on the default stream, and the work runs on another") {
  CUevent start = gpu.event(0), stop = gpu.event(0);
  record(start, nullptr);
  slow(gpu.a);
  record(stop, nullptr);
  expect(cuEventSynchronize(stop));
  time_between(start, stop); //!
}

MISTAKE(synchronizes_with_nothing, "the record was forgotten, so the host never waits") {
  CUevent done = gpu.event();
  for (int i = 0; i < 10; ++i) {
    slow(gpu.a);
    cuEventSynchronize(done); //!
  }
}

MISTAKE(forked_worker_uses_the_parents_event, "a forked child asks for an event of its parent") {
  CUevent done = gpu.event();
  record(done, gpu.a);
  const pid_t child = fork();
  if (child == 0) {
    cuEventQuery(done); //!
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

MISTAKE(opened_by_its_maker, "the process that exported an event opens the handle itself") {
  CUevent shared = gpu.event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING), opened = nullptr;
  CUipcEventHandle handle;
  expect(cuIpcGetEventHandle(&handle, shared));
  cuIpcOpenEventHandle(&opened, handle); //!
}

MISTAKE(exports_a_plain_event, "an event that was not created for other processes is exported") {
  CUevent plain = gpu.event();
  CUipcEventHandle handle;
  cuIpcGetEventHandle(&handle, plain); //!
}

MISTAKE(capture_in_a_capture, "a layer begins a capture on a stream that its caller captures") {
  begin(gpu.a);
  gpu.work(gpu.a);
  cuStreamBeginCapture(gpu.a, global); //!
  try_end(gpu.a);
}

MISTAKE(worker_ends_the_capture, "a worker thread ends the capture that the main thread began") {
  begin(gpu.a);
  gpu.work(gpu.a);
  on_another_thread([&] {
    try_end(gpu.a); //!
  });
}

MISTAKE(exception_leaves_the_capture_open,
        "an exception skips the end of the capture, and later work never runs") {
  try {
    cuStreamBeginCapture(gpu.a, relaxed); //!
    gpu.work(gpu.a);
    throw 1;
  } catch (int) {
  }
  for (int i = 0; i < 3; ++i)
    gpu.work(gpu.a);
}

MISTAKE_WITH("--cost", waits_for_the_device_each_step,
             "each step waits for all streams, though it needs one") {
  for (int i = 0; i < 40; ++i) {
    slow(gpu.b);
    gpu.work(gpu.a);
    cuCtxSynchronize(); //!
  }
}

MISTAKE_WITH("--cost", timing_for_order_only,
             "an event that only orders two streams was created with timing") {
  CUevent timed = nullptr;
  cuEventCreate(&timed, CU_EVENT_DEFAULT); //!
  for (int i = 0; i < 100; ++i) {
    gpu.work(gpu.a);
    order(gpu.a, timed, gpu.b);
    gpu.work(gpu.b);
  }
  finish(gpu.b);
}

MISTAKE_WITH("--cost", waits_for_its_own_stream,
             "a stream waits for an event that the same stream recorded") {
  CUevent done = gpu.event();
  for (int i = 0; i < 100; ++i) {
    gpu.work(gpu.a);
    record(done, gpu.a);
    cuStreamWaitEvent(gpu.a, done, 0); //!
  }
  finish(gpu.a);
}

MISTAKE(records_on_a_destroyed_stream, "a stream is destroyed while a caller still records on it") {
  CUevent done = gpu.event();
  CUstream stream = gpu.stream();
  gpu.work(stream);
  cuStreamDestroy(stream);     //!
  cuEventRecord(done, stream); //!
}

MISTAKE(pool_keyed_by_a_context,
        "a pool that is keyed by the handle of a context hands out an event of a dead one") {
  CUcontext first = gpu.other_context();
  CUevent pooled = gpu.event();
  expect(cuCtxDestroy(first));
  gpu.other_context();
  CUstream stream = gpu.stream();
  gpu.work(stream);
  cuEventRecord(pooled, stream); //!
}

} // namespace
