// SPDX-License-Identifier: MIT
#include <cuevent/driver_event.hpp>

#include "recording_fixture.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

using namespace cuevent;
using namespace test;

static_assert(!std::is_copy_constructible_v<DriverEvent> && !std::is_copy_assignable_v<DriverEvent>);
static_assert(std::is_nothrow_move_constructible_v<DriverEvent> &&
              std::is_nothrow_move_assignable_v<DriverEvent>);
static_assert(std::is_nothrow_default_constructible_v<DriverEvent> &&
              std::is_nothrow_destructible_v<DriverEvent>);
static_assert(std::is_nothrow_swappable_v<DriverEvent> && !std::is_convertible_v<DriverEvent, bool>);
static_assert(!std::is_convertible_v<const Context&, DriverEvent>);
static_assert(sizeof(DriverEvent) <= 40);
static_assert(noexcept(std::declval<DriverEvent&>().try_record(CUstream())));
static_assert(noexcept(std::declval<DriverEvent&>().try_query()) &&
              !noexcept(std::declval<DriverEvent&>().query()));
static_assert(unsigned(EventFlags::blocking_sync) == CU_EVENT_BLOCKING_SYNC);
static_assert(unsigned(EventFlags::interprocess) == CU_EVENT_INTERPROCESS);
static_assert(unsigned(RecordFlags::external) == CU_EVENT_RECORD_EXTERNAL);
static_assert(unsigned(WaitFlags::external) == CU_EVENT_WAIT_EXTERNAL);

TEST_CASE_METHOD(RecordingFixture,
                 "creation pushes the context only if it is not current, and restores the previous one") {
  { const DriverEvent event(context); }
  CHECK(recording.calls_with_contexts() == std::vector<Call>{{"cuCtxGetCurrent", nullptr},
                                                             {"cuCtxGetId", nullptr},
                                                             {"cuCtxPushCurrent", nullptr},
                                                             {"cuEventCreate", context_handle(1)},
                                                             {"cuCtxPopCurrent", context_handle(1)},
                                                             {"cuCtxGetId", nullptr},
                                                             {"cuEventDestroy", nullptr}});
  const ContextGuard guard(context);
  recording.calls();
  { const DriverEvent event(context); }
  CHECK(recording.calls() ==
        Names{"cuCtxGetCurrent", "cuCtxGetId", "cuEventCreate", "cuCtxGetId", "cuEventDestroy"});
}

TEST_CASE_METHOD(RecordingFixture, "each hot call makes one driver call and makes no context current") {
  DriverEvent event(context);
  const DriverEvent end(context);
  recording.calls();
  const auto only = [&](std::string_view name) {
    CHECK(recording.calls_with_contexts() == std::vector<Call>{{name, nullptr}});
  };
  event.record(stream);
  only("cuEventRecord");
  event.record(stream, RecordFlags::external);
  only("cuEventRecordWithFlags");
  event.wait(stream);
  only("cuStreamWaitEvent");
  event.wait(stream, WaitFlags::external);
  only("cuStreamWaitEvent");
  CHECK(event.query());
  only("cuEventQuery");
  event.synchronize();
  only("cuEventSynchronize");
  CHECK(event.elapsed_time(end).count() == 2.5F);
  only("cuEventElapsedTime");
}

TEST_CASE_METHOD(RecordingFixture, "a default stream means the one of the event's own context") {
  DriverEvent event(context);
  const Context other = Context::borrow(context_handle(2), driver);
  const ContextGuard guard(other);
  for (CUstream const handle : {CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    recording.calls();
    event.record(handle);
    event.wait(handle);
    const std::vector<Call> calls = recording.calls_with_contexts();
    REQUIRE(calls.size() == 10);
    CHECK(calls[3] == Call{"cuEventRecord", context_handle(1)});
    CHECK(calls[8] == Call{"cuStreamWaitEvent", context_handle(1)});
    CHECK(recording.context_stack() == std::vector{context_handle(2)});
  }
}

TEST_CASE_METHOD(RecordingFixture, "a wait for an interprocess event asks for the stream's context first") {
  const DriverEvent event(context, EventFlags::interprocess);
  recording.calls();
  recording.stream_context(context_handle(1));
  event.wait(stream);
  CHECK(recording.calls() ==
        Names{"cuStreamIsCapturing", "cuCtxGetId", "cuStreamGetCtx", "cuStreamWaitEvent"});
  event.wait(stream, WaitFlags::external); // the driver refuses or captures it
  CHECK(recording.calls() == Names{"cuStreamWaitEvent"});
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  event.wait(stream);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuStreamWaitEvent"});
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  recording.reset_contexts(); // the event ended with its context, and a later context has the handle
  CHECK(event.try_wait(stream) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuCtxGetId"});
  driver.table().cuEventDestroy_v4000(nullptr); // the stubs still count it
}

TEST_CASE_METHOD(RecordingFixture,
                 "a wait for an interprocess event on a stream of another context is refused") {
  const DriverEvent event(context, EventFlags::interprocess);
  recording.calls();
  recording.stream_context(context_handle(2));
  event.wait(stream); // the record shows that this is a green context of the same device
  Names calls = recording.calls();
  CHECK(std::count(calls.begin(), calls.end(), "cuEventRecord") == 1);
  CHECK(calls.back() == "cuStreamWaitEvent");

  const long events = RecordingDriver::live_events();
  for (const WaitFlags flags : {WaitFlags::none, WaitFlags::external_in_capture}) {
    recording.fail_always("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
    recording.calls();
    CHECK_THAT(refusal<ContextMismatch>([&] { event.wait(stream, flags); }),
               ContainsSubstring("EventFlags::interprocess") &&
                   ContainsSubstring("context 0xc001 (device 0)") &&
                   ContainsSubstring("context 0xc002 (device 1)"));
    CHECK(event.try_wait(stream, flags) == CUDA_ERROR_INVALID_HANDLE);
    const Context other = Context::borrow(context_handle(2), driver);
    CHECK_THAT(refusal<ContextMismatch>([&] {
                 event.wait({other, nullptr}, flags);
               }),
               ContainsSubstring("context 0xc002 (device 1)"));
    calls = recording.calls();
    CHECK(std::count(calls.begin(), calls.end(), "cuStreamWaitEvent") == 0);
  }
  CHECK(RecordingDriver::live_events() == events);
}

TEST_CASE_METHOD(RecordingFixture, "wait_context for an interprocess event of another context is refused") {
  const DriverEvent event(context, EventFlags::interprocess);
  const Context other = Context::borrow(context_handle(2), driver);
  auto* const green = reinterpret_cast<CUgreenCtx>(0x9c);
  recording.calls();
  event.wait_context(context);
  CHECK(recording.calls() == Names{"cuCtxWaitEvent"});
  event.wait_context(other); // the record shows that this is a green context of the same device
  CHECK(recording.calls().back() == "cuCtxWaitEvent");
  event.wait_context(green);
  CHECK(recording.calls().back() == "cuGreenCtxWaitEvent");

  recording.fail_always("cuCtxRecordEvent", CUDA_ERROR_INVALID_HANDLE);
  recording.fail_always("cuGreenCtxRecordEvent", CUDA_ERROR_INVALID_HANDLE);
  CHECK_THAT(refusal<ContextMismatch>([&] { event.wait_context(other); }),
             ContainsSubstring("context 0xc002 (device 1)"));
  CHECK_THAT(refusal<ContextMismatch>([&] { event.wait_context(green); }),
             ContainsSubstring("a green context of another"));
  CHECK(event.try_wait_context(other) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(event.try_wait_context(green) == CUDA_ERROR_INVALID_HANDLE);
  const Names calls = recording.calls();
  CHECK(std::count(calls.begin(), calls.end(), "cuCtxWaitEvent") == 0);
  CHECK(std::count(calls.begin(), calls.end(), "cuGreenCtxWaitEvent") == 0);
}

TEST_CASE_METHOD(RecordingFixture, "timing is opt-in, and without it the driver's disable bit is set") {
  CHECK(DriverEvent(context).flags() == EventFlags::none);
  CHECK(timed().flags() == EventFlags::timing);
  CHECK((EventFlags::timing | EventFlags::blocking_sync) != EventFlags::timing);
}

TEST_CASE_METHOD(RecordingFixture,
                 "query returns true when complete, false while pending, and throws on every other result") {
  const DriverEvent event(context);
  CHECK(event.query());
  recording.fail_next("cuEventQuery", CUDA_ERROR_NOT_READY);
  CHECK_FALSE(event.query());
  recording.fail_next("cuEventQuery", CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_THROWS_AS(event.query(), IllegalAddress);
  recording.fail_next("cuEventQuery", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_THROWS_AS(event.query(), ContextLost);
  recording.fail_next("cuEventQuery", CUDA_ERROR_CAPTURED_EVENT);
  CHECK_THROWS_AS(event.query(), CapturedEvent);
}

TEST_CASE_METHOD(RecordingFixture,
                 "query_relaxed queries in relaxed mode and always restores the thread's mode") {
  const DriverEvent event(context);
  recording.calls();
  for (const CUresult answer : {CUDA_SUCCESS, CUDA_ERROR_NOT_READY}) {
    recording.fail_next("cuEventQuery", answer);
    CHECK(event.query_relaxed() == (answer == CUDA_SUCCESS));
    CHECK(recording.calls() ==
          Names{"cuThreadExchangeStreamCaptureMode", "cuEventQuery", "cuThreadExchangeStreamCaptureMode"});
    CHECK(recording.capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
  }
  recording.fail_next("cuEventQuery", CUDA_ERROR_CAPTURED_EVENT);
  CHECK_THROWS_AS(event.query_relaxed(), CapturedEvent);
  CHECK(recording.capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
  recording.calls();
  recording.fail_next("cuThreadExchangeStreamCaptureMode", CUDA_ERROR_INVALID_VALUE);
  CHECK(event.try_query_relaxed() == CUDA_ERROR_INVALID_VALUE);
  CHECK(recording.calls() == Names{"cuThreadExchangeStreamCaptureMode"});
}

TEST_CASE_METHOD(RecordingFixture,
                 "a timed wait polls at least once and returns false when the time is over") {
  const DriverEvent event(context);
  CHECK(event.synchronize_for(0ns));
  CHECK(event.synchronize_for(-1s));
  CHECK(event.synchronize_for(std::chrono::nanoseconds::max()));
  CHECK(event.synchronize_until(std::chrono::steady_clock::time_point::min()));
  recording.fail_always("cuEventQuery", CUDA_ERROR_NOT_READY);
  CHECK_FALSE(event.synchronize_for(0ns));
  CHECK_FALSE(event.synchronize_for(-1s));
  CHECK_FALSE(event.synchronize_for(5ms)); // spins, yields and sleeps
  CHECK(event.try_synchronize_for(0ns) == CUDA_ERROR_NOT_READY);
  recording.fail_always("cuEventQuery", CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_THROWS_AS(event.synchronize_for(1h), IllegalAddress);
}

TEST_CASE_METHOD(RecordingFixture, "an empty event never reaches the driver") {
  DriverEvent empty;
  const DriverEvent good = timed();
  recording.calls();
  CHECK_THROWS_AS(empty.record(stream), EmptyEvent);
  CHECK_THROWS_AS(empty.record(nullptr), EmptyEvent);
  CHECK_THROWS_AS(empty.record(stream, RecordFlags::external), EmptyEvent);
  CHECK_THROWS_AS(empty.wait(stream), EmptyEvent);
  CHECK_THROWS_AS(empty.wait(nullptr), EmptyEvent);
  CHECK_THROWS_AS(empty.query(), EmptyEvent);
  CHECK_THROWS_AS(empty.query_relaxed(), EmptyEvent);
  CHECK_THROWS_AS(empty.synchronize(), EmptyEvent);
  CHECK_THROWS_AS(empty.synchronize_for(1s), EmptyEvent);
  CHECK_THROWS_AS(empty.synchronize_until(std::chrono::steady_clock::now()), EmptyEvent);
  CHECK_THROWS_AS(empty.close(), EmptyEvent);
  CHECK_THAT(refusal<EmptyEvent>([&] { empty.elapsed_time(good); }),
             ContainsSubstring("the start event is empty"));
  CHECK_THAT(refusal<EmptyEvent>([&] { good.elapsed_time(empty); }),
             ContainsSubstring("the end event is empty"));
  CHECK(empty.release() == nullptr);
  CHECK_FALSE(empty);
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "move, close and release leave the event empty") {
  DriverEvent event = timed();
  CUevent const handle = event.native_handle();
  DriverEvent moved = std::move(event);
  CHECK_FALSE(event);
  CHECK_FALSE(event.context());
  CHECK(event.native_handle() == nullptr);
  CHECK_THROWS_AS(event.query(), EmptyEvent);
  CHECK(moved.native_handle() == handle);
  CHECK(moved.flags() == EventFlags::timing);
  CHECK(moved.context() == context);

  moved.close();
  CHECK_FALSE(moved);
  CHECK_FALSE(moved.context());
  CHECK(RecordingDriver::live_events() == events_before);

  DriverEvent given(context);
  CUevent const raw = given.release();
  CHECK_FALSE(given);
  CHECK(RecordingDriver::live_events() == events_before + 1);
  CHECK(DriverEvent::from_native_handle(context, raw, EventFlags::none).native_handle() == raw);
}

TEST_CASE_METHOD(RecordingFixture,
                 "swap exchanges everything, and events with the same handle and driver are equal") {
  DriverEvent a = timed(), b(context);
  CUevent const first = a.native_handle();
  swap(a, b);
  CHECK(b.native_handle() == first);
  CHECK(b.flags() == EventFlags::timing);
  CHECK(a.flags() == EventFlags::none);
  CHECK(a != b);
  CHECK(a == DriverEvent::borrow(context, a.native_handle(), EventFlags::none));
  const Context elsewhere = Context::borrow(context_handle(1), RecordingDriver::driver(12000));
  CHECK(a != DriverEvent::borrow(elsewhere, a.native_handle(), EventFlags::none));
  CHECK(a != DriverEvent());
  CHECK(DriverEvent() == DriverEvent());
}

TEST_CASE_METHOD(RecordingFixture, "a borrowed event is used and never destroyed") {
  DriverEvent event = DriverEvent::borrow(context, event_handle(1), EventFlags::timing);
  event.record(stream);
  DriverEvent moved = std::move(event);
  moved.close();
  { const DriverEvent again = DriverEvent::borrow(context, event_handle(1), EventFlags::none); }
  CHECK(recording.calls() == Names{"cuEventRecord"});
  CHECK_THROWS_AS(DriverEvent::borrow(context, nullptr, EventFlags::none), InvalidHandle);
  CHECK_THROWS_AS(DriverEvent::from_native_handle(context, nullptr, EventFlags::none), InvalidHandle);
}

TEST_CASE_METHOD(RecordingFixture,
                 "close throws what the destructor would report and leaves the event empty") {
  DriverEvent event(context);
  recording.fail_next("cuEventDestroy", CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_THROWS_AS(event.close(), IllegalAddress);
  CHECK_FALSE(event);
  CHECK_FALSE(event.context());

  HookedErrors hooked;
  {
    const DriverEvent dropped(context);
    recording.fail_next("cuEventDestroy", CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  CHECK(hooked.take() == CUDA_ERROR_ILLEGAL_ADDRESS);
  for (int i = 0; i < 2; ++i)
    driver.table().cuEventDestroy_v4000(nullptr); // the two that the stubs still count
}

TEST_CASE_METHOD(RecordingFixture, "an event whose context is gone is not destroyed") {
  HookedErrors hooked;
  const auto reach_no_event = [&] {
    for (const std::string_view call : recording.calls())
      CHECK(call != "cuEventDestroy");
    driver.table().cuEventDestroy_v4000(nullptr); // the stubs still count it
    recording.calls();
  };

  SECTION("by the destructor") {
    {
      const DriverEvent dropped(context);
      recording.fail_next("cuCtxGetId", CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    CHECK(hooked.take() == CUDA_SUCCESS);
    reach_no_event();
  }
  SECTION("by close, which throws") {
    DriverEvent closed(context);
    recording.fail_next("cuCtxGetId", CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_THROWS_AS(closed.close(), ContextIsDestroyed);
    CHECK_FALSE(closed);
    reach_no_event();
  }
  SECTION("also where the handle of a primary context stands for a later one") {
    const Context primary = Context::primary(0, driver);
    {
      const DriverEvent dropped(primary);
      recording.reset_contexts();
    }
    CHECK(hooked.take() == CUDA_SUCCESS);
    reach_no_event();
    CHECK_THROWS_AS(DriverEvent(primary), ContextIsDestroyed); // the later context is not pushed
  }
}

TEST_CASE_METHOD(RecordingFixture, "an event is made while a context that has ended is current") {
  recording.context_stack().push_back(context_handle(7)); // cuCtxGetCurrent returns a dead handle
  CHECK(DriverEvent(context));
  CHECK(recording.context_stack() == std::vector<CUcontext>{context_handle(7)});
  recording.context_stack().clear();
}

TEST_CASE_METHOD(RecordingFixture, "an event keeps an owning context alive") {
  const long contexts = RecordingDriver::live_contexts();
  {
    DriverEvent event;
    {
      const Context owner = Context::primary(0, driver);
      event = DriverEvent(owner);
    }
    CHECK(RecordingDriver::live_contexts() == contexts + 1);
    recording.calls();
    event.close();
    CHECK(recording.calls() == Names{"cuCtxGetId", "cuEventDestroy", "cuDevicePrimaryCtxRelease"});
  }
  CHECK(RecordingDriver::live_contexts() == contexts);
}

TEST_CASE_METHOD(RecordingFixture, "a refused record says why if the event can tell") {
  DriverEvent event(context);
  recording.stream_context(context_handle(2));
  recording.fail_next("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
  const std::string mismatch = refusal<ContextMismatch>([&] { event.record(stream); });
  CHECK_THAT(mismatch, ContainsSubstring("context 0xc001 (device 0)") &&
                           ContainsSubstring("context 0xc002 (device 1)"));

  recording.stream_context(context_handle(1));
  recording.fail_next("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
  refusal<InvalidHandle>([&] { event.record(stream); });

  recording.fail_next("cuEventRecordWithFlags", CUDA_ERROR_ILLEGAL_STATE);
  CHECK_THAT(refusal<ExternalOutsideCapture>([&] { event.record(stream, RecordFlags::external); }),
             ContainsSubstring("the stream is not being captured"));
  recording.fail_next("cuEventRecord", CUDA_ERROR_ILLEGAL_STATE);
  refusal<IllegalState>([&] { event.record(stream); });
  recording.fail_next("cuEventRecordWithFlags", CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(refusal<InvalidValue>([&] { event.record(stream, RecordFlags(64)); }),
             ContainsSubstring("unknown bits"));
  recording.fail_next("cuEventRecordWithFlags", CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(refusal<InvalidValue>(
                 [&] { event.record(stream, RecordFlags::external | RecordFlags::external_in_capture); }),
             ContainsSubstring("use one of them"));
}

TEST_CASE_METHOD(RecordingFixture, "a refused wait says why if the event can tell") {
  const DriverEvent event(context);
  recording.fail_next("cuStreamWaitEvent", CUDA_ERROR_ILLEGAL_STATE);
  refusal<ExternalOutsideCapture>([&] { event.wait(stream, WaitFlags::external); });
  recording.fail_next("cuStreamWaitEvent", CUDA_ERROR_INVALID_VALUE);
  refusal<RecordedInCapture>([&] { event.wait(stream); });
  recording.fail_next("cuStreamWaitEvent", CUDA_ERROR_INVALID_VALUE);
  refusal<InvalidValue>([&] { event.wait(stream, WaitFlags(64)); });
  recording.fail_next("cuStreamWaitEvent", CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(refusal<InvalidValue>(
                 [&] { event.wait(stream, WaitFlags::external | WaitFlags::external_in_capture); }),
             ContainsSubstring("use one of them"));
  recording.fail_next("cuStreamWaitEvent", CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  CHECK_THAT(refusal<StreamCaptureIsolation>([&] { event.wait(stream); }),
             ContainsSubstring("WaitFlags::external"));
}

TEST_CASE_METHOD(RecordingFixture, "a query or synchronize of a captured event says that it was captured") {
  const DriverEvent event(context);
  recording.fail_next("cuEventQuery", CUDA_ERROR_INVALID_VALUE);
  refusal<RecordedInCapture>([&] { return event.query(); });
  recording.fail_next("cuEventSynchronize", CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(refusal<RecordedInCapture>([&] { event.synchronize(); }),
             ContainsSubstring("cuEventSynchronize"));
}

TEST_CASE_METHOD(RecordingFixture, "a refused elapsed time says which event and why") {
  const DriverEvent untimed(context), a = timed(), b = timed();
  const DriverEvent foreign(Context::borrow(context_handle(2), driver), EventFlags::timing);
  const auto fail = [&](CUresult result) { recording.fail_next("cuEventElapsedTime", result); };

  fail(CUDA_ERROR_INVALID_HANDLE);
  CHECK_THAT(refusal<TimingDisabled>([&] { untimed.elapsed_time(a); }), ContainsSubstring("the start event"));
  fail(CUDA_ERROR_INVALID_HANDLE);
  CHECK_THAT(refusal<TimingDisabled>([&] { a.elapsed_time(untimed); }), ContainsSubstring("the end event"));
  fail(CUDA_ERROR_INVALID_HANDLE);
  CHECK_THAT(refusal<ContextMismatch>([&] { a.elapsed_time(foreign); }), ContainsSubstring("device 1"));

  recording.fail_always("cuEventElapsedTime", CUDA_ERROR_INVALID_HANDLE);
  CHECK_THAT(refusal<NeverRecorded>([&] { a.elapsed_time(b); }),
             ContainsSubstring("the start event was never"));
  recording.fail_always("cuEventElapsedTime", CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(refusal<RecordedInCapture>([&] { a.elapsed_time(b); }), ContainsSubstring("the start event"));
  recording.fail_nothing();
  // The time of each event to itself succeeds, so neither cause applies.
  fail(CUDA_ERROR_INVALID_HANDLE);
  refusal<InvalidHandle>([&] { a.elapsed_time(b); });
  fail(CUDA_ERROR_NOT_READY);
  refusal<NotReady>([&] { a.elapsed_time(b); });
}

TEST_CASE_METHOD(RecordingFixture, "handles of one driver never reach another's functions") {
  const DriverEvent a = timed();
  const DriverEvent foreign(Context::borrow(context_handle(1), RecordingDriver::driver(12000)),
                            EventFlags::timing);
  recording.calls();
  DriverEvent::Milliseconds time{};
  CHECK(a.try_elapsed_time(time, foreign) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(recording.calls().empty());
  CHECK_THAT(refusal<ContextMismatch>([&] { a.elapsed_time(foreign); }), ContainsSubstring("another driver"));
}

TEST_CASE_METHOD(RecordingFixture, "try_elapsed_time assigns the time only if it succeeds") {
  const DriverEvent start = timed(), end = timed();
  DriverEvent::Milliseconds time{5};
  recording.fail_next("cuEventElapsedTime", CUDA_ERROR_NOT_READY);
  CHECK(start.try_elapsed_time(time, end) == CUDA_ERROR_NOT_READY);
  CHECK(time.count() == 5);
  CHECK(start.try_elapsed_time(time, end) == CUDA_SUCCESS);
  CHECK(time.count() != 5);
}

TEST_CASE_METHOD(RecordingFixture, "a refused creation says why and leaks nothing") {
  recording.fail_next("cuEventCreate", CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(
      refusal<InvalidValue>([&] { DriverEvent(context, EventFlags::timing | EventFlags::interprocess); }),
      ContainsSubstring("interprocess event cannot have timing"));
  recording.fail_next("cuEventCreate", CUDA_ERROR_INVALID_VALUE);
  CHECK_THAT(refusal<InvalidValue>([&] { DriverEvent(context, EventFlags(64)); }),
             ContainsSubstring("unknown bits"));
  refusal<InvalidContext>([&] { DriverEvent{Context()}; });
  recording.fail_next("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
  DriverEvent out;
  CHECK(DriverEvent::try_create(out, context) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_FALSE(out);
  recording.fail_always("cuCtxGetId", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  refusal<ContextIsDestroyed>([&] { DriverEvent{context}; });
}
