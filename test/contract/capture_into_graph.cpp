// SPDX-License-Identifier: MIT
// Captures into a graph that exists already.
#include "destroyed.hpp"
#include "stream.hpp"

#include <cuevent/capture_info.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/retired_events.hpp>

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

using namespace test;
using namespace cuevent;

namespace {

constexpr int since = 12030;

} // namespace

TEST_CASE_METHOD(Fixture, "what is captured into a graph comes after the given nodes") {
  test::need(since);
  const Stream stream(context);
  DriverEvent before(context, EventFlags::timing), inside(context, EventFlags::timing);
  Graph graph(context);
  CUgraphNode const first = graph.add_record(before).native_handle();
  {
    StreamCapture capture(context, stream, graph, {first},
                          GENERATE(CaptureMode::global, CaptureMode::per_thread, CaptureMode::relaxed));
    const CaptureInfo info = capture_info(context, stream);
    CHECK(info.graph().native_handle() == graph.native_handle());
    CHECK(info.frontier() == std::vector{first});
    inside.record(stream, RecordFlags::external);
    const Graph same = capture.end();
    CHECK(same.native_handle() == graph.native_handle());
  }
  CHECK(capture_status(context, stream) == CaptureStatus::none);
  CHECK(graph.event_nodes().records.size() == 2);
  graph.instantiate().launch(stream);
  CHECK(inside.synchronize_for(1min));
  CHECK(before.elapsed_time(inside).count() > 0);
}

TEST_CASE_METHOD(Fixture, "a graph can be captured into several times, from several streams") {
  test::need(since);
  const Stream first(context), second(context);
  DriverEvent one(context), two(context);
  Graph graph(context);
  for (const auto& [stream, event] : {std::pair<CUstream, DriverEvent*>{first, &one}, {second, &two}}) {
    StreamCapture capture(context, stream, graph);
    event->record(stream, RecordFlags::external);
    CHECK(capture.end());
  }
  CHECK(graph.event_nodes().records.size() == 2);
  graph.instantiate().launch(first);
  CHECK(one.synchronize_for(1min));
  CHECK(two.synchronize_for(1min));
}

TEST_CASE_METHOD(Fixture, "a thread's default stream can be captured into a graph") {
  test::need(since);
  DriverEvent event(context);
  Graph graph(context);
  StreamCapture capture(context, CU_STREAM_PER_THREAD, graph);
  event.record(CU_STREAM_PER_THREAD, RecordFlags::external_in_capture);
  CHECK(capture.end().event_nodes().records.size() == 1);
  CHECK(test::context_stack().empty());
}

TEST_CASE_METHOD(Fixture, "an abandoned capture leaves in the graph what was captured", "[no-sweep]") {
  test::need(since);
  const Stream stream(context);
  const int before = live_handles().events;
  {
    std::optional<Graph> graph(std::in_place, context);
    CUevent handle = nullptr;
    {
      StreamCapture abandoned(context, stream, *graph);
      handle = abandoned.record(DriverEvent(context), stream).native_handle();
    }
    CHECK(capture_status(context, stream) == CaptureStatus::none);
    const DriverEvent kept = DriverEvent::borrow(context, handle, EventFlags::none);
    REQUIRE(graph->event_nodes().records.size() == 1);
    CHECK(graph->event(graph->event_nodes().records[0]) == handle);
    CHECK(live_handles().events == before + 1);
    GraphExec exec = graph->instantiate();
    graph.reset();
    exec.launch(stream);
    CHECK(kept.synchronize_for(1min));
  }
  CHECK(destroyed_down_to(before, destroy_retired));
}

TEST_CASE_METHOD(Fixture, "an event given to a capture into a graph lives as long as that graph") {
  test::need(since);
  const Stream stream(context);
  const int before = live_handles().events;
  {
    Graph graph(context);
    StreamCapture capture(context, stream, graph);
    const DriverEvent event = capture.record(DriverEvent(context), stream);
    { const Graph borrowed = capture.end(); }
    destroy_retired();
    CHECK(live_handles().events == before + 1);
    CHECK(graph.record_node(event) == graph.event_nodes().records.at(0));
  }
  CHECK(destroyed_down_to(before, destroy_retired));
}

TEST_CASE_METHOD(Fixture, "a capture into a graph that cannot begin changes nothing") {
  test::need(since);
  const Stream stream(context);
  Graph graph(context), other(context);
  DriverEvent event(context);
  CUgraphNode const foreign = other.add_record(event).native_handle();
  CHECK_THROWS_AS(StreamCapture(context, stream, graph, {foreign}), InvalidValue);
  CHECK_THROWS_AS(StreamCapture(context, CU_STREAM_LEGACY, graph), StreamCaptureUnsupported);
  CHECK(capture_status(context, stream) == CaptureStatus::none);
  {
    StreamCapture capture(context, stream);
    CHECK_THROWS_AS(StreamCapture(context, stream, graph), IllegalState);
    CHECK(capture.end());
  }
  CHECK(graph.event_nodes().records.empty());
  CHECK(graph.instantiate());
}

TEST_CASE_METHOD(Fixture, "before CUDA 12.3 a capture into a graph is not supported") {
  if (driver.version() >= since) SKIP("this driver supports it");
  const Stream stream(context);
  Graph graph(context);
  CHECK_THROWS_AS(StreamCapture(context, stream, graph), NotSupported);
  CHECK_THROWS_WITH(StreamCapture(context, stream, graph), ContainsSubstring("needs a driver for CUDA 12.3"));
  CHECK(graph);
}
