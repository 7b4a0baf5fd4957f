// SPDX-License-Identifier: MIT
// Events of the stream's context from EventPools, compared with pools per device under a mutex: PyTorch's
// CUDAEventPool, if it was found, and one as a program would write it. And what a shared lease costs. The
// driver's two queries and the two locked additions, which cuevent needs, are also measured on their own.
#include "driver_at_hand.hpp"
#include "time_of_each.hpp"

#include <cuevent/event_pools.hpp>

#include <benchmark/benchmark.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#ifdef CUEVENT_PEER_TORCH
#include <c10/cuda/CUDAEvent.h>
#endif

using namespace cuevent;

namespace {

constexpr std::size_t events = 1'000;

const Context& context() {
  // Never destroyed.
  static const Context& context = *new Context(Context::primary(0, driver_at_hand()));
  return context;
}

/// A stream for each thread of a benchmark.
class Streams {
public:
  Streams() {
    const ContextGuard current(context());
    const auto create = driver_at_hand().entry_point<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000);
    for (CUstream& stream : streams_)
      create(&stream, CU_STREAM_NON_BLOCKING);
  }
  CUstream of_thread(int index) const { return streams_[static_cast<std::size_t>(index)]; }

private:
  CUstream streams_[16] = {}; // never destroyed
};

const Streams& streams() {
  static const Streams& streams = *new Streams;
  return streams;
}

/// What a program would write: for each device a mutex and a vector, and a pointer that knows its pool.
class MutexPerDevice {
public:
  struct Return {
    MutexPerDevice* pool;
    int device;
    void operator()(DriverEvent* event) const { pool->give_back(device, event); }
  };
  using Lease = std::unique_ptr<DriverEvent, Return>;

  MutexPerDevice() : devices_(1) {
    for (std::size_t i = 0; i < events; ++i)
      devices_[0].idle.push_back(std::make_unique<DriverEvent>(context()));
  }
  Lease acquire(int device) {
    Device& of = devices_[static_cast<std::size_t>(device)];
    const std::lock_guard lock(of.mutex);
    DriverEvent* const event = of.idle.back().release();
    of.idle.pop_back();
    return {event, Return{this, device}};
  }

private:
  struct Device {
    std::mutex mutex;
    std::vector<std::unique_ptr<DriverEvent>> idle;
  };
  void give_back(int device, DriverEvent* event) {
    Device& of = devices_[static_cast<std::size_t>(device)];
    const std::lock_guard lock(of.mutex);
    of.idle.emplace_back(event);
  }
  std::deque<Device> devices_;
};

std::optional<EventPools> pools;
std::optional<MutexPerDevice> mutex_per_device;
std::optional<SharedEvent> shared;

void make(const benchmark::State&) {
  pools.emplace(driver_at_hand());
  pools->reserve(context(), events);
  mutex_per_device.emplace();
  shared = pools->acquire(streams().of_thread(0)).share();
}
void end(const benchmark::State&) {
  shared.reset();
  pools.reset();
  mutex_per_device.reset();
}

void event_pools(benchmark::State& state) {
  CUstream const stream = streams().of_thread(state.thread_index());
  static_cast<void>(pools->acquire(stream)); // work that each thread does once
  const TimeOfEach time(state);
  for ([[maybe_unused]] auto each : state) {
    PooledEvent lease = pools->acquire(stream);
    benchmark::DoNotOptimize(lease);
  }
}

void event_pools_current(benchmark::State& state) {
  const ContextGuard current(context());
  static_cast<void>(pools->acquire_current());
  const TimeOfEach time(state);
  for ([[maybe_unused]] auto each : state) {
    PooledEvent lease = pools->acquire_current();
    benchmark::DoNotOptimize(lease);
  }
}

/// For comparison: the two queries of the driver that find the context of a stream.
void two_queries(benchmark::State& state) {
  const auto context_of = driver_at_hand().entry_point<PFN_cuStreamGetCtx_v9020>("cuStreamGetCtx", 9020);
  const auto id_of = driver_at_hand().entry_point<PFN_cuCtxGetId_v12000>("cuCtxGetId", 12000);
  CUstream const stream = streams().of_thread(state.thread_index());
  const TimeOfEach time(state);
  for ([[maybe_unused]] auto each : state) {
    CUcontext found = nullptr;
    unsigned long long id = 0;
    context_of(stream, &found);
    id_of(found, &id);
    benchmark::DoNotOptimize(id);
  }
}

void mutex_for_each_device(benchmark::State& state) {
  const TimeOfEach time(state);
  for ([[maybe_unused]] auto each : state) {
    MutexPerDevice::Lease lease = mutex_per_device->acquire(0);
    benchmark::DoNotOptimize(lease);
  }
}

/// Copies and drops a lease. Each thread has a lease of its own.
void shared_lease(benchmark::State& state) {
  const SharedEvent lease = pools->acquire(streams().of_thread(state.thread_index())).share();
  const TimeOfEach time(state);
  for ([[maybe_unused]] auto each : state) {
    SharedEvent copy = lease;
    benchmark::DoNotOptimize(copy);
  }
}

/// As shared_lease, and all threads copy one lease.
void one_shared_lease(benchmark::State& state) {
  const TimeOfEach time(state);
  for ([[maybe_unused]] auto each : state) {
    SharedEvent copy = *shared;
    benchmark::DoNotOptimize(copy);
  }
}

/// For comparison: no way to share is cheaper than the two locked instructions that it takes to count. A
/// holder is in memory, so the second instruction waits until it has read from there where the count is.
void two_locked_additions(benchmark::State& state) {
  struct Holder {
    unsigned* count;
    void* event; // two words, as of a lease
  };
  alignas(64) unsigned holders = 1;
  const TimeOfEach time(state);
  for ([[maybe_unused]] auto each : state) {
    Holder copy{&holders, &holders};
    __atomic_fetch_add(copy.count, 1, __ATOMIC_RELAXED);
    benchmark::DoNotOptimize(copy);
    __atomic_fetch_sub(copy.count, 1, __ATOMIC_ACQ_REL);
  }
}

/// For comparison: what a program without SharedEvent would copy. It counts with locked instructions
/// once the process has a second thread.
void shared_ptr(benchmark::State& state) {
  std::thread([] {}).join();
  const auto lease = std::make_shared<PooledEvent>(pools->acquire(streams().of_thread(state.thread_index())));
  const TimeOfEach time(state);
  for ([[maybe_unused]] auto each : state) {
    std::shared_ptr<PooledEvent> copy = lease;
    benchmark::DoNotOptimize(copy);
  }
}

#ifdef CUEVENT_PEER_TORCH
c10::cuda::CUDAEventPool& torch_pool() {
  static c10::cuda::CUDAEventPool& pool = *new c10::cuda::CUDAEventPool(events);
  return pool;
}

void torch_event_pool(benchmark::State& state) {
  torch_pool().get(0);
  const TimeOfEach time(state);
  for ([[maybe_unused]] auto each : state) {
    auto lease = torch_pool().get(0);
    benchmark::DoNotOptimize(lease);
  }
}
#endif

} // namespace

BENCHMARK(event_pools)->Threads(1)->Threads(16)->Setup(make)->Teardown(end);
BENCHMARK(event_pools_current)->Threads(1)->Threads(16)->Setup(make)->Teardown(end);
BENCHMARK(two_queries)->Threads(1)->Threads(16);
BENCHMARK(mutex_for_each_device)->Threads(1)->Threads(16)->Setup(make)->Teardown(end);
#ifdef CUEVENT_PEER_TORCH
BENCHMARK(torch_event_pool)->Threads(1)->Threads(16);
#endif
BENCHMARK(shared_lease)->Threads(1)->Threads(16)->Setup(make)->Teardown(end);
BENCHMARK(shared_ptr)->Threads(1)->Threads(16)->Setup(make)->Teardown(end);
BENCHMARK(two_locked_additions)->Threads(1)->Threads(16);
BENCHMARK(one_shared_lease)->Threads(16)->Setup(make)->Teardown(end);
