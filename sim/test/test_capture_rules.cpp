// SPDX-License-Identifier: MIT
// Rules of captures and of idle streams that the transcript does not ask for. Random programs found most of
// them on a device.
#include "fixture.hpp"

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

TEST_CASE("a wait of the legacy stream for a captured event harms the capture of each blocking stream") {
  RuleFixture f;
  const CUstream blocking = f.new_stream(CU_STREAM_DEFAULT);
  const CUevent captured = f.event();
  OK(f.cu.begin_capture(f.stream, relaxed));
  OK(f.cu.event_record(captured, f.stream));
  OK(f.cu.begin_capture(blocking, relaxed));
  CHECK(f.cu.stream_wait(nullptr, captured, 0) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(!f.active(f.stream));
  CHECK(!f.active(blocking));

  // Next to captures that are all invalidated, the capture of the event is unharmed.
  const CUstream third = f.new_stream();
  OK(f.cu.begin_capture(third, relaxed));
  OK(f.cu.event_record(captured, third));
  CHECK(f.cu.stream_wait(nullptr, captured, 0) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(f.active(third));
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
