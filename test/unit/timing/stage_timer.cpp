// SPDX-License-Identifier: MIT
#include <cuevent/stage_timer.hpp>

#include "allocations.hpp"
#include "overloads.hpp"
#include "recording_fixture.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <functional>
#include <malloc.h>
#include <optional>
#include <type_traits>
#include <vector>

using namespace cuevent;
using namespace test;

static_assert(!std::is_copy_constructible_v<StageTimer> && !std::is_copy_assignable_v<StageTimer>);
static_assert(std::is_nothrow_move_constructible_v<StageTimer> &&
              std::is_nothrow_move_assignable_v<StageTimer>);
static_assert(!std::is_copy_constructible_v<TimedGraph> && std::is_nothrow_move_constructible_v<TimedGraph>);
static_assert(!std::is_copy_constructible_v<StageScope> && !std::is_move_constructible_v<StageScope>);

namespace {

struct TimerFixture : RecordingFixture {
  StageTimer timer{context, {.events_per_stream = 16}};
  StageId first = timer.stage("first"), second = timer.stage("second");

  TimerFixture() {
    timer.add_stream(stream);
    recording.calls();
  }
  ~TimerFixture() { timer = StageTimer(); }

  const StageStatistics of(StageId stage) const {
    return timer.report().stages.at(static_cast<std::size_t>(stage));
  }
  /// The device makes no progress.
  void hold() { recording.fail_always("cuEventElapsedTime", CUDA_ERROR_NOT_READY); }
};

} // namespace

TEST_CASE_METHOD(RecordingFixture,
                 "a stage records one boundary at each end, and adjacent stages share one") {
  const auto [side_streams, boundary] = GENERATE(table<std::size_t, Names>(
      {{0, {"cuStreamIsCapturing", "cuEventRecord"}},
       {1, {"cuStreamIsCapturing", "cuEventRecord", "cuStreamWaitEvent", "cuEventRecord"}}}));
  StageTimer timer(context, {.events_per_stream = 16, .side_streams = side_streams});
  const StageId first = timer.stage("first"), second = timer.stage("second");
  timer.add_stream(stream);
  recording.calls();
  CHECK(timer.open(stream, first));
  CHECK(recording.calls() == boundary);
  CHECK(timer.next(stream, second));
  CHECK(recording.calls() == boundary);
  timer.close(stream);
  CHECK(recording.calls() == boundary);

  for (int stage = 0; stage < 8; ++stage)
    timer.next(stream, first);
  timer.close(stream);
  CHECK(recording.calls().size() == 9 * boundary.size());
}

TEST_CASE_METHOD(RecordingFixture, "a timer that checks for escapes records the context at each boundary") {
  StageTimer timer(context, {.events_per_stream = 16, .side_streams = 0, .escapes = StageEscapes::checked});
  const StageId stage = timer.stage("stage");
  timer.add_stream(stream);
  recording.calls();
  CHECK(timer.open(stream, stage));
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuEventRecord", "cuCtxRecordEvent"});
  timer.close(stream);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuEventRecord", "cuCtxRecordEvent"});

  // A capture would be invalidated, so the other stream is asked first.
  timer.add_stream(reinterpret_cast<CUstream>(0x3000));
  recording.calls();
  CHECK(timer.open(stream, stage));
  const Names asked{"cuStreamIsCapturing", "cuEventRecord", "cuStreamIsCapturing", "cuCtxRecordEvent"};
  CHECK(recording.calls() == asked);

  recording.fail_always("cuCtxRecordEvent", CUDA_ERROR_NOT_SUPPORTED);
  timer.close(stream);
  CHECK(recording.calls() == asked);
  CHECK(timer.open(stream, stage));
  timer.close(stream);
  const Names not_asked{"cuStreamIsCapturing", "cuEventRecord", "cuStreamIsCapturing", "cuEventRecord"};
  CHECK(recording.calls() == not_asked);
  timer.collect();
  const StageStatistics found = timer.report().stages.at(0);
  CHECK(found.count == 3);
  CHECK(found.unknown == 2);
}

TEST_CASE_METHOD(RecordingFixture, "at most 256 events of the context are on their way") {
  StageTimer timer(context, {.events_per_stream = 400, .side_streams = 1, .escapes = StageEscapes::checked});
  const StageId stage = timer.stage("stage");
  timer.add_stream(stream);
  recording.fail_always("cuEventElapsedTime", CUDA_ERROR_NOT_READY); // the device makes no progress
  recording.calls();
  for (int i = 0; i < 150; ++i) {
    timer.open(stream, stage);
    timer.close(stream);
  }
  const Names calls = recording.calls();
  CHECK(std::count(calls.begin(), calls.end(), "cuCtxRecordEvent") == 256);
  recording.fail_nothing();
  CHECK(timer.collect() == 150);
  CHECK(timer.report().stages.at(0).unknown == 22);
  recording.calls();
  timer.open(stream, stage);
  const Names again = recording.calls();
  CHECK(std::count(again.begin(), again.end(), "cuCtxRecordEvent") == 1);
}

TEST_CASE_METHOD(TimerFixture, "the first two streams get a side stream, except the per-thread stream") {
  const auto has_one_beside = [&](CUstream timed) {
    timer.add_stream(timed);
    recording.calls();
    timer.open(timed, first);
    const Names calls = recording.calls();
    timer.close(timed);
    return std::count(calls.begin(), calls.end(), "cuStreamWaitEvent") == 1;
  };
  const auto third = reinterpret_cast<CUstream>(0x3000);
  CHECK_FALSE(has_one_beside(CU_STREAM_PER_THREAD));
  CHECK(has_one_beside(stream));
  CHECK(has_one_beside(CU_STREAM_LEGACY));
  CHECK_FALSE(has_one_beside(third));
}

TEST_CASE_METHOD(RecordingFixture, "no stream gets a side stream if the device has few connections") {
  struct Connections {
    explicit Connections(const char* number) { setenv("CUDA_DEVICE_MAX_CONNECTIONS", number, 1); }
    ~Connections() { unsetenv("CUDA_DEVICE_MAX_CONNECTIONS"); }
  };
  const long streams_before = RecordingDriver::live_streams();
  for (const auto& [number, beside] : {std::pair("1", 0), std::pair("7", 0), std::pair("8", 2)}) {
    const Connections connections(number);
    const StageTimer timer(context, {.events_per_stream = 2});
    CHECK(RecordingDriver::live_streams() - streams_before == 1 + beside);
  }
}

TEST_CASE_METHOD(RecordingFixture, "a timer with an option that is too large is refused") {
  for (const std::size_t large : {std::size_t{1} << 25, SIZE_MAX})
    for (const StageTimerOptions& options :
         {StageTimerOptions{.events_per_stream = large}, StageTimerOptions{.spans = large},
          StageTimerOptions{.side_streams = large}}) {
      CHECK_THAT(refusal<InvalidValue>([&] { StageTimer(context, options); }),
                 ContainsSubstring("use fewer"));
      StageTimer timer;
      CHECK(StageTimer::try_create(timer, context, options) == CUDA_ERROR_INVALID_VALUE);
    }
}

TEST_CASE_METHOD(RecordingFixture, "only a timer with NVTX ranges needs NVTX") {
#ifdef NVTX_TOOL // the headers of NVTX are there
  constexpr CUresult with_nvtx = CUDA_SUCCESS;
#else
  constexpr CUresult with_nvtx = CUDA_ERROR_NOT_SUPPORTED;
#endif
  for (const auto& [ranges, result] :
       {std::pair(StageRanges::none, CUDA_SUCCESS), std::pair(StageRanges::nvtx, with_nvtx)}) {
    const StageTimerOptions options{.events_per_stream = 2, .side_streams = 0, .ranges = ranges};
    StageTimer timer;
    CHECK(StageTimer::try_create(timer, context, options) == result);
    const auto make = [&] { return StageTimer(context, options).stage("stage"); };
    if (result == CUDA_SUCCESS)
      CHECK(make() == StageId{});
    else
      CHECK_THAT(refusal<NotSupported>(make), ContainsSubstring("without NVTX"));
  }
}

TEST_CASE_METHOD(TimerFixture, "reading back queries each boundary once and stops at the first pending one") {
  timer.open(stream, first);
  timer.next(stream, second);
  timer.close(stream);
  recording.calls();
  recording.fail_next("cuEventElapsedTime", CUDA_ERROR_NOT_READY);
  CHECK(timer.poll() == 0);
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuEventElapsedTime"});
  CHECK(timer.poll() == 2);
  CHECK(recording.calls() ==
        Names{"cuCtxGetId", "cuEventElapsedTime", "cuEventElapsedTime", "cuEventElapsedTime"});
  CHECK(timer.poll() == 0);
  CHECK(recording.calls() == Names{"cuCtxGetId"});
  CHECK(of(first).count == 1);
  CHECK(of(second).count == 1);
}

TEST_CASE_METHOD(TimerFixture, "a full ring queries the device once, records nothing and does not wait") {
  hold();
  for (int i = 0; i < 8; ++i) {
    CHECK(timer.open(stream, first));
    timer.close(stream);
  }
  recording.calls();
  CHECK(timer.try_open(stream, second) == CUDA_ERROR_NOT_READY);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuCtxGetId", "cuEventElapsedTime"});
  timer.close(stream);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing"});
  CHECK(of(second).dropped == 1);

  recording.fail_nothing();
  CHECK(timer.open(stream, second)); // this reads back what has completed in the meantime
  timer.close(stream);
  timer.collect();
  CHECK(of(first).count == 8);
  CHECK(of(second).count == 1);
}

TEST_CASE_METHOD(TimerFixture, "a stage that could not be opened is not open") {
  recording.fail_next("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_AS(timer.open(stream, first), OutOfMemory);
  CHECK(of(first).dropped == 1);
  CHECK_THAT(refusal<IllegalState>([&] { timer.close(stream); }), ContainsSubstring("no stage is open"));
  recording.fail_next("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
  CHECK_THAT(refusal<ContextMismatch>([&] { timer.open(stream, first); }),
             ContainsSubstring("another context"));
}

TEST_CASE_METHOD(TimerFixture,
                 "a stage whose end could not be recorded is closed and lost, and the next is kept") {
  for (const char* const call : {"cuEventRecord", "cuStreamWaitEvent", "cuStreamIsCapturing"}) {
    CAPTURE(call);
    timer.clear();
    timer.open(stream, first);
    timer.open(stream, second);
    recording.fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_THROWS_AS(timer.close(stream), OutOfMemory);
    timer.close(stream);
    CHECK(timer.try_close(stream) == CUDA_ERROR_ILLEGAL_STATE);
    timer.collect();
    CHECK(of(first).count == 1);
    CHECK(of(second).count == 0);
    CHECK(of(second).dropped == 1);
  }
  timer.open(stream, first);
  recording.fail_next("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(timer.try_next(stream, second) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(timer.try_close(stream) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(timer.collect() == 0);
}

TEST_CASE_METHOD(TimerFixture, "a scope reports errors of its end") {
  HookedErrors hooked;
  {
    const StageScope scope(timer, stream, first);
    recording.fail_next("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY);
  }
  CHECK(hooked.take() == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(timer.try_close(stream) == CUDA_ERROR_ILLEGAL_STATE);
}

TEST_CASE_METHOD(TimerFixture, "the next poll reports a fault, and earlier results stay") {
  timer.open(stream, first);
  timer.next(stream, second);
  timer.close(stream);
  recording.fail_call(4, CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK_THROWS_AS(timer.poll(), IllegalAddress);
  recording.fail_always("cuEventElapsedTime", CUDA_ERROR_ILLEGAL_ADDRESS);
  std::size_t spans = 0;
  CHECK(timer.try_collect(spans) == CUDA_ERROR_ILLEGAL_ADDRESS); // does not wait forever
  CHECK(spans == 0);
  CHECK(of(first).count == 1);
  CHECK(of(second).count == 0);
  recording.fail_nothing();
}

TEST_CASE_METHOD(RecordingFixture,
                 "captured boundaries are nodes next to the work, or external records in it") {
  const auto [side_streams, boundary] = GENERATE(
      table<std::size_t, Names>({{0, {"cuStreamGetCaptureInfo", "cuEventCreate", "cuEventRecordWithFlags"}},
                                 {1,
                                  {"cuStreamGetCaptureInfo", "cuEventCreate", "cuStreamGetCaptureInfo",
                                   "cuGraphAddEventRecordNode"}}}));
  StageTimer timer(context, {.events_per_stream = 16, .side_streams = side_streams});
  const StageId first = timer.stage("first");
  timer.add_stream(stream);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  recording.calls();
  timer.open(stream, first);
  Names calls = recording.calls();
  // From the creation.
  std::erase_if(calls, [](std::string_view call) { return call.starts_with("cuCtx"); });
  CHECK(calls.front() == "cuStreamIsCapturing");
  calls.erase(calls.begin());
  // The graph becomes an owner once, before it refers to the first event.
  Names first_boundary = boundary;
  first_boundary.insert(first_boundary.begin() + 1, {"cuUserObjectCreate", "cuGraphRetainUserObject"});
  CHECK(calls == first_boundary);
  if (side_streams == 0) CHECK(recording.record_flags() == CU_EVENT_RECORD_EXTERNAL);
  if (side_streams == 1) CHECK(recording.nodes_before() == 1); // the captured node
  timer.close(stream);
  if (side_streams == 1) CHECK(recording.nodes_before() == 2); // and the begin of the stage
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CHECK_THROWS_AS(timer.open(stream, first), StreamCaptureInvalidated);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  CHECK(timer.collect() == 0);
  CHECK(timer.report().stages.at(0).count == 0);
  timer = StageTimer();
}

TEST_CASE_METHOD(TimerFixture,
                 "a captured boundary is an external record if no node can be next to the work") {
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  timer.open(stream, first);
  const Names calls = recording.calls();
  REQUIRE(calls[calls.size() - 2] == "cuStreamGetCaptureInfo");
  const int asks_for_nodes = static_cast<int>(calls.size()) - 3; // the second boundary needs no user object
  const auto lossy_query = static_cast<CUresult>(402);           // the edges between them are not plain
  recording.fail_call(asks_for_nodes, lossy_query);
  timer.close(stream);
  CHECK(recording.calls().back() == "cuEventRecordWithFlags");
  timer.open(stream, first);
  CHECK(recording.nodes_before() == 1); // the record in the stream is one of the captured nodes
  recording.fail_next("cuGraphAddEventRecordNode", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_AS(timer.close(stream), OutOfMemory);
  timer.close(stream);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_CASE_METHOD(RecordingFixture,
                 "a graph owns a captured event before it refers to the event, or never gets it") {
  StageTimer timer(context, {.events_per_stream = 16, .side_streams = 0});
  const StageId stage = timer.stage("stage");
  timer.add_stream(stream);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  for (const char* const call : {"cuUserObjectCreate", "cuGraphRetainUserObject", "cuEventCreate"}) {
    CAPTURE(call);
    recording.calls();
    recording.fail_next(call, CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_THROWS_AS(timer.open(stream, stage), OutOfMemory);
    const Names calls = recording.calls();
    CHECK(std::count(calls.begin(), calls.end(), "cuEventRecordWithFlags") == 0);
    CHECK_THROWS_AS(timer.close(stream), IllegalState);
  }
  const long events = RecordingDriver::live_events();
  recording.fail_next("cuEventRecordWithFlags", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_AS(timer.open(stream, stage), OutOfMemory);
  CHECK(RecordingDriver::live_events() == events + 1); // the graph may or may not refer to the event
  timer.open(stream, stage);
  timer.close(stream);

  // The timer ends first, and the graph keeps the events.
  const long of_timer = RecordingDriver::live_events();
  timer = StageTimer();
  CHECK(RecordingDriver::live_events() > events_before);
  CHECK(RecordingDriver::live_events() < of_timer);
  recording.calls();
  recording.end_user_objects();
  CHECK(recording.calls().empty()); // a thread of the driver must not call it
  CHECK(destroy_retired() == 3);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_CASE_METHOD(RecordingFixture, "captured stages are forgotten once their graph is gone") {
  StageTimer timer(context, {.events_per_stream = 16, .side_streams = 0});
  const StageId stage = timer.stage("stage");
  DriverEvent event(context);
  timer.add_stream(stream);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  const auto capture_and_abandon = [&] {
    timer.open(stream, stage);
    timer.record(event, stream);
    timer.wait(event, stream);
    recording.end_user_objects();
    static_cast<void>(timer.try_record(event, stream)); // a capture without stages keeps nothing
    recording.calls();
  };
  for (int i = 0; i < 10; ++i)
    capture_and_abandon();
  const long events = RecordingDriver::live_events();
  const std::size_t heap = mallinfo2().uordblks; // 0 under a sanitizer
  for (int i = 0; i < 3'000; ++i)
    capture_and_abandon();
  CHECK(RecordingDriver::live_events() == events);
  CHECK(mallinfo2().uordblks < heap + 100'000);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  timer = StageTimer();
}

TEST_CASE_METHOD(RecordingFixture, "the timers of a context share its side streams") {
  int next_stream = 1;
  const StageTimerOptions options{.events_per_stream = 2};
  // Adds four streams to the timer, and counts the side streams.
  const auto side_streams = [&](StageTimer& timer) {
    int count = 0;
    for (int i = 0; i < 4; ++i) {
      CUstream const timed = stream_handle(static_cast<std::uintptr_t>(++next_stream));
      timer.add_stream(timed);
      recording.calls();
      timer.open(timed, timer.stage("stage"));
      const Names calls = recording.calls();
      count += static_cast<int>(std::count(calls.begin(), calls.end(), "cuStreamWaitEvent"));
      timer.close(timed);
    }
    return count;
  };
  std::optional<StageTimer> first(std::in_place, context, options);
  StageTimer second(context, options), wider(context, {.events_per_stream = 2, .side_streams = 3});
  CHECK(side_streams(*first) == 2);
  CHECK(side_streams(second) == 0);
  CHECK(side_streams(wider) == 1); // it wants three, and two are in use

  const Context other = Context::borrow(context_handle(2), driver);
  StageTimer elsewhere(other, options);
  CHECK(side_streams(elsewhere) == 2);

  first.reset();
  CHECK(side_streams(second) == 1); // one is still in use
  wider = StageTimer(context, options);
  CHECK(side_streams(wider) == 1);

  second = StageTimer(context, options); // this returns one side stream
  recording.fail_next("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_AS(second.add_stream(stream), OutOfMemory); // so does a stream that could not be added
  CHECK(side_streams(second) == 1);

  recording.reset_contexts(); // a new context has the handle now
  {
    StageTimer anew(Context::borrow(context.native_handle(), driver), options);
    CHECK(side_streams(anew) == 2);
  }
  for (StageTimer* const timer : {&second, &wider, &elsewhere})
    *timer = StageTimer();
  while (RecordingDriver::live_events() >
         events_before) // left to the lost context: the stubs still count them
    driver.table().cuEventDestroy_v4000(nullptr);
}

TEST_CASE_METHOD(TimerFixture, "a named context must be the timer's context") {
  const Context other = Context::borrow(context_handle(2), driver), empty;
  DriverEvent event(context), of_other(other);
  recording.calls();
  const StreamRef in_own{context, CUstream{}}, in_other{other, CUstream{}}, in_none{empty, CUstream{}};
  const auto calls_of = [&](StreamRef named) -> std::vector<std::function<void()>> {
    return {[&, named] { timer.add_stream(named); },
            [&, named] { timer.open(named, first); },
            [&, named] { timer.next(named, second); },
            [&, named] { timer.close(named); },
            [&, named] { timer.record(event, named); },
            [&, named] { timer.wait(event, named); },
            [&, named] { const StageScope scope(timer, named, first); }};
  };
  const auto results_of = [&](StreamRef named) -> std::vector<CUresult> {
    return {timer.try_open(named, first), timer.try_next(named, second), timer.try_close(named),
            timer.try_record(event, named), timer.try_wait(event, named)};
  };
  for (const auto& call : calls_of(in_other))
    CHECK_THAT(refusal<ContextMismatch>(call), ContainsSubstring("not the timer's"));
  for (const auto& call : calls_of(in_none))
    CHECK_THAT(refusal<InvalidContext>(call), ContainsSubstring("empty"));
  CHECK(results_of(in_other) == std::vector(5, CUDA_ERROR_INVALID_HANDLE));
  CHECK(results_of(in_none) == std::vector(5, CUDA_ERROR_INVALID_CONTEXT));
  // Without a named context, a default stream means the timer's, and another context's event cannot
  // be recorded on it.
  for (CUstream const standard : {CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    CHECK_THAT(refusal<ContextMismatch>([&] { timer.record(of_other, standard); }),
               ContainsSubstring("another context"));
    CHECK(timer.try_record(of_other, standard) == CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK(recording.calls().empty());

  timer.add_stream(CUstream{});
  recording.calls();
  timer.wait(of_other, CUstream{});
  const std::vector<Call> waits = recording.calls_with_contexts();
  CHECK(std::count(waits.begin(), waits.end(), Call{"cuStreamWaitEvent", context_handle(1)}) == 1);
  for (const auto& call : calls_of(in_own))
    CHECK_NOTHROW(call());
  CHECK(results_of(in_own) == std::vector(5, CUDA_SUCCESS));
  StageTimer none;
  CHECK(none.try_open({context, stream}, first) == CUDA_ERROR_INVALID_HANDLE);
  refusal<InvalidHandle>([&] { none.open({context, stream}, first); });
}

TEST_CASE_METHOD(TimerFixture, "a stream that is named with the timer's context belongs to it") {
  DriverEvent event(context);
  const std::size_t before = timer.report().streams.size();
  CUstream const added = stream_handle(9);
  recording.stream_context(context_handle(2));
  CHECK_THAT(refusal<ContextMismatch>([&] {
               timer.add_stream({context, added}, "wrong");
             }),
             ContainsSubstring("belongs to another context"));
  CHECK_THAT(refusal<ContextMismatch>([&] {
               timer.wait(event, {context, added});
             }),
             ContainsSubstring("belongs to another context"));
  CHECK(timer.try_wait(event, {context, added}) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(timer.report().streams.size() == before);
  recording.stream_context(context.native_handle());
  timer.add_stream({context, added}, "right");
  CHECK(timer.report().streams.back().name == "right");
}

TEST_CASE_METHOD(TimerFixture, "no event is read after the context was reset, even if it is retained again") {
  const auto read = [&] {
    int count = 0;
    for (const std::string_view call : recording.calls())
      if (call == "cuEventQuery" || call == "cuEventElapsedTime" || call == "cuEventRecord") ++count;
    return count;
  };
  hold();
  for (int i = 0; i < 8; ++i) {
    CHECK(timer.open(stream, first));
    timer.close(stream);
  }
  recording.fail_nothing();
  recording.reset_contexts();
  recording.calls();
  std::size_t spans = 0;
  CHECK_THROWS_AS(timer.poll(), ContextIsDestroyed);
  CHECK(timer.try_poll(spans) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_THROWS_AS(timer.collect(), ContextIsDestroyed);
  CHECK(timer.try_collect(spans) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_THROWS_AS(timer.calibrate(), ContextIsDestroyed);
  CHECK(timer.try_calibrate() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(timer.try_open(stream, first) == CUDA_ERROR_CONTEXT_IS_DESTROYED); // the ring is full
  CHECK(read() == 0);
  CHECK(spans == 0);
  timer = StageTimer();
  while (RecordingDriver::live_events() > events_before) // left to the lost context
    driver.table().cuEventDestroy_v4000(nullptr);
}

TEST_CASE_METHOD(TimerFixture, "records and waits through the timer make one additional driver call") {
  DriverEvent event(context);
  recording.calls();
  timer.record(event, stream);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuEventRecord"});
  timer.wait(event, stream, WaitFlags::external);
  CHECK(recording.calls() == Names{"cuStreamIsCapturing", "cuStreamWaitEvent"});
  CHECK(recording.wait_flags() == CU_EVENT_WAIT_EXTERNAL);
}

TEST_CASE_METHOD(TimerFixture, "a timer remembers the records that the driver has accepted, and no others") {
  const bool throwing = GENERATE(true, false);
  CUstream const waiting = stream_handle(2);
  DriverEvent event(context);
  const auto record = [&] {
    return throwing ? timer.record(event, stream), CUDA_SUCCESS : timer.try_record(event, stream);
  };
  const auto wait = [&] {
    timer.wait(event, waiting);
    timer.open(waiting, second);
    timer.close(waiting);
    timer.collect();
  };
  timer.open(stream, first);
  timer.close(stream);
  recording.fail_next("cuEventRecord", CUDA_ERROR_OUT_OF_MEMORY);
  if (throwing)
    CHECK_THROWS_AS(record(), OutOfMemory);
  else
    CHECK(record() == CUDA_ERROR_OUT_OF_MEMORY);
  wait();
  CHECK(timer.report().waits.empty());
  CHECK(timer.report().untraced_waits == 1);
  CHECK(record() == CUDA_SUCCESS);
  wait();
  CHECK(timer.report().waits.size() == 1);
  CHECK(timer.report().untraced_waits == 1);
}

TEST_CASE_METHOD(TimerFixture, "a stream for which a call fails leaves nothing in the timer") {
  CUstream const foreign = stream_handle(7), later = stream_handle(8);
  DriverEvent event(context);
  const std::pair<const char*, std::function<CUresult()>> calls[] = {
      {"open", [&] { return timer.open(foreign, first), CUDA_SUCCESS; }},
      {"next", [&] { return timer.next(foreign, first), CUDA_SUCCESS; }},
      {"close", [&] { return timer.close(foreign), CUDA_SUCCESS; }},
      {"record", [&] { return timer.record(event, foreign), CUDA_SUCCESS; }},
      {"wait", [&] { return timer.wait(event, foreign), CUDA_SUCCESS; }},
      {"try_open", [&] { return timer.try_open(foreign, first); }},
      {"try_wait", [&] { return timer.try_wait(event, foreign); }},
  };
  const CUstreamCaptureStatus status =
      GENERATE(CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  const bool gets_side_stream = GENERATE(true, false);
  if (!gets_side_stream) timer.add_stream(stream_handle(9));
  const std::size_t streams = timer.report().streams.size();
  const long before = RecordingDriver::live_events();
  recording.capture_status(status);
  for (const auto& [name, call] : calls) {
    INFO(name);
    for (const char* refused :
         {"cuEventRecord", "cuEventRecordWithFlags", "cuGraphAddEventRecordNode", "cuStreamWaitEvent"})
      recording.fail_always(refused, CUDA_ERROR_INVALID_HANDLE);
    CUresult result = CUDA_SUCCESS;
    try {
      result = call();
    } catch (const DriverError& error) {
      result = error.result();
    }
    CHECK(result != CUDA_SUCCESS);
    recording.fail_nothing();
    CHECK(timer.report().streams.size() == streams);
  }
  // Another stream gets the same number, also in the capture that the refused stream was in.
  CHECK(timer.open(later, first));
  timer.close(later);
  end_graphs();
  CHECK(RecordingDriver::live_events() - before == 16 + (gets_side_stream ? 1 : 0));
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_CASE_METHOD(TimerFixture, "the non-throwing overloads of a timer return what the others throw") {
  DriverEvent event(context);
  std::size_t spans = 0;
  const auto check_all = [&](CUresult expected) {
    CHECK(GIVES(timer, poll, spans) == expected);
    CHECK(GIVES(timer, collect, spans) == expected);
    CHECK(timer.try_calibrate() == expected);
    CHECK(BOTH(timer, record, event, stream) == expected);
    CHECK(BOTH(timer, wait, event, stream) == expected);
  };
  check_all(CUDA_SUCCESS);
  recording.fail_next("cuEventRecord", CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(timer.try_calibrate() == CUDA_ERROR_ILLEGAL_ADDRESS);
  timer = StageTimer();
  check_all(CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_METHOD(TimerFixture, "without memory, a captured stage stays as it was") {
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  const auto open_stages = [&] {
    std::size_t count = 0;
    while (timer.try_close(stream) == CUDA_SUCCESS)
      ++count;
    return count;
  };
  const std::size_t failed = fail_each_allocation([&] { timer.open(stream, first); },
                                                  [&] {
                                                    CHECK(open_stages() == 0);
                                                    timer = StageTimer(context, {.events_per_stream = 16});
                                                    first = timer.stage("first");
                                                    timer.add_stream(stream);
                                                  });
  CHECK(failed > 4);
  CHECK(open_stages() == 1);
  timer.open(stream, first);
  timer.open(stream, first);
  CHECK(fail_each_allocation([&] { timer.close(stream); }, [] {}) != 0);
  CHECK(open_stages() == 1); // only the last attempt closed a stage
}

TEST_CASE_METHOD(TimerFixture, "try_poll and try_collect set the number of spans that they read") {
  std::size_t spans = 7;
  CHECK(timer.try_poll(spans) == CUDA_SUCCESS);
  CHECK(spans == 0);
  timer.open(stream, first);
  timer.close(stream);
  CHECK(timer.try_poll(spans) == CUDA_SUCCESS);
  CHECK(spans == 1);
  CHECK(timer.report().spans.at(0).number == 1);
  timer.open(stream, first);
  timer.close(stream);
  spans = 7;
  CHECK(timer.try_collect(spans) == CUDA_SUCCESS);
  CHECK(spans == 1);
  timer = StageTimer();
  CHECK(timer.try_poll(spans) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(spans == 0);
  spans = 7;
  CHECK(timer.try_collect(spans) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(spans == 0);
}

TEST_CASE_METHOD(RecordingFixture,
                 "each way to read results frees the captured stages of a graph that is gone") {
  const auto read = GENERATE(
      as<std::function<void(StageTimer&)>>{}, [](StageTimer& timer) { timer.poll(); },
      [](StageTimer& timer) { timer.collect(); },
      [](StageTimer& timer) {
        std::size_t spans = 0;
        static_cast<void>(timer.try_poll(spans));
      },
      [](StageTimer& timer) {
        std::size_t spans = 0;
        static_cast<void>(timer.try_collect(spans));
      });
  StageTimer timer(context, {.events_per_stream = 16, .side_streams = 0});
  const StageId stage = timer.stage("stage");
  timer.add_stream(stream);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_ACTIVE);
  const std::size_t before = mallinfo2().uordblks; // does not change under a sanitizer
  for (int i = 0; i < 500; ++i) {
    timer.open(stream, stage);
    timer.close(stream);
  }
  recording.end_user_objects();
  recording.calls();
  const std::size_t full = mallinfo2().uordblks;
  read(timer);
  if (full != before) CHECK(mallinfo2().uordblks + 10'000 < full);
  recording.capture_status(CU_STREAM_CAPTURE_STATUS_NONE);
  timer = StageTimer();
}

TEST_CASE_METHOD(RecordingFixture,
                 "a timer keeps at most 256 boundaries in a launch queue, or 512 in a side stream") {
  const auto [side_streams, most] = GENERATE(table<std::size_t, long>({{0, 256}, {1, 512}}));
  StageTimer timer(context, {.events_per_stream = 2048, .side_streams = side_streams});
  const StageId stage = timer.stage("stage");
  timer.add_stream(stream);
  recording.fail_always("cuEventElapsedTime", CUDA_ERROR_NOT_READY); // the device does not get on
  recording.calls();
  long boundaries = 0;
  if (timer.open(stream, stage)) ++boundaries;
  while (boundaries < 1000 && timer.next(stream, stage))
    ++boundaries;
  timer.close(stream);
  ++boundaries;
  CHECK(boundaries == most);
  recording.fail_nothing();
  recording.calls();
  timer = StageTimer();
}
