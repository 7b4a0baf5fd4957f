// SPDX-License-Identifier: MIT
// Stages in captures: timed at every launch of the graph.
#include "destroyed.hpp"
#include "gate.hpp"
#include "stage_fixture.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/rank_report.hpp>
#include <cuevent/retired_events.hpp>

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;
using Catch::Matchers::EndsWith;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

/// Waits for the events that the graphs of a test have kept.
class CaptureFixture : public StageFixture {
public:
  ~CaptureFixture() {
    // If an exception ends the test, ~Fixture() tells what is left.
    if (std::uncaught_exceptions() == 0) CHECK(destroyed_down_to(events_before_, destroy_retired));
  }

private:
  const int events_before_ = live_handles().events;
};

/// A step of two stages on one stream and one stage on another stream. The streams wait for each other.
class CapturedStep {
public:
  CapturedStep(StageTimer& timer, const Context& context)
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
  const Context& context_;
  Stream main_, side_;
  DriverEvent forked_, joined_;
  StageId first_ = timer_.stage("first"), second_ = timer_.stage("second"), beside_ = timer_.stage("beside");
};

} // namespace

TEST_CASE_METHOD(CaptureFixture,
                 "graph launches within stages on a stuck stream do not fill a launch queue") {
  const int events = live_handles().events;
  constexpr int launches = 100; // each takes several places in the queue
  for (const std::size_t side_streams : {std::size_t{2}, std::size_t{0}}) {
    CAPTURE(side_streams);
    const Stream stream(context);
    StageTimer timer(context, {.side_streams = side_streams});
    const StageId inner = timer.stage("inner"), outer = timer.stage("outer");
    timer.add_stream(stream);
    StreamCapture capture(context, stream);
    time_work(timer, stream, inner);
    TimedGraph timed = timer.instantiate(capture.end());
    {
      Gate gate(stream);
      for (int i = 0; i < launches; ++i) {
        timer.open(stream, outer);
        timed.launch({context, stream});
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
  CHECK(destroyed_down_to(events, destroy_retired));
}

TEST_CASE_METHOD(CaptureFixture, "a captured step is timed at every launch") {
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
    CHECK(span.end - span.begin > least_time_of_work());
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

TEST_CASE_METHOD(CaptureFixture, "graphs of one stream that run concurrently have their own times") {
  const Stream captured(context), held(context), free(context);
  StageTimer timer(context, small);
  const StageId stage = timer.stage("stage");
  const auto step = [&] {
    StreamCapture capture(context, captured);
    time_work(timer, captured, stage);
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
  CHECK(of(timer.report(), stage).min > least_time_of_work());
}

TEST_CASE_METHOD(CaptureFixture, "a launch and the stages of other streams leave each other's times alone") {
  // The branch of the graph does not run on the stream that its stage was captured on, so it does not wait
  // for the work of that stream. The records of both are up to some microseconds apart, or milliseconds.
  const std::chrono::nanoseconds apart = GENERATE(0ns, 2'000'000ns);
  const bool launched_inside = GENERATE(true, false);
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
    CHECK(span.end - span.begin > least_time_of_work());
    CHECK(span.end - span.begin < DeviceTime(1ms));
  }

  RankReport ranks({});
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

TEST_CASE_METHOD(CaptureFixture, "the stages of all captures into a graph are timed") {
  need(12030);
  const Stream first(context), second(context);
  StageTimer timer(context, {.events_per_stream = 8});
  const StageId one = timer.stage("one"), two = timer.stage("two"), around = timer.stage("around");
  Graph graph(context);
  const auto capture_into = [&](CUstream stream, StageId stage) {
    StreamCapture capture(context, stream, graph);
    time_work(timer, stream, stage);
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
    CHECK(span.end - span.begin > least_time_of_work());
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

TEST_CASE_METHOD(CaptureFixture, "a graph with an open stage of any of its captures is refused") {
  need(12030);
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
  CHECK_THROWS_AS(timer.instantiate(std::move(graph)), IllegalState);
  REQUIRE(graph); // NOLINT(bugprone-use-after-move)
}

TEST_CASE_METHOD(CaptureFixture, "launches reuse the ring, and still run when the ring is full") {
  StageTimer timer(context, {.events_per_stream = 6});
  CapturedStep step(timer, context);
  const auto fill = [&](CUstream stream) { work(stream); };
  Graph graph = step.capture(fill);
  TimedGraph timed = timer.instantiate(std::move(graph));
  const EventFlags timing = EventFlags::timing;
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

TEST_CASE_METHOD(CaptureFixture, "a timer waits for room for a launch if that is requested") {
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

TEST_CASE_METHOD(CaptureFixture, "only a complete capture can be instantiated") {
  const Stream stream(context);
  StageTimer timer(context, small);
  const StageId stage = timer.stage("stage");
  Graph without(context);
  CHECK_THROWS_MATCHES(timer.instantiate(std::move(without)), NotFound,
                       MessageMatches(StartsWith("StageTimer::instantiate: ")));
  {
    const StreamCapture abandoned(context, stream);
    timer.open(stream, stage);
  }
  CHECK_THROWS_AS(timer.close(stream), IllegalState); // it was opened in the capture

  StreamCapture capture(context, stream);
  timer.open(stream, stage); // not inside the stage that was abandoned
  CHECK_NOTHROW(timer.close(stream));
  CHECK_THROWS_AS(timer.close(stream), IllegalState);
  Graph whole = capture.end();
  StreamCapture another(context, stream);
  timer.open(stream, stage);
  Graph half = another.end();
  CHECK_THROWS_MATCHES(timer.instantiate(std::move(half)), IllegalState,
                       MessageMatches(StartsWith("StageTimer::instantiate: ")));
  TimedGraph timed = timer.instantiate(std::move(whole));
  timed.launch(stream);
  timer.collect();
  CHECK(of(timer.report(), stage).count == 1);
}

TEST_CASE_METHOD(CaptureFixture, "captured stages outlive their timer in a graph that other code launches") {
  DriverEvent done(context);
  const int events = live_handles().events;
  for (const std::size_t side_streams : {std::size_t{2}, std::size_t{0}}) {
    CAPTURE(side_streams);
    const Stream stream(context);
    std::optional<StageTimer> timer(std::in_place, context,
                                    StageTimerOptions{.events_per_stream = 8, .side_streams = side_streams});
    StreamCapture capture(context, stream);
    {
      const StageScope scope(*timer, stream, timer->stage("stage"));
      work(stream);
    }
    std::optional<Graph> graph(capture.end());
    const std::vector<EventRecordNode> nodes = graph->event_nodes().records;
    REQUIRE(nodes.size() == 2);
    std::optional<GraphExec> exec(graph->instantiate());
    timer.reset();
    const auto begin = DriverEvent::borrow(context, graph->event(nodes[0]), EventFlags::timing);
    const auto end = DriverEvent::borrow(context, graph->event(nodes[1]), EventFlags::timing);
    graph.reset();
    destroy_retired();
    CHECK(live_handles().events == events + 2);
    for (int launch = 0; launch < 2; ++launch) {
      exec->launch(stream);
      done.record(stream);
      CHECK(done.synchronize_for(1min));
      CHECK(std::abs(begin.elapsed_time(end).count()) > 0);
    }
    exec.reset();
    CHECK(destroyed_down_to(events, destroy_retired));
  }
}

TEST_CASE_METHOD(CaptureFixture, "abandoned captures leave nothing behind, however they ended") {
  const int events = live_handles().events;
  const Stream stream(context);
  StageTimer timer(context, small);
  const StageId stage = timer.stage("stage");
  DriverEvent outside(context);
  outside.record(stream);
  timer.add_stream(stream);
  const int before = live_handles().events;
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
      CHECK_THROWS_AS(timer.instantiate(std::move(half)), IllegalState);
    } else { // the capture was invalidated
      const StreamCapture capture(context, stream, CaptureMode::global);
      timer.open(stream, stage);
      CHECK(outside.try_query() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
  };
  for (int i = 0; i < 3'000; ++i)
    abandon(i % 4);
  // The last few user objects may not have ended yet, because the driver ends them on a thread of its own.
  CHECK(eventually([&] {
    abandon(1);
    return live_handles().events <= before + 4;
  }));
  timer = StageTimer();
  outside.close();
  CHECK(destroyed_down_to(events, destroy_retired));
}

TEST_CASE_METHOD(CaptureFixture, "in an invalidated capture, records and waits fail as without the timer") {
  const Stream stream(context);
  StageTimer timer(context, small);
  DriverEvent outside(context), event(context);
  outside.record(stream);
  timer.add_stream(stream);
  StreamCapture capture(context, stream, CaptureMode::global);
  CHECK(outside.try_query() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK_THROWS_MATCHES(timer.record(event, stream), StreamCaptureInvalidated,
                       MessageMatches(StartsWith("cuEventRecord")));
  CHECK_THROWS_MATCHES(timer.wait(event, stream), StreamCaptureInvalidated,
                       MessageMatches(StartsWith("cuStreamWaitEvent")));
  CHECK_THROWS_AS(capture.end(), StreamCaptureInvalidated);
}

TEST_CASE_METHOD(CaptureFixture, "instantiating a graph can be retried after a failure") {
  const Stream stream(context), other(context);
  StageTimer timer(context, small);
  const StageId stage = timer.stage("stage");
  StreamCapture capture(context, stream);
  time_work(timer, stream, stage);
  Graph graph = capture.end();
  for (int attempt = 0; attempt < 3; ++attempt) {
    const StreamCapture in_the_way(context, other);
    CHECK_THROWS_AS(timer.instantiate(std::move(graph)), StreamCaptureUnsupported);
    REQUIRE(graph); // NOLINT(bugprone-use-after-move)
  }
  TimedGraph timed = timer.instantiate(std::move(graph));
  timed.launch(stream);
  timer.collect();
  CHECK(of(timer.report(), stage).count == 1);
}

TEST_CASE_METHOD(CaptureFixture, "a moved-from TimedGraph is empty and says so") {
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
  CHECK_THROWS_AS(timed.launch(stream), InvalidHandle);
  CHECK_THROWS_AS(timed.launch({context, stream}), InvalidHandle);
  CHECK_THROWS_AS(timed.graph(), InvalidHandle);
  CHECK_THROWS_AS(timed.exec(), InvalidHandle);
  const Context other = Context::create(0, driver);
  CHECK_THROWS_AS(moved.launch({other, CUstream{}}), ContextMismatch);
  CHECK_THROWS_AS(moved.launch({Context(), CUstream{}}), InvalidContext);
  timed = std::move(moved);
  timed.launch({context, CUstream{}});
  timer.collect();
  CHECK(of(timer.report(), stage).count == 1);
  TimedGraph emptied(std::move(timed));
  TimedGraph empty(std::move(timed));
  emptied = std::move(empty);
  CHECK_FALSE(emptied);
  Graph without(context);
  const Graph taken(std::move(without));
  CHECK_THROWS_AS(timer.instantiate(std::move(without)), InvalidHandle);
}

TEST_CASE_METHOD(CaptureFixture, "a timer that checks for escapes leaves captures on its streams alone") {
  test::need(12050);
  const Stream stream(context), captured(context);
  StageTimerOptions options = small;
  options.escapes = StageEscapes::checked;
  StageTimer timer(context, options);
  const StageId outside = timer.stage("outside"), inside = timer.stage("inside");
  timer.add_stream(captured);
  StreamCapture capture(context, captured);
  time_work(timer, captured, inside);
  time_work(timer, stream, outside);
  TimedGraph graph = timer.instantiate(capture.end());
  graph.launch(captured);
  timer.collect();
  CHECK(span_of(timer.report(), inside).escaped == SpanEscape::unknown);
  CHECK(span_of(timer.report(), outside).escaped == SpanEscape::unknown);
}
