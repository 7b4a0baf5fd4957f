// SPDX-License-Identifier: MIT
#include <cuevent/event_pools.hpp>

#include "forked_child.hpp"
#include "on_threads.hpp"
#include "overloads.hpp"
#include "recording_fixture.hpp"

#include <atomic>
#include <barrier>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;

static_assert(std::is_nothrow_move_constructible_v<EventPools> && !std::is_copy_constructible_v<EventPools>);

namespace {

struct PoolsFixture : RecordingFixture {
  PoolsFixture() { recording.stream_context(context_handle(1)); }
  EventPools pools{driver};
  Context other = Context::borrow(context_handle(2), driver);

  /// The context that the driver says `stream` belongs to.
  void move_streams_to(std::uintptr_t n) { recording.stream_context(context_handle(n)); }
};

} // namespace

TEST_CASE_METHOD(PoolsFixture, "a lease belongs to the context of its stream") {
  recording.calls();
  const PooledEvent first = pools.acquire(stream);
  CHECK(recording.calls().front() == "cuStreamGetCtx");
  move_streams_to(2);
  const PooledEvent second = pools.acquire(stream);
  CHECK(first.event().context() == context);
  CHECK(second.event().context() == other);
  CHECK(pools.size() == 2);
  CHECK((pools.counters(context).created == 1 && pools.counters(other).created == 1));
  CHECK(pools.counters(Context()).created == 0);
}

TEST_CASE_METHOD(PoolsFixture, "after the first use, acquiring asks for the context and nothing else") {
  { const PooledEvent first = pools.acquire(stream); }
  move_streams_to(2);
  { const PooledEvent second = pools.acquire(stream); }
  recording.calls();
  for (const std::uintptr_t n : {1UL, 2UL}) {
    move_streams_to(n);
    const PooledEvent lease = pools.acquire(stream);
    CHECK(lease.event().context().native_handle() == context_handle(n));
  }
  CHECK(recording.calls() == Names{"cuStreamGetCtx", "cuCtxGetId", "cuStreamGetCtx", "cuCtxGetId"});
}

TEST_CASE_METHOD(PoolsFixture,
                 "an event of the current context takes one driver call, once the context is known") {
  for (const Context* each : {&context, &other}) {
    const ContextGuard current(*each);
    { const PooledEvent first = pools.acquire_current(); }
    recording.calls();
    for (int i = 0; i < 2; ++i) {
      PooledEvent lease = pools.acquire_current();
      CHECK(lease.context() == *each);
      CHECK(recording.calls() == Names{"cuCtxGetId"});
      lease = PooledEvent();
      CHECK(pools.try_acquire_current(lease) == CUDA_SUCCESS);
      CHECK(lease.context() == *each);
      CHECK(recording.calls() == Names{"cuCtxGetId"});
    }
  }
  CHECK(pools.size() == 2);
  refusal<InvalidContext>([&] { static_cast<void>(pools.acquire_current()); });
  recording.calls();
}

TEST_CASE_METHOD(PoolsFixture, "the counters of a context can be read by its handle") {
  const PooledEvent first = pools.acquire(stream), second = pools.acquire(stream);
  CHECK(pools.counters(context_handle(1)).created == 2);
  CHECK(pools.counters(context_handle(2)).created == 0);
  const ContextGuard current(context);
  recording.calls();
  CHECK(pools.counters(CUcontext(nullptr)).created == 0); // null is not the current context here
  CHECK(EventPools().counters(context_handle(1)).created == 0);
  CHECK(recording.calls().empty());
  CHECK(pools.counters(context_handle(1)).created == 2);
  CHECK(recording.calls() == Names{"cuCtxGetId"});
  recording.fail_next("cuCtxGetId", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(pools.counters(context_handle(1)).created == 0);
  recording.reset_contexts(); // the same handle, another context
  CHECK(pools.counters(context_handle(1)).created == 0);
  events_before += 2; // the stub still counts the events that went with their context
}

TEST_CASE_METHOD(PoolsFixture, "a default stream means the current context or the named one") {
  refusal<InvalidContext>([&] { static_cast<void>(pools.acquire(nullptr)); });
  {
    const ContextGuard current(other);
    CHECK(pools.acquire(CU_STREAM_PER_THREAD).event().context() == other);
  }
  CHECK(pools.acquire({context, nullptr}).event().context() == context);
  CHECK(pools.acquire({context, stream}).event().context() == context);
  const StreamRef not_there{other, stream};
  CHECK_THAT(refusal<ContextMismatch>([&] { static_cast<void>(pools.acquire(not_there)); }),
             ContainsSubstring("does not belong"));
  refusal<InvalidContext>([&] { static_cast<void>(pools.acquire({Context(), nullptr})); });
  const Context foreign = Context::borrow(context_handle(1), RecordingDriver::driver(12000));
  const StreamRef of_foreign{foreign, nullptr};
  CHECK_THAT(refusal<ContextMismatch>([&] { static_cast<void>(pools.acquire(of_foreign)); }),
             ContainsSubstring("different drivers"));
  recording.calls();
}

TEST_CASE_METHOD(PoolsFixture, "pools end with their context, and a handle that comes again gets another") {
  CUevent old = nullptr;
  PooledEvent kept = pools.acquire(stream);
  {
    const PooledEvent lease = pools.acquire(stream);
    old = lease.native_handle();
  }
  recording.reset_contexts(); // the same handle, another context
  CHECK(pools.counters(Context::borrow(context_handle(1), driver)).created == 0);
  recording.calls();
  {
    const PooledEvent lease = pools.acquire(stream);
    CHECK(lease.native_handle() != old);
    CHECK(lease.event().context() != context);
  }
  const Names calls = recording.calls();
  CHECK(std::count(calls.begin(), calls.end(), "cuEventDestroy") == 0); // the old events are gone already
  CHECK(pools.size() == 1);                                             // the place was used again
  events_before += 1;   // the stub still counts the event that went with its context
  kept = PooledEvent(); // to a pool that has ended
  events_before += 1;
}

TEST_CASE_METHOD(PoolsFixture, "trim destroys idle events and ends pools without a context") {
  { const PooledEvent lease = pools.acquire(stream); }
  pools.trim();
  CHECK(RecordingDriver::live_events() == events_before);
  CHECK(pools.size() == 1);
  { const PooledEvent lease = pools.acquire(stream); }
  recording.reset_contexts();
  pools.trim();
  CHECK(pools.size() == 0);
  events_before += 1; // as above
}

TEST_CASE_METHOD(PoolsFixture, "reserve is for one context, and no reserved event is created later") {
  pools.reserve(other, 3);
  CHECK(pools.counters(other).idle == 3);
  CHECK(pools.size() == 1);
  move_streams_to(2);
  std::vector<PooledEvent> leases;
  for (int i = 0; i < 3; ++i)
    leases.push_back(pools.acquire(stream));
  CHECK(pools.counters(other).created == 3);
  refusal<InvalidContext>([&] { pools.reserve(Context(), 1); });
}

TEST_CASE_METHOD(PoolsFixture, "wait_stream records in the earlier stream's context") {
  recording.calls();
  pools.wait_stream(stream, stream);
  CHECK(recording.calls().empty());
  CUstream const later = stream_handle(2);
  pools.wait_stream(later, stream);
  recording.calls();
  pools.wait_stream(later, stream);
  CHECK(recording.calls() == Names{"cuStreamGetCtx", "cuCtxGetId", "cuEventRecord", "cuStreamWaitEvent"});
  {
    const ContextGuard current(other); // default streams are those of the current context
    recording.calls();
    pools.wait_stream(nullptr, stream);
    bool waited = false;
    for (const Call& call : recording.calls_with_contexts())
      if (call.name == "cuStreamWaitEvent") waited = call.current == context_handle(2);
    CHECK(waited);
  }
  recording.calls();
  pools.wait_stream({other, nullptr}, {context, nullptr});
  for (const Call& call : recording.calls_with_contexts()) {
    if (call.name == "cuEventRecord") CHECK(call.current == context_handle(1));
    if (call.name == "cuStreamWaitEvent") CHECK(call.current == context_handle(2));
  }
  pools.wait_stream({other, nullptr}, {other, nullptr});
  CHECK(recording.calls().empty());
  refusal<InvalidContext>([&] { pools.wait_stream({Context(), nullptr}, {context, nullptr}); });
}

TEST_CASE_METHOD(PoolsFixture, "an empty EventPools refuses every call") {
  EventPools none, moved = std::move(none);
  CHECK(!none); // NOLINT(bugprone-use-after-move)
  refusal<InvalidContext>([&] { static_cast<void>(none.acquire(stream)); });
  refusal<InvalidContext>([&] { static_cast<void>(none.acquire({context, stream})); });
  refusal<InvalidContext>([&] { none.wait_stream(stream_handle(2), stream); });
  refusal<InvalidContext>([&] { none.wait_stream(stream, stream); });
  refusal<InvalidContext>([&] { none.wait_stream({context, stream}, {context, stream}); });
  refusal<InvalidContext>([&] { none.reserve(context, 1); });
  CHECK(none.size() == 0);
  CHECK(none.counters(context).created == 0);
  none.trim();
  PooledEvent lease;
  CHECK(none.try_acquire(lease, stream) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(EventPools::try_create(none, driver, EventFlags::timing, FreshLease::refuses, 2) == CUDA_SUCCESS);
  CHECK(none.try_acquire(lease, stream) == CUDA_SUCCESS);
  CHECK(lease.flags() == EventFlags::timing);
}

TEST_CASE_METHOD(PoolsFixture, "the two overloads of the pools agree") {
  PooledEvent lease;
  CUstream const later = stream_handle(2);
  CHECK(GIVES(pools, acquire, lease, stream) == CUDA_SUCCESS);
  GIVES(pools, acquire, lease, {context, nullptr});
  BOTH(pools, wait_stream, later, stream);
  BOTH(pools, wait_stream, {other, nullptr}, {context, stream});
  BOTH(pools, reserve, context, 1);
}

TEST_CASE_METHOD(PoolsFixture, "leases outlive the pools, and threads may end before or after") {
  PooledEvent lease;
  std::thread([&] {
    recording.stream_context(context_handle(1));
    lease = pools.acquire(stream);
    const PooledEvent cached = pools.acquire(stream);
  }).join();
  CHECK(pools.counters(context).idle == 1); // the cache of the thread went to the reserve
  pools = EventPools();
  lease.record(stream);
  CHECK(lease.query());
  lease = PooledEvent();
  CHECK(retired_events() == 1);
  destroy_retired();
}

TEST_CASE_METHOD(PoolsFixture, "sixteen threads use two contexts for the first time at once", "[threads]") {
  constexpr int threads = 16;
  std::atomic<int> wrong = 0;
  on_threads(threads, [&](std::size_t t) {
    RecordingDriver mine;
    mine.stream_context(context_handle(1));
    for (std::size_t i = 0; i < 200; ++i) {
      const std::uintptr_t n = 1 + (i + t) % 2;
      mine.stream_context(context_handle(n));
      PooledEvent lease = pools.acquire(stream_handle(1));
      lease.record(stream_handle(1));
      if (lease.event().context().native_handle() != context_handle(n)) ++wrong;
      if (i % 64 == 0) pools.trim();
      mine.calls();
    }
  });
  CHECK(wrong == 0);
  CHECK(pools.size() == 2);
}

TEST_CASE_METHOD(PoolsFixture, "of threads that trim at once, each pool of a lost context ends once",
                 "[threads]") {
  constexpr int threads = 4;
  for (int round = 0; round < 50; ++round) {
    for (const std::uintptr_t n : {1U, 2U}) {
      move_streams_to(n);
      const PooledEvent lease = pools.acquire(stream);
    }
    events_before += 2; // they end with their contexts
    recording.reset_contexts();
    std::barrier<> begin(threads);
    on_threads(threads, [&](std::size_t) {
      RecordingDriver mine;
      for (int resets = 0; resets <= round; ++resets)
        mine.reset_contexts();
      begin.arrive_and_wait();
      pools.trim();
    });
    CHECK(pools.size() == 0);
  }
}
