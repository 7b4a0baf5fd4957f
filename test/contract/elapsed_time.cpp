// SPDX-License-Identifier: MIT
// The time between two events, and the reasons why there is none.
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/driver_event.hpp>

#include <catch2/matchers/catch_matchers.hpp>

#include <chrono>

using namespace cuevent;
using namespace test;
using Clock = std::chrono::steady_clock;

TEST_CASE_METHOD(StreamFixture, "the elapsed time is device time, within the time that passed on the host") {
  DriverEvent start(context, EventFlags::timing), end(context, EventFlags::timing);
  const Clock::time_point before = now();
  start.record(stream);
  start.synchronize();
  Gate gate(stream);
  end.record(stream);
  const Clock::time_point held = now();
  bool early = false;
  while (now() - held < std::chrono::milliseconds(2)) // the measured time must include this
    early |= end.query();
  CHECK_FALSE(early);
  gate.open();
  end.synchronize();
  const Clock::time_point after = now();

  constexpr double resolution = 0.001; // in ms; the documentation says about 0.5 us per event
  const double elapsed = static_cast<double>(start.elapsed_time(end).count());
  CHECK(elapsed >= 2 - resolution);
  CHECK(elapsed <= std::chrono::duration<double, std::milli>(after - before).count() * 1.01 + resolution);
}

TEST_CASE_METHOD(StreamFixture, "the elapsed time is signed, and zero from an event to itself") {
  DriverEvent start(context, EventFlags::timing), end(context, EventFlags::timing);
  start.record(stream);
  end.record(stream);
  end.synchronize();
  CHECK(start.elapsed_time(end).count() > 0);
  CHECK(end.elapsed_time(start) == -start.elapsed_time(end));
  CHECK(start.elapsed_time(start).count() == 0);
  DriverEvent::Milliseconds time{};
  CHECK(start.try_elapsed_time(time, end) == CUDA_SUCCESS);
  CHECK(time == start.elapsed_time(end));
}

TEST_CASE_METHOD(Fixture, "the time between events of different streams of one context can be measured") {
  const Stream first(context), second(context);
  DriverEvent start(context, EventFlags::timing), end(context, EventFlags::timing);
  start.record(first);
  start.wait(second);
  end.record(second);
  end.synchronize();
  CHECK(start.elapsed_time(end).count() > 0);
}

TEST_CASE_METHOD(StreamFixture, "elapsed_time throws while an event is pending") {
  DriverEvent start(context, EventFlags::timing), end(context, EventFlags::timing);
  start.record(stream);
  start.synchronize();
  Gate gate(stream);
  end.record(stream);
  CHECK_THROWS_AS(start.elapsed_time(end), NotReady);
  CHECK_THROWS_AS(end.elapsed_time(start), NotReady);
  gate.open();
  end.synchronize();
  CHECK(start.elapsed_time(end).count() > 0);
}

TEST_CASE_METHOD(StreamFixture, "elapsed_time says which of the two events has no timing") {
  DriverEvent timed(context, EventFlags::timing), untimed(context);
  timed.record(stream);
  untimed.record(stream);
  untimed.synchronize();
  CHECK_THROWS_AS(untimed.elapsed_time(timed), TimingDisabled);
  CHECK_THROWS_WITH(untimed.elapsed_time(timed),
                    ContainsSubstring("the start event was made without timing"));
  CHECK_THROWS_AS(timed.elapsed_time(untimed), TimingDisabled);
  CHECK_THROWS_WITH(timed.elapsed_time(untimed), ContainsSubstring("the end event was made without timing"));
}

TEST_CASE_METHOD(StreamFixture, "elapsed_time distinguishes an event without timing from a pending one") {
  DriverEvent timed(context, EventFlags::timing), untimed(context);
  const Gate gate(stream);
  timed.record(stream);
  untimed.record(stream);
  CHECK_THROWS_AS(timed.elapsed_time(untimed), TimingDisabled);
}

TEST_CASE_METHOD(StreamFixture, "elapsed_time says which of the two events was never recorded") {
  DriverEvent recorded(context, EventFlags::timing);
  const DriverEvent never(context, EventFlags::timing);
  recorded.record(stream);
  recorded.synchronize();
  CHECK_THROWS_AS(never.elapsed_time(recorded), NeverRecorded);
  CHECK_THROWS_WITH(never.elapsed_time(recorded), ContainsSubstring("the start event was never recorded"));
  CHECK_THROWS_AS(recorded.elapsed_time(never), NeverRecorded);
  CHECK_THROWS_WITH(recorded.elapsed_time(never), ContainsSubstring("the end event was never recorded"));
  CHECK_THROWS_AS(never.elapsed_time(never), NeverRecorded);
}

TEST_CASE_METHOD(StreamFixture, "elapsed_time distinguishes a never recorded event from a pending one") {
  DriverEvent pending(context, EventFlags::timing);
  const DriverEvent never(context, EventFlags::timing);
  const Gate gate(stream);
  pending.record(stream);
  CHECK_THROWS_AS(never.elapsed_time(pending), NeverRecorded);
  CHECK_THROWS_WITH(pending.elapsed_time(never), ContainsSubstring("the end event was never recorded"));
}

TEST_CASE_METHOD(Fixture, "elapsed_time between events of different contexts throws") {
  const Context created = Context::create(0, driver);
  const Stream ours(context), theirs(created);
  DriverEvent start(context, EventFlags::timing), end(created, EventFlags::timing);
  start.record(ours);
  end.record(theirs);
  start.synchronize();
  end.synchronize();
  CHECK_THROWS_AS(start.elapsed_time(end), ContextMismatch);
  CHECK(test::context_stack().empty());
}
