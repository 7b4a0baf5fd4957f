// SPDX-License-Identifier: MIT
// Mistakes of kinds that people report about programs which use events, written without looking at the rules.
#include "../driver_calls.hpp"

#include <sys/wait.h>
#include <unistd.h>

namespace {

MISTAKE("record-replaced", one_event_for_three_streams,
        "each record replaces the one before, so the wait orders one stream only") {
  CUevent done = gpu.event();
  CUstream main = gpu.stream();
  for (CUstream each : {gpu.a, gpu.b, gpu.stream()}) {
    slow(each);
    record(done, each); //!
    if (corrected) wait(main, done);
  }
  wait(main, done);
  gpu.work(main);
  finish(main);
}

MISTAKE("capture-invalidated", watchdog_polls_during_capture,
        "a thread that polls an event breaks the global capture of another thread") {
  CUevent done = gpu.event();
  slow(gpu.b);
  record(done, gpu.b);
  begin(gpu.a, corrected ? thread_local_mode : global);
  on_another_thread([&] {
    cuEventQuery(done); //!
  });
  cuMemsetD8Async(gpu.memory, 1, 64, gpu.a);
  try_end(gpu.a);
}

MISTAKE("record-in-other-context use-after-error", event_of_the_current_device,
        "the event belongs to the context that happened to be current, not the stream's") {
  gpu.other_context();
  if (corrected) expect(cuCtxSetCurrent(gpu.context));
  CUevent done = gpu.event();
  expect(cuCtxSetCurrent(gpu.context));
  gpu.work(gpu.a);
  cuEventRecord(done, gpu.a); //!
  wait(gpu.b, done);
  gpu.work(gpu.b);
}

MISTAKE("use-after-context", static_pool_after_reset,
        "a pool that outlives the reset of the device destroys its events") {
  struct Pool {
    std::vector<CUevent> events;
    void clear() {
      for (CUevent each : events)
        cuEventDestroy(each); //!
      events.clear();
    }
    ~Pool() { clear(); }
  } pool{{gpu.event(), gpu.event()}};
  record(pool.events[0], gpu.a);
  finish(gpu.a);
  if (corrected) pool.clear();
  expect(cuDevicePrimaryCtxReset(0));
}

MISTAKE("wait-never-recorded", consumer_waits_first,
        "the consumer's thread waits before the producer has recorded") {
  CUevent ready = gpu.event();
  const auto produce = [&] {
    gpu.work(gpu.a);
    record(ready, gpu.a);
  };
  if (corrected) produce();
  on_another_thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    cuStreamWaitEvent(gpu.b, ready, 0); //!
    gpu.work(gpu.b);
  });
  if (!corrected) produce();
}

MISTAKE("capture-unjoined", dispatch_without_its_hook,
        "the caller forgets to join the stream on which a library works") {
  CUevent start = gpu.event(), done = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  order(gpu.a, start, gpu.b);
  gpu.work(gpu.b);
  record(done, gpu.b);
  if (corrected) wait(gpu.a, done);
  try_end(gpu.a); //!
}

MISTAKE("elapsed-without-timing", timer_without_timing, "the timer's events were created without timing") {
  const unsigned flags = corrected ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
  CUevent start = gpu.event(flags), stop = gpu.event(flags);
  record(start, gpu.a);
  gpu.work(gpu.a);
  record(stop, gpu.a);
  finish(gpu.a);
  time_between(start, stop); //!
}

MISTAKE("elapsed-too-early", elapsed_too_early,
        "the time is read before the work is complete, and the error is ignored") {
  CUevent start = gpu.event(0), stop = gpu.event(0);
  record(start, gpu.a);
  slow(gpu.a);
  record(stop, gpu.a);
  if (corrected) finish(gpu.a);
  time_between(start, stop); //!
}

MISTAKE("leaked", event_per_iteration, "each iteration creates an event that nothing destroys", "--leaks") {
  for (int i = 0; i < 100; ++i) {
    CUevent done = nullptr;
    cuEventCreate(&done, CU_EVENT_DISABLE_TIMING); //!
    gpu.work(gpu.a);
    record(done, gpu.a);
    expect(cuEventSynchronize(done));
    if (corrected) destroy(done);
  }
  destroy_streams(gpu);
}

MISTAKE("use-after-destroy", copied_owner, "a copy of an owner destroys the same event again") {
  struct Owner {
    CUevent event;
    ~Owner() {
      cuEventDestroy(event); //!
    }
  };
  Owner first{gpu.event()};
  Owner second = first;
  if (corrected) first.event = nullptr;
  record(second.event, gpu.a);
  finish(gpu.a);
}

MISTAKE("record-replaced", pool_hands_out_a_used_event,
        "an event is recorded for somebody else before its consumer has waited for it") {
  CUevent pooled = gpu.event(), next = corrected ? gpu.event() : pooled;
  slow(gpu.a);
  record(pooled, gpu.a);
  gpu.work(gpu.b);
  record(next, gpu.b); //!
  CUstream consumer = gpu.stream();
  wait(consumer, pooled); // for the work of `a`
  gpu.work(consumer);
  finish(consumer);
}

MISTAKE("recorded-in-capture-only", captured_event_waited_for_later,
        "an event that was recorded in a capture is waited for after the capture") {
  CUevent done = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  record(done, gpu.a);
  CUgraphExec exec = instantiate(end(gpu.a));
  expect(cuGraphLaunch(exec, gpu.a));
  if (corrected) record(done, gpu.a);
  cuEventSynchronize(done); //!
}

MISTAKE("capture-invalidated", allocator_polls_in_capture,
        "an allocator polls the events of its blocks in the middle of a capture") {
  std::vector<CUevent> of_blocks{gpu.event(), gpu.event()};
  for (CUevent each : of_blocks)
    record(each, gpu.b);
  finish(gpu.b);
  begin(gpu.a, corrected ? relaxed : thread_local_mode);
  for (CUevent each : of_blocks)
    if (cuEventQuery(each) != CUDA_SUCCESS) break; //!
  try_end(gpu.a);
}

MISTAKE("capture-invalidated", item_in_capture,
        "a value is read back, so the host waits for the stream that is being captured") {
  begin(gpu.a);
  gpu.work(gpu.a);
  if (corrected) try_end(gpu.a);
  cuStreamSynchronize(gpu.a); //!
  if (!corrected) try_end(gpu.a);
}

MISTAKE("legacy-during-capture", default_stream_in_capture,
        "some code still uses the default stream while a blocking stream is captured") {
  CUstream captured = gpu.stream(corrected ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
  begin(captured);
  gpu.work(captured);
  cuMemsetD8Async(gpu.memory, 0, 64, nullptr); //!
  try_end(captured);
}

MISTAKE("capture-invalidated", waits_for_the_warm_up,
        "a capture waits for an event of the warm-up, which was not captured") {
  CUevent warm = gpu.event();
  gpu.work(gpu.b);
  record(warm, gpu.b);
  if (corrected) wait(gpu.a, warm);
  begin(gpu.a);
  if (!corrected) cuStreamWaitEvent(gpu.a, warm, 0); //!
  try_end(gpu.a);
}

MISTAKE("destroyed-in-graph", temporary_event_in_a_graph,
        "an event that a graph records is destroyed before the graph is launched") {
  CUevent done = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  expect(cuEventRecordWithFlags(done, gpu.a, CU_EVENT_RECORD_EXTERNAL));
  CUgraphExec exec = instantiate(end(gpu.a));
  if (!corrected) cuEventDestroy(done); //!
  expect(cuGraphLaunch(exec, gpu.a));
}

MISTAKE("elapsed-without-work", times_the_default_stream,
        "both events are recorded on the default stream, and the work runs on another") {
  CUevent start = gpu.event(0), stop = gpu.event(0);
  const CUstream timed = corrected ? gpu.a : nullptr;
  record(start, timed);
  slow(gpu.a);
  record(stop, timed);
  expect(cuEventSynchronize(stop));
  time_between(start, stop); //!
}

MISTAKE("wait-never-recorded", synchronizes_with_nothing,
        "the record was forgotten, so the host never waits") {
  CUevent done = gpu.event();
  for (int i = 0; i < 10; ++i) {
    slow(gpu.a);
    if (corrected) record(done, gpu.a);
    cuEventSynchronize(done); //!
  }
}

MISTAKE("used-after-fork", forked_worker_uses_the_parents_event,
        "a forked child asks for an event of its parent") {
  CUevent done = gpu.event();
  record(done, gpu.a);
  const pid_t child = fork();
  if (child == 0) {
    if (!corrected) cuEventQuery(done); //!
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

MISTAKE("refused-call", opened_by_its_maker, "the process that exported an event opens the handle itself") {
  CUevent shared = gpu.event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING), opened = nullptr;
  CUipcEventHandle handle;
  expect(cuIpcGetEventHandle(&handle, shared));
  if (!corrected) cuIpcOpenEventHandle(&opened, handle); //!
}

MISTAKE("refused-call", exports_a_plain_event,
        "an event that was not created for other processes is exported") {
  CUevent plain = gpu.event(CU_EVENT_DISABLE_TIMING | (corrected ? CU_EVENT_INTERPROCESS : 0));
  CUipcEventHandle handle;
  cuIpcGetEventHandle(&handle, plain); //!
}

MISTAKE("refused-call", capture_in_a_capture,
        "a layer begins a capture on a stream that its caller captures") {
  begin(gpu.a);
  gpu.work(gpu.a);
  if (!corrected) cuStreamBeginCapture(gpu.a, global); //!
  try_end(gpu.a);
}

MISTAKE("capture-invalidated", worker_ends_the_capture,
        "a worker thread ends the capture that the main thread began") {
  begin(gpu.a, corrected ? relaxed : global);
  gpu.work(gpu.a);
  on_another_thread([&] {
    try_end(gpu.a); //!
  });
}

MISTAKE("capture-never-ended", exception_leaves_the_capture_open,
        "an exception skips the end of the capture, and later work never runs") {
  try {
    cuStreamBeginCapture(gpu.a, relaxed); //!
    gpu.work(gpu.a);
    throw 1;
  } catch (int) {
    if (corrected) try_end(gpu.a);
  }
  for (int i = 0; i < 3; ++i)
    gpu.work(gpu.a);
}

MISTAKE("blocking-in-a-loop", waits_for_the_device_each_step,
        "each step waits for all streams, though it needs one", "--cost") {
  for (int i = 0; i < 40; ++i) {
    slow(gpu.b);
    gpu.work(gpu.a);
    if (!corrected) cuCtxSynchronize(); //!
  }
}

MISTAKE("timed-never-read", timing_for_order_only,
        "an event that only orders two streams was created with timing", "--cost") {
  CUevent timed = nullptr;
  cuEventCreate(&timed, corrected ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT); //!
  for (int i = 0; i < 100; ++i) {
    gpu.work(gpu.a);
    order(gpu.a, timed, gpu.b);
    gpu.work(gpu.b);
  }
  finish(gpu.b);
}

MISTAKE("wait-for-own-stream", waits_for_its_own_stream,
        "a stream waits for an event that the same stream recorded", "--cost") {
  CUevent done = gpu.event();
  for (int i = 0; i < 100; ++i) {
    gpu.work(gpu.a);
    record(done, gpu.a);
    cuStreamWaitEvent(corrected ? gpu.b : gpu.a, done, 0); //!
  }
  finish(gpu.a);
}

MISTAKE("use-after-destroy", records_on_a_destroyed_stream,
        "a stream is destroyed while a caller still records on it") {
  CUevent done = gpu.event();
  CUstream stream = gpu.stream();
  gpu.work(stream);
  if (!corrected) cuStreamDestroy(stream); //!
  cuEventRecord(done, stream);             //!
}

MISTAKE("use-after-context", pool_keyed_by_a_context,
        "a pool that is keyed by the handle of a context hands out an event of a dead one") {
  CUcontext first = gpu.other_context();
  CUevent pooled = gpu.event();
  expect(cuCtxDestroy(first));
  gpu.other_context();
  if (corrected) pooled = gpu.event();
  CUstream stream = gpu.stream();
  gpu.work(stream);
  cuEventRecord(pooled, stream); //!
}

} // namespace
