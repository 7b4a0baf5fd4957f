// SPDX-License-Identifier: MIT
// What a lease reads until its first record, while the work of its event's last user is pending.
#include <cuevent/event_pools.hpp>

#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/ipc.hpp>
#include <cuevent/retired_events.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

using namespace cuevent;
using namespace test;

namespace {

struct FreshFixture : Fixture {
  const Stream stream{context}, other{context};

  /// A pool whose only event was recorded behind a closed gate by its last user.
  EventPool with_pending_event(FreshLease fresh, EventFlags flags = EventFlags::none) const {
    EventPool pool(context, flags, fresh);
    pool.acquire().record(stream);
    return pool;
  }

  /// A stream waits for nothing.
  bool is_free(const Stream& of) {
    DriverEvent behind(context);
    behind.record(of);
    return behind.synchronize_for(std::chrono::minutes(1));
  }

  template <class Lease>
  void check_refuses(const Lease& lease) {
    DriverEvent::Milliseconds time{};
    CHECK_THROWS_AS(lease.query(), NeverRecorded);
    CHECK_THROWS_AS(lease.query_relaxed(), NeverRecorded);
    CHECK_THROWS_AS(lease.wait(other), NeverRecorded);
    CHECK_THROWS_AS(lease.wait({context, nullptr}), NeverRecorded);
    CHECK_THROWS_AS(lease.synchronize(), NeverRecorded);
    CHECK_THROWS_AS(lease.synchronize_for(std::chrono::seconds(1)), NeverRecorded);
    CHECK_THROWS_AS(lease.elapsed_time(lease), NeverRecorded);
    for (const CUresult result :
         {lease.try_query(), lease.try_query_relaxed(), lease.try_wait(other), lease.try_synchronize(),
          lease.try_synchronize_for(std::chrono::seconds(1)), lease.try_elapsed_time(time, lease)})
      CHECK(result == CUDA_ERROR_INVALID_HANDLE);
  }

  template <class Lease>
  void check_reads_new(const Lease& lease) {
    DriverEvent::Milliseconds time{};
    CHECK(lease.query());
    CHECK(lease.query_relaxed());
    lease.wait(other);
    lease.wait({context, nullptr});
    lease.synchronize();
    CHECK(lease.synchronize_for(std::chrono::seconds(0)));
    CHECK(lease.synchronize_until(std::chrono::steady_clock::now()));
    CHECK_THROWS_AS(lease.elapsed_time(lease), NeverRecorded);
    for (const CUresult result :
         {lease.try_query(), lease.try_query_relaxed(), lease.try_wait(other), lease.try_synchronize(),
          lease.try_synchronize_for(std::chrono::seconds(0))})
      CHECK(result == CUDA_SUCCESS);
    CHECK(lease.try_elapsed_time(time, lease) == CUDA_ERROR_INVALID_HANDLE);
    CHECK_FALSE(lease.recorded());
    CHECK(is_free(other));
  }
};

} // namespace

TEST_CASE_METHOD(FreshFixture, "a fresh lease refuses to be read or reads as a new event, until its record") {
  for (const FreshLease fresh : {FreshLease::refuses, FreshLease::reads_new}) {
    Gate gate(stream);
    EventPool pool = with_pending_event(fresh, EventFlags::timing);
    CHECK(pool.fresh() == fresh);
    const auto check = [&](const auto& lease) {
      CHECK(pool.counters().created == 1);
      CHECK_FALSE(lease.event().query()); // the event itself still marks the work of its last user
      if (fresh == FreshLease::refuses)
        check_refuses(lease);
      else
        check_reads_new(lease);
      const EventRef ref = lease;
      CHECK(ref.try_query() == lease.try_query());
      lease.record(stream);
      CHECK(lease.recorded());
      CHECK_FALSE(lease.query());
      CHECK_FALSE(ref.query());
      CHECK_FALSE(lease.synchronize_for(std::chrono::nanoseconds(0)));
    };
    check(pool.acquire());
    check(pool.acquire().share());
    gate.open();
  }
}

TEST_CASE_METHOD(FreshFixture, "a new DriverEvent reads as a fresh lease of a pool that reads new does") {
  const DriverEvent event(context, EventFlags::timing);
  CHECK(event.query());
  event.wait(other);
  event.synchronize();
  CHECK(event.synchronize_for(std::chrono::seconds(0)));
  CHECK_THROWS_AS(event.elapsed_time(event), NeverRecorded);
}

TEST_CASE_METHOD(FreshFixture, "mark_recorded shows the event as it is, in both kinds of pools") {
  for (const FreshLease fresh : {FreshLease::refuses, FreshLease::reads_new}) {
    Gate gate(stream);
    EventPool pool = with_pending_event(fresh);
    const PooledEvent lease = pool.acquire();
    lease.mark_recorded();
    CHECK(lease.recorded());
    CHECK_FALSE(lease.query()); // the last user's work
    gate.open();
  }
}

TEST_CASE_METHOD(FreshFixture, "the leases of several contexts read as new events too") {
  EventPools pools(driver, EventFlags::none, FreshLease::reads_new);
  const Context second = Context::create(0, driver); // before the gate, which opens before a context ends
  const ContextGuard current(context);
  Gate gate(stream);
  pools.acquire(stream).record(stream);
  check_reads_new(pools.acquire(stream));
  check_reads_new(pools.acquire({context, stream}));
  check_reads_new(pools.acquire_current());
  {
    const Stream there(second);
    const PooledEvent lease = pools.acquire(there);
    CHECK(lease.query());
    lease.wait(there);
    lease.wait(other); // a wait may cross contexts
  }
  gate.open();
}

TEST_CASE_METHOD(FreshFixture, "in a capture, a fresh lease does what a new event does") {
  for (const bool of_event : {true, false}) {
    EventPool pool(context, EventFlags::none, FreshLease::reads_new);
    const DriverEvent event(context);
    const PooledEvent lease = pool.acquire();
    const EventRef fresh = of_event ? EventRef(event) : EventRef(lease);
    CUresult results[3] = {}, external = CUDA_ERROR_UNKNOWN;
    {
      StreamCapture capture(context, stream);
      results[0] = fresh.try_wait(stream);
      results[1] = fresh.try_query_relaxed();
      external = fresh.try_wait(stream, WaitFlags::external);
      Graph graph;
      results[2] = capture.try_end(graph);
    }
    CHECK(external == (of_event ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED)); // a graph outlives a lease
    static CUresult of_a_new_event[3];
    if (of_event)
      std::copy_n(results, 3, of_a_new_event);
    else
      CHECK(std::equal(results, results + 3, of_a_new_event));
  }
}

TEST_CASE_METHOD(FreshFixture, "a detached event marks what its last user recorded, in both kinds of pools") {
  for (const FreshLease fresh : {FreshLease::refuses, FreshLease::reads_new}) {
    Gate gate(stream);
    EventPool pool = with_pending_event(fresh);
    const DriverEvent event = pool.acquire().detach();
    CHECK_FALSE(event.query());
    gate.open();
  }
}

TEST_CASE_METHOD(FreshFixture, "an exported lease that has recorded nothing reads new for its own process") {
  EventPool pool(context, EventFlags::interprocess, FreshLease::reads_new);
  PooledEvent lease = pool.acquire();
  static_cast<void>(lease.ipc_handle());
  CHECK(lease.query());
  lease.wait(stream);
  CHECK(is_free(stream));
  lease = PooledEvent(); // retires the event: others may use it
  CHECK(destroy_retired() == 1);
}

TEST_CASE_METHOD(FreshFixture, "a fresh lease reads as a new event after the end of its pool") {
  SharedEvent lease;
  {
    EventPool pool(context, EventFlags::none, FreshLease::reads_new);
    lease = pool.acquire().share();
  }
  check_reads_new(lease);
  lease = SharedEvent();
  CHECK(destroy_retired() == 2); // the lease's event, and the one that was never recorded
}

TEST_CASE_METHOD(FreshFixture, "a pool without leases destroys the event that is never recorded") {
  const int before = live_handles().events;
  {
    EventPool pool(context, EventFlags::none, FreshLease::reads_new);
    { const PooledEvent lease = pool.acquire(); }
    CHECK(live_handles().events == before + 2);
    CHECK(pool.counters().created == 1);
  }
  CHECK(live_handles().events == before);
  CHECK(retired_events() == 0);
}
