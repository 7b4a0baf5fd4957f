// SPDX-License-Identifier: MIT
// Stages of work on streams: timed in order, without waiting.
#include "eventually.hpp"
#include "gate.hpp"
#include "stage_fixture.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>

#include <catch2/matchers/catch_matchers_exception.hpp>

#include <chrono>
#include <cmath>

using namespace cuevent;
using namespace test;
using Catch::Matchers::MessageMatches;

TEST_CASE_METHOD(StageFixture, "stages of a stream nest, and adjacent stages share a boundary") {
  const Stream stream(context);
  StageTimer timer(context, small);
  const StageId step = timer.stage("step"), forward = timer.stage("forward"),
                backward = timer.stage("backward");
  CHECK(timer.stage("forward") == forward);
  CHECK(timer.add_stream(stream, "compute") == StreamId{0});
  {
    const StageScope whole(timer, stream, step);
    CHECK(timer.open(stream, forward));
    work(stream);
    CHECK(timer.next(stream, backward));
    work(stream);
    timer.close(stream);
  }
  CHECK(timer.collect() <= 3); // some may have been read before
  const StageReport report = timer.report();
  REQUIRE(report.spans.size() == 3);
  const StageSpan whole = span_of(report, step), first = span_of(report, forward),
                  second = span_of(report, backward);
  CHECK(whole.depth == 0);
  CHECK(first.depth == 1);
  CHECK(second.depth == 1);
  CHECK(is_inside(first, whole));
  CHECK(is_inside(second, whole));
  CHECK(first.end == second.begin);
  CHECK(first.begin < first.end);
  CHECK(second.begin < second.end);
  CHECK(first.opened <= first.closed);
  CHECK(report.spans.back().number == whole.number); // in the order in which they end
  CHECK(report.streams.at(0).name == "compute");
  for (const StageId stage : {step, forward, backward}) {
    const StageStatistics& statistics = of(report, stage);
    const StageSpan span = span_of(report, stage);
    CHECK(statistics.count == 1);
    CHECK(statistics.dropped == 0);
    for (const DeviceTime time : {statistics.total, statistics.min, statistics.mean, statistics.max,
                                  statistics.p50, statistics.p90, statistics.p99})
      CHECK(time == span.end - span.begin);
  }
  check_nesting(report);

  timer.clear();
  CHECK(of(timer.report(), step).count == 0);
  CHECK(timer.report().spans.empty());
}

TEST_CASE_METHOD(StageFixture, "opening, closing and polling never wait, and results come in order") {
  const Stream held(context), free(context);
  StageTimer timer(context, small);
  const StageId slow = timer.stage("slow"), quick = timer.stage("quick");
  Gate gate(held);
  for (int i = 0; i < 3; ++i) {
    timer.open(held, slow);
    timer.close(held);
  }
  time_work(timer, free, quick);
  DriverEvent done(context);
  done.record(free);
  REQUIRE(done.synchronize_for(1min));
  // A held stream does not delay other streams. The event on the side stream is a moment later than its
  // own.
  std::size_t spans = 0;
  CHECK(eventually([&] { return (spans = timer.poll()) != 0; }));
  CHECK(spans == 1);
  CHECK(timer.poll() == 0);
  CHECK(of(timer.report(), slow).count == 0);
  gate.open();
  CHECK(timer.collect() == 3);
  const StageReport report = timer.report();
  REQUIRE(report.spans.size() == 4);
  for (std::size_t i = 2; i < 4; ++i) {
    CHECK(report.spans[i - 1].number < report.spans[i].number);
    CHECK(report.spans[i - 1].end <= report.spans[i].begin);
  }
}

TEST_CASE_METHOD(StageFixture, "a full ring is reported and loses none of its stages") {
  const Stream stream(context);
  StageTimer timer(context, {.events_per_stream = 4});
  const StageId stage = timer.stage("stage"), inner = timer.stage("inner");
  timer.add_stream(stream);
  {
    Gate gate(stream);
    CHECK(timer.open(stream, stage));
    timer.close(stream);
    CHECK(timer.open(stream, stage)); // the last event is reserved for the end of the stage
    CHECK_FALSE(timer.open(stream, inner));
    CHECK(timer.try_next(stream, inner) == CUDA_ERROR_NOT_READY);
    timer.close(stream);
    timer.close(stream);
    CHECK_FALSE(timer.open(stream, stage));
    timer.close(stream);
    CHECK(timer.try_close(stream) == CUDA_ERROR_ILLEGAL_STATE);
  }
  timer.collect();
  StageReport report = timer.report();
  CHECK(of(report, stage).count == 2);
  CHECK(of(report, stage).dropped == 1);
  CHECK(of(report, inner).count == 0);
  CHECK(of(report, inner).dropped == 2);

  CHECK(timer.open(stream, stage));
  CHECK(timer.open(stream, inner));
  timer.close(stream);
  timer.close(stream);
  timer.collect();
  report = timer.report();
  CHECK(of(report, stage).count == 3);
  CHECK(of(report, inner).count == 1);
  check_nesting(report);
}

TEST_CASE_METHOD(StageFixture, "next() ends the open stage even if the ring has no room for another") {
  const Stream stream(context);
  StageTimer timer(context, {.events_per_stream = 2});
  const StageId first = timer.stage("first"), second = timer.stage("second");
  {
    Gate gate(stream);
    CHECK(timer.open(stream, first));
    CHECK_FALSE(timer.next(stream, second));
    timer.close(stream);
  }
  timer.collect();
  CHECK(of(timer.report(), first).count == 1);
  CHECK(of(timer.report(), second).dropped == 1);
}

TEST_CASE_METHOD(StageFixture, "a timer waits for room in its ring if that is requested") {
  const Stream stream(context);
  StageTimer timer(context, {.events_per_stream = 2, .when_full = WhenFull::wait});
  const StageId stage = timer.stage("stage");
  for (int i = 0; i < 10; ++i) {
    CHECK(timer.open(stream, stage));
    work(stream);
    timer.close(stream);
  }
  timer.collect();
  CHECK(of(timer.report(), stage).count == 10);

  CHECK(timer.open(stream, stage));
  CHECK_FALSE(timer.open(stream, stage)); // no pending boundary would make room
  timer.close(stream);
  timer.close(stream);
  timer.collect();
}

TEST_CASE_METHOD(StageFixture, "a timer keeps the latest spans and counts them all") {
  const Stream stream(context);
  StageTimer timer(context, {.events_per_stream = 8, .spans = 3, .when_full = WhenFull::wait});
  const StageId stage = timer.stage("stage");
  for (int i = 0; i < 7; ++i) {
    timer.next(stream, stage);
    work(stream);
  }
  timer.close(stream);
  timer.collect();
  const StageReport report = timer.report();
  const StageStatistics& statistics = of(report, stage);
  CHECK(statistics.count == 7);
  REQUIRE(report.spans.size() == 3);
  CHECK(report.spans[0].end == report.spans[1].begin);
  CHECK(report.spans[1].end == report.spans[2].begin);
  CHECK(statistics.min > DeviceTime(0));
  CHECK(statistics.min <= statistics.p50);
  CHECK(statistics.p50 <= statistics.p90);
  CHECK(statistics.p90 <= statistics.p99);
  CHECK(statistics.p99 <= statistics.max);
  CHECK(std::abs((statistics.mean * 7 - statistics.total).count()) < 1);
}

TEST_CASE_METHOD(StageFixture, "a wait through the timer becomes an arrow between the adjacent stages") {
  const Stream copying(context), computing(context);
  DriverEvent copied(context), unknown(context);
  StageTimer timer(context, small);
  const StageId copy = timer.stage("copy"), forward = timer.stage("forward");
  time_work(timer, copying, copy);
  timer.record(copied, copying);
  timer.wait(copied, computing);
  time_work(timer, computing, forward);
  timer.wait(unknown, computing); // was not recorded through the timer
  timer.collect();

  const StageReport report = timer.report();
  const StageSpan from = span_of(report, copy), to = span_of(report, forward);
  REQUIRE(report.waits.size() == 1);
  const StageWait& wait = report.waits[0];
  CHECK(wait.from == from.number);
  CHECK(wait.to == to.number);
  CHECK(wait.from_stream == from.stream);
  CHECK(wait.to_stream == to.stream);
  CHECK(wait.departure == from.end);
  CHECK(wait.arrival == to.begin);
  CHECK(wait.departure <= wait.arrival + DeviceTime(5us)); // an event on a side stream can be this late
  CHECK(report.untraced_waits == 1);
}

TEST_CASE_METHOD(StageFixture,
                 "an event recorded within the first stage departs from the begin of the stage") {
  const Stream copying(context), computing(context);
  DriverEvent half(context);
  StageTimer timer(context, small);
  const StageId copy = timer.stage("copy"), forward = timer.stage("forward");
  timer.open(copying, copy);
  timer.record(half, copying);
  timer.wait(half, computing);
  work(copying);
  timer.close(copying);
  timer.open(computing, forward);
  timer.close(computing);
  timer.collect();

  const StageReport report = timer.report();
  const StageSpan from = span_of(report, copy), to = span_of(report, forward);
  REQUIRE(report.waits.size() == 1);
  CHECK(report.waits[0].from == from.number);
  CHECK(report.waits[0].to == to.number);
  CHECK(report.waits[0].departure == from.begin);
  CHECK(report.waits[0].arrival == to.begin);
  CHECK(report.untraced_waits == 0);
}

TEST_CASE_METHOD(StageFixture, "stages on default streams use the timer's context") {
  StageTimer timer(context, small);
  const StageId stage = timer.stage("stage");
  for (CUstream const stream : {CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    time_work(timer, stream, stage);
  }
  timer.open({context, CUstream{}}, stage); // 0 and the legacy stream are the same
  timer.close({context, CU_STREAM_LEGACY});
  timer.collect();
  CHECK(of(timer.report(), stage).count == 4);
  CHECK(timer.report().streams.size() == 2);
  CHECK(timer.add_stream(CU_STREAM_LEGACY) == timer.add_stream(CUstream{}));
}

TEST_CASE_METHOD(StageFixture, "a timer on a stuck stream does not fill a launch queue") {
  // A stream takes 1,020 submissions. Enough of them are left for the program.
  constexpr int stages = 1'200, own = 600;
  const Stream stream(context);
  for (const std::size_t side_streams : {std::size_t{2}, std::size_t{0}}) {
    CAPTURE(side_streams);
    StageTimer timer(context, {.side_streams = side_streams});
    const StageId stage = timer.stage("stage");
    timer.add_stream(stream);
    {
      Gate gate(stream);
      for (int i = 0; i < stages; ++i) {
        timer.next(stream, stage);
        if (i < own) work(stream);
      }
      timer.close(stream);
      CHECK(timer.poll() == 0);
    }
    timer.collect();
    const StageStatistics statistics = of(timer.report(), stage);
    CHECK(statistics.count > 200);
    CHECK(statistics.count + statistics.dropped == stages);
    timer.open(stream, stage); // and there is room again
    timer.close(stream);
    timer.collect();
    CHECK(of(timer.report(), stage).count == statistics.count + 1);
  }
}

TEST_CASE_METHOD(StageFixture, "stages that cannot be timed are refused") {
  const Stream stream(context);
  const Context other = Context::create(0, driver);
  const Stream elsewhere(other);
  StageTimer timer(context, small);
  const StageId stage = timer.stage("stage");
  CHECK_THROWS_AS(timer.close(stream), IllegalState);
  CHECK_THROWS_AS(timer.open(elsewhere, stage), ContextMismatch);
  CHECK_THROWS_AS(timer.close(elsewhere), IllegalState); // it was not opened
  CHECK_THROWS_MATCHES(timer.open(stream, StageId{1}), InvalidValue,
                       MessageMatches(ContainsSubstring("the timer has no such stage")));
  CHECK(timer.try_open(stream, StageId{1}) == CUDA_ERROR_INVALID_VALUE);
  CHECK_THROWS_AS(StageTimer(context, {.events_per_stream = 1}), InvalidValue);
  StageTimer empty;
  CHECK(empty.try_open(stream, stage) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(empty.open(stream, stage), InvalidHandle);
  CHECK(StageTimer::try_create(empty, Context()) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(StageTimer::try_create(empty, context, {.events_per_stream = 1}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(StageTimer::try_create(empty, context) == CUDA_SUCCESS);
  CHECK(empty);
}

TEST_CASE_METHOD(StageFixture, "a timer harms no capture of its thread") {
  const Stream captured(context), other(context);
  StageTimer timer(context, {.events_per_stream = 2, .when_full = WhenFull::wait});
  const StageId stage = timer.stage("stage");
  timer.add_stream(other);
  StreamCapture capture(context, captured, CaptureMode::global);
  for (int i = 0; i < 3; ++i) {
    timer.open(other, stage); // has to wait for room
    timer.close(other);
  }
  timer.poll();
  timer.collect();
  timer.calibrate();
  CHECK_NOTHROW(capture.end());
  CHECK(of(timer.report(), stage).count == 3);
}

TEST_CASE_METHOD(StageFixture, "device times are reported on the host's clock") {
  const Stream stream(context);
  StageTimer timer(context, small);
  const StageId stage = timer.stage("stage");
  const HostTime before = now();
  time_work(timer, stream, stage);
  timer.collect();
  const HostTime after = now();
  const StageReport report = timer.report();
  const StageSpan span = span_of(report, stage);
  // The two clocks drift apart by less than this in the short time since the calibration.
  const auto slack = std::chrono::duration_cast<HostTime::duration>(report.clock.uncertainty) +
                     std::chrono::microseconds(10);
  CHECK(report.clock.uncertainty > DeviceTime(0));
  CHECK(report.clock.host_time(span.begin) >= before - slack);
  CHECK(report.clock.host_time(span.end) <= after + slack);
  CHECK(span.opened >= before);
  CHECK(span.closed <= after);
  CHECK(report.clock.resolution > DeviceTime(0));
  CHECK(report.clock.empty_stage > DeviceTime(0));
}

TEST_CASE_METHOD(StageFixture, "a long stage is measured as precisely as a short one") {
  if (!time_is_virtual()) SKIP("takes a minute");
  const Stream stream(context);
  StageTimer timer(context, small);
  const StageId minute = timer.stage("minute"), moment = timer.stage("moment");
  timer.open(stream, minute);
  for (int i = 0; i < 30; ++i) {
    pass(2s);
    time_work(timer, stream, moment);
    timer.poll();
  }
  timer.close(stream);
  timer.collect();
  const StageReport report = timer.report();
  const StageSpan span = span_of(report, minute);
  const auto submitted = span.closed - span.opened; // on the virtual clock, like everything here
  CHECK(std::abs((span.end - span.begin - submitted).count()) < 50'000);
  const StageStatistics& moments = of(report, moment);
  // The call takes 2 us, the work 8.4 us at 2 TB/s and the record 1.25 us. The clock has steps of 32 ns.
  CHECK((moments.max - moments.min).count() <= 64);
  CHECK(report.clock.rounding < DeviceTime(150));
  CHECK(report.clock.rounding > DeviceTime(0));
}

TEST_CASE_METHOD(StageFixture, "work that escapes a stage is found, and a neighbour's is not taken for it") {
  test::need(12050); // cuCtxRecordEvent
  const Stream stream(context), other(context);
  StageTimerOptions options = small;
  options.escapes = StageEscapes::checked;
  StageTimer timer(context, options);
  const StageId honest = timer.stage("honest"), escaping = timer.stage("escaping"),
                neighbour = timer.stage("neighbour");
  time_work(timer, stream, honest);
  timer.collect();
  if (time_is_virtual()) CHECK(span_of(timer.report(), honest).escaped == SpanEscape::no);

  timer.open(stream, escaping);
  {
    Gate gate(other);
    timer.close(stream);
    pass(20ms);
  }
  timer.collect();
  CHECK(span_of(timer.report(), escaping).escaped == SpanEscape::yes);

  {
    Gate gate(other);
    time_work(timer, stream, neighbour);
    CHECK(timer.poll() == 0); // it is not known yet
    pass(20ms);
  }
  timer.collect();
  const StageReport report = timer.report();
  CHECK(span_of(report, neighbour).escaped == SpanEscape::unknown);
  CHECK(of(report, escaping).escaped == 1);
  CHECK(of(report, escaping).unknown == 0);
  CHECK(of(report, neighbour).escaped == 0);
  CHECK(of(report, neighbour).unknown == 1);
  timer.clear();
  CHECK(of(timer.report(), escaping).escaped + of(timer.report(), neighbour).unknown == 0);
}

TEST_CASE_METHOD(StageFixture, "a timer that does not check says that it knows nothing about escapes") {
  const Stream stream(context);
  StageTimer timer(context, small);
  const StageId stage = timer.stage("stage");
  time_work(timer, stream, stage);
  timer.collect();
  CHECK(of(timer.report(), stage).escaped == 0);
  CHECK(of(timer.report(), stage).unknown == 1);
}
