// SPDX-License-Identifier: MIT
// Objects and callbacks that graphs keep, and when they end.
#include "capture.hpp"
#include "eventually.hpp"
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture_info.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/retired_events.hpp>

#include <catch2/generators/catch_generators.hpp>

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
