// SPDX-License-Identifier: MIT
// Leases that several holders share.
#include <cuevent/event_pool.hpp>

#include "allocations.hpp"
#include "recording_fixture.hpp"

#include <atomic>
#include <barrier>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;

static_assert(std::is_nothrow_copy_constructible_v<SharedEvent> &&
              std::is_nothrow_move_constructible_v<SharedEvent> &&
              std::is_nothrow_default_constructible_v<SharedEvent>);
static_assert(sizeof(SharedEvent) == sizeof(EventRef) && sizeof(PooledEvent) == sizeof(EventRef));
// Sharing needs std::move.
static_assert(!std::is_invocable_v<decltype(&PooledEvent::share), PooledEvent&>);

TEST_CASE_METHOD(RecordingFixture, "the last holder returns the event") {
  EventPool pool(context);
  PooledEvent lease = pool.acquire();
  CUevent const handle = lease.native_handle();
  SharedEvent first = std::move(lease).share();
  CHECK(!lease); // NOLINT(bugprone-use-after-move)
  CHECK(first.native_handle() == handle);
  SharedEvent second = first, third = second;
  SharedEvent moved = std::move(second);
  CHECK(!second); // NOLINT(bugprone-use-after-move)
  first = SharedEvent();
  third = moved;
  const SharedEvent& same = third;
  third = same;
  moved = SharedEvent();
  CHECK(pool.counters().idle == 0);
  swap(third, first);
  CHECK(pool.counters().idle == 0);
  first = SharedEvent();
  CHECK(pool.counters().idle == 1);
  CHECK(pool.acquire().native_handle() == handle);
}

TEST_CASE_METHOD(RecordingFixture, "sharing allocates nothing and makes no driver call") {
  EventPool pool(context);
  pool.reserve(2);
  { const PooledEvent lease = pool.acquire(); }
  recording.calls();
  const std::size_t before = allocations_of_this_thread();
  bool equal = false; // a CHECK in between could allocate
  {
    const SharedEvent lease = pool.acquire().share();
    const SharedEvent copies[] = {lease, lease, lease};
    equal = copies[2] == lease;
  }
  const std::size_t after = allocations_of_this_thread();
  CHECK(after == before);
  CHECK(equal);
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "a record by one holder counts for all") {
  EventPool pool(context);
  const SharedEvent recorder = pool.acquire().share(), waiter = recorder;
  CHECK_FALSE(waiter.recorded());
  CHECK(waiter.try_query() == CUDA_ERROR_INVALID_HANDLE);
  refusal<NeverRecorded>([&] { waiter.synchronize(); });
  recorder.record(stream);
  CHECK(waiter.recorded());
  CHECK(waiter.query());
  waiter.wait(stream_handle(2));
  const SharedEvent launched = pool.acquire().share();
  launched.mark_recorded();
  CHECK(launched.recorded());
  const SharedEvent none = PooledEvent().share();
  none.mark_recorded();
  CHECK((!none && !none.recorded() && !none.event()));
}

TEST_CASE_METHOD(RecordingFixture, "a shared lease outlives its pool") {
  SharedEvent lease;
  {
    EventPool pool(context);
    lease = pool.acquire().share();
    lease.record(stream);
  }
  CHECK(lease.query());
  CHECK(lease.event().context() == context);
  lease = SharedEvent();
  CHECK(retired_events() == 1);
  destroy_retired();
}

TEST_CASE_METHOD(RecordingFixture, "sixteen threads share a lease", "[threads]") {
  constexpr int threads = 16, rounds = 300;
  EventPool pool(context);
  std::vector<SharedEvent> given(threads);
  long data = 0; // written before the record, and read by whoever sees the record
  std::atomic<long> wrong = 0;
  std::barrier<> step(threads + 1);
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      RecordingDriver mine;
      for (long round = 1; round <= rounds; ++round) {
        step.arrive_and_wait();
        SharedEvent lease = std::move(given[static_cast<std::size_t>(t)]);
        const SharedEvent copy = lease;
        if (t == 0) {
          data = round;
          lease.record(stream_handle(1));
        }
        while (copy.try_query() == CUDA_ERROR_INVALID_HANDLE)
          std::this_thread::yield();
        if (data != round) ++wrong;
        copy.wait(stream_handle(2));
        lease = SharedEvent();
        mine.calls();
        step.arrive_and_wait();
      }
    });
  for (long round = 1; round <= rounds; ++round) {
    {
      const SharedEvent lease = pool.acquire().share();
      for (SharedEvent& each : given)
        each = lease;
    }
    step.arrive_and_wait();
    step.arrive_and_wait();
  }
  for (std::thread& thread : running)
    thread.join();
  CHECK(wrong == 0);
  const EventPool::Counters counters = pool.counters();
  CHECK(counters.idle == counters.created);
  recording.calls();
}
