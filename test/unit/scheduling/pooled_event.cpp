// SPDX-License-Identifier: MIT
#include "allocations.hpp"
#include "overloads.hpp"
#include "pool_fixture.hpp"

#include <cuevent/graph.hpp>
#include <cuevent/ipc.hpp>

#include <cstddef>
#include <thread>
#include <type_traits>
#include <utility>

using namespace cuevent;
using namespace test;

static_assert(std::is_nothrow_move_constructible_v<PooledEvent> &&
              !std::is_copy_constructible_v<PooledEvent>);
static_assert(std::is_nothrow_default_constructible_v<PooledEvent>);
// Handing over needs std::move.
static_assert(!std::is_invocable_v<decltype(&PooledEvent::detach), PooledEvent&>);

TEST_CASE_METHOD(RecordingFixture, "leases move, swap and survive assignment to themselves") {
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

TEST_CASE_METHOD(RecordingFixture, "an event that was detached or exported does not come back") {
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

TEST_CASE_METHOD(RecordingFixture,
                 "a lease leaves as a word and comes back, without a driver call or memory") {
  EventPool pool(context);
  pool.reserve(1);
  CHECK(PooledEvent().release() == nullptr);
  CHECK_FALSE(PooledEvent::adopt(nullptr));
  CHECK_FALSE(PooledEvent::borrow(nullptr));
  {
    PooledEvent lease = pool.acquire();
    CUevent const handle = lease.native_handle();
    recording.calls();
    const std::size_t before = allocations_of_this_thread(); // a CHECK in between could allocate
    void* word = std::move(lease).release();
    const bool left = !lease;
    CUevent const borrowed = PooledEvent::borrow(word).native_handle();
    const bool has_context = PooledEvent::borrow(word).context() == context;
    PooledEvent back = PooledEvent::adopt(word);
    CUevent const adopted = back.native_handle();
    const bool recorded = back.recorded();
    word = std::move(back).release();
    const std::size_t after = allocations_of_this_thread();
    CHECK(after == before);
    CHECK(recording.calls().empty());
    CHECK(left);
    CHECK(borrowed == handle);
    CHECK(has_context);
    CHECK(adopted == handle);
    CHECK_FALSE(recorded);
    refusal<NeverRecorded>([&] { PooledEvent::borrow(word).synchronize(); });
    refusal<NotSupported>([&] { PooledEvent::borrow(word).record(stream, RecordFlags::external); });
    PooledEvent::borrow(word).record(stream); // the lease sees it
    PooledEvent::borrow(word).synchronize();
    CHECK(pool.counters().idle == 0);
    CHECK(PooledEvent::adopt(word).recorded());
  }
  CHECK(pool.counters().idle == 1);
  CHECK_FALSE(pool.acquire().recorded());
}

TEST_CASE_METHOD(RecordingFixture, "a word comes back on another thread, and after the end of its pool") {
  void* word = nullptr;
  {
    EventPool pool(context, EventFlags::interprocess);
    std::thread([&] { word = pool.acquire().release(); }).join();
    PooledEvent exported = PooledEvent::adopt(word);
    static_cast<void>(exported.ipc_handle());
    word = std::move(exported).release(); // the mark stays with the event
  }
  CHECK(RecordingDriver::live_events() == events_before + 1);
  { const PooledEvent last = PooledEvent::adopt(word); }
  CHECK(destroy_retired() == 1);
}

TEST_CASE_METHOD(RecordingFixture, "an event can be detached from the pool for a graph") {
  EventPool pool(context);
  {
    Graph graph(context);
    PooledEvent lease = pool.acquire();
    graph.add_record(std::move(lease).detach());
    CHECK(pool.counters().idle == 0);
    CHECK(RecordingDriver::live_events() == events_before + 1);
  }
  end_graphs();
  CHECK(RecordingDriver::live_events() == events_before);
}

TEST_CASE_METHOD(RecordingFixture, "the non-throwing overloads of pools return what the others throw") {
  const Context own = context, other = Context::borrow(context_handle(2), driver), none;
  const long events = RecordingDriver::live_events();
  {
    EventPool pool(context, EventFlags::none), empty;
    PooledEvent lease = EventPool(context).acquire(), no_event, out;
    for (const Context* each : {&own, &none})
      CREATES(EventPool, *each);
    CHECK(GIVES(EventPool(context), acquire, out) == CUDA_SUCCESS);
    for (EventPool* each : {&pool, &empty}) {
      GIVES(*each, acquire, out);
      for (const std::size_t count : {std::size_t{2}, EventPool::default_max_idle + 1})
        BOTH(*each, reserve, count);
      for (CUstream later : {stream, stream_handle(2), CUstream(nullptr)}) {
        BOTH(*each, wait_stream, later, stream);
        for (const Context* of_later : {&own, &other, &none})
          for (const Context* of_earlier : {&own, &other, &none})
            BOTH(*each, wait_stream, {*of_later, later}, {*of_earlier, stream});
      }
    }
    IpcHandle handle;
    for (PooledEvent* each : {&lease, &no_event})
      GIVES(*each, ipc_handle, handle);
  }
  destroy_retired();
  for (long left = RecordingDriver::live_events(); left > events; --left)
    driver.table().cuEventDestroy_v4000(nullptr); // the test has made their destruction fail
}
