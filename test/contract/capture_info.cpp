// SPDX-License-Identifier: MIT
// capture_info, in captures of one's own and of others.
#include "any_mode.hpp"
#include "capture.hpp"
#include "destroyed.hpp"
#include "stream.hpp"

#include <cuevent/capture_info.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/retired_events.hpp>

#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(StreamFixture, "capture_info of a stream that is not captured says so and no more") {
  CUstream const asked =
      GENERATE_REF(CUstream(stream), CU_STREAM_PER_THREAD, CU_STREAM_LEGACY, CUstream(nullptr));
  const CaptureInfo info = capture_info(context, asked);
  CHECK(info.status() == CaptureStatus::none);
  CHECK(info.id() == 0);
  CHECK(info.frontier().empty());
  CHECK_THROWS_AS(info.graph(), IllegalState);
  CHECK(test::context_stack().empty());
}

TEST_CASE_METHOD(StreamFixture, "the frontier is what the stream's next work follows") {
  DriverEvent first(context), second(context);
  StreamCapture capture(context, stream, any_mode());
  const CaptureInfo at_first = capture_info(context, stream);
  CHECK(at_first.status() == CaptureStatus::active);
  CHECK(at_first.id() != 0);
  CHECK(at_first.frontier().empty());
  CHECK(at_first.graph().event_nodes().records.empty());

  first.record(stream, RecordFlags::external);
  const CaptureInfo later = capture_info(context, stream);
  CHECK(later.id() == at_first.id());
  CHECK(later.graph().native_handle() == at_first.graph().native_handle());
  REQUIRE(later.frontier().size() == 1);
  CHECK(later.frontier_edges().empty());
  CHECK(later.frontier()[0] == later.graph().record_node(first).native_handle());

  second.record(stream, RecordFlags::external);
  const CaptureInfo last = capture_info(context, stream);
  CHECK(last.frontier() == std::vector{last.graph().record_node(second).native_handle()});
  CHECK(later.frontier().size() == 1); // a copy
  CHECK(capture_status(context, stream) == CaptureStatus::active);
  const Graph graph = capture.end();
  CHECK(graph.native_handle() == at_first.graph().native_handle());
  CHECK(capture_info(context, stream).status() == CaptureStatus::none);
}

TEST_CASE_METHOD(Fixture, "a forked stream has the capture of its origin, and another stream has none") {
  const Stream stream(context), fork(context), bystander(context);
  DriverEvent forked(context), joined(context), mark(context);
  StreamCapture capture(context, stream, any_mode());
  const CaptureInfo origin = capture_info(context, stream);
  CHECK(capture_info(context, fork).status() == CaptureStatus::none);
  forked.record(stream);
  forked.wait(fork);
  mark.record(fork, RecordFlags::external);
  const CaptureInfo branch = capture_info(context, fork);
  CHECK(branch.id() == origin.id());
  CHECK(branch.graph().native_handle() == origin.graph().native_handle());
  CHECK(branch.frontier() == std::vector{branch.graph().record_node(mark).native_handle()});
  CHECK(capture_info(context, stream).frontier().empty());
  CHECK(capture_info(context, bystander).status() == CaptureStatus::none);
  joined.record(fork);
  joined.wait(stream);
  const std::vector<CUgraphNode> after = capture_info(context, stream).frontier();
  CHECK(std::find(after.begin(), after.end(), branch.frontier().at(0)) != after.end());
  CHECK(capture.end());
}

TEST_CASE_METHOD(Fixture, "captures have different ids") {
  const Stream first(context), second(context);
  const StreamCapture one(context, first), two(context, second);
  const auto id = capture_info(context, first).id();
  CHECK(capture_info(context, second).id() != id);
  {
    const Stream third(context);
    const StreamCapture three(context, third);
    CHECK(capture_info(context, third).id() != id);
  }
}

TEST_CASE_METHOD(StreamFixture, "another thread learns about a capture and harms it in no mode") {
  StreamCapture capture(context, stream, any_mode());
  CaptureInfo info;
  std::thread([&] { info = capture_info(context, stream); }).join();
  CHECK(info.status() == CaptureStatus::active);
  CHECK(info.id() == capture_info(context, stream).id());
  CHECK(capture.end());
}

TEST_CASE_METHOD(Fixture,
                 "capture_info of the legacy stream next to a blocking capture throws and harms nothing") {
  const Stream blocking(context, CU_STREAM_DEFAULT);
  CUstream const legacy = GENERATE(CU_STREAM_LEGACY, CUstream(nullptr));
  StreamCapture capture(context, blocking, any_mode());
  CHECK_THROWS_AS(capture_info(context, legacy), StreamCaptureImplicit);
  CaptureInfo info;
  CHECK(try_capture_info(info, context, legacy) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(capture_info(context, CU_STREAM_PER_THREAD).status() == CaptureStatus::none);
  CHECK(capture_info(context, blocking).status() == CaptureStatus::active);
  CHECK(capture.end());
}

TEST_CASE_METHOD(StreamFixture, "a library adds a node and an event to a capture that somebody else began") {
  const int before = live_handles().events;
  {
    test::Capture theirs(stream);
    DriverEvent work(context), event(context);
    work.record(stream, RecordFlags::external);
    CUevent const handle = event.native_handle();
    {
      const CaptureInfo info = capture_info(context, stream);
      Graph graph = info.graph();
      graph.add_record(event, info.frontier());
      graph.retain(std::move(event));
    }
    CHECK(theirs.status() == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(theirs.end() == CUDA_SUCCESS);
    GraphExec exec = Graph::borrow(context, theirs.graph()).instantiate();
    exec.launch(stream);
    const DriverEvent ours = DriverEvent::borrow(context, handle, EventFlags::none);
    CHECK(ours.synchronize_for(1min));
    CHECK(live_handles().events == before + 2);
  }
  CHECK(destroyed_down_to(before, destroy_retired));
}
