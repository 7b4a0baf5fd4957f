// SPDX-License-Identifier: MIT
// Rules of captures and of idle streams that random programs found on a device.
#include "fixture.hpp"

#include <thread>

namespace sim = cuevent::sim;

namespace {

constexpr auto global = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr auto relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
constexpr auto unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
constexpr auto invalidated = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
constexpr auto not_ready = CUDA_ERROR_NOT_READY;

struct RuleFixture : Fixture {
  bool active(CUstream of) const {
    CUstreamCaptureStatus status{};
    OK(cu.is_capturing(of, &status));
    return status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  }
  CUresult end(CUstream of) const {
    CUgraph graph = nullptr;
    return cu.end_capture(of, &graph);
  }
  CUgraphExec empty_exec() const {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    OK(cu.graph_create(&graph, 0));
    OK(cu.instantiate(&exec, graph, 0));
    return exec;
  }
  template <class Function>
  Function call(const char* name, int version) const {
    return cu.find<Function>(name, version);
  }
};

} // namespace

TEST_CASE("an external wait in a capture for an event of a finished capture invalidates the capture") {
  RuleFixture f;
  const CUevent captured = f.event();
  OK(f.cu.begin_capture(f.stream, relaxed));
  OK(f.cu.event_record(captured, f.stream));
  OK(f.end(f.stream));
  OK(f.cu.begin_capture(f.stream, relaxed));
  CHECK(f.cu.stream_wait(f.stream, captured, CU_EVENT_WAIT_EXTERNAL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(f.end(f.stream) == invalidated);
}

TEST_CASE("a capture of the legacy stream is unsupported, and harms the capture of a blocking stream") {
  RuleFixture f;
  CHECK(f.cu.begin_capture(CU_STREAM_LEGACY, relaxed) == unsupported);
  for (const CUstream blocking : {f.new_stream(CU_STREAM_DEFAULT), CU_STREAM_PER_THREAD}) {
    OK(f.cu.begin_capture(blocking, relaxed));
    CHECK(f.cu.begin_capture(nullptr, relaxed) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK(f.end(blocking) == invalidated);
  }
}

TEST_CASE("cuCtxSynchronize breaks the captures of its own context only, in every mode") {
  RuleFixture f;
  CUcontext other = nullptr;
  OK(f.cu.begin_capture(f.stream, global));
  OK(f.cu.context_create(&other, 0, 0));
  CHECK(f.cu.context_synchronize() == CUDA_SUCCESS);
  CHECK(f.active(f.stream));
  OK(f.cu.context_pop(&other));
  CUstreamCaptureMode mode = relaxed;
  OK(f.cu.exchange_mode(&mode));
  CHECK(f.cu.context_synchronize() == unsupported);
  OK(f.cu.exchange_mode(&mode));
  CHECK(f.end(f.stream) == invalidated);
}

TEST_CASE("the priority of a capturing stream may be asked for, its flags may not") {
  RuleFixture f;
  const auto get_priority = f.call<PFN_cuStreamGetPriority_v5050>("cuStreamGetPriority", 5050);
  const auto get_flags = f.call<PFN_cuStreamGetFlags_v5050>("cuStreamGetFlags", 5050);
  int priority = 0;
  unsigned flags = 0;
  OK(f.cu.begin_capture(f.stream, relaxed));
  CHECK(get_priority(f.stream, &priority) == CUDA_SUCCESS);
  CHECK(f.active(f.stream));
  CHECK(get_flags(f.stream, &flags) == unsupported);
  CHECK(get_priority(f.stream, &priority) == invalidated);
  CHECK(f.end(f.stream) == invalidated);
}

TEST_CASE("a graph launch into an invalidated capture is unsupported, as into an active one") {
  RuleFixture f;
  const CUgraphExec exec = f.empty_exec();
  OK(f.cu.begin_capture(f.stream, relaxed));
  CHECK(f.cu.graph_launch(exec, f.stream) == unsupported);
  CHECK(f.cu.graph_launch(exec, f.stream) == unsupported);
}

TEST_CASE("a global capture forbids its thread to destroy an exec, and nobody to destroy a graph") {
  RuleFixture f;
  const CUgraphExec exec = f.empty_exec();
  CUgraph graph = nullptr;
  OK(f.cu.graph_create(&graph, 0));
  OK(f.cu.begin_capture(f.stream, global));
  CHECK(f.cu.graph_destroy(graph) == CUDA_SUCCESS);
  CHECK(f.active(f.stream));
  CHECK(f.cu.exec_destroy(exec) == unsupported);
  CHECK(f.end(f.stream) == invalidated);
  OK(f.cu.begin_capture(f.stream, relaxed));
  std::thread([&] { CHECK(f.cu.exec_destroy(exec) == CUDA_SUCCESS); }).join();
  CHECK(f.end(f.stream) == CUDA_SUCCESS);
}

TEST_CASE("the wait node of an exec takes no event of another context, the node of a graph does") {
  RuleFixture f;
  const auto set =
      f.call<PFN_cuGraphExecEventWaitNodeSetEvent_v11010>("cuGraphExecEventWaitNodeSetEvent", 11010);
  const auto set_in_graph =
      f.call<PFN_cuGraphEventWaitNodeSetEvent_v11010>("cuGraphEventWaitNodeSetEvent", 11010);
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  OK(f.cu.graph_create(&graph, 0));
  OK(f.cu.add_wait_node(&node, graph, nullptr, 0, f.event()));
  OK(f.cu.instantiate(&exec, graph, 0));
  const CUevent own = f.event();
  CUcontext other = nullptr;
  OK(f.cu.context_create(&other, 0, 0));
  const CUevent foreign = f.event();
  CHECK(set(exec, node, own) == CUDA_SUCCESS);
  CHECK(set(exec, node, foreign) == CUDA_ERROR_INVALID_VALUE);
  CHECK(set_in_graph(node, foreign) == CUDA_SUCCESS);
}

#if CUDA_VERSION >= 12050
TEST_CASE("a stream is idle while all that it has is the held record of an untimed event") {
  RuleFixture f;
  const auto wait_in_context = f.call<PFN_cuCtxWaitEvent_v12050>("cuCtxWaitEvent", 12050);
  const CUstream gate = f.new_stream();
  const CUevent opened = f.event(CU_EVENT_DISABLE_TIMING);
  sim::hold(gate);
  OK(f.cu.event_record(opened, gate));
  OK(wait_in_context(f.context, opened));
  const CUevent event = f.event(CU_EVENT_DISABLE_TIMING);
  OK(f.cu.event_record(event, f.stream));
  CHECK(f.cu.event_query(event) == not_ready);
  CHECK(f.cu.stream_query(f.stream) == CUDA_SUCCESS);
  for (const unsigned flags : {0u, unsigned{CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS}}) {
    const CUstream other = f.new_stream();
    const CUevent seen = f.event(flags);
    OK(f.cu.event_record(seen, other));
    CHECK(f.cu.event_query(seen) == not_ready);
    CHECK(f.cu.stream_query(other) == not_ready);
  }
  OK(f.cu.stream_wait(f.stream, event, 0)); // a wait is noticed
  CHECK(f.cu.stream_query(f.stream) == not_ready);
  sim::release(gate);
  sim::run_until_idle();
  CHECK(f.cu.event_query(event) == CUDA_SUCCESS);
  CHECK(f.cu.stream_query(f.stream) == CUDA_SUCCESS);
}

TEST_CASE("a wait of a whole context comes after a pending record of it, even for a complete event") {
  RuleFixture f;
  const auto record_context = f.call<PFN_cuCtxRecordEvent_v12050>("cuCtxRecordEvent", 12050);
  const auto wait_in_context = f.call<PFN_cuCtxWaitEvent_v12050>("cuCtxWaitEvent", 12050);
  const CUstream held = f.new_stream();
  const CUevent complete = f.event(), of_context = f.event(), later = f.event();
  OK(f.cu.event_record(complete, f.stream));
  OK(f.cu.event_synchronize(complete));
  sim::hold(held);
  OK(f.cu.event_record(f.event(), held));
  OK(wait_in_context(f.context, complete)); // no record of the context is pending yet
  OK(f.cu.event_record(later, f.stream));
  sim::run_until_idle();
  CHECK(f.cu.event_query(later) == CUDA_SUCCESS);

  OK(record_context(f.context, of_context));
  OK(wait_in_context(f.context, f.event())); // a wait for an event that was never recorded has no effect
  OK(f.cu.event_record(later, f.stream));
  sim::run_until_idle();
  CHECK(f.cu.event_query(later) == CUDA_SUCCESS);
  OK(wait_in_context(f.context, complete));
  OK(f.cu.event_record(later, f.stream));
  sim::run_until_idle();
  CHECK(f.cu.event_query(later) == not_ready);
  sim::release(held);
  OK(f.cu.event_synchronize(later));
}
#endif

TEST_CASE("a stream is idle while the legacy stream holds its only record") {
  RuleFixture f;
  const CUstream gate = f.new_stream(CU_STREAM_DEFAULT);
  const CUstream blocking = f.new_stream(CU_STREAM_DEFAULT);
  sim::hold(gate);
  OK(f.work(gate));
  OK(f.work(CU_STREAM_LEGACY)); // after the gate, and before all that follows
  const CUevent event = f.event(CU_EVENT_DISABLE_TIMING);
  OK(f.cu.event_record(event, CU_STREAM_PER_THREAD));
  CHECK(f.cu.event_query(event) == not_ready);
  CHECK(f.cu.stream_query(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
  OK(f.cu.event_record(event, blocking));
  CHECK(f.cu.event_query(event) == not_ready);
  CHECK(f.cu.stream_query(blocking) == CUDA_SUCCESS);
  sim::release(gate);
}

TEST_CASE("a second launch of an exec without nodes does not wait for the first") {
  RuleFixture f;
  const CUgraphExec exec = f.empty_exec();
  const CUstream other = f.new_stream();
  sim::hold(f.stream);
  OK(f.work(f.stream));
  OK(f.cu.graph_launch(exec, f.stream));
  OK(f.cu.graph_launch(exec, other));
  sim::advance(std::chrono::hours(1));
  CHECK(f.cu.stream_query(other) == CUDA_SUCCESS);
  CHECK(f.cu.stream_query(f.stream) == not_ready);
  sim::release(f.stream);
}
