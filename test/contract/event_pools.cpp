// SPDX-License-Identifier: MIT
// Pools that find the stream's context, shared leases and references, on a driver.
#include <cuevent/event_pools.hpp>

#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph.hpp>
#include <cuevent/retired_events.hpp>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(Fixture, "pools lease events of the stream's context, whichever is current") {
  const Context second = Context::create(0, driver);
  const Stream stream(context), other(second);
  EventPools pools(driver);
  PooledEvent here = pools.acquire(stream), there = pools.acquire(other);
  CHECK(here.event().context() == context);
  CHECK(there.event().context() == second);
  here.record(stream);
  there.record(other);
  here.wait(other);
  CHECK(here.synchronize_for(1min));
  CHECK(there.synchronize_for(1min));
  CHECK(pools.acquire({second, nullptr}).event().context() == second);
  {
    const ContextGuard current(second);
    CHECK(pools.acquire(CU_STREAM_PER_THREAD).event().context() == second);
    CHECK(pools.acquire_current().event().context() == second);
  }
  CHECK_THROWS_AS(pools.acquire_current(), InvalidContext); // no context is current
  {
    const ContextGuard current(context);
    CHECK(pools.acquire_current().event().context() == context);
  }
  CHECK_THROWS_AS(pools.acquire({second, stream}), ContextMismatch);
  const auto all = pools.counters(), first = pools.counters(context), its = pools.counters(second);
  CHECK(all.created == first.created + its.created);
  CHECK(all.reused == first.reused + its.reused);
  CHECK(all.idle == first.idle + its.idle);
  CHECK(all.high_water == first.high_water + its.high_water);
  CHECK(all.created == 4);
  CHECK(pools.counters(context.native_handle()).created == first.created);
  CHECK(pools.counters(second.native_handle()).created == its.created);
  CHECK(EventPools().counters().created == 0);
}

TEST_CASE_METHOD(Fixture, "pools order streams of different contexts") {
  const Context second = Context::create(0, driver);
  const Stream earlier(context), later(second);
  EventPools pools(driver);
  DriverEvent last(second);
  {
    Gate gate(earlier);
    pools.wait_stream(later, earlier);
    last.record(later);
    CHECK_FALSE(last.query());
  }
  CHECK(last.synchronize_for(1min));
  pools.wait_stream({second, nullptr}, {context, earlier});
}

TEST_CASE_METHOD(Fixture, "pools harm no capture, and their leases can be part of one") {
  const Stream stream(context), other(context);
  EventPools pools(driver);
  StreamCapture capture(context, stream, CaptureMode::per_thread);
  pools.wait_stream(other, stream);
  pools.wait_stream(stream, other);
  { const PooledEvent unused = pools.acquire(stream); }
  const Graph graph = capture.end();
  CHECK(graph.event_nodes().records.empty());
}

TEST_CASE_METHOD(Fixture, "holders of a shared lease wait for a record by one of them") {
  const Stream stream(context), other(context);
  EventPools pools(driver);
  SharedEvent done = pools.acquire(stream).share();
  CHECK_THROWS_AS(done.query(), NeverRecorded);
  std::atomic<int> looked = 0, pending = 0, completed = 0;
  std::vector<std::jthread> waiters; // they end even if the record fails
  {
    Gate gate(stream);
    for (int i = 0; i < 4; ++i)
      waiters.emplace_back([done, &looked, &pending, &completed, &other](const std::stop_token& stop) {
        while (!done.recorded() && !stop.stop_requested())
          std::this_thread::yield();
        if (done.try_wait(other) == CUDA_SUCCESS && done.try_query() == CUDA_ERROR_NOT_READY) ++pending;
        ++looked;
        looked.notify_all();
        CUresult waited = CUDA_ERROR_NOT_READY;
        while (waited == CUDA_ERROR_NOT_READY) // simulated minutes can pass before the gate opens
          waited = done.try_synchronize_for(1min);
        if (waited == CUDA_SUCCESS) ++completed;
      });
    done.record(stream);
    for (int seen = looked; seen != 4; seen = looked) // the gate opens after all have looked
      looked.wait(seen);
  }
  for (std::jthread& waiter : waiters)
    waiter.join();
  CHECK(pending == 4);
  CHECK(completed == 4);
  CHECK(done.synchronize_for(1min));
  done = SharedEvent();
  CHECK(pools.counters(context).idle == 1);
}

TEST_CASE_METHOD(Fixture, "a reference to a CUevent works as the event") {
  const Stream stream(context), other(context);
  const DriverEvent start(context, EventFlags::timing), end(context, EventFlags::timing);
  const EventRef first(start.native_handle(), driver), last(end.native_handle(), driver);
  CHECK_THROWS_AS(first.elapsed_time(last), InvalidHandle);
  {
    Gate gate(stream);
    first.record(stream);
    last.record(stream);
    first.wait(other);
    CHECK_FALSE(last.query());
    CHECK_FALSE(last.query_relaxed());
    CHECK_FALSE(last.synchronize_for(1ms));
  }
  last.synchronize();
  CHECK(first.elapsed_time(last) == EventRef(start).elapsed_time(end));
  {
    const ContextGuard current(context);
    first.record(nullptr);
  }
  first.record({context, CU_STREAM_PER_THREAD});
  CHECK(first.synchronize_for(1min));
}
