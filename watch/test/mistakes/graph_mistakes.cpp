// SPDX-License-Identifier: MIT
// Ways to be wrong with captures and graphs, in several shapes.
#include "../driver_calls.hpp"

namespace {

// Events of a capture that is over, or in progress.

MISTAKE("recorded-in-capture-only", polls_a_captured_event,
        "a completion queue polls an event that was recorded in a capture") {
  CUevent done = gpu.event();
  begin(gpu.a, thread_local_mode);
  gpu.work(gpu.a);
  record(done, gpu.a);
  CUgraphExec exec = exec_of(end(gpu.a));
  for (int i = 0; i < 3; ++i) {
    launch(exec, gpu.a);
    if (corrected) record(done, gpu.a);
    on_another_thread([&] {
      cuEventQuery(done); //!
    });
  }
}

MISTAKE("recorded-in-capture-only", stream_waits_for_a_captured_event,
        "another stream is to wait for the replay, with an event of the capture") {
  CUevent done = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  record(done, gpu.a);
  launch(exec_of(end(gpu.a)), gpu.a);
  if (corrected) record(done, gpu.a);
  cuStreamWaitEvent(gpu.b, done, 0); //!
  gpu.work(gpu.b);
}

MISTAKE("capture-invalidated", asks_for_an_event_of_an_active_capture,
        "a relaxed thread polls an event of the capture itself") {
  CUevent done = gpu.event();
  in_capture(gpu.a, relaxed, [&] {
    gpu.work(gpu.a);
    record(done, gpu.a);
    on_another_thread([&] {
      if (!corrected) cuEventQuery(done); //!
    });
  });
}

// Calls that a capture does not survive.

MISTAKE("capture-invalidated", other_thread_synchronizes_in_capture,
        "another thread waits for an older event during a global capture") {
  CUevent old = gpu.event();
  record(old, gpu.b);
  in_capture(gpu.a, corrected ? thread_local_mode : global, [&] {
    on_another_thread([&] {
      cuEventSynchronize(old); //!
    });
  });
}

MISTAKE("capture-invalidated", device_synchronize_in_capture,
        "a debug option waits for the whole context, also while something captures") {
  in_capture(gpu.a, relaxed, [&] {
    gpu.work(gpu.a);
    on_another_thread([&] {
      cuCtxSetCurrent(gpu.context);
      if (!corrected) cuCtxSynchronize(); //!
    });
  });
}

MISTAKE("capture-invalidated", stream_flags_in_capture,
        "a library asks for the flags of the stream that it was given") {
  in_capture(gpu.a, relaxed, [&] {
    unsigned flags = 0;
    cuStreamGetFlags(corrected ? gpu.b : gpu.a, &flags); //!
  });
}

MISTAKE("capture-invalidated", exec_destroyed_in_capture,
        "a cache of graphs throws out an old one during a global capture") {
  CUgraphExec old = exec_of(graph_of_work(gpu, gpu.b));
  in_capture(gpu.a, corrected ? relaxed : global, [&] {
    gpu.work(gpu.a);
    cuGraphExecDestroy(old); //!
  });
}

MISTAKE("capture-invalidated", two_captures_meet, "a captured stream waits for an event of another capture") {
  CUevent done = gpu.event();
  begin(gpu.b, relaxed);
  gpu.work(gpu.b);
  record(done, gpu.b);
  in_capture(gpu.a, relaxed, [&] {
    if (!corrected) cuStreamWaitEvent(gpu.a, done, 0); //!
  });
  try_end(gpu.b);
}

MISTAKE("legacy-during-capture", legacy_record_in_capture,
        "an event is recorded on the legacy stream while a blocking stream captures") {
  CUevent done = gpu.event();
  CUstream blocking = gpu.stream(corrected ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
  in_capture(blocking, relaxed, [&] {
    on_another_thread([&] {
      cuCtxSetCurrent(gpu.context);
      cuEventRecord(done, CU_STREAM_LEGACY); //!
    });
  });
}

MISTAKE("legacy-during-capture", copy_in_capture,
        "a synchronous copy from pageable memory in a global capture") {
  unsigned word = 0;
  if (corrected) expect(cuMemcpyHtoD(gpu.memory, &word, sizeof word));
  in_capture(gpu.stream(CU_STREAM_DEFAULT), global, [&] {
    if (!corrected) cuMemcpyHtoD(gpu.memory, &word, sizeof word); //!
  });
}

MISTAKE("refused-call", captures_the_legacy_stream, "a capture is begun on the default stream") {
  const CUstream stream = corrected ? gpu.a : nullptr;
  cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL); //!
  gpu.work(stream);
  try_end(stream);
}

MISTAKE("capture-invalidated", interprocess_event_in_capture,
        "a captured stream waits for an interprocess event") {
  CUevent shared = gpu.event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  record(shared, gpu.b);
  if (corrected) wait(gpu.a, shared);
  in_capture(gpu.a, relaxed, [&] {
    if (!corrected) cuStreamWaitEvent(gpu.a, shared, 0); //!
  });
}

#if CUDA_VERSION >= 12050
MISTAKE("capture-invalidated", context_record_in_capture,
        "a profiler records an event of the whole context during a capture") {
  CUevent all = gpu.event();
  in_capture(gpu.a, relaxed, [&] {
    gpu.work(gpu.a);
    if (!corrected) cuCtxRecordEvent(gpu.context, all); //!
  });
}
#endif

MISTAKE("capture-invalidated", wait_for_old_work_in_relaxed_capture,
        "a forked stream of a relaxed capture waits for an event of before") {
  CUevent old = gpu.event(), forked = gpu.event();
  record(old, gpu.stream());
  in_capture(gpu.a, relaxed, [&] {
    gpu.work(gpu.a);
    order(gpu.a, forked, gpu.b);
    cuStreamWaitEvent(gpu.b, old, corrected ? CU_EVENT_WAIT_EXTERNAL : CU_EVENT_WAIT_DEFAULT); //!
    if (corrected) order(gpu.b, forked, gpu.a);
  });
}

// Ends of captures.

MISTAKE("capture-invalidated", ends_on_the_fork, "the capture is ended on the stream that was forked") {
  CUevent forked = gpu.event();
  begin(gpu.a);
  order(gpu.a, forked, gpu.b);
  gpu.work(gpu.b);
  if (corrected) order(gpu.b, forked, gpu.a);
  try_end(corrected ? gpu.a : gpu.b); //!
}

MISTAKE("capture-unjoined", works_after_the_join, "the forked stream gets more work after it was joined") {
  CUevent forked = gpu.event(), joined = gpu.event();
  begin(gpu.a, relaxed);
  order(gpu.a, forked, gpu.b);
  gpu.work(gpu.b);
  order(gpu.b, joined, gpu.a);
  if (!corrected) gpu.work(gpu.b);
  try_end(gpu.a); //!
}

MISTAKE("capture-unjoined", external_events_do_not_join,
        "a fork is joined by an external record, which joins nothing") {
  CUevent forked = gpu.event(), joined = gpu.event();
  begin(gpu.a, thread_local_mode);
  order(gpu.a, forked, gpu.b);
  gpu.work(gpu.b);
  const unsigned flags = corrected ? CU_EVENT_RECORD_DEFAULT : CU_EVENT_RECORD_EXTERNAL;
  expect(cuEventRecordWithFlags(joined, gpu.b, flags));
  expect(cuStreamWaitEvent(gpu.a, joined, corrected ? CU_EVENT_WAIT_DEFAULT : CU_EVENT_WAIT_EXTERNAL));
  try_end(gpu.a); //!
}

MISTAKE("capture-unjoined", fork_of_a_fork,
        "the first fork is joined, and the stream that it forked is not") {
  CUevent first = gpu.event(), second = gpu.event(), joined = gpu.event();
  CUstream third = gpu.stream();
  begin(gpu.a);
  order(gpu.a, first, gpu.b);
  order(gpu.b, second, third);
  gpu.work(third);
  if (corrected) order(third, second, gpu.b);
  gpu.work(gpu.b);
  order(gpu.b, joined, gpu.a);
  try_end(gpu.a); //!
}

MISTAKE("refused-call", ends_twice,
        "a helper has ended the capture, and its caller ends it again and takes no graph") {
  begin(gpu.a, relaxed);
  gpu.work(gpu.a);
  on_another_thread([&] { expect(cuGraphDestroy(end(gpu.a))); });
  if (!corrected) try_end(gpu.a); //!
}

MISTAKE("capture-never-ended", thread_ends_in_its_capture,
        "a thread ends without ending the capture of its stream") {
  on_another_thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    CUstream own = gpu.stream();
    cuStreamBeginCapture(own, thread_local_mode); //!
    gpu.work(own);
    if (corrected) try_end(own);
  });
  gpu.work(gpu.a);
}

// Graphs and their events.

MISTAKE("destroyed-in-graph", destroyed_event_of_a_node,
        "an event that a graph's node records is destroyed between two launches") {
  CUevent done = gpu.event();
  CUgraphExec exec = exec_of(graph_of_record(done));
  launch(exec, gpu.a);
  finish(gpu.a);
  if (!corrected) cuEventDestroy(done); //!
  cuGraphLaunch(exec, gpu.a);
}

MISTAKE("destroyed-in-graph", destroyed_event_of_a_wait_node,
        "an event for which a graph's node waits is destroyed by another thread") {
  CUevent ready = gpu.event();
  record(ready, gpu.b);
  begin(gpu.a);
  expect(cuStreamWaitEvent(gpu.a, ready, CU_EVENT_WAIT_EXTERNAL));
  CUgraphExec exec = exec_of(end(gpu.a));
  on_another_thread([&] {
    if (!corrected) cuEventDestroy(ready); //!
  });
  cuGraphLaunch(exec, gpu.b);
}

MISTAKE("destroyed-in-graph", destroyed_event_of_a_clone, "the clone of a graph still refers to the event") {
  CUevent done = gpu.event();
  CUgraph graph = graph_of_record(done), clone = nullptr;
  expect(cuGraphClone(&clone, graph));
  expect(cuGraphDestroy(graph));
  CUgraphExec exec = instantiate(clone);
  if (!corrected) cuEventDestroy(done); //!
  cuGraphLaunch(exec, gpu.a);
}

MISTAKE("destroyed-in-graph", destroyed_event_of_a_changed_exec,
        "an exec was given a second event, which is then destroyed") {
  CUevent first = gpu.event(), second = gpu.event();
  CUgraphNode node = nullptr;
  CUgraphExec exec = instantiate(graph_of_record(first, &node));
  expect(cuGraphExecEventRecordNodeSetEvent(exec, node, second));
  launch(exec, gpu.a);
  finish(gpu.a);
  cuEventDestroy(corrected ? first : second); //!
  cuGraphLaunch(exec, gpu.a);
}

MISTAKE("destroyed-in-graph", destroyed_event_of_an_updated_exec,
        "an update brought a second event into an exec, which is then destroyed") {
  CUevent first = gpu.event(), second = gpu.event();
  CUgraphExec exec = exec_of(graph_of_record(first));
  CUgraph graph = graph_of_record(second);
  CUgraphExecUpdateResultInfo info;
  expect(cuGraphExecUpdate(exec, graph, &info));
  cuEventDestroy(corrected ? first : second); //!
  cuGraphLaunch(exec, gpu.a);
}

MISTAKE("use-after-destroy", launches_a_destroyed_exec, "a cache has destroyed the exec that is launched") {
  CUgraphExec exec = exec_of(graph_of_work(gpu, gpu.a));
  launch(exec, gpu.a);
  finish(gpu.a);
  if (!corrected) cuGraphExecDestroy(exec); //!
  cuGraphLaunch(exec, gpu.a);               //!
}

MISTAKE("use-after-destroy", uploads_on_a_destroyed_stream, "a graph is uploaded on a stream that is gone") {
  const CUgraphExec exec = exec_of(graph_of_work(gpu, gpu.a));
  const CUstream stream = gpu.stream();
  if (!corrected) cuStreamDestroy(stream); //!
  cuGraphUpload(exec, stream);             //!
}

MISTAKE("use-after-destroy", asks_whether_a_destroyed_stream_captures,
        "an allocator asks whether a stream is being captured, and the stream is gone") {
  const CUstream stream = gpu.stream();
  gpu.work(stream);
  if (!corrected) cuStreamDestroy(stream); //!
  CUstreamCaptureStatus status{};
  cuStreamIsCapturing(stream, &status); //!
}

MISTAKE("use-after-destroy", asks_for_the_capture_of_a_destroyed_stream,
        "a library asks for the capture of a stream that is gone") {
  const CUstream stream = gpu.stream();
  if (!corrected) cuStreamDestroy(stream); //!
  ask_for_capture(stream);                 //!
}

MISTAKE("record-in-other-context use-after-error", launch_records_an_event_of_another_context,
        "a launch records an event of another context, and a stream waits for it") {
  const CUfunction function = kernel("step");
  const CUevent done = gpu.event(), other = gpu.event();
  if (!corrected) gpu.other_context();
  const CUevent used = corrected ? other : gpu.event();
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
  attribute.value.programmaticEvent.event = used;
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = gpu.a;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cuLaunchKernelEx(&config, function, nullptr, nullptr); //!
  cuStreamWaitEvent(gpu.b, used, 0);
  record(done, gpu.a);
}

MISTAKE("record-in-other-context", node_gets_an_event_of_another_context,
        "the record node of an executable graph gets an event of another context") {
  CUgraphNode node = nullptr;
  const CUgraph graph = graph_of_record(gpu.event(), &node);
  const CUgraphExec exec = instantiate(graph);
  const CUevent near = gpu.event();
  if (!corrected) gpu.other_context();
  cuGraphExecEventRecordNodeSetEvent(exec, node, corrected ? near : gpu.event()); //!
  launch(exec, gpu.a);
}

MISTAKE("use-after-destroy", instantiates_a_destroyed_graph,
        "a graph is instantiated after it was destroyed") {
  CUgraph graph = graph_of_work(gpu, gpu.a);
  if (!corrected) cuGraphDestroy(graph); //!
  CUgraphExec exec = nullptr;
  cuGraphInstantiate(&exec, graph, 0); //!
}

MISTAKE("use-after-error", update_was_refused,
        "an exec cannot be updated to another shape, and the old graph runs on") {
  CUgraphExec exec = exec_of(graph_of_work(gpu, gpu.a));
  CUgraph larger = graph_of_work(gpu, gpu.a, corrected ? 1 : 2);
  CUgraphExecUpdateResultInfo info;
  cuGraphExecUpdate(exec, larger, &info); //!
  launch(exec, gpu.a);
}

MISTAKE("elapsed-never-recorded", time_before_the_launch,
        "the events of a graph are asked for the time before it was launched") {
  CUevent start = gpu.event(0), stop = gpu.event(0);
  begin(gpu.a);
  expect(cuEventRecordWithFlags(start, gpu.a, CU_EVENT_RECORD_EXTERNAL));
  gpu.work(gpu.a);
  expect(cuEventRecordWithFlags(stop, gpu.a, CU_EVENT_RECORD_EXTERNAL));
  CUgraphExec exec = exec_of(end(gpu.a));
  if (corrected) launch(exec, gpu.a), finish(gpu.a);
  time_between(start, stop); //!
}

} // namespace
