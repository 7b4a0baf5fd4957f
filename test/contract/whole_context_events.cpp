// SPDX-License-Identifier: MIT
// record_context and wait_context: one event and all streams of a context.
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <chrono>
#include <thread>

using namespace cuevent;
using namespace test;

namespace {

constexpr int first_version = 12050; // the version that introduced cuCtxRecordEvent and cuCtxWaitEvent

} // namespace

TEST_CASE_METHOD(Fixture, "record_context marks the work of all streams of its context and of no other") {
  test::need(first_version);
  const Context created = Context::create(0, driver);
  const Stream stream(context), gated(context);
  DriverEvent ours(context, GENERATE(EventFlags::none, EventFlags::timing)), theirs(created);
  {
    Gate gate(gated);
    ours.record_context(context);
    CHECK_FALSE(ours.query());
    theirs.record_context(created);
    CHECK(theirs.synchronize_for(1min));
    CHECK_FALSE(ours.query());
    gate.open();
    CHECK(ours.synchronize_for(1min));
  }
  CHECK(ours.try_record_context(context) == CUDA_SUCCESS);
  CHECK(ours.synchronize_for(1min));
  CHECK(test::context_stack().empty());
}

TEST_CASE_METHOD(Fixture, "wait_context holds back all streams of a context, including later ones") {
  test::need(first_version);
  const Context created = Context::create(0, driver);
  const Stream gated(created), stream(context);
  DriverEvent produced(created), consumed(context), consumed_later(context); // a wait may cross contexts
  Gate gate(gated);
  produced.record(gated);
  const bool twin = GENERATE(false, true);
  if (twin)
    CHECK(produced.try_wait_context(context) == CUDA_SUCCESS);
  else
    produced.wait_context(context);
  const Stream later(context);
  consumed.record(stream);
  consumed_later.record(later);
  CHECK_FALSE(consumed.query());
  CHECK_FALSE(consumed_later.query());
  gate.open();
  CHECK(consumed.synchronize_for(1min));
  CHECK(consumed_later.synchronize_for(1min));
  CHECK(produced.query());
}

TEST_CASE_METHOD(Fixture, "record_context on another context throws and names both contexts") {
  test::need(first_version);
  const Context created = Context::create(0, driver);
  DriverEvent event(context, EventFlags::timing);
  CHECK_THROWS_AS(event.record_context(created), ContextMismatch);
  CHECK_THROWS_WITH(event.record_context(created), ContainsSubstring("the event belongs to context 0x") &&
                                                       ContainsSubstring("make it in that context"));
  CHECK_THROWS_AS(event.elapsed_time(event), NeverRecorded);
}

TEST_CASE_METHOD(Fixture, "an empty event or context is refused by record_context and wait_context") {
  test::need(first_version);
  DriverEvent empty, event(context);
  CHECK_THROWS_AS(empty.record_context(context), EmptyEvent);
  CHECK_THROWS_AS(empty.wait_context(context), EmptyEvent);
  CHECK_THROWS_AS(event.record_context(Context()), InvalidContext);
  CHECK_THROWS_AS(event.wait_context(Context()), InvalidContext);
}

TEST_CASE_METHOD(Fixture, "wait_context for an event of an ended capture is refused") {
  test::need(first_version);
  const Stream stream(context);
  DriverEvent event(context);
  StreamCapture capture(context, stream);
  event.record(stream);
  CHECK(capture.end());
  CHECK_THROWS_AS(event.wait_context(context), RecordedInCapture);
}

TEST_CASE_METHOD(
    Fixture,
    "record_context and wait_context invalidate a capture in the context, whichever thread began it") {
  test::need(first_version);
  const Stream stream(context);
  DriverEvent event(context);
  StreamCapture capture(context, stream,
                        GENERATE(CaptureMode::global, CaptureMode::per_thread, CaptureMode::relaxed));
  const bool records = GENERATE(false, true);
  const bool from_another_thread = GENERATE(false, true);
  CAPTURE(records, from_another_thread);
  const auto refused = [&] {
    if (records)
      CHECK_THROWS_AS(event.record_context(context), StreamCaptureUnsupported);
    else
      CHECK_THROWS_AS(event.wait_context(context), StreamCaptureUnsupported);
  };
  from_another_thread ? std::thread(refused).join() : refused();
  CHECK(capture_status(context, stream) == CaptureStatus::invalidated);
  CHECK_THROWS_WITH(event.record_context(context),
                    ContainsSubstring("record() and wait() on the streams that matter"));
  CHECK_THROWS_AS(capture.end(), StreamCaptureInvalidated);
  event.record_context(context);
  CHECK(event.synchronize_for(1min));
}

TEST_CASE_METHOD(Fixture, "record_context and wait_context harm no capture in another context") {
  test::need(first_version);
  const Context created = Context::create(0, driver);
  const Stream stream(context);
  DriverEvent event(created);
  StreamCapture capture(context, stream, CaptureMode::global);
  event.record_context(created);
  event.wait_context(created);
  CHECK(capture_status(context, stream) == CaptureStatus::active);
  CHECK(capture.end());
  CHECK(event.synchronize_for(1min));
}

#if CUDA_VERSION >= 12050

namespace {

/// A green context of device 0, with one stream.
class GreenContext {
public:
  GreenContext() {
    CUdevResource resource{};
    CUdevResourceDesc description = nullptr;
    REQUIRE(call<PFN_cuDeviceGetDevResource_v12040>("cuDeviceGetDevResource", 12040)(
                0, &resource, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS);
    REQUIRE(call<PFN_cuDevResourceGenerateDesc_v12040>("cuDevResourceGenerateDesc",
                                                       12040)(&description, &resource, 1) == CUDA_SUCCESS);
    REQUIRE(call<PFN_cuGreenCtxCreate_v12040>("cuGreenCtxCreate", 12040)(
                &context_, description, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
    REQUIRE(call<PFN_cuGreenCtxStreamCreate_v12050>("cuGreenCtxStreamCreate", 12050)(
                &stream_, context_, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
  }
  GreenContext(const GreenContext&) = delete;
  GreenContext& operator=(const GreenContext&) = delete;
  ~GreenContext() {
    // Creating it was not counted, so destroying it is not either.
    const auto destroy =
        test::uncounted_driver().entry_point<PFN_cuStreamDestroy_v4000>("cuStreamDestroy", 4000);
    const CUresult destroyed = destroy(stream_);
    CHECK(destroyed == CUDA_SUCCESS);
    const CUresult gone = call<PFN_cuGreenCtxDestroy_v12040>("cuGreenCtxDestroy", 12040)(context_);
    CHECK(gone == CUDA_SUCCESS);
  }

  operator CUgreenCtx() const noexcept { return context_; }
  CUstream stream() const noexcept { return stream_; }
  Context context() const {
    CUcontext its = nullptr;
    REQUIRE(call<PFN_cuCtxFromGreenCtx_v12040>("cuCtxFromGreenCtx", 12040)(&its, context_) == CUDA_SUCCESS);
    return Context::borrow(its, test::driver());
  }

private:
  CUgreenCtx context_ = nullptr;
  CUstream stream_ = nullptr;
};

} // namespace

TEST_CASE_METHOD(Fixture, "record_context and wait_context of a green context apply to its streams") {
  test::need(first_version);
  const GreenContext green;
  const Stream gated(context);
  DriverEvent event(context), consumed(context);
  SECTION("record") {
    Gate gate(green.stream());
    event.record_context(green);
    CHECK_FALSE(event.query());
    gate.open();
    CHECK(event.synchronize_for(1min));
  }
  SECTION("wait") {
    Gate gate(gated);
    event.record(gated);
    event.wait_context(green);
    consumed.record(green.stream());
    CHECK_FALSE(consumed.query());
    gate.open();
    CHECK(consumed.synchronize_for(1min));
  }
}

TEST_CASE_METHOD(Fixture, "a green context refuses to record another context's event but can wait for it") {
  test::need(first_version);
  const GreenContext green;
  const Context created = Context::create(0, driver);
  DriverEvent event(created);
  CHECK_THROWS_AS(event.record_context(green), ContextMismatch);
  CHECK_THROWS_WITH(event.record_context(green), ContainsSubstring("the event belongs to context 0x") &&
                                                     ContainsSubstring("green context"));
  event.wait_context(green);
  CHECK_THROWS_AS(DriverEvent().record_context(green), EmptyEvent);
  CHECK_THROWS_AS(DriverEvent().wait_context(green), EmptyEvent);
}

TEST_CASE_METHOD(Fixture, "record_context and wait_context invalidate a capture in the green context") {
  test::need(first_version);
  const GreenContext green;
  DriverEvent event(context);
  StreamCapture capture(green.context(), green.stream(), CaptureMode::relaxed);
  SECTION("record") { CHECK_THROWS_AS(event.record_context(green), StreamCaptureUnsupported); }
  SECTION("wait") { CHECK_THROWS_AS(event.wait_context(green), StreamCaptureUnsupported); }
  CHECK(capture_status(context, green.stream()) == CaptureStatus::invalidated);
  CHECK_THROWS_AS(capture.end(), StreamCaptureInvalidated);
}

#endif
