// SPDX-License-Identifier: MIT
// A mistake for each rule about events and times. What is corrected comes as close to it as it may.
#include "driver_calls.hpp"

#include <sys/wait.h>

namespace {

/// An executable graph with one node that records the event.
CUgraphExec graph_that_records(CUevent event) { return exec_of(graph_of_record(event)); }

/// An event whose only record is part of a finished capture.
CUevent captured_event(Gpu& gpu) {
  const CUevent event = gpu.event();
  begin(gpu.a, relaxed);
  gpu.work(gpu.a);
  record(event, gpu.a);
  end(gpu.a);
  return event;
}

/// The executable graph of a captured graph's clone records another event than the graph.
void replace_captured_event(Gpu& gpu) {
  const CUevent first = gpu.event(), second = gpu.event();
  begin(gpu.a, relaxed);
  expect(cuEventRecordWithFlags(first, gpu.a, CU_EVENT_RECORD_EXTERNAL));
  const CUgraph graph = end(gpu.a);
  CUgraph clone = nullptr;
  expect(cuGraphClone(&clone, graph));
  CUgraphNode node = nullptr;
  std::size_t count = 1;
  expect(cuGraphGetNodes(clone, &node, &count));
  const CUgraphExec exec = instantiate(clone);
  expect(cuGraphExecEventRecordNodeSetEvent(exec, node, second));
  expect(cuGraphDestroy(graph));
  expect(cuGraphDestroy(clone));
  destroy(first);
  launch(exec, gpu.a);
}

#if CUDA_VERSION >= 12040
CUgreenCtx green_context() {
  CUdevResource processors{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  expect(cuDeviceGetDevResource(0, &processors, CU_DEV_RESOURCE_TYPE_SM));
  expect(cuDevResourceGenerateDesc(&description, &processors, 1));
  expect(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  return green;
}
#endif

/// A green context on the device of the event's primary context can wait for an interprocess event too.
void wait_in_green_context([[maybe_unused]] CUevent event) {
#if CUDA_VERSION >= 12040
  expect(cuGreenCtxWaitEvent(green_context(), event));
#endif
}

/// The wait follows a record that no stream was named for.
void wait_for_record_of_green_context([[maybe_unused]] Gpu& gpu) {
#if CUDA_VERSION >= 12040
  const CUevent event = gpu.event();
  expect(cuGreenCtxRecordEvent(green_context(), event));
  wait(gpu.a, event);
#endif
}

void time_slow_work(Gpu& gpu, CUevent start, CUevent end) {
  record(start, gpu.a);
  expect(cuLaunchHostFunc(
      gpu.a, [](void*) { sleep_ms(20); }, nullptr));
  record(end, gpu.a);
}

template <class Work>
void in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

MISTAKE("wait-never-recorded", wait_never_recorded, "nothing records the event") {
  const CUevent event = gpu.event();
  if (corrected) { // it was recorded, though by a graph; and a query says "complete", which is no wait
    launch(graph_that_records(event), gpu.b);
    expect(cuEventQuery(gpu.event()));
    wait_for_record_of_green_context(gpu);
  }
  wait(gpu.a, event); //!
}

MISTAKE("wait-before-record", wait_before_record, "each wait is for the work of the step before") {
  const CUevent event = gpu.event();
  if (corrected) gpu.work(gpu.a); // then the first wait is for this work
  record(event, gpu.a);
  for (int i = 0; i < 3; ++i) {
    gpu.work(gpu.a);
    wait(gpu.b, event); //!
    record(event, gpu.a);
  }
}

HARMLESS(wait_for_the_step_before, "the waits of a pipeline are for the work of the step before", "") {
  const CUevent lagging = gpu.event();
  for (int i = 0; i < 5; ++i) {
    gpu.work(gpu.a);
    if (i > 0) wait(gpu.b, lagging);
    record(lagging, gpu.a);
    gpu.work(gpu.b);
  }
}

MISTAKE("recorded-in-capture-only", recorded_in_capture_only, "the only record was captured") {
  const CUevent event = captured_event(gpu);
  if (corrected) {
    record(event, gpu.a);
    expect(cuEventSynchronize(event));
  } else {
    expect(cuEventQuery(event), CUDA_ERROR_INVALID_VALUE); //!
  }
}

MISTAKE("record-in-other-context", record_in_other_context, "the stream belongs to another context") {
  const CUevent event = gpu.event();
  gpu.other_context();
  if (corrected) { // a wait may cross contexts, and the current context does not matter
    order(gpu.a, event, gpu.stream());
  } else {
    expect(cuEventRecord(event, gpu.stream()), CUDA_ERROR_INVALID_HANDLE); //!
  }
}

MISTAKE("use-after-destroy", use_after_destroy, "a destroyed event is queried") {
  for (int i = 0; i < 100; ++i) { // a new event may get the address of the old one
    const CUevent event = gpu.event();
    if (corrected) record(event, gpu.a);
    expect(cuEventDestroy(event));       //!
    if (!corrected) cuEventQuery(event); //!
  }
}

MISTAKE("use-after-context", use_after_context, "the context of the event was destroyed") {
  const CUevent living = gpu.event();
  const CUcontext other = gpu.other_context();
  const CUevent event = gpu.event();
  if (corrected) record(event, gpu.stream());
  expect(cuCtxDestroy(other)); //!
  expect(cuCtxSetCurrent(gpu.context));
  if (corrected) { // the event of another context lives, and one is destroyed at the exit of the process
    record(living, gpu.a);
    expect(cuEventSynchronize(living));
    static CUevent destroyed_late = nullptr;
    destroyed_late = event;
    std::atexit([] { cuEventDestroy(destroyed_late); });
  } else {
    expect(cuEventQuery(event), CUDA_ERROR_CONTEXT_IS_DESTROYED); //!
  }
}

MISTAKE("interprocess-wait", interprocess_wait, "an interprocess event is waited for in another context") {
  const CUevent event = gpu.event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  if (corrected) wait(gpu.a, event);
  gpu.other_context();
  if (corrected) {
    wait(gpu.a, event); // the context of the stream counts, not the current one
    wait_in_green_context(event);
  } else {
    expect(cuStreamWaitEvent(gpu.stream(), event, 0), CUDA_ERROR_INVALID_HANDLE); //!
  }
}

MISTAKE("destroyed-in-graph", destroyed_in_graph, "an executable graph still records the event") {
  const CUevent event = gpu.event();
  const CUgraphExec exec = graph_that_records(event);
  if (corrected) { // nothing is launched after that
    launch(exec, gpu.a);
    finish(gpu.a);
  }
  expect(cuEventDestroy(event)); //!
  if (corrected) replace_captured_event(gpu);
  if (!corrected) expect(cuGraphLaunch(exec, gpu.a));
}

MISTAKE("elapsed-without-timing", elapsed_without_timing, "one of the events measures no time") {
  const CUevent start = gpu.event(corrected ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
  const CUevent end = gpu.event(CU_EVENT_DEFAULT);
  record(start, gpu.a);
  record(end, gpu.a);
  if (corrected) { // too early is no mistake
    while (time_between(start, end) == CUDA_ERROR_NOT_READY) {
    }
  } else {
    expect(cuEventSynchronize(end));
    expect(time_between(start, end), CUDA_ERROR_INVALID_HANDLE); //!
  }
}

MISTAKE("elapsed-never-recorded", elapsed_never_recorded, "the start was never recorded") {
  const CUevent end = gpu.event(CU_EVENT_DEFAULT), start = corrected ? end : gpu.event(CU_EVENT_DEFAULT);
  record(end, gpu.a);
  if (corrected) expect(cuEventSynchronize(end));
  expect(time_between(start, end), corrected ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE); //!
}

MISTAKE("elapsed-two-contexts", elapsed_two_contexts, "the events belong to two contexts") {
  const CUevent start = gpu.event(CU_EVENT_DEFAULT), near = gpu.event(CU_EVENT_DEFAULT);
  if (!corrected) record(start, gpu.a);
  gpu.other_context();
  if (corrected) record(start, gpu.a); // two streams of one context, while another is current
  const CUevent end = corrected ? near : gpu.event(CU_EVENT_DEFAULT);
  record(end, corrected ? gpu.b : gpu.stream());
  if (corrected) expect(cuEventSynchronize(start)), expect(cuEventSynchronize(end));
  expect(time_between(start, end), corrected ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE); //!
}

MISTAKE("elapsed-too-early", elapsed_too_early, "the time is not there yet, and nothing asks again") {
  const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT);
  time_slow_work(gpu, start, end);
  expect(time_between(start, end), CUDA_ERROR_NOT_READY); //!
  if (!corrected) return;
  expect(cuEventSynchronize(end));
  expect(time_between(start, end));
}

MISTAKE("elapsed-reversed", elapsed_reversed, "the end is given as the start") {
  const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT);
  time_slow_work(gpu, start, end);
  // The next step records the start again, before the time of the last step is read.
  if (corrected) time_slow_work(gpu, start, end);
  expect(cuEventSynchronize(end));
  expect(corrected ? time_between(start, end) : time_between(end, start)); //!
  if (corrected) expect(time_between(start, start));
}

MISTAKE("elapsed-without-work", elapsed_without_work, "the work between the records is another stream's") {
  const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT), done = gpu.event();
  for (const CUstream stream : {gpu.b, CUstream(nullptr)}) {
    record(start, stream);
    gpu.work(gpu.a);
    if (corrected) { // the stream waits for the work of the other one, or a copy is measured
      unsigned char byte = 0;
      record(done, gpu.a);
      if (stream != nullptr) wait(stream, done);
      if (stream == nullptr) expect(cuMemcpyDtoH(&byte, gpu.memory, 1));
    }
    record(end, stream);
    expect(cuEventSynchronize(end));
    expect(time_between(start, end)); //!
  }
}

MISTAKE("record-replaced", record_replaced, "each record replaces that of another stream") {
  const CUevent event = gpu.event();
  gpu.work(gpu.a);
  record(event, gpu.a);
  for (const CUstream stream : {gpu.b, gpu.stream(), gpu.a}) {
    if (corrected) wait(stream, event); // the event is handed on, and the last stream has all work before it
    gpu.work(stream);
    record(event, stream); //!
  }
  expect(cuEventSynchronize(event));
}

MISTAKE("use-after-error", use_after_error, "the record has failed") {
  const CUevent event = gpu.event();
  expect(cuEventRecordWithFlags(event, gpu.a, 64), CUDA_ERROR_INVALID_VALUE);
  if (corrected) record(event, gpu.a);
  wait(gpu.b, event); //!
}

MISTAKE("refused-call", refused_call, "the event was not created for other processes") {
  CUipcEventHandle handle;
  if (corrected) { // and nobody makes a mistake who destroys nothing
    expect(cuIpcGetEventHandle(&handle, gpu.event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)));
    expect(cuEventDestroy(nullptr), CUDA_ERROR_INVALID_HANDLE);
  } else {
    expect(cuIpcGetEventHandle(&handle, gpu.event()), CUDA_ERROR_INVALID_HANDLE); //!
  }
}

MISTAKE("used-after-fork", used_after_fork, "a child uses an event of its parent") {
  const CUevent event = gpu.event();
  if (!corrected) record(event, gpu.a);
  in_child([&] {
    if (!corrected) cuEventQuery(event); //!
  });
  if (corrected) record(event, gpu.a);
}

MISTAKE("device-fault", device_fault, "a kernel writes to an illegal address", "--stacks all") {
  const CUfunction function = kernel(corrected ? "step" : "write_illegal_address");
  expect(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, gpu.a, nullptr, nullptr)); //!
  if (corrected) return finish(gpu.a);
  const CUevent event = gpu.event();
  cuEventRecord(event, gpu.a);
  expect(cuStreamSynchronize(gpu.a), CUDA_ERROR_ILLEGAL_ADDRESS);
  for (int i = 0; i < 20; ++i) { // each of the events tells of the one fault
    expect(cuEventRecord(event, gpu.b), CUDA_ERROR_ILLEGAL_ADDRESS);
    expect(cuStreamWaitEvent(gpu.a, event, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
  }
}

} // namespace
