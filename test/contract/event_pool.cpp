// SPDX-License-Identifier: MIT
// The event pool on a driver.
#include <cuevent/event_pool.hpp>

#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/retired_events.hpp>

#include <chrono>
#include <fstream>
#include <optional>
#include <unistd.h>
#include <vector>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(Fixture, "a pooled event works as an event and reaches its next user unrecorded") {
  const Stream stream(context), other(context);
  EventPool pool(context, EventFlags::timing);
  CUevent first = nullptr;
  {
    PooledEvent start = pool.acquire(), end = pool.acquire();
    first = start.event().native_handle();
    start.record(stream);
    end.record(stream);
    end.wait(other);
    CHECK(end.synchronize_for(1min));
    CHECK(start.query());
    CHECK(start.elapsed_time(end).count() >= 0);
  }
  PooledEvent again = pool.acquire(), end = pool.acquire();
  CHECK((again.event().native_handle() == first || end.event().native_handle() == first));
  CHECK_THROWS_AS(again.query(), NeverRecorded);
  end.record(stream);
  end.synchronize();
  CHECK_THROWS_AS(again.elapsed_time(end), NeverRecorded);
  CHECK(pool.counters().created == 2);
}

TEST_CASE_METHOD(Fixture, "a lease that ends while its event is pending cancels nothing") {
  const Stream stream(context), waiting(context), other(context);
  EventPool pool(context);
  Gate gate(stream);
  {
    PooledEvent pending = pool.acquire();
    pending.record(stream);
    CHECK_FALSE(pending.query());
    pending.wait(waiting);
  }
  PooledEvent next = pool.acquire(); // the same event
  CHECK(pool.counters().created == 1);
  next.record(other);
  CHECK(next.synchronize_for(1min));
  PooledEvent behind = pool.acquire();
  behind.record(waiting);
  CHECK_FALSE(behind.query()); // it waits for the earlier record
  gate.open();
  CHECK(behind.synchronize_for(1min));
}

TEST_CASE_METHOD(Fixture, "wait_stream orders one stream behind another") {
  const Stream earlier(context), later(context);
  EventPool pool(context);
  PooledEvent mark = pool.acquire();
  Gate gate(earlier);
  pool.wait_stream(later, later);
  mark.record(later);
  CHECK(mark.synchronize_for(1min));
  pool.wait_stream(later, earlier);
  CHECK(pool.try_wait_stream(later, earlier) == CUDA_SUCCESS);
  mark.record(later);
  CHECK_FALSE(mark.query());
  gate.open();
  CHECK(mark.synchronize_for(1min));
  CHECK(pool.counters().created == 2);

  // The stream of the pool's context, which is not current.
  pool.wait_stream(CU_STREAM_PER_THREAD, earlier);
  pool.wait_stream(earlier, nullptr);
  mark.record(earlier);
  CHECK(mark.synchronize_for(1min));
}

TEST_CASE_METHOD(Fixture, "wait_stream orders streams of different contexts") {
  const Context other = Context::create(0, driver);
  const Stream earlier(context), later(other);
  EventPool pool(context), pool_of_later(other);
  pool.wait_stream(later, earlier);
  CHECK_THROWS_AS(pool_of_later.wait_stream(later, earlier), ContextMismatch);
  PooledEvent mark = pool_of_later.acquire();
  mark.record(later);
  CHECK(mark.synchronize_for(1min));
}

TEST_CASE_METHOD(Fixture, "wait_stream orders the default streams of two named contexts") {
  const Context other = Context::create(0, driver);
  EventPool pool(context), pool_of_other(other);
  PooledEvent mark = pool_of_other.acquire(), lease = pool.acquire();
  std::optional<Gate> gate;
  {
    const ContextGuard current(context);
    gate.emplace(CU_STREAM_PER_THREAD);
  }
  pool.wait_stream({other, CU_STREAM_PER_THREAD}, {context, CU_STREAM_PER_THREAD});
  mark.record({other, CU_STREAM_PER_THREAD});
  CHECK_FALSE(mark.query());
  gate->open();
  CHECK(mark.synchronize_for(1min));

  CHECK_THROWS_AS(pool.wait_stream({context, nullptr}, {other, nullptr}), ContextMismatch);
  CHECK_THROWS_AS(lease.record({other, nullptr}), ContextMismatch);
  CHECK(lease.try_record({other, nullptr}) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_FALSE(lease.recorded());
  const ContextGuard current(other);
  lease.record({context, nullptr});
  lease.wait({other, nullptr});
  CHECK(lease.synchronize_for(1min));
}

TEST_CASE_METHOD(Fixture, "an event that a capture has recorded can be reused") {
  const Stream stream(context), fork(context);
  EventPool pool(context);
  pool.reserve(1);
  StreamCapture capture(context, stream, CaptureMode::per_thread);
  pool.wait_stream(fork, stream); // the fork; its lease has ended
  pool.wait_stream(stream, fork); // the join, with the same event
  CHECK(capture_status(context, fork) == CaptureStatus::active);
  const Graph graph = capture.end();
  CHECK(pool.counters().created == 1);
  PooledEvent again = pool.acquire();
  CHECK_THROWS_AS(again.query(), NeverRecorded);
  CHECK_THROWS_AS(again.wait(stream), NeverRecorded);
  again.record(stream);
  CHECK(again.synchronize_for(1min));
}

namespace {

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

// Not by default: meson test --suite slow.
TEST_CASE_METHOD(Fixture, "memory stays flat while ten million events are acquired, recorded and completed",
                 "[.][slow]") {
  constexpr int warm_up = 100'000, cycles = 10'000'000, at_once = 64;
  const Stream stream(context);
  EventPool pool(context);
  std::vector<PooledEvent> leases(at_once);
  std::size_t before = 0;
  for (int i = 0; i < warm_up + cycles; i += at_once) {
    if (i >= warm_up && before == 0) before = resident_bytes();
    for (PooledEvent& lease : leases) {
      lease = pool.acquire();
      lease.record(stream);
    }
    leases.back().synchronize();
    for (PooledEvent& lease : leases) {
      if (!lease.query()) FAIL("an event behind which all is complete is not");
      lease = PooledEvent();
    }
  }
  const std::size_t after = resident_bytes();
  CAPTURE(before, after);
  CHECK(after < before + 4'000'000);
  CHECK(pool.counters().created <= at_once);
}
