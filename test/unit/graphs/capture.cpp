// SPDX-License-Identifier: MIT
#include <cuevent/capture.hpp>

#include "recording_fixture.hpp"

#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

using namespace cuevent;
using namespace test;

static_assert(!std::is_copy_constructible_v<StreamCapture> && !std::is_move_constructible_v<StreamCapture>);
static_assert(!std::is_copy_assignable_v<StreamCapture> && !std::is_move_assignable_v<StreamCapture>);
static_assert(std::is_nothrow_destructible_v<StreamCapture> && sizeof(StreamCapture) <= 72);
static_assert(!std::is_copy_constructible_v<CaptureModeGuard> &&
              !std::is_move_constructible_v<CaptureModeGuard>);
static_assert(std::is_nothrow_destructible_v<CaptureModeGuard> && sizeof(CaptureModeGuard) <= 24);
static_assert(!std::is_convertible_v<const Driver&, CaptureModeGuard>);
static_assert(!noexcept(capture_status(std::declval<const Context&>(), CUstream())));
static_assert((unsigned(RecordFlags::external_in_capture) & CU_EVENT_RECORD_EXTERNAL) == 0);
static_assert((unsigned(WaitFlags::external_in_capture) & CU_EVENT_WAIT_EXTERNAL) == 0);

TEST_CASE_METHOD(RecordingFixture,
                 "capture_status asks about the given stream, in its context for a default stream") {
  CHECK(capture_status(context, stream) == CaptureStatus::none);
  CHECK(recording.calls_with_contexts() == std::vector<Call>{{"cuStreamIsCapturing", nullptr}});
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(capture_status(context, CU_STREAM_PER_THREAD) == CaptureStatus::active);
  CHECK(recording.calls_with_contexts().at(3) == Call{"cuStreamIsCapturing", context_handle(1)});
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CHECK(capture_status(context, stream) == CaptureStatus::invalidated);

  recording.fail_next("cuStreamIsCapturing", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK_THAT(refusal<StreamCaptureImplicit>([&] { capture_status(context, CU_STREAM_LEGACY); }),
             ContainsSubstring("CU_STREAM_NON_BLOCKING"));
}

TEST_CASE_METHOD(RecordingFixture, "a CaptureModeGuard sets the mode for its scope, and guards nest") {
  {
    const CaptureModeGuard relaxed(driver);
    CHECK(recording.capture_mode() == CU_STREAM_CAPTURE_MODE_RELAXED);
    {
      const CaptureModeGuard inner(driver, CaptureMode::per_thread);
      CHECK(recording.capture_mode() == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
      const CaptureModeGuard innermost(driver, CaptureMode::global);
      CHECK(recording.capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
    }
    CHECK(recording.capture_mode() == CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  CHECK(recording.capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(recording.calls_with_contexts() ==
        std::vector<Call>(6, {"cuThreadExchangeStreamCaptureMode", nullptr}));
}

TEST_CASE_METHOD(RecordingFixture,
                 "a CaptureModeGuard destroyed on another thread undoes nothing and reports it",
                 "[threads]") {
  auto guard = std::make_unique<CaptureModeGuard>(driver);
  std::thread([&] {
    RecordingDriver there;
    HookedErrors hooked;
    guard.reset();
    CHECK(hooked.take() == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    CHECK(there.calls().empty());
  }).join();
  CHECK(recording.capture_mode() == CU_STREAM_CAPTURE_MODE_RELAXED);
  recording.capture_mode() = CU_STREAM_CAPTURE_MODE_GLOBAL;
}

TEST_CASE_METHOD(RecordingFixture, "a capture begins, ends and returns a graph") {
  {
    StreamCapture capture(context, stream);
    const Graph graph = capture.end();
    CHECK(graph);
    CHECK(graph.context() == context);
    CHECK_THAT(refusal<IllegalState>([&] { capture.end(); }), ContainsSubstring("already ended"));
  }
  CHECK(recording.calls_with_contexts() == std::vector<Call>{{"cuCtxGetId", nullptr},
                                                             {"cuStreamGetCtx", nullptr},
                                                             {"cuStreamBeginCapture", nullptr},
                                                             {"cuStreamEndCapture", nullptr},
                                                             {"cuGraphDestroy", nullptr}});
}

TEST_CASE_METHOD(RecordingFixture, "a capture of a default stream uses the stream of its context") {
  { StreamCapture capture(context, CU_STREAM_PER_THREAD); }
  int seen = 0;
  for (const Call& call : recording.calls_with_contexts())
    if (call.name == "cuStreamBeginCapture" || call.name == "cuStreamEndCapture") {
      CHECK(call.current == context_handle(1));
      ++seen;
    }
  CHECK(seen == 2);
}

TEST_CASE_METHOD(RecordingFixture, "an abandoned capture is ended and its graph destroyed silently") {
  HookedErrors hooked;
  { StreamCapture capture(context, stream); }
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuStreamGetCtx", "cuStreamBeginCapture",
                                   "cuStreamEndCapture", "cuGraphDestroy"});
  for (const CUresult result : {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED}) {
    recording.end_capture_result(result);
    { StreamCapture capture(context, stream); }
    // There is no graph to destroy.
    CHECK(recording.calls() ==
          Names{"cuCtxGetId", "cuStreamGetCtx", "cuStreamBeginCapture", "cuStreamEndCapture"});
    CHECK(hooked.take() == CUDA_SUCCESS);
  }
}

TEST_CASE_METHOD(RecordingFixture, "the destructor of a capture reports what it could not undo") {
  HookedErrors hooked;
  recording.end_capture_result(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  { StreamCapture capture(context, stream); }
  CHECK(hooked.take() == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  recording.fail_next("cuGraphDestroy", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  { StreamCapture capture(context, stream); }
  CHECK(hooked.take() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  driver.table().cuGraphDestroy_v10000(nullptr); // the one that the stubs still count
}

TEST_CASE_METHOD(RecordingFixture, "a capture whose end fails is over") {
  const auto failing = [&]<class Exception>(std::type_identity<Exception>, CUresult result,
                                            const char* advice) {
    StreamCapture capture(context, stream);
    recording.end_capture_result(result);
    CHECK_THAT(refusal<Exception>([&] { capture.end(); }), ContainsSubstring(advice));
    refusal<IllegalState>([&] { capture.end(); });
    recording.calls();
  };
  failing(std::type_identity<StreamCaptureInvalidated>(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
          "begin a new one");
  failing(std::type_identity<StreamCaptureUnjoined>(), CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
          "on each forked stream");
  failing(std::type_identity<StreamCaptureUnmatched>(), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
          "where it began");
  failing(std::type_identity<StreamCaptureWrongThread>(), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
          "on that thread");
  CHECK(recording.calls().empty()); // nothing is ended a second time
}

TEST_CASE_METHOD(RecordingFixture, "a capture that cannot begin says why and ends nothing") {
  recording.fail_next("cuStreamBeginCapture", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK_THAT(refusal<StreamCaptureUnsupported>([&] { StreamCapture capture(context, CU_STREAM_LEGACY); }),
             ContainsSubstring("legacy stream cannot be captured"));
  recording.calls();
  recording.fail_next("cuStreamBeginCapture", CUDA_ERROR_ILLEGAL_STATE);
  CHECK_THAT(refusal<IllegalState>([&] { StreamCapture capture(context, stream); }),
             ContainsSubstring("being captured already"));
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuStreamGetCtx", "cuStreamBeginCapture"});
}

TEST_CASE_METHOD(RecordingFixture,
                 "StreamCapture::record records externally, and the graph owns the event after the end") {
  {
    StreamCapture capture(context, stream);
    DriverEvent event = timed();
    CUevent const handle = event.native_handle();
    recording.calls();
    DriverEvent borrowed = capture.record(std::move(event), stream_handle(2));
    CHECK(recording.calls() == Names{"cuEventRecordWithFlags"});
    CHECK_FALSE(event);
    CHECK(borrowed.native_handle() == handle);
    CHECK(borrowed.flags() == EventFlags::timing);
    borrowed.close(); // somebody else owns the event
    CHECK(RecordingDriver::live_events() == events_before + 1);

    const Graph graph = capture.end();
    CHECK(recording.calls() == Names{"cuStreamEndCapture", "cuUserObjectCreate", "cuGraphRetainUserObject"});
  }
  CHECK(RecordingDriver::live_events() == events_before + 1); // an exec may still have it
  recording.end_user_objects();
  CHECK(destroy_retired() == 1);
}

TEST_CASE_METHOD(RecordingFixture, "a capture into a given graph returns that graph as borrowed") {
  Graph graph(context);
  CUgraph const handle = graph.native_handle();
  recording.calls();
  {
    StreamCapture capture(context, stream, graph, {node_handle(4), node_handle(5)});
    CHECK(recording.frontier() == std::vector{node_handle(4), node_handle(5)});
    const Graph same = capture.end();
    CHECK(same.native_handle() == handle);
  }
  CHECK(recording.calls() ==
        Names{"cuCtxGetId", "cuStreamGetCtx", "cuStreamBeginCaptureToGraph", "cuStreamEndCapture"});
  CHECK(graph.native_handle() == handle);
  { StreamCapture abandoned(context, CU_STREAM_PER_THREAD, graph, {}, CaptureMode::relaxed); }
  int seen = 0;
  for (const Call& call : recording.calls_with_contexts()) {
    CHECK(call.name != "cuGraphDestroy");
    if (call.name != "cuStreamBeginCaptureToGraph" && call.name != "cuStreamEndCapture") continue;
    CHECK(call.current == context_handle(1));
    ++seen;
  }
  CHECK(seen == 2);
  CHECK(graph.native_handle() == handle);
}

TEST_CASE_METHOD(RecordingFixture, "a given graph owns an event before it records it") {
  Graph graph(context);
  DriverEvent event = timed();
  CUevent const handle = event.native_handle();
  StreamCapture capture(context, stream, graph);
  recording.calls();
  DriverEvent borrowed = capture.record(std::move(event), stream);
  CHECK(recording.calls() ==
        Names{"cuUserObjectCreate", "cuGraphRetainUserObject", "cuEventRecordWithFlags"});
  CHECK(borrowed.native_handle() == handle);
  CHECK(borrowed.flags() == EventFlags::timing);
  borrowed.close();
  CHECK(RecordingDriver::live_events() == events_before + 1);

  DriverEvent kept = timed(), given = timed();
  recording.fail_next("cuGraphRetainUserObject", CUDA_ERROR_OUT_OF_MEMORY);
  refusal<OutOfMemory>([&] { capture.record(std::move(kept), stream); });
  CHECK(kept);
  recording.fail_next("cuEventRecordWithFlags", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  refusal<StreamCaptureInvalidated>([&] { capture.record(std::move(given), stream); });
  CHECK_FALSE(given);
  refusal<EmptyEvent>([&] { capture.record(DriverEvent(), stream); });
}

TEST_CASE_METHOD(RecordingFixture,
                 "a given graph is empty after its capture failed, and nobody destroys it") {
  for (const bool ended : {true, false}) {
    Graph graph = Graph::from_native_handle(context, graph_handle(1));
    {
      StreamCapture capture(context, stream, graph);
      recording.end_capture_result(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      if (ended) refusal<StreamCaptureInvalidated>([&] { capture.end(); });
      CHECK(bool(graph) == !ended);
    }
    CHECK_FALSE(graph);
  }
  {
    Graph graph = Graph::from_native_handle(context, graph_handle(1));
    HookedErrors hooked;
    {
      StreamCapture capture(context, CU_STREAM_PER_THREAD, graph);
      recording.fail_always("cuCtxPushCurrent", CUDA_ERROR_OUT_OF_MEMORY);
      refusal<OutOfMemory>([&] { capture.end(); }); // the capture goes on, so the graph is still in use
      CHECK(graph);
    }
    recording.fail_nothing();
    CHECK(hooked.take() == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_FALSE(graph);
  }
  for (const std::string_view call : recording.calls())
    CHECK(call != "cuGraphDestroy");
}

TEST_CASE_METHOD(RecordingFixture, "a capture into a graph that cannot begin says why and ends nothing") {
  Graph graph(context), moved = Graph::borrow(context, graph_handle(1));
  const Graph there = std::move(moved);
  const Driver old = RecordingDriver::driver(12020);
  const Context elsewhere = Context::borrow(context_handle(1), old);
  Graph of_old = Graph::borrow(elsewhere, graph_handle(2));
  recording.calls();
  CHECK_THAT(refusal<InvalidHandle>([&] { StreamCapture capture(context, stream, moved); }),
             ContainsSubstring("the graph is empty"));
  CHECK_THAT(refusal<ContextMismatch>([&] { StreamCapture capture(context, stream, of_old); }),
             ContainsSubstring("another driver"));
  CHECK_THAT(refusal<NotSupported>([&] { StreamCapture capture(elsewhere, stream, of_old); }),
             ContainsSubstring("cuStreamBeginCaptureToGraph needs a driver for CUDA 12.3"));
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuStreamGetCtx"});
  recording.fail_next("cuStreamBeginCaptureToGraph", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK_THAT(
      refusal<StreamCaptureUnsupported>([&] { StreamCapture capture(context, CU_STREAM_LEGACY, graph); }),
      ContainsSubstring("legacy stream cannot be captured"));
  recording.fail_next("cuStreamBeginCaptureToGraph", CUDA_ERROR_ILLEGAL_STATE);
  CHECK_THAT(refusal<IllegalState>([&] { StreamCapture capture(context, stream, graph); }),
             ContainsSubstring("being captured already"));
  CHECK(graph);
}

TEST_CASE_METHOD(RecordingFixture, "the caller keeps an event that cannot be recorded") {
  StreamCapture capture(context, stream);
  DriverEvent event = timed();
  recording.fail_next("cuEventRecordWithFlags", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  refusal<StreamCaptureInvalidated>([&] { capture.record(std::move(event), stream); });
  CHECK(event);
  recording.fail_next("cuEventRecordWithFlags", CUDA_ERROR_ILLEGAL_STATE);
  refusal<ExternalOutsideCapture>([&] { capture.record(std::move(event), stream_handle(2)); });
  CHECK(event);
  refusal<EmptyEvent>([&] { capture.record(DriverEvent(), stream); });
}

TEST_CASE_METHOD(RecordingFixture, "an abandoned capture destroys its graph before the events that it kept") {
  {
    StreamCapture capture(context, stream);
    capture.record(timed(), stream);
    recording.calls();
  }
  CHECK(recording.calls() == Names{"cuStreamEndCapture", "cuGraphDestroy", "cuCtxGetId", "cuEventDestroy"});
}

TEST_CASE_METHOD(RecordingFixture,
                 "external_in_capture asks for the capture status once, then makes the matching call") {
  DriverEvent event(context);
  recording.calls();
  event.record(stream, RecordFlags::external_in_capture);
  CHECK(recording.calls_with_contexts() ==
        std::vector<Call>{{"cuStreamIsCapturing", nullptr}, {"cuEventRecord", nullptr}});
  event.wait(stream, WaitFlags::external_in_capture);
  CHECK(recording.calls_with_contexts() ==
        std::vector<Call>{{"cuStreamIsCapturing", nullptr}, {"cuStreamWaitEvent", nullptr}});
  CHECK(recording.wait_flags() == CU_EVENT_WAIT_DEFAULT);

  // Even if the capture was invalidated: the driver then returns an error.
  for (const CUstreamCaptureStatus status :
       {CU_STREAM_CAPTURE_STATUS_ACTIVE, CU_STREAM_CAPTURE_STATUS_INVALIDATED}) {
    recording.capture_status(status);
    event.record(stream, RecordFlags::external_in_capture);
    CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuEventRecordWithFlags"});
    CHECK(recording.record_flags() == CU_EVENT_RECORD_EXTERNAL);
    event.wait(stream, WaitFlags::external_in_capture);
    CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuStreamWaitEvent"});
    CHECK(recording.wait_flags() == CU_EVENT_WAIT_EXTERNAL);
  }
}

TEST_CASE_METHOD(RecordingFixture, "external_in_capture on a default stream asks in the event's context") {
  DriverEvent event(context);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  recording.calls();
  event.record(CU_STREAM_PER_THREAD, RecordFlags::external_in_capture);
  std::vector<Call> calls = recording.calls_with_contexts();
  REQUIRE(calls.size() == 6);
  CHECK(calls[3] == Call{"cuStreamIsCapturing", context_handle(1)});
  CHECK(calls[4] == Call{"cuEventRecordWithFlags", context_handle(1)});

  event.wait(CU_STREAM_PER_THREAD, WaitFlags::external_in_capture);
  calls = recording.calls_with_contexts();
  REQUIRE(calls.size() == 6);
  CHECK(calls[3] == Call{"cuStreamIsCapturing", context_handle(1)});
  CHECK(calls[4] == Call{"cuStreamWaitEvent", context_handle(1)});
  CHECK(recording.wait_flags() == CU_EVENT_WAIT_EXTERNAL);
}

TEST_CASE_METHOD(RecordingFixture,
                 "nothing is recorded and nothing waits if the capture status is unavailable") {
  DriverEvent event(context);
  for (CUstream const standard : {CU_STREAM_LEGACY, stream}) {
    recording.calls();
    recording.fail_next("cuStreamIsCapturing", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    refusal<StreamCaptureImplicit>([&] { event.record(standard, RecordFlags::external_in_capture); });
    recording.fail_next("cuStreamIsCapturing", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    refusal<StreamCaptureImplicit>([&] { event.wait(standard, WaitFlags::external_in_capture); });
    for (const std::string_view call : recording.calls())
      CHECK((call != "cuEventRecord" && call != "cuEventRecordWithFlags" && call != "cuStreamWaitEvent"));
  }
}

TEST_CASE_METHOD(RecordingFixture,
                 "record_context and wait_context make one call each, with no context current") {
  DriverEvent event(context);
  const auto green = reinterpret_cast<CUgreenCtx>(std::uintptr_t{0x6000});
  recording.calls();
  event.record_context(context);
  event.wait_context(context);
  event.record_context(green);
  event.wait_context(green);
  CHECK(recording.calls_with_contexts() == std::vector<Call>{{"cuCtxRecordEvent", nullptr},
                                                             {"cuCtxWaitEvent", nullptr},
                                                             {"cuGreenCtxRecordEvent", nullptr},
                                                             {"cuGreenCtxWaitEvent", nullptr}});
}

TEST_CASE_METHOD(RecordingFixture, "a refused record of a whole context says why") {
  DriverEvent event(context);
  recording.fail_next("cuCtxRecordEvent", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK_THAT(refusal<StreamCaptureUnsupported>([&] { event.record_context(context); }),
             ContainsSubstring("invalidated the capture"));
  recording.fail_next("cuCtxRecordEvent", CUDA_ERROR_INVALID_HANDLE);
  CHECK_THAT(
      refusal<ContextMismatch>([&] { event.record_context(Context::borrow(context_handle(2), driver)); }),
      ContainsSubstring("context 0xc001") && ContainsSubstring("context 0xc002"));
  recording.fail_next("cuCtxWaitEvent", CUDA_ERROR_INVALID_VALUE);
  refusal<RecordedInCapture>([&] { event.wait_context(context); });
  DriverEvent empty;
  refusal<EmptyEvent>([&] { empty.record_context(context); });
  refusal<EmptyEvent>([&] { empty.wait_context(context); });
}

TEST_CASE_METHOD(RecordingFixture,
                 "record_context on an older driver throws and names the version it needs") {
  const Driver old = RecordingDriver::driver(12000);
  const Context there = Context::borrow(context_handle(1), old);
  const auto green = reinterpret_cast<CUgreenCtx>(std::uintptr_t{0x6000});
  DriverEvent event(there);
  recording.calls();
  CHECK_THAT(refusal<NotSupported>([&] { event.record_context(there); }),
             ContainsSubstring("cuCtxRecordEvent needs a driver for CUDA 12.5"));
  CHECK_THAT(refusal<NotSupported>([&] { event.wait_context(there); }),
             ContainsSubstring("cuCtxWaitEvent needs a driver for CUDA 12.5"));
  CHECK_THAT(refusal<NotSupported>([&] { event.record_context(green); }),
             ContainsSubstring("cuGreenCtxRecordEvent needs a driver for CUDA 12.4"));
  CHECK_THAT(refusal<NotSupported>([&] { event.wait_context(green); }),
             ContainsSubstring("cuGreenCtxWaitEvent needs a driver for CUDA 12.4"));
  CHECK(event.try_record_context(there) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(event.try_wait_context(green) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(recording.calls().empty());
}
