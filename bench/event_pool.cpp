// SPDX-License-Identifier: MIT
// A short-lived event: from the pool, from the driver, and from a vector under a mutex.
#include "driver_at_hand.hpp"
#include "time_of_each.hpp"

#include <cuevent/event_pool.hpp>

#include <benchmark/benchmark.h>

#include <mutex>
#include <optional>
#include <vector>

using namespace cuevent;

namespace {

const Context& context() {
  // Never destroyed.
  static const Context& context = *new Context(Context::primary(0, driver_at_hand()));
  return context;
}

/// What a program would write: all threads share a vector.
class MutexPool {
public:
  explicit MutexPool(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      events_.emplace_back(context());
  }

  DriverEvent acquire() {
    const std::lock_guard lock(mutex_);
    DriverEvent event = std::move(events_.back());
    events_.pop_back();
    return event;
  }
  void give_back(DriverEvent&& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }

private:
  std::mutex mutex_;
  std::vector<DriverEvent> events_;
};

std::optional<EventPool> pool;
std::optional<MutexPool> mutex_pool;
constexpr std::size_t events = 1'000;

void make_pools(const benchmark::State&) {
  pool.emplace(context());
  pool->reserve(events);
  mutex_pool.emplace(events);
}
void end_pools(const benchmark::State&) {
  pool.reset();
  mutex_pool.reset();
}

/// Acquires and returns events, `at_once` at a time.
void event_pool(benchmark::State& state) {
  const auto at_once = static_cast<std::size_t>(state.range(0));
  std::vector<PooledEvent> leases(at_once);
  pool->acquire(); // work that each thread does once
  const TimeOfEach time(state);
  if (at_once == 1)
    for ([[maybe_unused]] auto each : state) {
      PooledEvent lease = pool->acquire();
      benchmark::DoNotOptimize(lease);
    }
  else
    for ([[maybe_unused]] auto each : state) {
      for (PooledEvent& lease : leases)
        lease = pool->acquire();
      for (PooledEvent& lease : leases)
        lease = PooledEvent();
    }
}

void mutex_and_vector(benchmark::State& state) {
  const TimeOfEach time(state);
  for ([[maybe_unused]] auto each : state) {
    DriverEvent event = mutex_pool->acquire();
    benchmark::DoNotOptimize(event);
    mutex_pool->give_back(std::move(event));
  }
}

void create_and_destroy(benchmark::State& state) {
  const ContextGuard current(context());
  const DriverTable& table = context().driver().table();
  const TimeOfEach time(state);
  for ([[maybe_unused]] auto each : state) {
    CUevent event = nullptr;
    table.cuEventCreate_v2000(&event, CU_EVENT_DISABLE_TIMING);
    table.cuEventDestroy_v4000(event);
  }
}

} // namespace

BENCHMARK(event_pool)
    ->ArgName("at_once")
    ->Arg(1)
    ->Threads(1)
    ->Threads(16)
    ->Setup(make_pools)
    ->Teardown(end_pools);
BENCHMARK(event_pool)
    ->ArgName("at_once")
    ->Arg(50)
    ->Threads(1)
    ->Threads(16)
    ->Setup(make_pools)
    ->Teardown(end_pools);
BENCHMARK(mutex_and_vector)->Threads(1)->Threads(16)->Setup(make_pools)->Teardown(end_pools);
BENCHMARK(create_and_destroy)->Threads(1)->Threads(16);
