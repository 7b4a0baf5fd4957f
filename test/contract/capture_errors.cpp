// SPDX-License-Identifier: MIT
// Each error of stream capture: what causes it, whether the text says what to do, and whether the
// stream and the thread can capture again afterwards.
#include "any_mode.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <string>
#include <thread>
#include <typeinfo>

using namespace cuevent;
using namespace test;

namespace {

/// `call` throws exactly Error, not a derived class, with this code and this advice.
template <class Error, class Call>
void check_refused(CUresult code, const std::string& advice, const Call& call) {
  static_assert(std::is_base_of_v<CaptureError, Error>);
  try {
    call();
  } catch (const DriverError& error) {
    CAPTURE(error.what());
    CHECK(typeid(error) == typeid(Error));
    CHECK(error.result() == code);
    CHECK_THAT(error.what(), ContainsSubstring(advice));
    return;
  }
  FAIL_CHECK("nothing was thrown");
}

void check_ends_invalidated(StreamCapture& capture) {
  check_refused<StreamCaptureInvalidated>(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "begin a new one",
                                          [&] { capture.end(); });
}

/// No capture is active, and the stream and the thread can begin a new one.
void check_can_capture_again(const Context& context, CUstream stream) {
  CHECK(capture_status(context, stream) == CaptureStatus::none);
  DriverEvent event(context);
  event.record(stream);
  event.synchronize(); // would be refused if the thread were still capturing
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::per_thread, CaptureMode::relaxed}) {
    StreamCapture again(context, stream, mode);
    event.record(stream, RecordFlags::external);
    CHECK(again.end().event_nodes().records.size() == 1);
  }
  CHECK(event.query());
}

} // namespace

TEST_CASE_METHOD(Fixture, "a plain query in a capture throws UNSUPPORTED and names query_relaxed") {
  const Stream stream(context), other(context);
  DriverEvent outside(context);
  outside.record(other);
  StreamCapture capture(context, stream, GENERATE(CaptureMode::global, CaptureMode::per_thread));
  const bool synchronizes = GENERATE(false, true);
  CAPTURE(synchronizes);
  check_refused<StreamCaptureUnsupported>(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "query_relaxed", [&] {
    synchronizes ? outside.synchronize() : static_cast<void>(outside.query());
  });
  CHECK(capture_status(context, stream) == CaptureStatus::invalidated);
  check_ends_invalidated(capture);
  check_can_capture_again(context, stream);
}

TEST_CASE_METHOD(StreamFixture,
                 "a record in an invalidated capture throws INVALIDATED and says to begin a new one") {
  DriverEvent inside(context);
  StreamCapture capture(context, stream, any_mode());
  inside.record(stream);
  CHECK_THROWS_AS(inside.query(), CapturedEvent);
  const auto flags = GENERATE(RecordFlags::none, RecordFlags::external, RecordFlags::external_in_capture);
  check_refused<StreamCaptureInvalidated>(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "begin a new one",
                                          [&] { inside.record(stream, flags); });
  check_ends_invalidated(capture);
  check_can_capture_again(context, stream);
}

TEST_CASE_METHOD(Fixture, "a wait for another capture's event throws MERGE and says to use one capture") {
  const Stream first(context), second(context);
  DriverEvent event(context);
  const CaptureMode mode = any_mode();
  StreamCapture of_first(context, first, mode), of_second(context, second, mode);
  event.record(first);
  check_refused<StreamCaptureMerge>(CUDA_ERROR_STREAM_CAPTURE_MERGE, "in one capture",
                                    [&] { event.wait(second); });
  CHECK(capture_status(context, first) == CaptureStatus::invalidated);
  CHECK(capture_status(context, second) == CaptureStatus::invalidated);
  check_ends_invalidated(of_second);
  check_ends_invalidated(of_first);
  check_can_capture_again(context, first);
  check_can_capture_again(context, second);
}

TEST_CASE_METHOD(Fixture, "ending a capture on a forked stream throws UNMATCHED and says where to end it") {
  const Stream origin(context), branch(context);
  DriverEvent fork(context);
  const CaptureMode mode = any_mode();
  // The capture of the branch ends without its owner, and the branch becomes part of another capture.
  StreamCapture of_branch(context, branch, mode);
  CUgraph ended = nullptr;
  REQUIRE(driver.table().cuStreamEndCapture_v10000(branch, &ended) == CUDA_SUCCESS);
  const Graph nothing = Graph::from_native_handle(context, ended);
  StreamCapture of_origin(context, origin, mode);
  fork.record(origin);
  fork.wait(branch);
  check_refused<StreamCaptureUnmatched>(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the stream where it began",
                                        [&] { of_branch.end(); });
  CHECK(capture_status(context, origin) == CaptureStatus::invalidated);
  check_ends_invalidated(of_origin);
  check_can_capture_again(context, origin);
  check_can_capture_again(context, branch);
}

TEST_CASE_METHOD(Fixture,
                 "ending a capture with an unjoined branch throws UNJOINED and says how to join it") {
  const Stream origin(context), branch(context);
  DriverEvent fork(context), external(context);
  StreamCapture capture(context, origin, any_mode());
  fork.record(origin);
  fork.wait(branch);
  external.record(branch, RecordFlags::external);
  check_refused<StreamCaptureUnjoined>(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "without the external flag",
                                       [&] { capture.end(); });
  check_can_capture_again(context, origin);
  check_can_capture_again(context, branch);
}

TEST_CASE_METHOD(Fixture, "a plain wait for outside work throws ISOLATION and names WaitFlags::external") {
  const Stream stream(context), other(context);
  DriverEvent outside(context);
  outside.record(other);
  StreamCapture capture(context, stream, any_mode());
  check_refused<StreamCaptureIsolation>(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "WaitFlags::external",
                                        [&] { outside.wait(stream); });
  CHECK(capture_status(context, stream) == CaptureStatus::invalidated);
  check_ends_invalidated(capture);
  check_can_capture_again(context, stream);
}

TEST_CASE_METHOD(Fixture, "using the legacy stream during a blocking stream's capture throws IMPLICIT and "
                          "says which streams to use") {
  const Stream stream(context, CU_STREAM_DEFAULT);
  DriverEvent event(context);
  StreamCapture capture(context, stream, any_mode());
  CUstream const legacy = GENERATE(CU_STREAM_LEGACY, CUstream(nullptr));
  const auto flags = GENERATE(RecordFlags::none, RecordFlags::external);
  check_refused<StreamCaptureImplicit>(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CU_STREAM_NON_BLOCKING",
                                       [&] { event.record(legacy, flags); });
  CHECK(capture_status(context, stream) == CaptureStatus::invalidated);
  check_ends_invalidated(capture);
  check_can_capture_again(context, stream);
}

TEST_CASE_METHOD(StreamFixture,
                 "a query of a captured event throws CAPTURED_EVENT and names RecordFlags::external") {
  DriverEvent inside(context);
  StreamCapture capture(context, stream, any_mode());
  inside.record(stream);
  const int way = GENERATE(0, 1, 2);
  CAPTURE(way);
  check_refused<CapturedEvent>(CUDA_ERROR_CAPTURED_EVENT, "RecordFlags::external", [&] {
    if (way == 0) static_cast<void>(inside.query());
    if (way == 1) static_cast<void>(inside.query_relaxed());
    if (way == 2) inside.synchronize();
  });
  CHECK(capture_status(context, stream) == CaptureStatus::invalidated);
  check_ends_invalidated(capture);
  check_can_capture_again(context, stream);
}

TEST_CASE_METHOD(StreamFixture,
                 "elapsed_time of captured events throws CAPTURED_EVENT and the capture goes on") {
  DriverEvent inside(context, EventFlags::timing);
  StreamCapture capture(context, stream, any_mode());
  inside.record(stream);
  check_refused<CapturedEvent>(CUDA_ERROR_CAPTURED_EVENT, "RecordFlags::external",
                               [&] { inside.elapsed_time(inside); });
  CHECK(capture_status(context, stream) == CaptureStatus::active);
  CHECK(capture.end());
  check_can_capture_again(context, stream);
}

TEST_CASE_METHOD(StreamFixture,
                 "ending a capture on another thread throws WRONG_THREAD and names both ways out") {
  StreamCapture capture(context, stream, GENERATE(CaptureMode::global, CaptureMode::per_thread));
  std::thread([&] {
    check_refused<StreamCaptureWrongThread>(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "end it on that thread",
                                            [&] { capture.end(); });
    check_can_capture_again(context, stream);
  }).join();
  check_can_capture_again(context, stream);
}

TEST_CASE_METHOD(StreamFixture, "a relaxed capture may end on another thread") {
  StreamCapture capture(context, stream, CaptureMode::relaxed);
  std::thread([&] { CHECK(capture.end()); }).join();
  check_can_capture_again(context, stream);
}
