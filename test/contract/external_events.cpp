// SPDX-License-Identifier: MIT
// Events and stream capture: external records in graphs, and what invalidates a capture.
#include "capture.hpp"
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/driver_event.hpp>
#include <cuevent/graph_exec.hpp>

#include <catch2/generators/catch_generators.hpp>

#include <chrono>

using namespace cuevent;
using namespace test;

namespace {

constexpr CUstreamCaptureStatus active = CU_STREAM_CAPTURE_STATUS_ACTIVE;

} // namespace

TEST_CASE_METHOD(Fixture, "each launch of a graph records its external events again, with new times") {
  const Stream stream(context), gated(context);
  DriverEvent start(context, EventFlags::timing), end(context, EventFlags::timing), go(context);
  Capture capture(stream);
  start.record(stream, RecordFlags::external);
  end.record(stream, RecordFlags::external);
  CHECK(start.query_relaxed()); // no launch has recorded it yet
  REQUIRE(capture.end() == CUDA_SUCCESS);
  GraphExec graph = Graph::borrow(context, capture.graph()).instantiate();
  CHECK(end.query());
  CHECK_THROWS_AS(start.elapsed_time(end), NeverRecorded);

  for (int launch = 0; launch < 3; ++launch) {
    CAPTURE(launch);
    Gate gate(gated);
    go.record(gated);
    go.wait(stream);
    graph.launch(stream);
    CHECK_FALSE(end.query());
    CHECK_THROWS_AS(start.elapsed_time(end), NotReady);
    gate.open();
    end.synchronize();
    CHECK(start.elapsed_time(end).count() > 0);
  }
}

TEST_CASE_METHOD(Fixture, "an external event is pending until its node has run in the last launch") {
  const Stream stream(context), gated(context);
  DriverEvent event(context), ran(context), go(context);
  Capture capture(stream);
  event.record(stream, RecordFlags::external);
  REQUIRE(capture.end() == CUDA_SUCCESS);
  GraphExec graph = Graph::borrow(context, capture.graph()).instantiate();
  Gate gate(gated);
  go.record(gated);
  graph.launch(stream);
  ran.record(stream);
  go.wait(stream);
  graph.launch(stream);
  ran.synchronize();
  CHECK_FALSE(event.query());
  gate.open();
  event.synchronize();
  CHECK(event.query());
}

TEST_CASE_METHOD(Fixture, "a captured external wait holds back every launch of the graph") {
  const Stream stream(context), gated(context);
  DriverEvent outside(context), end(context);
  outside.record(gated);
  Capture capture(stream);
  outside.wait(stream, WaitFlags::external);
  CHECK(capture.status() == active);
  REQUIRE(capture.end() == CUDA_SUCCESS);
  GraphExec graph = Graph::borrow(context, capture.graph()).instantiate();

  for (int launch = 0; launch < 2; ++launch) {
    Gate gate(gated);
    outside.record(gated);
    graph.launch(stream);
    end.record(stream);
    CHECK_FALSE(end.query());
    gate.open();
    end.synchronize();
  }
}

TEST_CASE_METHOD(Fixture, "plain records and waits fork a capture to another stream and join it back") {
  const Stream origin(context), branch(context);
  DriverEvent fork(context), join(context), in_branch(context, EventFlags::timing);
  Capture capture(origin);
  fork.record(origin);
  fork.wait(branch);
  in_branch.record(branch, RecordFlags::external); // the branch does some work
  join.record(branch);
  join.wait(origin);
  REQUIRE(capture.end() == CUDA_SUCCESS);
  GraphExec graph = Graph::borrow(context, capture.graph()).instantiate();
  graph.launch(origin);
  in_branch.synchronize();
  CHECK(in_branch.elapsed_time(in_branch).count() == 0); // it was recorded
}

TEST_CASE_METHOD(StreamFixture,
                 "an event recorded in a capture marks no work, during the capture and after it") {
  DriverEvent event(context, EventFlags::timing);
  {
    Capture capture(stream, GENERATE(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                     CU_STREAM_CAPTURE_MODE_RELAXED));
    event.record(stream);
    CHECK(capture.status() == active);
    REQUIRE(capture.end() == CUDA_SUCCESS);
  }
  CHECK_THROWS_AS(event.query(), RecordedInCapture);
  CHECK_THROWS_AS(event.query_relaxed(), RecordedInCapture);
  CHECK_THROWS_AS(event.synchronize(), RecordedInCapture);
  CHECK_THROWS_AS(event.synchronize_for(1s), RecordedInCapture);
  CHECK_THROWS_AS(event.wait(stream), RecordedInCapture);
  CHECK_THROWS_AS(event.elapsed_time(event), RecordedInCapture);

  event.record(stream); // a record outside makes the event usable again
  event.synchronize();
  CHECK(event.query());
  CHECK(event.elapsed_time(event).count() == 0);
}

TEST_CASE_METHOD(Fixture, "recording an event of an active capture outside it leaves the capture unharmed") {
  const Stream stream(context), other(context);
  DriverEvent event(context);
  Capture capture(stream);
  event.record(stream);
  event.record(other);
  CHECK(event.synchronize_for(10s));
  CHECK(capture.status() == active);
  CHECK(capture.end() == CUDA_SUCCESS);
  CHECK(event.query());
}
