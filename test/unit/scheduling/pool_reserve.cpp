// SPDX-License-Identifier: MIT
// The reservations of an EventPool.
#include "pool_fixture.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <cstdint>
#include <thread>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(RecordingFixture, "reserve creates the missing events") {
  EventPool pool(context, EventFlags::none, FreshLease::refuses, 200);
  { const auto leases = acquire(pool, 3); }
  pool.reserve(10);
  CHECK(pool.counters().created == 10);
  CHECK(pool.counters().idle == 10);
  CHECK(pool.counters().high_water <= 4);
  pool.reserve(5);
  CHECK(pool.try_reserve(10) == CUDA_SUCCESS);
  CHECK(pool.counters().created == 10);
  pool.reserve(200);
  recording.calls();
  std::thread([&] { // also for another thread
    RecordingDriver here;
    const auto leases = acquire(pool, 200);
    CHECK(here.calls().empty());
  })
      .join();
  CHECK(pool.counters().created == 200);
  CHECK(pool.counters().idle == 200);

  refusal<InvalidValue>([&] { pool.reserve(201); });
  CHECK(pool.try_reserve(201) == CUDA_ERROR_INVALID_VALUE);
  pool.trim();
  recording.fail_next("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
  refusal<OutOfMemory>([&] { pool.reserve(1); });
  recording.fail_next("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(pool.try_reserve(1) == CUDA_ERROR_OUT_OF_MEMORY);
}

namespace {

/// The number of events that these acquires create, each on its own thread.
std::uint64_t created_by(EventPool& pool, Worker* workers, const std::vector<std::size_t>& at_each,
                         std::vector<std::vector<PooledEvent>>& leases) {
  const std::uint64_t before = pool.counters().created;
  leases.resize(at_each.size());
  for (std::size_t w = 0; w < at_each.size(); ++w)
    workers[w].run([&] {
      for (std::size_t i = 0; i < at_each[w]; ++i)
        leases[w].push_back(pool.acquire());
    });
  return pool.counters().created - before;
}

} // namespace

TEST_CASE_METHOD(RecordingFixture, "a reservation serves any threads, in any shares", "[threads]") {
  const std::vector<std::vector<std::size_t>> shares = {
      {64}, {1, 63}, {1, 1, 62}, {32, 31, 1}, {10, 10, 10, 34}, {1, 1, 1, 1, 60}, {60, 1, 1, 1, 1}};
  for (const std::vector<std::size_t>& at_each : shares) {
    CAPTURE(at_each);
    EventPool pool(context);
    Worker workers[5];
    std::vector<std::vector<PooledEvent>> leases;
    pool.reserve(64);
    CHECK(created_by(pool, workers, at_each, leases) == 0);
    // Also after returned events have become the threads' caches, whichever thread returned them.
    for (std::size_t round = 0; round < 5; ++round) {
      workers[round].run([&] { leases.clear(); });
      CHECK(created_by(pool, workers, at_each, leases) == 0);
    }
    leases.clear();
    CHECK(pool.counters().idle == 64);
  }
}

TEST_CASE_METHOD(RecordingFixture, "a reservation does not count events on lease", "[threads]") {
  EventPool pool(context);
  Worker workers[3];
  auto before = acquire(pool, 40);
  pool.reserve(64);
  CHECK(pool.counters().created == 104);
  std::vector<std::vector<PooledEvent>> leases;
  CHECK(created_by(pool, workers, {1, 1, 62}, leases) == 0);
  before.clear();
  leases.clear();
  CHECK(created_by(pool, workers, {1, 1, 102}, leases) == 0);
  PooledEvent beyond = pool.acquire();
  CHECK(pool.counters().created == 105);
}

TEST_CASE_METHOD(RecordingFixture, "cache room of threads does not reduce a reservation", "[threads]") {
  EventPool pool(context, EventFlags::none, FreshLease::refuses, 64);
  Worker workers[2];
  pool.reserve(64);
  auto leases = acquire(pool, 64);
  workers[0].run([&] { leases.resize(32); }); // and reserves room for more
  workers[0].run([&] {
    for (int i = 0; i < 32; ++i)
      leases.push_back(pool.acquire());
  });
  workers[1].run([&] { leases.clear(); }); // the only room for them is the room that is given up
  CHECK(destroy_retired() == 0);
  CHECK(pool.counters().idle == 64);
  leases = acquire(pool, 64);
  CHECK(pool.counters().created == 64);
}

TEST_CASE_METHOD(RecordingFixture,
                 "without a largest number of idle events, reserve refuses absurd numbers") {
  EventPool pool(context, EventFlags::none, FreshLease::refuses, SIZE_MAX);
  { const PooledEvent lease = pool.acquire(); }
  CHECK(pool.counters().idle == 1);
  CHECK_THAT(refusal<InvalidValue>([&] { pool.reserve(SIZE_MAX); }),
             Catch::Matchers::ContainsSubstring("reserve fewer"));
  CHECK(pool.try_reserve(SIZE_MAX) == CUDA_ERROR_INVALID_VALUE);
  CHECK(pool.counters().created == 1);
}

TEST_CASE_METHOD(RecordingFixture, "reserve counts cached events and never creates more than max_idle") {
  EventPool pool(context, EventFlags::none, FreshLease::refuses, 64);
  Worker worker;
  worker.run([&] { const auto leases = acquire(pool, 64); });
  CHECK(pool.counters().idle == 64);
  pool.reserve(64);
  CHECK(pool.counters().idle == 64);
  CHECK(pool.counters().created == 64);
  const auto leases = acquire(pool, 64);
  CHECK(pool.counters().created == 64);
}

TEST_CASE_METHOD(RecordingFixture, "reserve keeps to max_idle while threads return events", "[threads]") {
  constexpr std::size_t most = 64;
  EventPool pool(context, EventFlags::none, FreshLease::refuses, most);
  std::atomic<bool> stop = false;
  on_threads(4, [&](std::size_t t) {
    while (t != 0 && !stop)
      acquire(pool, 20);
    for (int i = 0; t == 0 && i < 300; ++i) {
      pool.reserve(most);
      if (i % 10 == 0) pool.trim();
      destroy_retired();
    }
    if (t == 0) stop = true;
  });
  CHECK(pool.counters().idle <= most);
  destroy_retired();
  CHECK(RecordingDriver::live_events() == events_before + long(pool.counters().idle));
}

TEST_CASE_METHOD(RecordingFixture, "creations that failed do not count as reserved", "[threads]") {
  EventPool pool(context);
  Worker worker;
  auto leases = acquire(pool, 3);
  for (int i = 0; i < 5; ++i) {
    PooledEvent none;
    recording.fail_next("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(pool.try_acquire(none) == CUDA_ERROR_OUT_OF_MEMORY);
  }
  pool.reserve(2);
  for (int i = 0; i < 2; ++i)
    leases.push_back(pool.acquire());
  CHECK(pool.counters().created == 5);
  worker.run([&] { acquire(pool, 2); }); // and caches them
  leases.push_back(pool.acquire());      // is not reserved, so it does not take from the worker
  CHECK(pool.counters().created == 8);
}

TEST_CASE_METHOD(RecordingFixture, "threads within a reservation never create an event", "[threads]") {
  constexpr std::size_t threads = 6, at_most = 16;
  EventPool pool(context);
  pool.reserve(threads * at_most);
  std::barrier together(threads);
  PooledEvent handed_on[threads];
  on_threads(threads, [&](std::size_t t) {
    for (std::size_t round = 0; round < 500; ++round) {
      auto leases = acquire(pool, (round * 7 + t) % at_most);
      handed_on[t] = pool.acquire();
      leases.clear();
      if (round % 8 == 0) together.arrive_and_wait();
      if (round % 8 == 0) handed_on[(t + 1) % threads] = PooledEvent(); // returned on another thread
      if (round % 8 == 0) together.arrive_and_wait();
    }
  });
  CHECK(pool.counters().created == threads * at_most);
}

TEST_CASE_METHOD(RecordingFixture, "trim ends a reservation") {
  EventPool pool(context);
  Worker worker;
  pool.reserve(40);
  worker.run([&] { static_cast<void>(pool.acquire()); }); // and caches some
  pool.trim();
  const std::size_t kept_there = pool.counters().idle;
  REQUIRE(kept_there > 0);
  const PooledEvent lease = pool.acquire();
  CHECK(pool.counters().created == 41);
  CHECK(pool.counters().idle == kept_there);
}

TEST_CASE_METHOD(RecordingFixture, "reserve keeps the events created before a failure") {
  EventPool pool(context);
  pool.reserve(2);
  recording.fail_next("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(pool.try_reserve(5) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(pool.counters().idle == 2);
  pool.reserve(5);
  CHECK(pool.counters().created == 5);
}
