// SPDX-License-Identifier: MIT
#include <cuevent/event_pool.hpp>

#include <cuevent/graph.hpp>
#include <cuevent/ipc.hpp>

#include "allocations.hpp"
#include "forked_child.hpp"
#include "overloads.hpp"
#include "recording_fixture.hpp"

#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;
using namespace std::chrono_literals;

static_assert(std::is_nothrow_move_constructible_v<PooledEvent> &&
              !std::is_copy_constructible_v<PooledEvent>);
static_assert(std::is_nothrow_move_constructible_v<EventPool> && !std::is_copy_constructible_v<EventPool>);
static_assert(std::is_nothrow_default_constructible_v<PooledEvent>);
// Handing over needs std::move.
static_assert(!std::is_invocable_v<decltype(&PooledEvent::detach), PooledEvent&>);

namespace {

constexpr std::size_t kept = 64; // events that a thread caches at most

std::vector<PooledEvent> acquire(EventPool& pool, std::size_t count) {
  std::vector<PooledEvent> leases;
  for (std::size_t i = 0; i < count; ++i)
    leases.push_back(pool.acquire());
  return leases;
}

/// Runs `work` on a new thread and waits for it.
void elsewhere(const std::function<void()>& work) { std::thread(work).join(); }

/// A thread that runs one piece of work at a time, and stays alive in between.
class Worker {
public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    if (thread_.joinable()) end();
  }

  void run(std::function<void()> work) {
    work_ = std::move(work);
    step();
  }
  void end() {
    ended_ = true;
    begin_.arrive_and_wait();
    thread_.join();
  }

private:
  void step() {
    begin_.arrive_and_wait();
    done_.arrive_and_wait();
  }
  void loop() {
    for (begin_.arrive_and_wait(); !ended_; begin_.arrive_and_wait()) {
      work_();
      done_.arrive_and_wait();
    }
  }

  std::barrier<> begin_{2}, done_{2};
  std::function<void()> work_;
  bool ended_ = false;
  std::thread thread_{[this] { loop(); }}; // last, because it uses the other members
};

} // namespace

TEST_CASE_METHOD(RecordingFixture, "an event is created once and then reused", "[pool]") {
  EventPool pool(context);
  CHECK(recording.calls().empty());
  CUevent first = nullptr;
  {
    const PooledEvent lease = pool.acquire();
    CHECK(recording.calls() ==
          Names{"cuCtxGetCurrent", "cuCtxGetId", "cuCtxPushCurrent", "cuEventCreate", "cuCtxPopCurrent"});
    first = lease.event().native_handle();
  }
  CHECK(pool.acquire().event().native_handle() == first);
  PooledEvent again, other;
  CHECK(pool.try_acquire(again) == CUDA_SUCCESS);
  CHECK(again.event().native_handle() == first);
  CHECK(recording.calls().empty());
  CHECK(pool.try_acquire(other) == CUDA_SUCCESS);
  CHECK(other.event().native_handle() != first);
  CHECK(other.event().context() == context);
}

TEST_CASE_METHOD(RecordingFixture, "acquiring and returning make no driver call and no allocation",
                 "[pool]") {
  EventPool pool(context);
  pool.reserve(8);
  { const auto leases = acquire(pool, 8); }
  recording.calls();
  const std::size_t allocations = allocations_of_this_thread();
  for (int i = 0; i < 1000; ++i) {
    PooledEvent lease = pool.acquire(), other;
    pool.try_acquire(other);
    const PooledEvent moved = std::move(lease);
  }
  CHECK(allocations_of_this_thread() == allocations);
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "the reserve serves a thread that only acquires and one that only returns",
                 "[pool]") {
  EventPool pool(context);
  Worker worker;
  for (int round = 0; round < 20; ++round) {
    auto leases = acquire(pool, 100);
    worker.run([&] { leases.clear(); });
  }
  const EventPool::Counters counters = pool.counters();
  CHECK(counters.created <= 100 + kept);
  CHECK(counters.created + counters.reused == 2000);
  CHECK(counters.idle == counters.created);
}

TEST_CASE_METHOD(RecordingFixture, "events are created with the flags of their pool", "[pool]") {
  EventPool pool(context, EventFlags::timing, 3);
  CHECK(pool.context() == context);
  CHECK(pool.flags() == EventFlags::timing);
  CHECK(pool.max_idle() == 3);
  CHECK(pool.acquire().event().flags() == EventFlags::timing);
}

TEST_CASE_METHOD(RecordingFixture, "calls on an unrecorded lease throw NeverRecorded", "[pool][lease]") {
  EventPool pool(context, EventFlags::timing);
  const auto check = [&](PooledEvent& lease, PooledEvent& end) {
    recording.calls();
    DriverEvent::Milliseconds time{};
    CHECK(lease.try_query() == CUDA_ERROR_INVALID_HANDLE);
    CHECK(lease.try_query_relaxed() == CUDA_ERROR_INVALID_HANDLE);
    CHECK(lease.try_synchronize() == CUDA_ERROR_INVALID_HANDLE);
    CHECK(lease.try_synchronize_for(1ns) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(lease.try_synchronize_until({}) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(lease.try_wait(stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(lease.try_elapsed_time(time, end) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(end.try_elapsed_time(time, lease) == CUDA_ERROR_INVALID_HANDLE);
    CHECK_FALSE(lease.recorded());
    CHECK(recording.calls().empty());
  };
  const auto check_throws = [&]<class Error>(std::type_identity<Error>, PooledEvent& lease,
                                             PooledEvent& end) {
    recording.calls();
    refusal<Error>([&] { lease.query(); });
    refusal<Error>([&] { lease.query_relaxed(); });
    refusal<Error>([&] { lease.synchronize(); });
    refusal<Error>([&] { lease.synchronize_for(1ns); });
    refusal<Error>([&] { lease.synchronize_until({}); });
    refusal<Error>([&] { lease.wait(stream); });
    refusal<Error>([&] { static_cast<void>(lease.elapsed_time(end)); });
    refusal<Error>([&] { static_cast<void>(end.elapsed_time(lease)); });
    CHECK(recording.calls().empty());
  };

  PooledEvent end = pool.acquire();
  end.record(stream);
  for (int user = 0; user < 2; ++user) { // the first lease of the event and the second
    PooledEvent lease = pool.acquire();
    check(lease, end);
    check_throws(std::type_identity<NeverRecorded>{}, lease, end);
    recording.fail_next("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
    CHECK_THROWS_AS(lease.record(stream), InvalidHandle);
    CHECK(lease.try_query() == CUDA_ERROR_INVALID_HANDLE);
    recording.fail_next("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
    CHECK(lease.try_record(stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(lease.try_query() == CUDA_ERROR_INVALID_HANDLE);

    if (user == 0)
      lease.record(stream);
    else
      CHECK(lease.try_record(stream) == CUDA_SUCCESS);
    recording.calls();
    CHECK(lease.query());
    CHECK(lease.query_relaxed());
    lease.synchronize();
    CHECK(lease.synchronize_for(1ns));
    lease.wait(stream);
    CHECK(lease.elapsed_time(end).count() == 2.5F);
    CHECK(lease.try_query() == CUDA_SUCCESS);
    CHECK(recording.calls().size() == 11);
  }

  PooledEvent marked = pool.acquire();
  marked.mark_recorded();
  CHECK(marked.query());
  PooledEvent empty;
  check(empty, end);
  check_throws(std::type_identity<EmptyEvent>{}, empty, end);
  CHECK(empty.try_record(stream) == CUDA_ERROR_INVALID_HANDLE);
  refusal<EmptyEvent>([&] { empty.record(stream); });
  refusal<EmptyEvent>([&] { static_cast<void>(empty.ipc_handle()); });
  empty.mark_recorded();
  CHECK_FALSE(empty.recorded());
  CHECK_FALSE(empty.event());
  CHECK_FALSE(std::move(empty).detach());
}

TEST_CASE_METHOD(RecordingFixture, "leases move, swap and survive assignment to themselves",
                 "[pool][lease]") {
  EventPool pool(context);
  PooledEvent a = pool.acquire(), b = pool.acquire();
  CUevent const first = a.event().native_handle();
  a.record(stream);
  swap(a, b);
  CHECK(b.event().native_handle() == first);
  CHECK(b.recorded());
  CHECK_FALSE(a.recorded());
  PooledEvent& same = b;
  b = std::move(same);
  swap(b, same);
  CHECK(b.event().native_handle() == first);
  CHECK(b.recorded());
  a = std::move(b);
  CHECK_FALSE(b);
  CHECK_FALSE(b.recorded());
  CHECK(a.query());
  CHECK(pool.counters().idle == 1); // the events of thread a
}

TEST_CASE_METHOD(RecordingFixture, "an event that was detached or exported does not come back",
                 "[pool][lease]") {
  EventPool pool(context, EventFlags::interprocess);
  CUevent detached = nullptr;
  {
    PooledEvent lease = pool.acquire();
    lease.record(stream);
    detached = lease.event().native_handle();
    recording.calls();
    const DriverEvent event = std::move(lease).detach();
    CHECK(recording.calls().empty());
    CHECK_FALSE(lease);
    CHECK(event.native_handle() == detached);
    CHECK(event.flags() == EventFlags::interprocess);
  }
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuEventDestroy"});
  {
    PooledEvent lease = pool.acquire(), twin = pool.acquire();
    static_cast<void>(lease.ipc_handle());
    IpcHandle handle;
    CHECK(twin.try_ipc_handle(handle) == CUDA_SUCCESS);
    PooledEvent moved = std::move(lease); // the mark moves too
    recording.calls();
  }
  CHECK(recording.calls().empty());
  CHECK(pool.counters().idle == 0);
  CHECK(destroy_retired() == 2);
  {
    PooledEvent lease = pool.acquire();
    recording.fail_next("cuIpcGetEventHandle", CUDA_ERROR_INVALID_HANDLE);
    CHECK_THROWS_AS(lease.ipc_handle(), InvalidHandle);
  }
  CHECK(pool.counters().idle == 1);
}

TEST_CASE_METHOD(RecordingFixture, "an event can be detached from the pool for a graph", "[pool][lease]") {
  EventPool pool(context);
  {
    Graph graph(context);
    PooledEvent lease = pool.acquire();
    graph.add_record(lease.event());
    graph.retain(std::move(lease).detach());
    CHECK(pool.counters().idle == 0);
    CHECK(RecordingDriver::live_events() == events_before + 1);
  }
  end_graphs();
  CHECK(RecordingDriver::live_events() == events_before);
}

TEST_CASE_METHOD(RecordingFixture, "counters tell how many events were created, reused and are idle",
                 "[pool]") {
  EventPool pool(context);
  {
    const auto leases = acquire(pool, 10);
    CHECK(pool.counters().idle == 0);
  }
  for (int i = 0; i < 5; ++i)
    pool.acquire();
  const EventPool::Counters counters = pool.counters();
  CHECK(counters.created == 10);
  CHECK(counters.reused == 5);
  CHECK(counters.idle == 10);
  CHECK(counters.high_water == 10);
  elsewhere([&] {
    for (int i = 0; i < 5; ++i)
      pool.acquire();
  });
  CHECK(pool.counters().reused + pool.counters().created == 20);
}

TEST_CASE_METHOD(RecordingFixture, "at most max_idle events are idle, and the others are retired",
                 "[pool][max_idle]") {
  for (const std::size_t most : {0U, 1U, 5U, 64U, 100U}) {
    CAPTURE(most);
    EventPool pool(context, EventFlags::none, most);
    auto leases = acquire(pool, 200);
    recording.calls();
    leases.clear();
    CHECK(recording.calls().empty());
    CHECK(pool.counters().idle == most);
    CHECK(RecordingDriver::live_events() == events_before + 200);
    CHECK(destroy_retired() == 200 - most);
    CHECK(RecordingDriver::live_events() == events_before + long(most));
    { const auto again = acquire(pool, most); }
    CHECK(pool.counters().created == 200);
  }
}

TEST_CASE_METHOD(RecordingFixture, "max_idle holds for all threads together", "[pool][max_idle]") {
  EventPool pool(context, EventFlags::none, 100);
  auto leases = acquire(pool, 400);
  Worker workers[4];
  for (std::size_t w = 0; w < 4; ++w)
    workers[w].run([&, w] {
      for (std::size_t i = 0; i < 100; ++i)
        leases[100 * w + i] = PooledEvent();
    });
  CHECK(pool.counters().idle == 100);
  for (Worker& worker : workers)
    worker.end();
  CHECK(pool.counters().idle == 100);
  CHECK(destroy_retired() == 300);
  recording.calls();
  { const auto again = acquire(pool, 100); }
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "reserve creates the missing events", "[pool]") {
  EventPool pool(context, EventFlags::none, 200);
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
  elsewhere([&] { // also for another thread
    RecordingDriver here;
    const auto leases = acquire(pool, 200);
    CHECK(here.calls().empty());
  });
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

TEST_CASE_METHOD(RecordingFixture, "a reservation serves any threads, in any shares",
                 "[pool][reserve][threads]") {
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

TEST_CASE_METHOD(RecordingFixture, "a reservation does not count events on lease",
                 "[pool][reserve][threads]") {
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

TEST_CASE_METHOD(RecordingFixture, "cache room of threads does not reduce a reservation",
                 "[pool][reserve][max_idle][threads]") {
  EventPool pool(context, EventFlags::none, 64);
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

TEST_CASE_METHOD(RecordingFixture, "without a largest number of idle events, reserve refuses absurd numbers",
                 "[pool][reserve][max_idle]") {
  EventPool pool(context, EventFlags::none, SIZE_MAX);
  { const PooledEvent lease = pool.acquire(); }
  CHECK(pool.counters().idle == 1);
  CHECK_THAT(refusal<InvalidValue>([&] { pool.reserve(SIZE_MAX); }),
             Catch::Matchers::ContainsSubstring("reserve fewer"));
  CHECK(pool.try_reserve(SIZE_MAX) == CUDA_ERROR_INVALID_VALUE);
  CHECK(pool.counters().created == 1);
}

TEST_CASE_METHOD(RecordingFixture, "reserve counts cached events and never creates more than max_idle",
                 "[pool][reserve][max_idle]") {
  EventPool pool(context, EventFlags::none, 64);
  Worker worker;
  worker.run([&] { const auto leases = acquire(pool, 64); });
  CHECK(pool.counters().idle == 64);
  pool.reserve(64);
  CHECK(pool.counters().idle == 64);
  CHECK(pool.counters().created == 64);
  const auto leases = acquire(pool, 64);
  CHECK(pool.counters().created == 64);
}

TEST_CASE_METHOD(RecordingFixture, "reserve keeps to max_idle while threads return events",
                 "[pool][reserve][max_idle][threads]") {
  constexpr std::size_t most = 64;
  EventPool pool(context, EventFlags::none, most);
  std::atomic<bool> stop = false;
  std::vector<std::thread> busy;
  for (int t = 0; t < 3; ++t)
    busy.emplace_back([&] {
      while (!stop)
        acquire(pool, 20);
    });
  for (int i = 0; i < 300; ++i) {
    pool.reserve(most);
    if (i % 10 == 0) pool.trim();
    destroy_retired();
  }
  stop = true;
  for (std::thread& thread : busy)
    thread.join();
  CHECK(pool.counters().idle <= most);
  destroy_retired();
  CHECK(RecordingDriver::live_events() == events_before + long(pool.counters().idle));
}

TEST_CASE_METHOD(RecordingFixture, "creations that failed do not count as reserved",
                 "[pool][reserve][threads]") {
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

TEST_CASE_METHOD(RecordingFixture, "threads within a reservation never create an event",
                 "[pool][reserve][threads]") {
  constexpr std::size_t threads = 6, at_most = 16;
  EventPool pool(context);
  pool.reserve(threads * at_most);
  std::barrier together(threads);
  PooledEvent handed_on[threads];
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      for (std::size_t round = 0; round < 500; ++round) {
        auto leases = acquire(pool, (round * 7 + t) % at_most);
        handed_on[t] = pool.acquire();
        leases.clear();
        if (round % 8 == 0) together.arrive_and_wait();
        if (round % 8 == 0) handed_on[(t + 1) % threads] = PooledEvent(); // returned on another thread
        if (round % 8 == 0) together.arrive_and_wait();
      }
    });
  for (std::thread& thread : running)
    thread.join();
  CHECK(pool.counters().created == threads * at_most);
}

TEST_CASE_METHOD(RecordingFixture, "trim ends a reservation", "[pool][reserve]") {
  EventPool pool(context);
  Worker worker;
  pool.reserve(40);
  worker.run([&] { pool.acquire(); }); // and caches some
  pool.trim();
  const std::size_t kept_there = pool.counters().idle;
  REQUIRE(kept_there > 0);
  const PooledEvent lease = pool.acquire();
  CHECK(pool.counters().created == 41);
  CHECK(pool.counters().idle == kept_there);
}

TEST_CASE_METHOD(RecordingFixture, "detached events are not counted, even while other threads create events",
                 "[pool][threads]") {
  EventPool pool(context);
  constexpr std::size_t threads = 4;
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < threads; ++t)
    running.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i)
        static_cast<void>(pool.acquire().detach());
    });
  for (std::thread& thread : running)
    thread.join();
  CHECK(pool.counters().high_water <= threads);
}

TEST_CASE_METHOD(RecordingFixture, "trim destroys idle events except those cached by other threads",
                 "[pool]") {
  EventPool pool(context);
  pool.reserve(200);
  const PooledEvent leased = pool.acquire();
  Worker worker;
  worker.run([&] { pool.acquire(); });
  const std::size_t theirs = 32; // a batch
  recording.calls();
  pool.trim();
  CHECK(pool.counters().idle == theirs + 1);
  CHECK(RecordingDriver::live_events() == events_before + long(theirs) + 2);
  worker.end();
  pool.trim();
  CHECK(pool.counters().idle == 0);
  CHECK(RecordingDriver::live_events() == events_before + 1);
  {
    const auto some = acquire(pool, 3);
    const RetireScope scope;
  }
  {
    const RetireScope scope;
    recording.calls();
    pool.trim();
    for (const std::string_view call : recording.calls())
      CHECK(call != "cuEventDestroy");
  }
  CHECK(destroy_retired() == 3);
}

TEST_CASE_METHOD(RecordingFixture, "without a reservation, a thread takes a whole batch of idle events",
                 "[pool][threads]") {
  EventPool pool(context);
  Worker worker;
  std::vector<PooledEvent> leases =
      acquire(pool, 1); // this thread and the worker have caches, without events
  worker.run([&] { leases.push_back(pool.acquire()); });
  elsewhere([&] { acquire(pool, 40); }); // which are in the reserve when the thread has ended
  worker.run([&] { leases.push_back(pool.acquire()); });
  CHECK(pool.counters().idle == 39);
  pool.trim();                       // leaves the events that the worker caches
  CHECK(pool.counters().idle == 32); // a batch
}

TEST_CASE_METHOD(RecordingFixture, "a thread that ends leaves its events to the others", "[pool][threads]") {
  EventPool pool(context);
  elsewhere([&] { const auto leases = acquire(pool, 50); });
  CHECK(pool.counters().idle == 50);
  recording.calls();
  const auto leases = acquire(pool, 50);
  CHECK(recording.calls().empty());
  CHECK(pool.counters().created == 50);
  CHECK(pool.counters().reused == 50);
}

TEST_CASE_METHOD(RecordingFixture, "a lease destroyed at the end of a thread goes to the reserve",
                 "[pool][threads]") {
  EventPool pool(context);
  elsewhere([&] {
    static thread_local PooledEvent last; // destroyed after the thread's cache, which is made later
    last = PooledEvent();
    last = pool.acquire();
    { const auto more = acquire(pool, 5); }
    static thread_local PooledEvent first;
    first = pool.acquire();
  });
  CHECK(pool.counters().idle == pool.counters().created);
  CHECK(pool.counters().idle == 6);
}

TEST_CASE_METHOD(RecordingFixture, "the destructor of a pool destroys idle events of all threads",
                 "[pool][end]") {
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
    pool.acquire();
    CHECK(pool.counters().created == 1);
  });
}

TEST_CASE_METHOD(RecordingFixture, "leases outlive the pool and are then retired", "[pool][end]") {
  Worker worker;
  std::optional<EventPool> pool(context);
  auto leases = acquire(*pool, 3);
  leases[0].record(stream);
  { const auto idle = acquire(*pool, 2); }
  PooledEvent theirs;
  worker.run([&] {
    theirs = pool->acquire();
    pool->acquire();
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

TEST_CASE_METHOD(RecordingFixture, "a thread distinguishes a new pool from one that has ended",
                 "[pool][end]") {
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
    elsewhere(use);
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
                 "a pool drops its context when it ends, and a lease when its event is destroyed",
                 "[pool][end]") {
  const long contexts = RecordingDriver::live_contexts();
  Worker worker;
  PooledEvent lease;
  {
    EventPool pool(Context::primary(0, driver));
    worker.run([&] { pool.acquire(); });
    pool.acquire();
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

TEST_CASE_METHOD(RecordingFixture, "an empty pool refuses calls, and pools can be moved", "[pool]") {
  EventPool empty;
  PooledEvent lease;
  CHECK_FALSE(empty);
  refusal<InvalidContext>([&] { empty.acquire(); });
  refusal<InvalidContext>([&] { empty.reserve(1); });
  refusal<InvalidContext>([&] { empty.wait_stream(stream, nullptr); });
  refusal<InvalidContext>([&] { empty.wait_stream(stream, stream); });
  CHECK(empty.try_wait_stream(stream, stream) == CUDA_ERROR_INVALID_CONTEXT);
  refusal<InvalidContext>([&] { EventPool{Context()}; });
  CHECK(empty.try_acquire(lease) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(empty.try_reserve(1) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(empty.try_wait_stream(stream, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(EventPool::try_create(empty, Context()) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK_FALSE(empty.context());
  CHECK(empty.max_idle() == 0);
  CHECK(empty.counters().created == 0);
  empty.trim();

  CHECK(EventPool::try_create(empty, context, EventFlags::timing) == CUDA_SUCCESS);
  CHECK(empty.flags() == EventFlags::timing);
  { const PooledEvent idle = empty.acquire(); }
  EventPool moved = std::move(empty);
  CHECK_FALSE(empty);
  CHECK(moved.counters().idle == 1);
  moved = EventPool(context);
  CHECK(moved.flags() == EventFlags::none);
  CHECK(RecordingDriver::live_events() == events_before);
  swap(moved, empty);
  CHECK(empty.try_acquire(lease) == CUDA_SUCCESS);
}

TEST_CASE_METHOD(RecordingFixture, "wait_stream records on one stream and makes the other wait",
                 "[pool][wait_stream]") {
  EventPool pool(context);
  pool.reserve(1);
  recording.calls();
  pool.wait_stream(stream_handle(2), stream);
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuEventRecord", "cuStreamWaitEvent"});
  CHECK(pool.try_wait_stream(stream_handle(2), stream) == CUDA_SUCCESS);
  CHECK(recording.calls() == Names{"cuCtxGetId", "cuEventRecord", "cuStreamWaitEvent"});
  pool.wait_stream(stream, stream);
  pool.wait_stream(nullptr, nullptr);
  CHECK(pool.try_wait_stream(stream, stream) == CUDA_SUCCESS);
  CHECK(recording.calls().empty());
  CHECK(pool.counters().idle == 1);

  recording.stream_context(context_handle(2));
  recording.fail_next("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(pool.wait_stream(stream_handle(2), stream), ContextMismatch);
  recording.fail_next("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
  CHECK(pool.try_wait_stream(stream_handle(2), stream) == CUDA_ERROR_INVALID_HANDLE);
  recording.fail_next("cuStreamWaitEvent", CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  CHECK_THROWS_AS(pool.wait_stream(stream_handle(2), stream), StreamCaptureIsolation);
  recording.fail_next("cuStreamWaitEvent", CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  CHECK(pool.try_wait_stream(stream_handle(2), stream) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  CHECK(pool.counters().idle == 1);
}

TEST_CASE_METHOD(RecordingFixture, "a lease can name the context of a default stream to record on",
                 "[pool][lease][context]") {
  EventPool pool(context);
  const Context other = Context::borrow(context_handle(2), driver);
  const ContextGuard guard(other);
  for (CUstream const any : {CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, stream}) {
    PooledEvent lease = pool.acquire();
    recording.calls();
    CHECK_THROWS_AS(lease.record(other, any), ContextMismatch);
    CHECK(lease.try_record(other, any) == CUDA_ERROR_INVALID_HANDLE);
    CHECK_THROWS_AS(lease.record(Context(), any), InvalidContext);
    CHECK(lease.try_record(Context(), any) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK_FALSE(lease.recorded());
    const Names calls = recording.calls(); // for the names of the two contexts
    CHECK(std::count(calls.begin(), calls.end(), "cuEventRecord") == 0);
    lease.record(context, any);
    CHECK(lease.try_record(context, any) == CUDA_SUCCESS);
    CHECK(lease.recorded());
    for (const Call& call : recording.calls_with_contexts())
      if (call.name == "cuEventRecord")
        CHECK(call.current == (any == stream ? other : context).native_handle());

    lease.wait(other, any);
    lease.wait(context, any);
    CHECK(lease.try_wait(other, any) == CUDA_SUCCESS);
    std::vector<CUcontext> in;
    for (const Call& call : recording.calls_with_contexts())
      if (call.name == "cuStreamWaitEvent") in.push_back(call.current);
    CHECK(in.size() == 3);
    CHECK(in.front() == other.native_handle());
    CHECK(in[1] == (any == stream ? other : context).native_handle());
    CHECK_THROWS_AS(lease.wait(Context(), any), InvalidContext);
  }
  PooledEvent empty, unrecorded = pool.acquire();
  CHECK_THROWS_AS(empty.record(context, stream), EmptyEvent);
  CHECK(empty.try_record(context, stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(unrecorded.wait(other, stream), NeverRecorded);
  CHECK(unrecorded.try_wait(other, stream) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE_METHOD(RecordingFixture, "wait_stream can name the contexts of default streams",
                 "[pool][wait_stream][context]") {
  EventPool pool(context);
  const Context other = Context::borrow(context_handle(2), driver);
  const Context of_other_driver = Context::borrow(context_handle(1), RecordingDriver::driver(12000));
  pool.reserve(1);
  recording.calls();
  pool.wait_stream(other, nullptr, context, nullptr);
  CHECK(pool.try_wait_stream(other, nullptr, context, nullptr) == CUDA_SUCCESS);
  std::vector<Call> orders;
  for (const Call& call : recording.calls_with_contexts())
    if (call.name == "cuEventRecord" || call.name == "cuStreamWaitEvent") orders.push_back(call);
  CHECK(orders == std::vector<Call>{{"cuEventRecord", context.native_handle()},
                                    {"cuStreamWaitEvent", other.native_handle()},
                                    {"cuEventRecord", context.native_handle()},
                                    {"cuStreamWaitEvent", other.native_handle()}});
  pool.wait_stream(context, nullptr, context, nullptr);
  CHECK(pool.try_wait_stream(context, stream, context, stream) == CUDA_SUCCESS);
  CHECK_THROWS_AS(pool.wait_stream(context, stream, other, nullptr), ContextMismatch);
  CHECK(pool.try_wait_stream(context, stream, other, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(pool.wait_stream(of_other_driver, stream, context, nullptr), ContextMismatch);
  CHECK(pool.try_wait_stream(of_other_driver, stream, context, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(pool.wait_stream(Context(), stream, context, nullptr), InvalidContext);
  CHECK(pool.try_wait_stream(Context(), stream, context, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK_THROWS_AS(pool.wait_stream(context, stream, Context(), nullptr), InvalidContext);
  CHECK(pool.try_wait_stream(context, stream, Context(), nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "a timed wait for a lease takes any duration and any clock's time",
                 "[pool][lease]") {
  EventPool pool(context);
  PooledEvent lease = pool.acquire();
  lease.record(stream);
  using std::chrono::system_clock;
  CHECK(lease.synchronize_for(std::chrono::hours::max()));
  CHECK(lease.synchronize_for(1.5s));
  CHECK(lease.synchronize_until(std::chrono::steady_clock::time_point::max()));
  CHECK(lease.synchronize_until(system_clock::now() + 1h));
  recording.fail_always("cuEventQuery", CUDA_ERROR_NOT_READY);
  CHECK_FALSE(lease.synchronize_for(0.001s));
  CHECK_FALSE(lease.synchronize_for(std::chrono::hours::min()));
  CHECK_FALSE(lease.synchronize_until(system_clock::now() - 1h));
  CHECK_FALSE(lease.synchronize_until(system_clock::now() + 1ms));
  CHECK(lease.try_synchronize_until(system_clock::now() + 1ms) == CUDA_ERROR_NOT_READY);
  CHECK(lease.try_synchronize_for(std::chrono::duration<float, std::milli>(0.5F)) == CUDA_ERROR_NOT_READY);

  // While the work is pending, a wait without a time limit does not end.
  for (const auto& wait : std::vector<std::function<CUresult()>>{
           [&] { return lease.try_synchronize_for(std::chrono::milliseconds::max()); },
           [&] { return lease.try_synchronize_until(system_clock::time_point::max()); }}) {
    CUresult result = CUDA_ERROR_UNKNOWN;
    std::thread([&] { // the stubs' answers are per thread
      RecordingDriver here;
      here.fail_call(1'000, CUDA_ERROR_ILLEGAL_ADDRESS); // ends the wait after 1,000 queries
      here.fail_always("cuEventQuery", CUDA_ERROR_NOT_READY);
      result = wait();
    })
        .join();
    CHECK(result == CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  recording.fail_nothing();
}

TEST_CASE_METHOD(RecordingFixture,
                 "the non-throwing overloads of pools and leases return what the others throw",
                 "[pool][lease][overloads]") {
  const Context own = context, other = Context::borrow(context_handle(2), driver), none;
  const long events = RecordingDriver::live_events();
  const auto check = [&](const std::function<void()>& throwing, const std::function<CUresult()>& trying) {
    return check_overloads(recording, throwing, trying);
  };
  {
    EventPool pool(context, EventFlags::none), empty;
    PooledEvent recorded = EventPool(context).acquire(), unrecorded = EventPool(context).acquire(), no_event;
    recorded.record(stream);

    for (const Context* each : {&own, &none})
      check([&] { EventPool{*each}; },
            [&] {
              EventPool out;
              return EventPool::try_create(out, *each);
            });
    CHECK(check([&] { EventPool(context).acquire(); },
                [&] {
                  PooledEvent out;
                  EventPool fresh(context);
                  return fresh.try_acquire(out);
                }) == CUDA_SUCCESS);
    for (EventPool* each : {&pool, &empty}) {
      PooledEvent out;
      check([&] { each->acquire(); }, [&] { return each->try_acquire(out); });
      for (const std::size_t count : {std::size_t{2}, EventPool::default_max_idle + 1})
        check([&] { each->reserve(count); }, [&] { return each->try_reserve(count); });
      for (CUstream later : {stream, stream_handle(2), CUstream(nullptr)}) {
        check([&] { each->wait_stream(later, stream); },
              [&] { return each->try_wait_stream(later, stream); });
        for (const Context* of_later : {&own, &other, &none})
          for (const Context* of_earlier : {&own, &other, &none})
            check([&] { each->wait_stream(*of_later, later, *of_earlier, stream); },
                  [&] { return each->try_wait_stream(*of_later, later, *of_earlier, stream); });
      }
    }
    for (PooledEvent* each : {&recorded, &unrecorded, &no_event}) {
      for (CUstream any : {stream, CUstream(nullptr)}) {
        check([&] { each->wait(any); }, [&] { return each->try_wait(any); });
        for (const Context* in : {&own, &other, &none})
          check([&] { each->wait(*in, any); }, [&] { return each->try_wait(*in, any); });
      }
      check([&] { each->query(); }, [&] { return each->try_query(); });
      check([&] { each->query_relaxed(); }, [&] { return each->try_query_relaxed(); });
      check([&] { each->synchronize(); }, [&] { return each->try_synchronize(); });
      check([&] { each->synchronize_for(1ns); }, [&] { return each->try_synchronize_for(1ns); });
      check([&] { each->synchronize_until({}); }, [&] { return each->try_synchronize_until({}); });
      DriverEvent::Milliseconds time{};
      for (PooledEvent* end : {&recorded, &unrecorded, &no_event})
        check([&] { static_cast<void>(each->elapsed_time(*end)); },
              [&] { return each->try_elapsed_time(time, *end); });
      IpcHandle handle;
      check([&] { static_cast<void>(each->ipc_handle()); }, [&] { return each->try_ipc_handle(handle); });
    }
    for (PooledEvent* each : {&unrecorded, &no_event}) // from here on the former is recorded
      for (CUstream any : {stream, CUstream(nullptr)}) {
        check([&] { each->record(any); }, [&] { return each->try_record(any); });
        for (const Context* in : {&own, &other, &none})
          check([&] { each->record(*in, any); }, [&] { return each->try_record(*in, any); });
      }
  }
  destroy_retired();
  for (long left = RecordingDriver::live_events(); left > events; --left)
    driver.table().cuEventDestroy_v4000(nullptr); // the test has made their destruction fail
}

TEST_CASE_METHOD(RecordingFixture, "leases report a lost context, and their pool ends silently",
                 "[pool][end]") {
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

TEST_CASE_METHOD(RecordingFixture, "no event is lost or returned twice whichever driver call fails",
                 "[pool][fault]") {
  // A pool that caches nothing, so that the destruction of each event is visible through destroy_retired().
  const auto with_pool = [&](const std::function<void(EventPool&)>& use) {
    return [&, use] {
      EventPool pool(context, EventFlags::none, 0);
      use(pool);
      destroy_retired();
    };
  };
  const std::function<void()> scenarios[] = {
      with_pool([&](EventPool& pool) { pool.acquire(); }),
      with_pool([&](EventPool& pool) { acquire(pool, 3); }),
      with_pool([&](EventPool& pool) { pool.acquire().record(stream); }),
      with_pool([&](EventPool& pool) { pool.acquire().record(nullptr); }),
      with_pool([&](EventPool& pool) { pool.wait_stream(stream_handle(2), stream); }),
      with_pool([&](EventPool& pool) { pool.wait_stream(nullptr, CU_STREAM_PER_THREAD); }),
      with_pool([&](EventPool& pool) { static_cast<void>(pool.acquire().ipc_handle()); }),
      with_pool([&](EventPool& pool) { retire(pool.acquire().detach()); }),
  };
  for (std::size_t i = 0; i < std::size(scenarios); ++i) {
    CAPTURE(i);
    fail_each_call(scenarios[i]);
  }
}

TEST_CASE_METHOD(RecordingFixture,
                 "the destructor of a pool reports events that it cannot destroy and destroys the others",
                 "[pool][fault]") {
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

TEST_CASE_METHOD(RecordingFixture, "reserve keeps the events created before a failure", "[pool][fault]") {
  EventPool pool(context);
  pool.reserve(2);
  recording.fail_next("cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(pool.try_reserve(5) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(pool.counters().idle == 2);
  pool.reserve(5);
  CHECK(pool.counters().created == 5);
}

TEST_CASE_METHOD(RecordingFixture, "threads acquire, hand over and return leases concurrently",
                 "[pool][threads]") {
  constexpr std::size_t threads = 8, rounds = 300;
  EventPool pool(context, EventFlags::none, 500);
  {
    PooledEvent handed_on[threads];
    std::barrier together(threads);
    std::vector<std::thread> running;
    for (std::size_t t = 0; t < threads; ++t)
      running.emplace_back([&, t] {
        std::vector<PooledEvent> own;
        for (std::size_t round = 0; round < rounds; ++round) {
          for (std::size_t i = 0; i < 1 + (round + t) % 40; ++i)
            own.push_back(pool.acquire());
          for (PooledEvent& lease : own)
            lease.record(stream);
          handed_on[t] = pool.acquire();
          handed_on[t].record(stream);
          together.arrive_and_wait();
          const PooledEvent theirs = std::move(handed_on[(t + 1) % threads]);
          if (!theirs.query()) std::abort();
          together.arrive_and_wait();
          own.resize(own.size() / 2);
          if (round % 64 == t) pool.trim();
          if (round % 64 == 8 + t) pool.reserve(20);
          pool.wait_stream(stream_handle(2), stream);
          if (pool.counters().idle > 500 + threads * kept) std::abort();
        }
      });
    for (std::thread& thread : running)
      thread.join();
  }
  const EventPool::Counters counters = pool.counters();
  destroy_retired();
  CHECK(RecordingDriver::live_events() == events_before + long(counters.idle));
  CHECK(counters.high_water <= counters.created);
}

TEST_CASE_METHOD(RecordingFixture, "threads make, use and end pools of their own concurrently",
                 "[pool][threads][end]") {
  std::atomic<std::size_t> wrong{0};
  std::barrier together(4);
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < 4; ++t)
    running.emplace_back([&, t] {
      for (std::size_t round = 0; round < 100; ++round) {
        together.arrive_and_wait();
        EventPool own(context);
        { const auto leases = acquire(own, t + 1); }
        if (own.counters().created != t + 1 || own.counters().idle != t + 1) ++wrong;
      }
    });
  for (std::thread& thread : running)
    thread.join();
  CHECK(wrong == 0);
}

TEST_CASE_METHOD(RecordingFixture, "a pool can end while threads return its leases and use other pools",
                 "[pool][threads][end]") {
  constexpr std::size_t threads = 8, rounds = 200;
  EventPool lasting(context);
  std::optional<EventPool> pool;
  std::barrier together(threads);
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      for (std::size_t round = 0; round < rounds; ++round) {
        if (t == 0) pool.emplace(context, EventFlags::none, round % 50);
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
  for (std::thread& thread : running)
    thread.join();
  destroy_retired();
  CHECK(RecordingDriver::live_events() == events_before + long(lasting.counters().idle));
}

TEST_CASE_METHOD(RecordingFixture,
                 "pools and leases end silently in a forked child, even if the parent was busy",
                 "[pool][fork]") {
#if defined(__SANITIZE_THREAD__)
  SKIP("in a child that was forked while other threads ran, the thread sanitizer may wait forever to free "
       "memory");
#endif
  EventPool pool(context, EventFlags::none, 10);
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop)
      acquire(pool, 100); // more than the thread may cache, so some are always in the reserve
  });
  for (int i = 0; i < 20; ++i) {
    CHECK(works_in_child([&pool] {
      EventPool end = std::move(pool);
      PooledEvent lease;
      static_cast<void>(end.try_acquire(lease));
    }));
  }
  stop = true;
  busy.join();
  destroy_retired();
}
