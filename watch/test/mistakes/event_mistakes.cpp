// SPDX-License-Identifier: MIT
// Ways to be wrong with events, in several shapes: other threads, streams, contexts, orders and distances.
#include "../driver_calls.hpp"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// Waits that come too early, or for nothing.

MISTAKE("wait-never-recorded", swapped_in_a_loop,
        "each step waits for the event before it is recorded for the work of the step") {
  CUevent ready = gpu.event();
  for (int i = 0; i < 5; ++i) {
    gpu.work(gpu.a);
    if (corrected) record(ready, gpu.a);
    cuStreamWaitEvent(gpu.b, ready, 0); //!
    if (!corrected) record(ready, gpu.a);
    gpu.work(gpu.b);
  }
}

MISTAKE("wait-never-recorded", swapped_with_work_between,
        "the same, and the producer submits more before the record") {
  CUevent ready = gpu.event();
  for (int i = 0; i < 5; ++i) {
    gpu.work(gpu.a);
    if (!corrected) cuStreamWaitEvent(gpu.b, ready, 0); //!
    gpu.work(gpu.a);
    record(ready, gpu.a);
    if (corrected) wait(gpu.b, ready);
    gpu.work(gpu.b);
  }
}

MISTAKE("wait-never-recorded", swapped_between_threads,
        "a consumer thread waits for an event of a pool, and the producer records it after that") {
  for (CUevent pooled : events(gpu, 3)) {
    const auto produce = [&] { on_another_thread([&] { record(pooled, gpu.a); }); };
    gpu.work(gpu.a);
    if (corrected) produce();
    on_another_thread([&] {
      cuStreamWaitEvent(gpu.b, pooled, 0); //!
    });
    if (!corrected) produce();
    gpu.work(gpu.b);
  }
}

MISTAKE("wait-never-recorded", per_thread_stream_waits_for_nothing,
        "a new event is waited for, and the record has been forgotten") {
  CUevent fresh = gpu.event();
  gpu.work(gpu.a);
  if (corrected) record(fresh, gpu.a);
  cuStreamWaitEvent(CU_STREAM_PER_THREAD, fresh, CU_EVENT_WAIT_DEFAULT); //!
  gpu.work(CU_STREAM_PER_THREAD);
  finish(CU_STREAM_PER_THREAD);
  destroy(fresh);
}

MISTAKE("wait-never-recorded", wait_node_for_nothing,
        "the wait node of a graph waits for an event that nothing records") {
  CUevent ready = gpu.event();
  if (corrected) record(ready, gpu.b);
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  expect(cuGraphCreate(&graph, 0));
  expect(cuGraphAddEventWaitNode(&node, graph, nullptr, 0, ready)); //!
  CUgraphExec exec = exec_of(graph);
  launch(exec, gpu.a);
  finish(gpu.a);
}

#if CUDA_VERSION >= 12050
MISTAKE("wait-never-recorded", whole_context_waits_for_nothing,
        "a context waits for an event that was never recorded") {
  CUevent ready = gpu.event();
  gpu.work(gpu.b);
  if (corrected) record(ready, gpu.b);
  cuCtxWaitEvent(gpu.context, ready); //!
  gpu.work(gpu.a);
}
#endif

MISTAKE("wait-never-recorded", host_reads_before_the_record,
        "the host takes a new event for done, and its record comes after that") {
  CUevent done = gpu.event();
  slow(gpu.a);
  if (corrected) record(done, gpu.a);
  cuEventSynchronize(done); //!
  if (!corrected) record(done, gpu.a);
  finish(gpu.a);
}

MISTAKE("wait-never-recorded", poll_of_a_new_event,
        "a thread polls an event that was not recorded, and takes the work for done") {
  CUevent done = gpu.event();
  slow(gpu.a);
  if (corrected) record(done, gpu.a);
  on_another_thread([&] {
    while (cuEventQuery(done) == CUDA_ERROR_NOT_READY) //!
      sched_yield();
  });
  finish(gpu.a);
}

MISTAKE("record-replaced", two_producers_of_one_event,
        "two threads record the same event for different streams, and one work is lost") {
  CUevent shared = gpu.event(), other = corrected ? gpu.event() : shared;
  for (int i = 0; i < 3; ++i) {
    on_another_thread([&] {
      slow(gpu.a);
      record(shared, gpu.a);
    });
    on_another_thread([&] {
      gpu.work(gpu.b);
      record(other, gpu.b); //!
    });
    expect(cuEventSynchronize(shared));
  }
}

// The time between events.

MISTAKE("record-replaced", one_event_for_two_producers,
        "two producers record one event, while the host waits for other events") {
  const CUevent done = gpu.event(), other = gpu.event();
  const CUstream consumer = gpu.stream(), elsewhere = gpu.stream();
  for (int i = 0; i < 3; ++i) {
    gpu.work(gpu.a);
    record(done, gpu.a);
    if (corrected) wait(consumer, done);
    record(other, elsewhere);
    expect(cuEventSynchronize(other));
    gpu.work(gpu.b);
    record(done, gpu.b); //!
    wait(consumer, done);
    gpu.work(consumer);
  }
}

MISTAKE("elapsed-never-recorded", stop_was_never_recorded, "an early return skips the second record") {
  CUevent start = gpu.event(0), stop = gpu.event(0);
  record(start, gpu.a);
  if (corrected) record(stop, gpu.a);
  finish(gpu.a);
  time_between(start, stop); //!
}

MISTAKE("elapsed-two-contexts", time_between_contexts, "one event belongs to another context") {
  CUevent start = gpu.event(0);
  record(start, gpu.a);
  if (!corrected) gpu.other_context();
  CUevent stop = gpu.event(0);
  record(stop, gpu.stream());
  expect(cuEventSynchronize(stop));
  finish(gpu.a);
  time_between(start, stop); //!
}

MISTAKE("elapsed-reversed", end_before_start,
        "start and end are given in the wrong order, so the time is negative") {
  CUevent start = gpu.event(0), stop = gpu.event(0);
  record(start, gpu.a);
  slow(gpu.a);
  record(stop, gpu.a);
  finish(gpu.a);
  corrected ? time_between(start, stop) : time_between(stop, start); //!
}

MISTAKE("recorded-in-capture-only", time_of_captured_records, "plain records in a capture measure nothing") {
  CUevent start = gpu.event(0), stop = gpu.event(0);
  const unsigned flags = corrected ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT;
  begin(gpu.a, relaxed);
  expect(cuEventRecordWithFlags(start, gpu.a, flags));
  gpu.work(gpu.a);
  expect(cuEventRecordWithFlags(stop, gpu.a, flags));
  launch(exec_of(end(gpu.a)), gpu.a);
  finish(gpu.a);
  time_between(start, stop); //!
}

// Handles of objects that are gone.

MISTAKE("use-after-destroy", thread_waits_for_a_destroyed_event,
        "one thread destroys the event that another waits for later") {
  CUevent done = gpu.event();
  record(done, gpu.a);
  on_another_thread([&] {
    if (!corrected) cuEventDestroy(done); //!
  });
  cuStreamWaitEvent(gpu.b, done, 0); //!
}

MISTAKE("use-after-destroy", destroyed_stream_waits, "a stream of a pool that was trimmed still waits") {
  CUevent done = gpu.event();
  CUstream pooled = gpu.stream();
  record(done, gpu.a);
  if (!corrected) cuStreamDestroy(pooled); //!
  gpu.work(gpu.b);
  finish(gpu.b);
  cuStreamWaitEvent(pooled, done, 0); //!
}

MISTAKE("use-after-destroy", stream_destroyed_twice, "two owners destroy a stream") {
  CUstream shared = gpu.stream();
  gpu.work(shared);
  finish(shared);
  for (int owner = 0; owner < (corrected ? 1 : 2); ++owner)
    cuStreamDestroy(shared); //!
}

MISTAKE("use-after-destroy", time_of_a_destroyed_event,
        "a timer is read after its start event was destroyed") {
  CUevent start = gpu.event(0), stop = gpu.event(0);
  record(start, gpu.a);
  record(stop, gpu.a);
  finish(gpu.a);
  if (!corrected) cuEventDestroy(start); //!
  time_between(start, stop);             //!
}

MISTAKE("use-after-destroy", destroyed_event_in_a_new_node,
        "a graph gets a node for an event that is gone, and is launched") {
  CUevent done = gpu.event();
  if (!corrected) cuEventDestroy(done); //!
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  expect(cuGraphCreate(&graph, 0));
  cuGraphAddEventRecordNode(&node, graph, nullptr, 0, done); //!
  cuGraphLaunch(instantiate(graph), gpu.a);
}

// Contexts.

MISTAKE("record-in-other-context", default_stream_of_another_context,
        "the per-thread stream belongs to the current context, the event does not") {
  CUevent done = gpu.event();
  if (!corrected) gpu.other_context();
  for (int i = 0; i < 3; ++i)
    cuEventRecord(done, CU_STREAM_PER_THREAD); //!
}

MISTAKE("refused-call", thread_without_a_context, "a new thread creates an event without a current context") {
  CUevent done = nullptr;
  on_another_thread([&] {
    if (corrected) expect(cuCtxSetCurrent(gpu.context));
    cuEventCreate(&done, CU_EVENT_DISABLE_TIMING); //!
  });
  cuEventRecord(done, gpu.a);
}

MISTAKE("refused-call", thread_asks_without_a_context,
        "a new thread asks for the room on the device, without a current context") {
  std::size_t room = 0, all = 0;
  on_another_thread([&] {
    if (corrected) expect(cuCtxSetCurrent(gpu.context));
    cuMemGetInfo(&room, &all); //!
  });
}

MISTAKE("refused-call use-after-error", thread_records_on_the_default_stream,
        "a new thread without a context records on the default stream") {
  CUevent done = gpu.event();
  on_another_thread([&] {
    if (corrected) expect(cuCtxSetCurrent(gpu.context));
    cuEventRecord(done, nullptr); //!
  });
  wait(gpu.a, done);
}

MISTAKE("use-after-context", poller_outlives_the_context,
        "a thread polls an event whose context has been destroyed") {
  CUcontext context = gpu.other_context();
  CUevent done = gpu.event();
  record(done, gpu.stream());
  if (!corrected) cuCtxDestroy(context); //!
  on_another_thread([&] {
    cuEventQuery(done); //!
  });
}

MISTAKE("use-after-context", stream_of_a_dead_context,
        "work is ordered behind an event on a stream whose context was destroyed") {
  CUevent done = gpu.event();
  record(done, gpu.a);
  CUcontext context = gpu.other_context();
  CUstream stream = gpu.stream();
  if (!corrected) cuCtxDestroy(context); //!
  cuStreamSynchronize(stream);           //!
}

MISTAKE("use-after-context", last_release_of_the_primary,
        "an event is used after the last release of the primary context") {
  CUevent done = gpu.event();
  record(done, gpu.a);
  finish(gpu.a);
  if (!corrected) cuDevicePrimaryCtxRelease(0); //!
  cuEventDestroy(done);                         //!
}

MISTAKE("interprocess-wait", interprocess_event_of_another_context,
        "an interprocess event is waited for in another context of the process") {
  CUevent shared = gpu.event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  record(shared, gpu.a);
  if (!corrected) gpu.other_context();
  CUstream stream = gpu.stream();
  cuStreamWaitEvent(stream, shared, 0); //!
}

MISTAKE("refused-call", interprocess_event_with_timing,
        "an interprocess event is created with timing, which is refused") {
  CUevent shared = nullptr;
  cuEventCreate(&shared, CU_EVENT_INTERPROCESS | (corrected ? CU_EVENT_DISABLE_TIMING : 0)); //!
  cuEventRecord(shared, gpu.a);
}

// Errors that nobody looked at.

MISTAKE("record-in-other-context use-after-error", waits_after_a_failed_record,
        "the record failed long ago, and the wait orders nothing") {
  CUevent done = gpu.event();
  if (!corrected) gpu.other_context();
  CUstream stream = gpu.stream();
  cuEventRecord(done, stream);
  for (int i = 0; i < 5; ++i)
    gpu.work(gpu.a);
  cuStreamWaitEvent(gpu.b, done, 0); //!
}

MISTAKE("refused-call", records_a_null_event, "the creation was forgotten, and each record fails") {
  CUevent done = corrected ? gpu.event() : nullptr;
  for (int i = 0; i < 3; ++i) {
    gpu.work(gpu.a);
    cuEventRecord(done, gpu.a); //!
  }
}

MISTAKE("refused-call", looks_in_a_null_module, "a module was not loaded, and its function is looked up") {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  if (corrected) expect(cuModuleLoadData(&module, kernels));
  cuModuleGetFunction(&function, module, "step"); //!
}

MISTAKE("refused-call", goes_on_after_a_refused_wait,
        "a wait with flags of another function is refused, and the stream goes on") {
  CUevent done = gpu.event();
  gpu.work(gpu.a);
  record(done, gpu.a);
  cuStreamWaitEvent(gpu.b, done, corrected ? CU_EVENT_WAIT_DEFAULT : 0x40); //!
  gpu.work(gpu.b);
}

MISTAKE("external-outside-capture wait-never-recorded", external_record_outside,
        "a record for graphs is used outside of a capture and is refused") {
  CUevent done = gpu.event();
  cuEventRecordWithFlags(done, gpu.a, corrected ? CU_EVENT_RECORD_DEFAULT : CU_EVENT_RECORD_EXTERNAL); //!
  wait(gpu.b, done);
}

MISTAKE("external-outside-capture", external_wait_outside,
        "an external wait on the default stream outside of a capture is refused") {
  CUevent done = gpu.event();
  record(done, gpu.a);
  cuStreamWaitEvent(nullptr, done, corrected ? CU_EVENT_WAIT_DEFAULT : CU_EVENT_WAIT_EXTERNAL); //!
}

MISTAKE("refused-call", callback_calls_the_driver,
        "a host function on a stream asks for an event, which no callback may do") {
  static CUevent done = gpu.event();
  record(done, gpu.b);
  const auto ask = [](void*) {
    cuEventQuery(done); //!
  };
  if (corrected)
    ask(nullptr);
  else
    expect(cuLaunchHostFunc(gpu.a, ask, nullptr));
  finish(gpu.a);
}

MISTAKE("used-after-fork", child_records_on_the_parents_stream,
        "a forked worker goes on with the stream of its parent") {
  CUevent done = gpu.event();
  gpu.work(gpu.a);
  const pid_t child = fork();
  if (child == 0) {
    if (!corrected) cuEventRecord(done, gpu.a); //!
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

MISTAKE("used-after-fork", child_counts_devices, "a forked worker begins with the number of devices") {
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    if (!corrected) cuDeviceGetCount(&count); //!
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

} // namespace
