// SPDX-License-Identifier: MIT
// Pools and shared leases of two devices.
#include <cuevent/event_pools.hpp>

#include "gate.hpp"
#include "stream.hpp"

#include <catch2/generators/catch_generators.hpp>

#include <chrono>
#include <optional>
#include <thread>

using namespace cuevent;
using namespace test;

TEST_CASE_METHOD(Fixture, "pools lease events of the stream's device, whichever device is current") {
  const Context second = second_device(driver);
  const Stream near(context), far(second);
  EventPools pools(driver, EventFlags::timing);
  const auto use_both = [&] {
    const PooledEvent here = pools.acquire(near), there = pools.acquire(far);
    CHECK(here.event().context() == context);
    CHECK(there.event().context() == second);
    CHECK_THROWS_AS(here.record(far), ContextMismatch);
    CHECK_THROWS_AS(there.record(near), ContextMismatch);
    CHECK_FALSE(here.recorded());
    here.record(near);
    there.record(far);
    CHECK(here.synchronize_for(1min));
    CHECK(there.synchronize_for(1min));
    CHECK_THROWS_AS(here.elapsed_time(there), ContextMismatch);
  };
  use_both();
  for (const Context& each : {context, second}) {
    const ContextGuard current(each);
    use_both();
  }
  CHECK(pools.size() == 2);
  for (const Context& each : {context, second}) // each event went back to the pool of its own device
    CHECK((pools.counters(each).created == 1 && pools.counters(each).idle == 1));
  CHECK_THROWS_AS(pools.acquire({second, near}), ContextMismatch);
}

TEST_CASE_METHOD(Fixture, "pools order streams of two devices by an event of the earlier stream's device") {
  const Context second = second_device(driver);
  const Stream near(context), far(second);
  const bool forth = GENERATE(true, false);
  CAPTURE(forth);
  CUstream const earlier = forth ? near : far, later = forth ? far : near;
  EventPools pools(driver);
  DriverEvent last(forth ? second : context);
  {
    Gate gate(earlier);
    pools.wait_stream(later, earlier);
    last.record(later);
    CHECK_FALSE(last.query());
  }
  CHECK(last.synchronize_for(1min));
  CHECK(pools.size() == 1);
  CHECK(pools.counters(forth ? context : second).created == 1);
}

TEST_CASE_METHOD(Fixture, "pools order default streams of two devices, named or of the current context") {
  const Context second = second_device(driver);
  const bool named = GENERATE(true, false);
  CAPTURE(named);
  EventPools pools(driver);
  const Stream near(context);
  DriverEvent first(context), last(second);
  std::optional<Gate> gate;
  if (named) {
    {
      const ContextGuard current(context);
      gate.emplace(nullptr);
    }
    pools.wait_stream({second, nullptr}, {context, nullptr});
    first.record({context, nullptr});
  } else {
    gate.emplace(near);
    const ContextGuard current(second);
    pools.wait_stream(nullptr, near);
    first.record(near);
  }
  last.record({second, nullptr});
  CHECK_FALSE(first.query());
  CHECK_FALSE(last.query());
  gate->open();
  CHECK(last.synchronize_for(1min));
  CHECK(first.query());
}

TEST_CASE_METHOD(Fixture, "holders of a shared lease wait for it on streams of two devices") {
  const Context second = second_device(driver);
  const Stream recorded(context), near(context), far(second);
  EventPools pools(driver);
  SharedEvent done = pools.acquire(recorded).share();
  DriverEvent after_near(context), after_far(second);
  {
    Gate gate(recorded);
    done.record(recorded);
    for (CUstream const each : {CUstream(near), CUstream(far)}) {
      CUresult waited = CUDA_ERROR_UNKNOWN;
      std::thread([copy = done, each, &waited] { waited = copy.try_wait(each); }).join();
      CHECK(waited == CUDA_SUCCESS);
    }
    after_near.record(near);
    after_far.record(far);
    CHECK_FALSE(after_near.query());
    CHECK_FALSE(after_far.query());
    done = SharedEvent(); // the streams still wait
    CHECK_FALSE(after_far.query());
  }
  CHECK(after_near.synchronize_for(1min));
  CHECK(after_far.synchronize_for(1min));
  CHECK(pools.counters(context).idle == 1);
}

TEST_CASE_METHOD(Fixture, "the pool of a context that ends leaves the pools of another device alone") {
  if (test::device_count() < 2) SKIP("needs a second device");
  const Stream near(context);
  EventPools pools(driver);
  PooledEvent kept = pools.acquire(near);
  kept.record(near);
  for (int i = 0; i < 3; ++i) {
    const Context passing = Context::create(1, driver);
    const Stream far(passing);
    const PooledEvent lease = pools.acquire(far);
    CHECK(lease.event().context() == passing);
    lease.record(far);
    CHECK(lease.synchronize_for(1min));
    CHECK(pools.size() == 2); // the pool of the context before this one has ended
  }
  pools.trim();
  CHECK(pools.size() == 1);
  CHECK(kept.synchronize_for(1min));
  kept = PooledEvent();
  CHECK(pools.counters(context).idle == 1);
}
