// SPDX-License-Identifier: MIT
// StreamCapture, CaptureModeGuard, capture_status, and the flag that depends on whether the stream
// captures.
#include "any_mode.hpp"
#include "destroyed.hpp"
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/retired_events.hpp>

#include <catch2/matchers/catch_matchers.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(Fixture, "a StreamCapture captures only its own stream, until it ends") {
  const Stream stream(context), other(context);
  DriverEvent event(context);
  CHECK(capture_status(context, stream) == CaptureStatus::none);
  StreamCapture capture(context, stream, any_mode());
  CHECK(capture_status(context, stream) == CaptureStatus::active);
  CHECK(capture_status(context, other) == CaptureStatus::none);
  CHECK(capture_status(context, CU_STREAM_LEGACY) == CaptureStatus::none);
  CHECK(capture_status(context, CU_STREAM_PER_THREAD) == CaptureStatus::none);
  event.record(stream, RecordFlags::external);
  const Graph graph = capture.end();
  CHECK(capture_status(context, stream) == CaptureStatus::none);
  CHECK(graph.context() == context);
  CHECK(graph.event_nodes().records.size() == 1);
  CHECK(test::context_stack().empty());
}

TEST_CASE_METHOD(Fixture, "a thread's default stream can be captured with no context current") {
  DriverEvent event(context);
  StreamCapture capture(context, CU_STREAM_PER_THREAD);
  CHECK(capture_status(context, CU_STREAM_PER_THREAD) == CaptureStatus::active);
  event.record(CU_STREAM_PER_THREAD, RecordFlags::external_in_capture);
  CHECK(capture.end().event_nodes().records.size() == 1);
  CHECK(capture_status(context, CU_STREAM_PER_THREAD) == CaptureStatus::none);
}

TEST_CASE_METHOD(Fixture, "capturing the legacy stream throws and names the streams that can be captured") {
  CHECK_THROWS_AS(StreamCapture(context, CU_STREAM_LEGACY), StreamCaptureUnsupported);
  CHECK_THROWS_WITH(StreamCapture(context, CU_STREAM_LEGACY), ContainsSubstring("CU_STREAM_NON_BLOCKING"));
  CHECK(capture_status(context, CU_STREAM_LEGACY) == CaptureStatus::none);
}

TEST_CASE_METHOD(StreamFixture, "a second capture of a stream is refused and leaves the first unchanged") {
  StreamCapture first(context, stream, any_mode());
  CHECK_THROWS_AS(StreamCapture(context, stream), IllegalState);
  CHECK_THROWS_WITH(StreamCapture(context, stream), ContainsSubstring("being captured already"));
  CHECK(capture_status(context, stream) == CaptureStatus::active);
  CHECK(first.end());
}

TEST_CASE_METHOD(Fixture, "an abandoned capture leaves the stream and the thread usable, however it ended") {
  const Stream stream(context), branch(context);
  DriverEvent event(context), fork(context);
  const CaptureMode mode = any_mode();
  {
    const StreamCapture abandoned(context, stream, mode);
    SECTION("active") { event.record(stream, RecordFlags::external); }
    SECTION("invalidated") {
      event.record(stream);
      CHECK_THROWS_AS(event.query_relaxed(), CapturedEvent);
      CHECK(capture_status(context, stream) == CaptureStatus::invalidated);
    }
    SECTION("unjoined") {
      fork.record(stream);
      fork.wait(branch);
      event.record(branch, RecordFlags::external);
      CHECK(capture_status(context, branch) == CaptureStatus::active);
    }
  }
  CHECK(capture_status(context, stream) == CaptureStatus::none);
  CHECK(capture_status(context, branch) == CaptureStatus::none);
  event.record(stream);
  event.synchronize(); // would be refused if the thread were still capturing
  StreamCapture again(context, stream, mode);
  CHECK(again.end());
  CHECK(take_reports().empty());
}

TEST_CASE_METHOD(Fixture, "the error that unwinds a capture reaches the caller") {
  const Stream stream(context), other(context);
  DriverEvent outside(context);
  outside.record(other);
  const auto capture_with_an_error = [&] {
    const StreamCapture capture(context, stream);
    outside.wait(stream);
  };
  CHECK_THROWS_AS(capture_with_an_error(), StreamCaptureIsolation);
  CHECK(take_reports().empty());
  CHECK(capture_status(context, stream) == CaptureStatus::none);
  outside.synchronize();
}

TEST_CASE_METHOD(StreamFixture, "a capture abandoned on another thread is ended and reported") {
  std::optional<StreamCapture> capture;
  capture.emplace(context, stream, CaptureMode::global);
  std::thread([&] { capture.reset(); }).join();
  CHECK(take_reports() == std::vector<std::string>{"cuStreamEndCapture 908"});
  CHECK(capture_status(context, stream) == CaptureStatus::none);
  capture.emplace(context, stream, CaptureMode::global);
  CHECK(capture->end());
}

TEST_CASE_METHOD(StreamFixture, "an event given to a capture lives as long as the graph and its execs") {
  const int before = live_handles().events;
  {
    StreamCapture capture(context, stream);
    const DriverEvent start = capture.record(DriverEvent(context, EventFlags::timing), stream);
    DriverEvent given(context, EventFlags::timing);
    CUevent const handle = given.native_handle();
    const DriverEvent end = capture.record(std::move(given), stream);
    CHECK(end.native_handle() == handle);
    CHECK(end.flags() == EventFlags::timing);
    CHECK(live_handles().events == before + 2);

    std::optional<Graph> graph(capture.end());
    GraphExec exec = graph->instantiate();
    graph.reset();
    CHECK(live_handles().events == before + 2);
    exec.launch(stream);
    CHECK(end.synchronize_for(1min));
    CHECK(start.elapsed_time(end).count() > 0);
  }
  CHECK(destroyed_down_to(before, destroy_retired));
}

TEST_CASE_METHOD(Fixture, "external_in_capture is external on a captured stream and plain on any other") {
  const Stream stream(context), other(context);
  DriverEvent event(context, EventFlags::timing), waited(context);
  waited.record(other);
  StreamCapture capture(context, stream, any_mode());
  event.record(stream, RecordFlags::external_in_capture);
  waited.wait(stream, WaitFlags::external_in_capture);
  CHECK_THROWS_AS(event.elapsed_time(event), NeverRecorded); // no launch has recorded it yet
  event.record(other, RecordFlags::external_in_capture);     // this stream is not captured
  waited.wait(other, WaitFlags::external_in_capture);
  CHECK(capture_status(context, stream) == CaptureStatus::active);
  CHECK(capture_status(context, other) == CaptureStatus::none);
  const Graph graph = capture.end();
  const Graph::EventNodes nodes = graph.event_nodes();
  REQUIRE(nodes.records.size() == 1);
  REQUIRE(nodes.waits.size() == 1);
  CHECK(graph.event(nodes.records[0]) == event.native_handle());
  CHECK(graph.event(nodes.waits[0]) == waited.native_handle());
  CHECK(event.synchronize_for(1min));
  CHECK(event.elapsed_time(event).count() == 0); // recorded on the other stream
}

TEST_CASE_METHOD(Fixture, "plain queries and instantiation harm no capture under a relaxed guard") {
  const Stream stream(context), other(context);
  DriverEvent outside(context);
  outside.record(other);
  const Graph empty(context);
  StreamCapture capture(context, stream, any_mode());
  {
    const CaptureModeGuard relaxed(driver);
    outside.synchronize();
    CHECK(outside.query());
    CHECK(empty.instantiate());
  }
  CHECK(capture_status(context, stream) == CaptureStatus::active);
  CHECK(capture.end());
}
