// SPDX-License-Identifier: MIT
#include "overloads.hpp"
#include "pool_fixture.hpp"

#include <cuevent/graph.hpp>
#include <cuevent/ipc.hpp>

#include <thread>
#include <type_traits>

using namespace cuevent;
using namespace test;
using namespace std::chrono_literals;

static_assert(std::is_nothrow_move_constructible_v<PooledEvent> &&
              !std::is_copy_constructible_v<PooledEvent>);
static_assert(std::is_nothrow_default_constructible_v<PooledEvent>);
// Handing over needs std::move.
static_assert(!std::is_invocable_v<decltype(&PooledEvent::detach), PooledEvent&>);

TEST_CASE_METHOD(RecordingFixture, "calls on an unrecorded lease throw NeverRecorded", "[pool][lease]") {
  EventPool pool(context, EventFlags::timing);
  const auto check = [&]<class Error>(std::type_identity<Error>, PooledEvent& lease, PooledEvent& end) {
    recording.calls();
    DriverEvent::Milliseconds time{};
    refusal<Error>([&] { return lease.query(); });
    CHECK(lease.try_query() == CUDA_ERROR_INVALID_HANDLE);
    refusal<Error>([&] { return lease.query_relaxed(); });
    CHECK(lease.try_query_relaxed() == CUDA_ERROR_INVALID_HANDLE);
    refusal<Error>([&] { lease.synchronize(); });
    CHECK(lease.try_synchronize() == CUDA_ERROR_INVALID_HANDLE);
    refusal<Error>([&] { return lease.synchronize_for(1ns); });
    CHECK(lease.try_synchronize_for(1ns) == CUDA_ERROR_INVALID_HANDLE);
    refusal<Error>([&] { return lease.synchronize_until({}); });
    CHECK(lease.try_synchronize_until({}) == CUDA_ERROR_INVALID_HANDLE);
    refusal<Error>([&] { lease.wait(stream); });
    CHECK(lease.try_wait(stream) == CUDA_ERROR_INVALID_HANDLE);
    refusal<Error>([&] { static_cast<void>(lease.elapsed_time(end)); });
    CHECK(lease.try_elapsed_time(time, end) == CUDA_ERROR_INVALID_HANDLE);
    refusal<Error>([&] { static_cast<void>(end.elapsed_time(lease)); });
    CHECK(end.try_elapsed_time(time, lease) == CUDA_ERROR_INVALID_HANDLE);
    CHECK_FALSE(lease.recorded());
    CHECK(recording.calls().empty());
  };

  PooledEvent end = pool.acquire();
  end.record(stream);
  for (int user = 0; user < 2; ++user) { // the first lease of the event and the second
    PooledEvent lease = pool.acquire();
    check(std::type_identity<NeverRecorded>{}, lease, end);
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
  check(std::type_identity<EmptyEvent>{}, empty, end);
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

TEST_CASE_METHOD(RecordingFixture, "a lease can name the context of a default stream to record on",
                 "[pool][lease][context]") {
  EventPool pool(context);
  const Context other = Context::borrow(context_handle(2), driver);
  const ContextGuard guard(other);
  for (CUstream const any : {CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, stream}) {
    PooledEvent lease = pool.acquire();
    recording.calls();
    CHECK_THROWS_AS(lease.record({other, any}), ContextMismatch);
    CHECK(lease.try_record({other, any}) == CUDA_ERROR_INVALID_HANDLE);
    CHECK_THROWS_AS(lease.record({Context(), any}), InvalidContext);
    CHECK(lease.try_record({Context(), any}) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK_FALSE(lease.recorded());
    const Names calls = recording.calls(); // for the names of the two contexts
    CHECK(std::count(calls.begin(), calls.end(), "cuEventRecord") == 0);
    lease.record({context, any});
    CHECK(lease.try_record({context, any}) == CUDA_SUCCESS);
    CHECK(lease.recorded());
    for (const Call& call : recording.calls_with_contexts())
      if (call.name == "cuEventRecord")
        CHECK(call.current == (any == stream ? other : context).native_handle());

    lease.wait({other, any});
    lease.wait({context, any});
    CHECK(lease.try_wait({other, any}) == CUDA_SUCCESS);
    std::vector<CUcontext> in;
    for (const Call& call : recording.calls_with_contexts())
      if (call.name == "cuStreamWaitEvent") in.push_back(call.current);
    CHECK(in.size() == 3);
    CHECK(in.front() == other.native_handle());
    CHECK(in[1] == (any == stream ? other : context).native_handle());
    CHECK_THROWS_AS(lease.wait({Context(), any}), InvalidContext);
  }
  PooledEvent empty, unrecorded = pool.acquire();
  CHECK_THROWS_AS(empty.record({context, stream}), EmptyEvent);
  CHECK(empty.try_record({context, stream}) == CUDA_ERROR_INVALID_HANDLE);
  CHECK_THROWS_AS(unrecorded.wait({other, stream}), NeverRecorded);
  CHECK(unrecorded.try_wait({other, stream}) == CUDA_ERROR_INVALID_HANDLE);
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
            check(
                [&] {
                  each->wait_stream({*of_later, later}, {*of_earlier, stream});
                },
                [&] {
                  return each->try_wait_stream({*of_later, later}, {*of_earlier, stream});
                });
      }
    }
    for (PooledEvent* each : {&recorded, &unrecorded, &no_event}) {
      for (CUstream any : {stream, CUstream(nullptr)}) {
        check([&] { each->wait(any); }, [&] { return each->try_wait(any); });
        for (const Context* in : {&own, &other, &none})
          check([&] { each->wait({*in, any}); }, [&] { return each->try_wait({*in, any}); });
      }
      check([&] { return each->query(); }, [&] { return each->try_query(); });
      check([&] { return each->query_relaxed(); }, [&] { return each->try_query_relaxed(); });
      check([&] { each->synchronize(); }, [&] { return each->try_synchronize(); });
      check([&] { return each->synchronize_for(1ns); }, [&] { return each->try_synchronize_for(1ns); });
      check([&] { return each->synchronize_until({}); }, [&] { return each->try_synchronize_until({}); });
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
          check([&] { each->record({*in, any}); }, [&] { return each->try_record({*in, any}); });
      }
  }
  destroy_retired();
  for (long left = RecordingDriver::live_events(); left > events; --left)
    driver.table().cuEventDestroy_v4000(nullptr); // the test has made their destruction fail
}
