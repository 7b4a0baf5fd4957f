// SPDX-License-Identifier: MIT
// Objects and callbacks that graphs keep, and when they end.
#include "capture.hpp"
#include "eventually.hpp"
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture_info.hpp>
#include <cuevent/end_notice.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/retired_events.hpp>

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

using namespace cuevent;
using namespace test;

namespace {

/// Calls destroy_retired() repeatedly, because the driver releases user objects on a thread of its own.
template <class Condition>
bool after_retired(const Condition& condition) {
  return eventually([&] {
    destroy_retired();
    return condition();
  });
}

/// The driver has had time to release what it would release.
template <class Condition>
bool still(const Condition& condition) {
  std::this_thread::sleep_for(2ms);
  destroy_retired();
  return condition();
}

/// Set to true by a callback that may run after the test has failed.
using Flag = std::shared_ptr<std::atomic<bool>>;
Flag make_flag() { return std::make_shared<std::atomic<bool>>(false); }

} // namespace

TEST_CASE_METHOD(StreamFixture,
                 "an object lives as long as its graph and execs, and ends in destroy_retired") {
  auto object = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = object;
  std::optional<Graph> graph(std::in_place, context);
  DriverEvent event(context);
  graph->add_record(event);
  graph->retain(std::move(object));
  std::optional<GraphExec> exec(graph->instantiate());
  graph.reset();
  exec->launch(stream);
  CHECK(event.synchronize_for(1min));
  CHECK(still([&] { return !watched.expired(); }));
  exec.reset();
  std::this_thread::sleep_for(2ms);
  { const Graph other(context); } // does not end it
  CHECK_FALSE(watched.expired());
  CHECK(after_retired([&] { return watched.expired(); }));
}

TEST_CASE_METHOD(StreamFixture, "an object outlives a launch in flight whose graph and exec are gone") {
  auto object = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = object;
  DriverEvent event(context), after(context);
  {
    Gate gate(stream);
    {
      Graph graph(context);
      graph.add_record(event);
      graph.retain(std::move(object));
      graph.instantiate().launch(stream);
    }
    after.record(stream);
    CHECK(still([&] { return !watched.expired(); }));
  }
  CHECK(after.synchronize_for(1min));
  CHECK(after_retired([&] { return watched.expired(); }));
}

TEST_CASE_METHOD(StreamFixture, "an observer hears of the end of somebody else's graph and its execs") {
  const Flag ended = make_flag();
  DriverEvent event(context);
  {
    test::Capture theirs(stream, GENERATE(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                          CU_STREAM_CAPTURE_MODE_RELAXED));
    event.record(stream, RecordFlags::external);
    capture_info(context, stream).graph().when_destroyed([ended] { *ended = true; });
    CHECK(theirs.status() == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(theirs.end() == CUDA_SUCCESS);
    GraphExec exec = Graph::borrow(context, theirs.graph()).instantiate();
    exec.launch(stream);
    CHECK(event.synchronize_for(1min));
    CHECK(still([&] { return !*ended; }));
  }
  CHECK(after_retired([&] { return ended->load(); }));
}

TEST_CASE_METHOD(StreamFixture, "an observer hears that a capture has ended without a graph") {
  const Flag ended = make_flag();
  DriverEvent inside(context);
  test::Capture theirs(stream);
  capture_info(context, stream).graph().when_destroyed([ended] { *ended = true; });
  inside.record(stream);
  CHECK_THROWS_AS(inside.query_relaxed(), CapturedEvent);
  CHECK(theirs.end() == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(after_retired([&] { return ended->load(); }));
}

TEST_CASE_METHOD(Fixture, "the callback may use the driver, on the thread of destroy_retired") {
  const auto recorded = std::make_shared<DriverEvent>(context);
  const auto thread = std::make_shared<std::atomic<std::thread::id>>();
  {
    Graph graph(context);
    graph.when_destroyed([recorded, thread] {
      recorded->record(CU_STREAM_PER_THREAD);
      *thread = std::this_thread::get_id();
    });
  }
  CHECK(after_retired([&] { return thread->load() == std::this_thread::get_id(); }));
  CHECK(recorded->synchronize_for(1min));
}

TEST_CASE_METHOD(StreamFixture,
                 "a notice is true after the graph, its execs and their launches, and not before") {
  Graph graph(context);
  const DriverEvent event(context);
  graph.add_record(event);
  const EndNotice notice = graph.end_notice();
  GraphExec exec = graph.instantiate();
  DriverEvent after(context);
  {
    Gate gate(stream);
    exec.launch(stream);
    after.record(stream);
    { const Graph gone = std::move(graph); }
    CHECK(still([&] { return !notice.ended(); }));
    { const GraphExec gone = std::move(exec); }
    CHECK(still([&] { return !notice.ended(); }));
    gate.open();
  }
  CHECK(after.synchronize_for(1min));
  CHECK(eventually([&] { return notice.ended(); }));
}

TEST_CASE_METHOD(StreamFixture, "a notice of somebody else's capture is true however the capture ends") {
  EndNotice notice;
  const Stream other(context);
  const bool invalidated = GENERATE(false, true);
  DriverEvent outside(context);
  outside.record(other);
  {
    StreamCapture theirs(context, stream);
    notice = capture_info(context, stream).graph().end_notice();
    if (invalidated) CHECK_THROWS_AS(outside.wait(stream), StreamCaptureIsolation);
  }
  CHECK(eventually([&] { return notice.ended(); }));
}

TEST_CASE_METHOD(StreamFixture, "a graph that has a graph as its child ends the notice of the child") {
  Graph graph(context), parent(context);
  const EndNotice notice = graph.end_notice();
  CUgraphNode node = nullptr;
  REQUIRE(call<PFN_cuGraphAddChildGraphNode_v10000>("cuGraphAddChildGraphNode", 10000)(
              &node, parent.native_handle(), nullptr, 0, graph.native_handle()) == CUDA_SUCCESS);
  { const Graph gone = std::move(graph); }
  CHECK(still([&] { return !notice.ended(); }));
  { const Graph gone = std::move(parent); }
  CHECK(eventually([&] { return notice.ended(); }));
}

TEST_CASE_METHOD(StreamFixture,
                 "a node of a graph that has ended is refused, and the error says to keep the graph") {
  const DriverEvent first(context), second(context);
  GraphExec exec;
  EventRecordNode record;
  EventWaitNode wait;
  {
    Graph graph(context);
    record = graph.add_record(first);
    wait = graph.add_wait(first, {record.native_handle()});
    exec = graph.instantiate();
    exec.set_event(record, second);
  }
  CHECK_THROWS_WITH(exec.set_event(record, first), ContainsSubstring("keep the Graph"));
  CHECK_THROWS_AS(exec.set_event(wait, second), InvalidValue);
  CHECK(exec.try_set_event(record, first) == CUDA_ERROR_INVALID_VALUE);
  exec.launch(stream);
  CHECK(second.synchronize_for(1min));
}
