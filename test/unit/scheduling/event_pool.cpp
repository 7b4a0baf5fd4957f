// SPDX-License-Identifier: MIT
#include "allocations.hpp"
#include "pool_fixture.hpp"

#include <cstdlib>
#include <string_view>
#include <thread>
#include <type_traits>

using namespace cuevent;
using namespace test;

static_assert(std::is_nothrow_move_constructible_v<EventPool> && !std::is_copy_constructible_v<EventPool>);

TEST_CASE_METHOD(RecordingFixture, "an event is created once and then reused") {
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

TEST_CASE_METHOD(RecordingFixture, "acquiring and returning make no driver call and no allocation") {
  EventPool pool(context);
  pool.reserve(8);
  { const auto leases = acquire(pool, 8); }
  recording.calls();
  const std::size_t before = allocations_of_this_thread();
  for (int i = 0; i < 1000; ++i) {
    PooledEvent lease = pool.acquire(), other;
    static_cast<void>(pool.try_acquire(other));
    const PooledEvent moved = std::move(lease);
  }
  const std::size_t after = allocations_of_this_thread(); // not in a CHECK, which could allocate first
  CHECK(after == before);
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture,
                 "the reserve serves a thread that only acquires and one that only returns") {
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

TEST_CASE_METHOD(RecordingFixture, "events are created with the flags of their pool") {
  EventPool pool(context, EventFlags::timing, FreshLease::refuses, 3);
  CHECK(pool.context() == context);
  CHECK(pool.flags() == EventFlags::timing);
  CHECK(pool.max_idle() == 3);
  CHECK(pool.acquire().event().flags() == EventFlags::timing);
}

TEST_CASE_METHOD(RecordingFixture, "counters tell how many events were created, reused and are idle") {
  EventPool pool(context);
  {
    const auto leases = acquire(pool, 10);
    CHECK(pool.counters().idle == 0);
  }
  for (int i = 0; i < 5; ++i)
    static_cast<void>(pool.acquire());
  const EventPool::Counters counters = pool.counters();
  CHECK(counters.created == 10);
  CHECK(counters.reused == 5);
  CHECK(counters.idle == 10);
  CHECK(counters.high_water == 10);
  std::thread([&] {
    for (int i = 0; i < 5; ++i)
      static_cast<void>(pool.acquire());
  }).join();
  CHECK(pool.counters().reused + pool.counters().created == 20);
}

TEST_CASE_METHOD(RecordingFixture, "at most max_idle events are idle, and the others are retired") {
  for (const std::size_t most : {0U, 1U, 5U, 64U, 100U}) {
    CAPTURE(most);
    EventPool pool(context, EventFlags::none, FreshLease::refuses, most);
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

TEST_CASE_METHOD(RecordingFixture, "max_idle holds for all threads together") {
  EventPool pool(context, EventFlags::none, FreshLease::refuses, 100);
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

TEST_CASE_METHOD(RecordingFixture, "detached events are not counted, even while other threads create events",
                 "[threads]") {
  EventPool pool(context);
  constexpr std::size_t threads = 4;
  on_threads(threads, [&](std::size_t) {
    for (int i = 0; i < 20'000; ++i)
      static_cast<void>(pool.acquire().detach());
  });
  CHECK(pool.counters().high_water <= threads);
}

TEST_CASE_METHOD(RecordingFixture, "trim destroys idle events except those cached by other threads") {
  EventPool pool(context);
  pool.reserve(200);
  const PooledEvent leased = pool.acquire();
  Worker worker;
  worker.run([&] { static_cast<void>(pool.acquire()); });
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
                 "[threads]") {
  EventPool pool(context);
  Worker worker;
  std::vector<PooledEvent> leases =
      acquire(pool, 1); // this thread and the worker have caches, without events
  worker.run([&] { leases.push_back(pool.acquire()); });
  std::thread([&] { acquire(pool, 40); }).join(); // which are in the reserve when the thread has ended
  worker.run([&] { leases.push_back(pool.acquire()); });
  CHECK(pool.counters().idle == 39);
  pool.trim();                       // leaves the events that the worker caches
  CHECK(pool.counters().idle == 32); // a batch
}

TEST_CASE_METHOD(RecordingFixture, "a thread that ends leaves its events to the others", "[threads]") {
  EventPool pool(context), other(context);
  std::thread([&] { const auto leases = acquire(pool, 50), of_other = acquire(other, 50); }).join();
  CHECK(pool.counters().idle == 50);
  recording.calls();
  const auto leases = acquire(pool, 50), of_other = acquire(other, 50);
  CHECK(recording.calls().empty());
  for (EventPool* const each : {&pool, &other}) {
    CHECK(each->counters().created == 50);
    CHECK(each->counters().reused == 50);
  }
}

TEST_CASE_METHOD(RecordingFixture, "a lease destroyed at the end of a thread goes to the reserve",
                 "[threads]") {
  EventPool pool(context);
  std::thread([&] {
    static thread_local PooledEvent last; // destroyed after the thread's cache, which is made later
    last = PooledEvent();
    last = pool.acquire();
    { const auto more = acquire(pool, 5); }
    static thread_local PooledEvent first;
    first = pool.acquire();
  }).join();
  CHECK(pool.counters().idle == pool.counters().created);
  CHECK(pool.counters().idle == 6);
}

TEST_CASE_METHOD(RecordingFixture, "an empty pool refuses calls, and pools can be moved") {
  EventPool empty;
  PooledEvent lease;
  CHECK_FALSE(empty);
  refusal<InvalidContext>([&] { static_cast<void>(empty.acquire()); });
  refusal<InvalidContext>([&] { empty.reserve(1); });
  refusal<InvalidContext>([&] { empty.wait_stream(stream, nullptr); });
  refusal<InvalidContext>([&] { empty.wait_stream(stream, stream); });
  refusal<InvalidContext>([&] { EventPool{Context()}; });
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

TEST_CASE_METHOD(RecordingFixture, "wait_stream records on one stream and makes the other wait") {
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

TEST_CASE_METHOD(RecordingFixture, "wait_stream can name the contexts of default streams") {
  EventPool pool(context);
  const Context other = Context::borrow(context_handle(2), driver);
  const Context of_other_driver = Context::borrow(context_handle(1), RecordingDriver::driver(12000));
  pool.reserve(1);
  recording.calls();
  pool.wait_stream({other, nullptr}, {context, nullptr});
  CHECK(pool.try_wait_stream({other, nullptr}, {context, nullptr}) == CUDA_SUCCESS);
  std::vector<Call> orders;
  for (const Call& call : recording.calls_with_contexts())
    if (call.name == "cuEventRecord" || call.name == "cuStreamWaitEvent") orders.push_back(call);
  CHECK(orders == std::vector<Call>{{"cuEventRecord", context.native_handle()},
                                    {"cuStreamWaitEvent", other.native_handle()},
                                    {"cuEventRecord", context.native_handle()},
                                    {"cuStreamWaitEvent", other.native_handle()}});
  pool.wait_stream({context, nullptr}, {context, nullptr});
  CHECK(pool.try_wait_stream({context, stream}, {context, stream}) == CUDA_SUCCESS);
  CHECK_THROWS_AS(pool.wait_stream({context, stream}, {other, nullptr}), ContextMismatch);
  CHECK(pool.try_wait_stream({context, stream}, {other, nullptr}) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(pool.wait_stream({of_other_driver, stream}, {context, nullptr}), ContextMismatch);
  CHECK(pool.try_wait_stream({of_other_driver, stream}, {context, nullptr}) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(pool.wait_stream({Context(), stream}, {context, nullptr}), InvalidContext);
  CHECK(pool.try_wait_stream({Context(), stream}, {context, nullptr}) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK_THROWS_AS(pool.wait_stream({context, stream}, {Context(), nullptr}), InvalidContext);
  CHECK(pool.try_wait_stream({context, stream}, {Context(), nullptr}) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(recording.calls().empty());
}

TEST_CASE_METHOD(RecordingFixture, "threads acquire, hand over and return leases concurrently", "[threads]") {
  constexpr std::size_t threads = 8, rounds = 300;
  EventPool pool(context, EventFlags::none, FreshLease::refuses, 500);
  {
    PooledEvent handed_on[threads];
    std::barrier together(threads);
    on_threads(threads, [&](std::size_t t) {
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
  }
  const EventPool::Counters counters = pool.counters();
  destroy_retired();
  CHECK(RecordingDriver::live_events() == events_before + long(counters.idle));
  CHECK(counters.high_water <= counters.created);
}
