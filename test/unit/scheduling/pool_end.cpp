// SPDX-License-Identifier: MIT
// The end of a pool, of its context and of its process, and failing driver calls.
#include "forked_child.hpp"
#include "pool_fixture.hpp"

#include <cuevent/ipc.hpp>

#include <atomic>
#include <optional>
#include <string_view>
#include <thread>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(RecordingFixture, "the destructor of a pool destroys idle events of all threads") {
  Worker worker;
  {
    EventPool pool(context);
    { const auto leases = acquire(pool, 5); }
    worker.run([&] { const auto leases = acquire(pool, 5); });
    CHECK(RecordingDriver::live_events() == events_before + 10);
  }
  CHECK(RecordingDriver::live_events() == events_before);
  worker.run([&] { // another pool at the same address, and a thread that knew the previous pool
    EventPool pool(context);
    static_cast<void>(pool.acquire());
    CHECK(pool.counters().created == 1);
  });
}

TEST_CASE_METHOD(RecordingFixture, "leases outlive the pool and are then retired") {
  Worker worker;
  std::optional<EventPool> pool(context);
  auto leases = acquire(*pool, 3);
  leases[0].record(stream);
  { const auto idle = acquire(*pool, 2); }
  PooledEvent theirs;
  worker.run([&] {
    theirs = pool->acquire();
    static_cast<void>(pool->acquire());
  });
  pool.reset();
  CHECK(RecordingDriver::live_events() == events_before + 4);
  CHECK(leases[0].query());
  leases[1].record(stream);
  CHECK(leases[1].query());
  recording.calls();
  leases.clear();
  worker.run([&] {
    RecordingDriver here;
    theirs = PooledEvent();
    CHECK(here.calls().empty());
  });
  CHECK(recording.calls().empty());
  CHECK(destroy_retired() == 4);
  CHECK(RecordingDriver::live_events() == events_before);
}

TEST_CASE_METHOD(RecordingFixture, "a thread distinguishes a new pool from one that has ended") {
  Worker worker;
  std::vector<PooledEvent> old_leases;
  for (int generation = 0; generation < 10; ++generation) {
    EventPool pool(context, EventFlags::none), other(context, EventFlags::timing);
    const auto use = [&] {
      CHECK(pool.acquire().event().flags() == EventFlags::none);
      CHECK(other.acquire().event().flags() == EventFlags::timing);
      if (!old_leases.empty()) old_leases.pop_back();
    };
    use();
    worker.run(use);
    std::thread(use).join();
    CHECK(pool.counters().created == 3); // one for each thread
    CHECK(pool.counters().idle == 3);
    for (int i = 0; i < 4; ++i)
      old_leases.push_back(i % 2 == 0 ? pool.acquire() : other.acquire());
  }
  old_leases.clear();
  destroy_retired();
  CHECK(RecordingDriver::live_events() == events_before);
}

TEST_CASE_METHOD(RecordingFixture,
                 "a pool drops its context when it ends, and a lease when its event is destroyed") {
  const long contexts = RecordingDriver::live_contexts();
  Worker worker;
  PooledEvent lease;
  {
    EventPool pool(Context::primary(0, driver));
    worker.run([&] { static_cast<void>(pool.acquire()); });
    static_cast<void>(pool.acquire());
  }
  CHECK(RecordingDriver::live_contexts() == contexts);
  {
    EventPool pool(Context::primary(0, driver));
    lease = pool.acquire();
  }
  CHECK(RecordingDriver::live_contexts() == contexts + 1);
  lease = PooledEvent();
  CHECK(RecordingDriver::live_contexts() == contexts + 1);
  CHECK(destroy_retired() == 1);
  CHECK(RecordingDriver::live_contexts() == contexts);
}

TEST_CASE_METHOD(RecordingFixture, "leases report a lost context, and their pool ends silently") {
  HookedErrors hooked;
  {
    EventPool pool(context);
    pool.reserve(40);
    PooledEvent lease = pool.acquire();
    recording.fail_always("cuCtxGetId", CUDA_ERROR_CONTEXT_IS_DESTROYED);
    recording.fail_always("cuEventRecord", CUDA_ERROR_CONTEXT_IS_DESTROYED);
    recording.fail_always("cuEventQuery", CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_THROWS_AS(lease.record(stream), ContextLost);
    lease.mark_recorded();
    CHECK_THROWS_AS(lease.query(), ContextLost);
    auto rest = acquire(pool, 39);
    CHECK_THROWS_AS(pool.acquire(), ContextLost);
    PooledEvent none;
    CHECK(pool.try_acquire(none) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    rest.clear();
    recording.calls();
    // Its idle events are gone, even if the streams belong to a later context.
    CHECK_THROWS_AS(pool.wait_stream(stream_handle(2), stream), ContextLost);
    CHECK(pool.try_wait_stream(stream_handle(2), stream) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    const Names calls = recording.calls();
    CHECK(std::count(calls.begin(), calls.end(), "cuEventRecord") == 0);
  }
  CHECK(recording.calls() == Names{"cuCtxGetId"});
  CHECK(hooked.take() == CUDA_SUCCESS);
  for (int i = 0; i < 40; ++i)
    driver.table().cuEventDestroy_v4000(nullptr); // the stubs still count them
}

TEST_CASE_METHOD(RecordingFixture,
                 "the destructor of a pool reports events that it cannot destroy and destroys the others") {
  HookedErrors hooked;
  for (const std::string_view failing : {"cuEventDestroy", "cuCtxGetId"}) {
    CAPTURE(failing);
    std::optional<EventPool> pool(context);
    pool->reserve(3);
    recording.fail_next(failing, CUDA_ERROR_INVALID_VALUE);
    pool.reset();
    const bool asked = failing == "cuCtxGetId"; // the query fails, but each event queries again
    CHECK(hooked.take() == (asked ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
    CHECK(RecordingDriver::live_events() == events_before + (asked ? 0 : 1));
    if (!asked) driver.table().cuEventDestroy_v4000(nullptr); // the one that the stubs still count
  }
}

TEST_CASE_METHOD(RecordingFixture, "threads make, use and end pools of their own concurrently", "[threads]") {
  std::atomic<std::size_t> wrong{0};
  std::barrier together(4);
  on_threads(4, [&](std::size_t t) {
    for (std::size_t round = 0; round < 100; ++round) {
      together.arrive_and_wait();
      EventPool own(context);
      { const auto leases = acquire(own, t + 1); }
      if (own.counters().created != t + 1 || own.counters().idle != t + 1) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE_METHOD(RecordingFixture, "a pool can end while threads return its leases and use other pools",
                 "[threads]") {
  constexpr std::size_t threads = 8, rounds = 200;
  EventPool lasting(context);
  std::optional<EventPool> pool;
  std::barrier together(threads);
  on_threads(threads, [&](std::size_t t) {
    for (std::size_t round = 0; round < rounds; ++round) {
      if (t == 0) pool.emplace(context, EventFlags::none, FreshLease::refuses, round % 50);
      together.arrive_and_wait();
      std::vector<PooledEvent> leases;
      for (std::size_t i = 0; i < 1 + round % 70; ++i)
        leases.push_back(pool->acquire());
      together.arrive_and_wait();
      if (t == 0) pool.reset();
      leases.clear();
      lasting.acquire().record(stream);
      if (t == 1) destroy_retired();
      together.arrive_and_wait();
    }
  });
  destroy_retired();
  CHECK(RecordingDriver::live_events() == events_before + long(lasting.counters().idle));
}
