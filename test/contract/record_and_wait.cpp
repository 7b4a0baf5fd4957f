// SPDX-License-Identifier: MIT
// What a record marks, who can wait for it, and how a program learns that the work is complete.
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/driver_event.hpp>

#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <chrono>
#include <latch>
#include <optional>
#include <thread>

using namespace cuevent;
using namespace test;
using Clock = std::chrono::steady_clock;

TEST_CASE_METHOD(StreamFixture, "an event that was never recorded is complete, and nothing waits for it") {
  const DriverEvent event(context);
  CHECK(event.query());
  CHECK(event.query_relaxed());
  event.synchronize();
  CHECK(event.synchronize_for(0s));
  event.wait(stream);
  DriverEvent end(context);
  end.record(stream);
  end.synchronize();
}

TEST_CASE_METHOD(StreamFixture, "a recorded event is pending until the stream reaches it") {
  const auto flags = GENERATE(EventFlags::none, EventFlags::timing, EventFlags::blocking_sync);
  DriverEvent event(context, flags);
  Gate gate(stream);
  event.record(stream);

  CHECK_FALSE(event.query());
  CHECK(event.try_query() == CUDA_ERROR_NOT_READY);
  CHECK_FALSE(event.query_relaxed());
  CHECK(event.try_query_relaxed() == CUDA_ERROR_NOT_READY);
  gate.open();
  event.synchronize();
  CHECK(event.query());
  CHECK(event.try_query() == CUDA_SUCCESS);
  CHECK(event.query_relaxed());
  CHECK(event.synchronize_for(0s));
}

TEST_CASE_METHOD(StreamFixture, "a timed wait gives up when its time is over and no earlier") {
  DriverEvent event(context);
  const Gate gate(stream);
  event.record(stream);

  CHECK_FALSE(event.synchronize_for(0s));
  CHECK_FALSE(event.synchronize_for(-1s));
  CHECK_FALSE(event.synchronize_until(now() - 1s));
  CHECK_FALSE(event.synchronize_until(Clock::time_point::min()));
  const Clock::time_point start = now();
  CHECK_FALSE(event.synchronize_for(4ms)); // long enough to spin, yield and sleep
  CHECK(now() - start >= 4ms);
  CHECK(event.try_synchronize_for(1us) == CUDA_ERROR_NOT_READY);
  CHECK(event.try_synchronize_until(now()) == CUDA_ERROR_NOT_READY);
}

TEST_CASE_METHOD(StreamFixture, "a host wait ends when the work does") {
  DriverEvent event(context, GENERATE(EventFlags::none, EventFlags::blocking_sync));
  std::latch waiting(1);
  Gate gate(stream);
  event.record(stream);
  std::jthread opener([&] {
    waiting.wait();
    gate.open();
  });
  bool complete = false;
  const int way = GENERATE(0, 1, 2, 3);
  CAPTURE(way);
  waiting.count_down();
  switch (way) {
  case 0:
    event.synchronize(), complete = event.query();
    break;
  case 1:
    complete = event.synchronize_for(1min);
    break;
  case 2:
    complete = event.synchronize_for(std::chrono::nanoseconds::max());
    break;
  case 3:
    complete = event.synchronize_until(Clock::time_point::max());
    break;
  }
  opener.join();
  CHECK(complete);
}

TEST_CASE_METHOD(Fixture, "a stream that waits for an event does not run ahead of the event") {
  const Stream producer(context), consumer(context), bystander(context);
  DriverEvent produced(context), consumed(context), passed(context);
  Gate gate(producer);
  produced.record(producer);
  produced.wait(consumer);
  consumed.record(consumer);
  passed.record(bystander);

  passed.synchronize(); // a stream that does not wait is not delayed
  CHECK_FALSE(consumed.query());
  gate.open();
  consumed.synchronize();
  CHECK(produced.query());
}

TEST_CASE_METHOD(Fixture, "a wait is for the latest record before it, not for a later one") {
  const Stream first(context), second(context), consumer(context);
  DriverEvent event(context), consumed(context);
  event.record(first);
  event.wait(consumer);
  consumed.record(consumer);
  const Gate gate(second);
  event.record(second);
  CHECK_FALSE(event.query());
  consumed.synchronize();
}

TEST_CASE_METHOD(Fixture, "calls on a non-default stream work with any context current, and with none") {
  const Context created = Context::create(0, driver);
  const Stream stream(context), other(created);
  DriverEvent event(context, EventFlags::timing);
  const bool other_is_current = GENERATE(false, true);
  CAPTURE(other_is_current);
  std::optional<ContextGuard> guard;
  if (other_is_current) guard.emplace(created);
  const auto stack = context_stack();

  event.record(stream);
  event.wait(stream);
  event.wait(other); // a wait may cross contexts
  event.synchronize();
  CHECK(event.query());
  CHECK(event.query_relaxed());
  CHECK(event.synchronize_for(1s));
  CHECK(event.elapsed_time(event).count() == 0);
  event.close();
  CHECK(context_stack() == stack);
}

TEST_CASE_METHOD(Fixture, "a record on a stream of another context throws and names both contexts") {
  const Context created = Context::create(0, driver);
  const Stream stream(created);
  DriverEvent event(context);
  CHECK_THROWS_AS(event.record(stream), ContextMismatch);
  CHECK_THROWS_WITH(event.record(stream), ContainsSubstring("the event belongs to context 0x") &&
                                              ContainsSubstring("the stream to context 0x") &&
                                              ContainsSubstring("(device 0)"));
  CHECK(event.query());
  CHECK(context_stack().empty());
}

TEST_CASE_METHOD(StreamFixture, "the external flags are refused outside a capture") {
  DriverEvent event(context);
  CUstream const each = GENERATE_REF(CUstream(stream), CUstream(nullptr), CU_STREAM_PER_THREAD);
  CHECK_THROWS_AS(event.record(each, RecordFlags::external), ExternalOutsideCapture);
  CHECK_THROWS_AS(event.wait(each, WaitFlags::external), ExternalOutsideCapture);
  CHECK(event.try_record(each, RecordFlags::external) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(event.try_wait(each, WaitFlags::external) == CUDA_ERROR_ILLEGAL_STATE);
}

TEST_CASE_METHOD(StreamFixture, "flags that the driver does not know are refused") {
  DriverEvent event(context);
  CHECK_THROWS_AS(event.record(stream, RecordFlags(0x80)), InvalidValue);
  CHECK_THROWS_AS(event.wait(stream, WaitFlags(0x80)), InvalidValue);
  CHECK_THROWS_WITH(event.record(stream, RecordFlags(0x80)), ContainsSubstring("RecordFlags"));
  CHECK_THROWS_WITH(event.wait(stream, WaitFlags(0x80)), ContainsSubstring("WaitFlags"));
}
