// SPDX-License-Identifier: MIT
// Waste and leaks, in several shapes.
#include "suite.hpp"

namespace {

MISTAKE_WITH("--cost", events_made_by_a_pool_of_threads,
             "each task of each thread creates an event for one wait") {
  for (int thread = 0; thread < 3; ++thread)
    on_another_thread([&] {
      expect(cuCtxSetCurrent(gpu.context));
      for (int i = 0; i < 60; ++i) {
        CUevent once = nullptr;
        cuEventCreate(&once, CU_EVENT_DISABLE_TIMING); //!
        order(gpu.a, once, gpu.b);
        destroy(once);
      }
    });
}

MISTAKE_WITH("--cost", waits_after_each_launch,
             "the host waits after each submission, though the next needs no result") {
  CUevent done = gpu.event();
  for (int i = 0; i < 120; ++i) {
    slow(gpu.a);
    record(done, gpu.a);
    cuEventSynchronize(done); //!
  }
}

MISTAKE_WITH("--cost", polls_what_is_done,
             "a thread asks again and again for an event that is known to be done") {
  CUevent done = gpu.event();
  record(done, gpu.a);
  expect(cuEventSynchronize(done));
  on_another_thread([&] {
    for (int i = 0; i < 150; ++i)
      cuEventQuery(done); //!
  });
}

MISTAKE_WITH("--cost --stacks all", default_stream_between_blocking_ones,
             "the default stream separates two streams") {
  CUstream blocking = gpu.stream(CU_STREAM_DEFAULT);
  for (int i = 0; i < 150; ++i) {
    gpu.work(blocking);
    gpu.work(nullptr); //!
  }
  finish(blocking);
}

MISTAKE_WITH("--cost", instantiates_in_each_step, "each step captures and instantiates the same graph") {
  for (int i = 0; i < 120; ++i) {
    begin(gpu.a);
    gpu.work(gpu.a);
    CUgraph graph = end(gpu.a);
    CUgraphExec exec = nullptr;
    cuGraphInstantiate(&exec, graph, 0); //!
    launch(exec, gpu.a);
    expect(cuGraphExecDestroy(exec));
    expect(cuGraphDestroy(graph));
  }
}

MISTAKE_WITH("--cost", stream_for_each_task, "each task creates a stream and destroys it") {
  for (int i = 0; i < 120; ++i) {
    CUstream own = nullptr;
    cuStreamCreate(&own, CU_STREAM_NON_BLOCKING); //!
    gpu.work(own);
    finish(own);
    expect(cuStreamDestroy(own));
  }
}

MISTAKE_WITH("--leaks", leaked_exec_of_each_shape,
             "a new exec replaces the old one, which is not destroyed") {
  CUgraphExec exec = nullptr;
  for (int i = 0; i < 4; ++i) {
    begin(gpu.a);
    gpu.work(gpu.a);
    CUgraph graph = end(gpu.a);
    cuGraphInstantiate(&exec, graph, 0); //!
    expect(cuGraphDestroy(graph));
  }
  expect(cuGraphExecDestroy(exec));
}

MISTAKE_WITH("--leaks", leaked_graph_of_a_capture,
             "the graph of a capture is not destroyed once it is instantiated") {
  begin(gpu.a, relaxed);
  gpu.work(gpu.a);
  CUgraph graph = end(gpu.a); //!
  expect(cuGraphExecDestroy(instantiate(graph)));
}

MISTAKE_WITH("--leaks", leaked_context, "a context is left when its library is unloaded") {
  gpu.other_context(); //!
  expect(cuCtxSetCurrent(gpu.context));
}

} // namespace
