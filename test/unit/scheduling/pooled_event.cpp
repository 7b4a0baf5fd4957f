// SPDX-License-Identifier: MIT
#include "overloads.hpp"
#include "pool_fixture.hpp"

#include <cuevent/graph.hpp>
#include <cuevent/ipc.hpp>

#include <type_traits>

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
