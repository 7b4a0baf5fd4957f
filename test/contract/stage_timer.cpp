// SPDX-License-Identifier: MIT
// Stages of work on streams: timed in order, without waiting, also in captures.
#include "destroyed.hpp"
#include "eventually.hpp"
#include "fixture.hpp"
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/rank_report.hpp>
#include <cuevent/retired_events.hpp>
#include <cuevent/stage_timer.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;
using cuevent::DeviceTime;
using cuevent::DriverEvent;
using cuevent::Graph;
using cuevent::HostTime;
using cuevent::StageId;
using cuevent::StageReport;
using cuevent::StageScope;
using cuevent::StageSpan;
using cuevent::StageStatistics;
using cuevent::StageTimer;
using cuevent::StageWait;
using cuevent::StreamCapture;
using cuevent::StreamId;
using cuevent::TimedGraph;
using cuevent::WhenFull;
using test::Gate;
using test::Stream;

namespace {

/// Device memory for the work of the tests. Its own calls never fail.
class StageFixture : public test::Fixture {
public:
  StageFixture() {
    const cuevent::ContextGuard guard(unfailing_);
    REQUIRE(test::call<PFN_cuMemAlloc_v3020>("cuMemAlloc", 3020)(&memory_, bytes) == CUDA_SUCCESS);
  }
  ~StageFixture() {
    const cuevent::ContextGuard guard(unfailing_);
    const CUresult freed = test::call<PFN_cuMemFree_v3020>("cuMemFree", 3020)(memory_);
    CHECK(freed == CUDA_SUCCESS);
  }

protected:
  static constexpr std::size_t bytes = 16 << 20;

  void work(CUstream stream) const {
    const cuevent::ContextGuard guard(unfailing_); // for the default streams
    const auto fill = test::call<PFN_cuMemsetD8Async_v3020>("cuMemsetD8Async", 3020);
    REQUIRE(fill(memory_, 1, bytes, stream) == CUDA_SUCCESS);
  }

  /// Lets time pass on the driver's clock. A virtual clock uses no wall time.
  void pass(std::chrono::nanoseconds time) const { driver.table().pause(time.count()); }

  static bool time_is_virtual() {
    void* pause = nullptr;
    CUdriverProcAddressQueryResult status{};
    test::driver().table().get_proc_address("cueventPause", &pause, 12000, 0, &status);
    return pause != nullptr;
  }

private:
  const cuevent::Context unfailing_ =
      cuevent::Context::borrow(context.native_handle(), test::unfailing_driver());
  CUdeviceptr memory_ = 0;
};

/// Few events, because the tests create and destroy all of them each time.
const cuevent::StageTimerOptions small{.events_per_stream = 64};

/// The only span of that stage.
StageSpan span_of(const StageReport& report, StageId stage) {
  std::optional<StageSpan> found;
  for (const StageSpan& span : report.spans) {
    if (span.stage != stage) continue;
    CHECK_FALSE(found);
    found = span;
  }
  REQUIRE(found);
  return *found;
}

const StageStatistics& of(const StageReport& report, StageId stage) {
  return report.stages.at(static_cast<std::size_t>(stage));
}

bool is_inside(const StageSpan& inner, const StageSpan& outer) {
  return outer.begin <= inner.begin && inner.begin <= inner.end && inner.end <= outer.end;
}

/// Any two spans of a stream are nested, or one follows the other.
void check_nesting(const StageReport& report) {
  for (const StageSpan& a : report.spans)
    for (const StageSpan& b : report.spans) {
      if (a.stream != b.stream || a.number == b.number) continue;
      CHECK((is_inside(a, b) || is_inside(b, a) || a.end <= b.begin || b.end <= a.begin));
    }
}

} // namespace

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
  timer.open(free, quick);
  work(free);
  timer.close(free);
  DriverEvent done(context);
  done.record(free);
  REQUIRE(done.synchronize_for(1min));
  // A held stream does not delay other streams. The event on the side stream is a moment later than its
  // own.
  std::size_t spans = 0;
  CHECK(test::eventually([&] { return (spans = timer.poll()) != 0; }));
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
  timer.open(copying, copy);
  work(copying);
  timer.close(copying);
  timer.record(copied, copying);
  timer.wait(copied, computing);
  timer.open(computing, forward);
  work(computing);
  timer.close(computing);
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
    timer.open(stream, stage);
    work(stream);
    timer.close(stream);
  }
  timer.open(context, CUstream{}, stage); // 0 and the legacy stream are the same
  timer.close(context, CU_STREAM_LEGACY);
  timer.collect();
  CHECK(of(timer.report(), stage).count == 4);
  CHECK(timer.report().streams.size() == 2);
  CHECK(timer.add_stream(CU_STREAM_LEGACY) == timer.add_stream(CUstream{}));
}

TEST_CASE_METHOD(StageFixture, "a default stream of a context other than the timer's is refused") {
  const cuevent::Context other = cuevent::Context::create(0, driver);
  const Stream held(other);
  DriverEvent ours(context), theirs(other);
  StageTimer timer(context, small);
  const StageId stage = timer.stage("stage");
  CHECK_THROWS_AS(timer.open(other, CUstream{}, stage), cuevent::ContextMismatch);
  CHECK_THROWS_AS(timer.record(ours, other, CUstream{}), cuevent::ContextMismatch);
  CHECK_THROWS_AS(timer.record(theirs, CUstream{}), cuevent::ContextMismatch);
  CHECK_THROWS_AS(timer.open(cuevent::Context(), CUstream{}, stage), cuevent::InvalidContext);
  CHECK(timer.report().streams.empty());
  {
    Gate gate(held);
    theirs.record(held);
    timer.wait(theirs, context, CU_STREAM_PER_THREAD);
    timer.record(ours, context, CU_STREAM_PER_THREAD);
    CHECK_FALSE(ours.query());
  }
  CHECK(ours.synchronize_for(1min));
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

TEST_CASE_METHOD(StageFixture, "graph launches within stages on a stuck stream do not fill a launch queue") {
  const int events = test::live_handles().events;
  constexpr int launches = 100; // each takes several places in the queue
  for (const std::size_t side_streams : {std::size_t{2}, std::size_t{0}}) {
    CAPTURE(side_streams);
    const Stream stream(context);
    StageTimer timer(context, {.side_streams = side_streams});
    const StageId inner = timer.stage("inner"), outer = timer.stage("outer");
    timer.add_stream(stream);
    StreamCapture capture(context, stream);
    timer.open(stream, inner);
    work(stream);
    timer.close(stream);
    TimedGraph timed = timer.instantiate(capture.end());
    {
      Gate gate(stream);
      for (int i = 0; i < launches; ++i) {
        timer.open(stream, outer);
        timed.launch(context, stream);
        timer.close(stream);
      }
      CHECK(timer.poll() == 0);
    }
    DriverEvent launched(context); // includes launches that were not timed
    launched.record(stream);
    CHECK(launched.synchronize_for(1min));
    timer.collect();
    for (const StageId stage : {inner, outer}) {
      const StageStatistics statistics = of(timer.report(), stage);
      CHECK(statistics.count > 0);
      CHECK(statistics.count + statistics.dropped == launches);
    }
    check_nesting(timer.report());
  }
  CHECK(test::destroyed_down_to(events, cuevent::destroy_retired));
}

TEST_CASE_METHOD(StageFixture, "stages that cannot be timed are refused") {
  const Stream stream(context);
  const cuevent::Context other = cuevent::Context::create(0, driver);
  const Stream elsewhere(other);
  StageTimer timer(context, small);
  const StageId stage = timer.stage("stage");
  CHECK_THROWS_AS(timer.close(stream), cuevent::IllegalState);
  CHECK_THROWS_AS(timer.open(elsewhere, stage), cuevent::ContextMismatch);
  CHECK_THROWS_AS(timer.close(elsewhere), cuevent::IllegalState); // it was not opened
  CHECK_THROWS_MATCHES(timer.open(stream, StageId{1}), cuevent::InvalidValue,
                       MessageMatches(ContainsSubstring("the timer has no such stage")));
  CHECK(timer.try_open(stream, StageId{1}) == CUDA_ERROR_INVALID_VALUE);
  CHECK_THROWS_AS(StageTimer(context, {.events_per_stream = 1}), cuevent::InvalidValue);
  StageTimer empty;
  CHECK(empty.try_open(stream, stage) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(empty.open(stream, stage), cuevent::InvalidHandle);
  CHECK(StageTimer::try_create(empty, cuevent::Context()) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(StageTimer::try_create(empty, context, {.events_per_stream = 1}) == CUDA_ERROR_INVALID_VALUE);
  CHECK(StageTimer::try_create(empty, context) == CUDA_SUCCESS);
  CHECK(empty);
}

TEST_CASE_METHOD(StageFixture, "a timer harms no capture of its thread") {
  const Stream captured(context), other(context);
  StageTimer timer(context, {.events_per_stream = 2, .when_full = WhenFull::wait});
  const StageId stage = timer.stage("stage");
  timer.add_stream(other);
  StreamCapture capture(context, captured, cuevent::CaptureMode::global);
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
  timer.open(stream, stage);
  work(stream);
  timer.close(stream);
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
    timer.open(stream, moment);
    work(stream);
    timer.close(stream);
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

namespace {

/// A step of two stages on one stream and one stage on another stream. The streams wait for each other.
class CapturedStep {
public:
  CapturedStep(StageTimer& timer, const cuevent::Context& context)
      : timer_(timer), context_(context), main_(context), side_(context), forked_(context), joined_(context) {
    timer.add_stream(main_, "main");
    timer.add_stream(side_, "side");
  }

  CUstream stream() const { return main_; }
  CUstream side() const { return side_; }
  StageId first() const { return first_; }
  StageId second() const { return second_; }
  StageId beside() const { return beside_; }

  template <class Work>
  void submit(const Work& work) {
    timer_.open(main_, first_);
    work(main_);
    timer_.next(main_, second_);
    timer_.record(forked_, main_);
    timer_.wait(forked_, side_);
    timer_.open(side_, beside_);
    work(side_);
    timer_.close(side_);
    timer_.record(joined_, side_);
    work(main_);
    timer_.close(main_);
    timer_.wait(joined_, main_);
  }

  template <class Work>
  Graph capture(const Work& work) {
    StreamCapture capture(context_, main_);
    submit(work);
    return capture.end();
  }

private:
  StageTimer& timer_;
  const cuevent::Context& context_;
  Stream main_, side_;
  DriverEvent forked_, joined_;
  StageId first_ = timer_.stage("first"), second_ = timer_.stage("second"), beside_ = timer_.stage("beside");
};

} // namespace

TEST_CASE_METHOD(StageFixture, "a captured step is timed at every launch") {
  const int events = test::live_handles().events;
  {
    StageTimer timer(context, small);
    CapturedStep step(timer, context);
    const auto fill = [&](CUstream stream) { work(stream); };
    std::optional<Graph> graph(step.capture(fill));
    std::optional<TimedGraph> timed(timer.instantiate(std::move(*graph)));
    graph.reset();
    CHECK(timer.collect() == 0); // it was only captured
    const StageId outer = timer.stage("outer");
    for (int launch = 0; launch < 3; ++launch) {
      const StageScope scope(timer, step.stream(), outer);
      timed->launch(step.stream());
    }
    timer.collect();
    StageReport report = timer.report();
    for (const StageId stage : {step.first(), step.second(), step.beside(), outer})
      CHECK(of(report, stage).count == 3);
    check_nesting(report);
    for (const StageSpan& span : report.spans)
      CHECK(span.depth == (span.stage == step.first() || span.stage == step.second() ? 1 : 0));
    for (const StageSpan& span : report.spans)
      // At least the time of the work between its events.
      CHECK(span.end - span.begin > DeviceTime(2us));
    // The join comes after the last stage of the graph.
    REQUIRE(report.waits.size() == 3);
    for (const StageWait& wait : report.waits)
      // An event on a side stream can be this late.
      CHECK(wait.departure <= wait.arrival + DeviceTime(5us));

    // A launch that has not begun has no times, even if its events were used before.
    timer.clear();
    {
      Gate gate(step.stream());
      timed->launch(step.stream());
      timed->launch(step.stream());
      CHECK(timer.poll() == 0);
    }
    timer.collect();
    CHECK(of(timer.report(), step.second()).count == 2);
    check_nesting(timer.report());
    timed.reset();
  }
  CHECK(test::destroyed_down_to(events, cuevent::destroy_retired));
}

TEST_CASE_METHOD(StageFixture, "graphs of one stream that run concurrently have their own times") {
  const int events = test::live_handles().events;
  {
    const Stream captured(context), held(context), free(context);
    StageTimer timer(context, small);
    const StageId stage = timer.stage("stage");
    const auto step = [&] {
      StreamCapture capture(context, captured);
      timer.open(captured, stage);
      work(captured);
      timer.close(captured);
      return timer.instantiate(capture.end());
    };
    TimedGraph first = step(), second = step();
    {
      Gate gate(held);
      first.launch(held);
      second.launch(free);
      DriverEvent done(context);
      done.record(free);
      REQUIRE(done.synchronize_for(1min));
      pass(1ms);
    }
    timer.collect();
    CHECK(of(timer.report(), stage).count == 2);
    CHECK(of(timer.report(), stage).min > DeviceTime(2us));
  }
  CHECK(test::destroyed_down_to(events, cuevent::destroy_retired));
}

TEST_CASE_METHOD(StageFixture, "a launch and the stages of other streams leave each other's times alone") {
  // The branch of the graph does not run on the stream that its stage was captured on, so it does not wait
  // for the work of that stream. The records of both are up to some microseconds apart, or milliseconds.
  const std::chrono::nanoseconds apart = GENERATE(0ns, 2'000'000ns);
  const bool launched_inside = GENERATE(true, false);
  const int events = test::live_handles().events;
  {
    StageTimer timer(context, small);
    CapturedStep step(timer, context);
    TimedGraph timed = timer.instantiate(step.capture([&](CUstream stream) { work(stream); }));
    const StageId held = timer.stage("held");
    {
      Gate gate(step.side());
      timer.open(step.side(), held);
      if (launched_inside) timed.launch(step.stream());
      work(step.side());
      timer.close(step.side());
      if (!launched_inside) timed.launch(step.stream());
      DriverEvent done(context);
      done.record(step.stream());
      REQUIRE(done.synchronize_for(1min));
      pass(apart);
    }
    timer.collect();
    const StageReport report = timer.report();
    const StageSpan first = span_of(report, held), second = span_of(report, step.beside());
    CHECK(first.stream == second.stream);
    CHECK(second.end <= first.begin + DeviceTime(5us)); // an event on a side stream can be this late
    if (apart > 0ns) CHECK(first.begin - second.end > apart * 0.9);
    for (const StageSpan& span : {first, second}) {
      CHECK(span.depth == 0);
      CHECK(span.end - span.begin > DeviceTime(2us)); // at least the time of the work
      CHECK(span.end - span.begin < DeviceTime(1ms));
    }

    cuevent::RankReport ranks({});
    ranks.add(report);
    const std::string text = ranks.take();
    const auto host = [&](DeviceTime time) {
      return std::to_string(report.clock.epoch.time_since_epoch().count() + std::llround(time.count()));
    };
    for (const StageSpan& span : {first, second}) {
      const std::size_t line = text.find("{\"span\":" + std::to_string(span.number) + ",");
      REQUIRE(line != std::string::npos);
      CHECK_THAT(text.substr(line, text.find('\n', line) - line),
                 EndsWith("\"begin\":" + host(span.begin) + ",\"end\":" + host(span.end) + "}"));
    }
  }
  CHECK(test::destroyed_down_to(events, cuevent::destroy_retired));
}

TEST_CASE_METHOD(StageFixture, "the stages of all captures into a graph are timed") {
  test::need(12030);
  const int events = test::live_handles().events;
  {
    const Stream first(context), second(context);
    StageTimer timer(context, {.events_per_stream = 8});
    const StageId one = timer.stage("one"), two = timer.stage("two"), around = timer.stage("around");
    Graph graph(context);
    const auto capture_into = [&](CUstream stream, StageId stage) {
      StreamCapture capture(context, stream, graph);
      timer.open(stream, stage);
      work(stream);
      timer.close(stream);
      capture.end();
    };
    capture_into(first, one);
    capture_into(first, two);
    capture_into(second, two);
    TimedGraph timed = timer.instantiate(std::move(graph));
    for (int launch = 0; launch < 3; ++launch) {
      {
        const StageScope scope(timer, first, around);
        timed.launch(first);
      }
      timer.collect();
    }
    const StageReport report = timer.report();
    CHECK(of(report, one).count == 3);
    CHECK(of(report, two).count == 6);
    for (const StageSpan& span : report.spans) {
      CHECK(span.end - span.begin > DeviceTime(2us)); // at least the time of the work
      CHECK(span.depth == (span.stage != around && span.stream == StreamId(0) ? 1 : 0));
    }
    // A launch needs four events of the first stream, and leaves two for the stage around it.
    {
      Gate gate(first);
      for (int launch = 0; launch < 3; ++launch)
        timed.launch(first);
    }
    timer.collect();
    CHECK(of(timer.report(), one).count == 5);
    CHECK(of(timer.report(), one).dropped == 1);
    CHECK(of(timer.report(), two).dropped == 2);
  }
  CHECK(test::destroyed_down_to(events, cuevent::destroy_retired));
}

TEST_CASE_METHOD(StageFixture, "a graph with an open stage of any of its captures is refused") {
  test::need(12030);
  const int events = test::live_handles().events;
  {
    const Stream stream(context);
    StageTimer timer(context, small);
    const StageId stage = timer.stage("stage");
    Graph graph(context);
    {
      StreamCapture complete(context, stream, graph);
      { const StageScope scope(timer, stream, stage); }
      complete.end();
      StreamCapture half(context, stream, graph);
      timer.open(stream, stage);
      half.end();
    }
    CHECK_THROWS_AS(timer.instantiate(std::move(graph)), cuevent::IllegalState);
    REQUIRE(graph); // NOLINT(bugprone-use-after-move)
  }
  CHECK(test::destroyed_down_to(events, cuevent::destroy_retired));
}

TEST_CASE_METHOD(StageFixture, "launches reuse the ring, and still run when the ring is full") {
  const int events = test::live_handles().events;
  {
    StageTimer timer(context, {.events_per_stream = 6});
    CapturedStep step(timer, context);
    const auto fill = [&](CUstream stream) { work(stream); };
    Graph graph = step.capture(fill);
    TimedGraph timed = timer.instantiate(std::move(graph));
    const cuevent::EventFlags timing = cuevent::EventFlags::timing;
    DriverEvent before(context, timing), between(context, timing), done(context);
    {
      Gate gate(step.stream());
      before.record(step.stream());
      for (int launch = 0; launch < 2; ++launch)
        timed.launch(step.stream());
      between.record(step.stream());
      for (int launch = 0; launch < 2; ++launch)
        timed.launch(step.stream()); // there is no room
      done.record(step.stream());
      CHECK_FALSE(done.query());
    }
    CHECK(done.synchronize_for(1min));
    timer.collect();
    // The launches without room leave the times of the others alone.
    DeviceTime begin{1e18}, end{0};
    for (const StageSpan& span : timer.report().spans) {
      begin = std::min(begin, span.begin);
      end = std::max(end, span.end);
    }
    CHECK(end - begin <= before.elapsed_time(between) + DeviceTime(1us));
    CHECK(of(timer.report(), step.first()).count == 2);
    CHECK(of(timer.report(), step.first()).dropped == 2);
    for (int launch = 0; launch < 5; ++launch) {
      timed.launch(step.stream());
      timer.collect();
    }
    CHECK(of(timer.report(), step.first()).count == 7);
    CHECK(of(timer.report(), step.beside()).count == 7);
    check_nesting(timer.report());
  }
  CHECK(test::destroyed_down_to(events, cuevent::destroy_retired));
}

TEST_CASE_METHOD(StageFixture, "a timer waits for room for a launch if that is requested") {
  const int events = test::live_handles().events;
  {
    StageTimer timer(context, {.events_per_stream = 4, .when_full = WhenFull::wait});
    CapturedStep step(timer, context);
    Graph graph = step.capture([&](CUstream stream) { work(stream); });
    TimedGraph timed = timer.instantiate(std::move(graph));
    for (int launch = 0; launch < 6; ++launch)
      timed.launch(step.stream());
    timer.collect();
    for (const StageId stage : {step.first(), step.second(), step.beside()}) {
      CHECK(of(timer.report(), stage).count == 6);
      CHECK(of(timer.report(), stage).dropped == 0);
    }
  }
  CHECK(test::destroyed_down_to(events, cuevent::destroy_retired));
}

TEST_CASE_METHOD(StageFixture, "only a complete capture can be instantiated") {
  const int events = test::live_handles().events;
  {
    const Stream stream(context);
    StageTimer timer(context, small);
    const StageId stage = timer.stage("stage");
    Graph without(context);
    CHECK_THROWS_MATCHES(timer.instantiate(std::move(without)), cuevent::NotFound,
                         MessageMatches(StartsWith("StageTimer::instantiate: ")));
    {
      const StreamCapture abandoned(context, stream);
      timer.open(stream, stage);
    }
    CHECK_THROWS_AS(timer.close(stream), cuevent::IllegalState); // it was opened in the capture

    StreamCapture capture(context, stream);
    timer.open(stream, stage); // not inside the stage that was abandoned
    CHECK_NOTHROW(timer.close(stream));
    CHECK_THROWS_AS(timer.close(stream), cuevent::IllegalState);
    Graph whole = capture.end();
    StreamCapture another(context, stream);
    timer.open(stream, stage);
    Graph half = another.end();
    CHECK_THROWS_MATCHES(timer.instantiate(std::move(half)), cuevent::IllegalState,
                         MessageMatches(StartsWith("StageTimer::instantiate: ")));
    TimedGraph timed = timer.instantiate(std::move(whole));
    timed.launch(stream);
    timer.collect();
    CHECK(of(timer.report(), stage).count == 1);
  }
  CHECK(test::destroyed_down_to(events, cuevent::destroy_retired));
}

TEST_CASE_METHOD(StageFixture, "captured stages outlive their timer in a graph that other code launches") {
  DriverEvent done(context);
  const int events = test::live_handles().events;
  for (const std::size_t side_streams : {std::size_t{2}, std::size_t{0}}) {
    CAPTURE(side_streams);
    const Stream stream(context);
    std::optional<StageTimer> timer(
        std::in_place, context,
        cuevent::StageTimerOptions{.events_per_stream = 8, .side_streams = side_streams});
    StreamCapture capture(context, stream);
    {
      const StageScope scope(*timer, stream, timer->stage("stage"));
      work(stream);
    }
    std::optional<Graph> graph(capture.end());
    const std::vector<cuevent::EventRecordNode> nodes = graph->event_nodes().records;
    REQUIRE(nodes.size() == 2);
    std::optional<cuevent::GraphExec> exec(graph->instantiate());
    timer.reset();
    const auto begin = DriverEvent::borrow(context, graph->event(nodes[0]), cuevent::EventFlags::timing);
    const auto end = DriverEvent::borrow(context, graph->event(nodes[1]), cuevent::EventFlags::timing);
    graph.reset();
    cuevent::destroy_retired();
    CHECK(test::live_handles().events == events + 2);
    for (int launch = 0; launch < 2; ++launch) {
      exec->launch(stream);
      done.record(stream);
      CHECK(done.synchronize_for(1min));
      CHECK(std::abs(begin.elapsed_time(end).count()) > 0);
    }
    exec.reset();
    CHECK(test::destroyed_down_to(events, cuevent::destroy_retired));
  }
}

TEST_CASE_METHOD(StageFixture, "abandoned captures leave nothing behind, however they ended") {
  const int events = test::live_handles().events;
  const Stream stream(context);
  StageTimer timer(context, small);
  const StageId stage = timer.stage("stage");
  DriverEvent outside(context);
  outside.record(stream);
  timer.add_stream(stream);
  const int before = test::live_handles().events;
  const auto abandon = [&](int way) {
    if (way == 0) { // the graph is destroyed
      StreamCapture capture(context, stream);
      timer.open(stream, stage);
      timer.close(stream);
      capture.end();
    } else if (way == 1) { // the capture is destroyed
      const StreamCapture capture(context, stream);
      timer.open(stream, stage);
    } else if (way == 2) { // the graph could not be instantiated
      StreamCapture capture(context, stream);
      timer.open(stream, stage);
      Graph half = capture.end();
      CHECK_THROWS_AS(timer.instantiate(std::move(half)), cuevent::IllegalState);
    } else { // the capture was invalidated
      const StreamCapture capture(context, stream, cuevent::CaptureMode::global);
      timer.open(stream, stage);
      CHECK(outside.try_query() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
  };
  for (int i = 0; i < 3'000; ++i)
    abandon(i % 4);
  // The last few user objects may not have ended yet, because the driver ends them on a thread of its own.
  CHECK(test::eventually([&] {
    abandon(1);
    return test::live_handles().events <= before + 4;
  }));
  timer = StageTimer();
  outside.close();
  CHECK(test::destroyed_down_to(events, cuevent::destroy_retired));
}

TEST_CASE_METHOD(StageFixture, "in an invalidated capture, records and waits fail as without the timer") {
  const Stream stream(context);
  StageTimer timer(context, small);
  DriverEvent outside(context), event(context);
  outside.record(stream);
  timer.add_stream(stream);
  StreamCapture capture(context, stream, cuevent::CaptureMode::global);
  CHECK(outside.try_query() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK_THROWS_MATCHES(timer.record(event, stream), cuevent::StreamCaptureInvalidated,
                       MessageMatches(StartsWith("cuEventRecord")));
  CHECK_THROWS_MATCHES(timer.wait(event, stream), cuevent::StreamCaptureInvalidated,
                       MessageMatches(StartsWith("cuStreamWaitEvent")));
  CHECK_THROWS_AS(capture.end(), cuevent::StreamCaptureInvalidated);
}

TEST_CASE_METHOD(StageFixture, "instantiating a graph can be retried after a failure") {
  const int events = test::live_handles().events;
  {
    const Stream stream(context), other(context);
    StageTimer timer(context, small);
    const StageId stage = timer.stage("stage");
    StreamCapture capture(context, stream);
    timer.open(stream, stage);
    work(stream);
    timer.close(stream);
    Graph graph = capture.end();
    for (int attempt = 0; attempt < 3; ++attempt) {
      const StreamCapture in_the_way(context, other);
      CHECK_THROWS_AS(timer.instantiate(std::move(graph)), cuevent::StreamCaptureUnsupported);
      REQUIRE(graph); // NOLINT(bugprone-use-after-move)
    }
    TimedGraph timed = timer.instantiate(std::move(graph));
    timed.launch(stream);
    timer.collect();
    CHECK(of(timer.report(), stage).count == 1);
  }
  CHECK(test::destroyed_down_to(events, cuevent::destroy_retired));
}

TEST_CASE_METHOD(StageFixture, "a moved-from TimedGraph is empty and says so") {
  const int events = test::live_handles().events;
  {
    const Stream stream(context);
    StageTimer timer(context, small);
    const StageId stage = timer.stage("stage");
    StreamCapture capture(context, stream);
    timer.open(stream, stage);
    timer.close(stream);
    TimedGraph timed = timer.instantiate(capture.end());
    CHECK(timed);
    TimedGraph moved(std::move(timed));
    CHECK_FALSE(timed); // NOLINT(bugprone-use-after-move)
    CHECK_THROWS_AS(timed.launch(stream), cuevent::InvalidHandle);
    CHECK_THROWS_AS(timed.launch(context, stream), cuevent::InvalidHandle);
    CHECK_THROWS_AS(timed.graph(), cuevent::InvalidHandle);
    CHECK_THROWS_AS(timed.exec(), cuevent::InvalidHandle);
    const cuevent::Context other = cuevent::Context::create(0, driver);
    CHECK_THROWS_AS(moved.launch(other, CUstream{}), cuevent::ContextMismatch);
    CHECK_THROWS_AS(moved.launch(cuevent::Context(), CUstream{}), cuevent::InvalidContext);
    timed = std::move(moved);
    timed.launch(context, CUstream{});
    timer.collect();
    CHECK(of(timer.report(), stage).count == 1);
    TimedGraph emptied(std::move(timed));
    TimedGraph empty(std::move(timed));
    emptied = std::move(empty);
    CHECK_FALSE(emptied);
    Graph without(context);
    const Graph taken(std::move(without));
    CHECK_THROWS_AS(timer.instantiate(std::move(without)), cuevent::InvalidHandle);
  }
  CHECK(test::destroyed_down_to(events, cuevent::destroy_retired));
}
