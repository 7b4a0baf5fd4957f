// SPDX-License-Identifier: MIT
#include "program_pools.hpp"

#include <cuevent/event_pools.hpp>

#include <map>
#include <set>
#include <utility>

namespace on_cuevent {
namespace {

using cuevent::Context;
using cuevent::EventFlags;
using cuevent::EventPool;
using cuevent::EventPools;
using cuevent::FreshLease;
using cuevent::PooledEvent;

constexpr std::size_t max_idle = 3; // so that some events are retired

std::map<std::pair<CUcontext, unsigned>, EventPool> pools;
std::map<unsigned, EventPools> pools_of_flags;
std::set<CUcontext> contexts;
long acquired = 0;

CUresult acquire_from_pool(PooledEvent& lease, const Context& context, unsigned flags) {
  const std::pair kind{context.native_handle(), flags};
  auto found = pools.find(kind);
  if (found == pools.end()) {
    EventPool pool;
    const CUresult result =
        EventPool::try_create(pool, context, flags_of(flags), FreshLease::refuses, max_idle);
    if (result != CUDA_SUCCESS) return result;
    const std::lock_guard lock(queues_and_pools);
    found = pools.emplace(kind, std::move(pool)).first;
  }
  return found->second.try_acquire(lease);
}

CUresult acquire_from_pools(PooledEvent& lease, const Context& context, unsigned flags) {
  EventPools& all = pools_of_flags.try_emplace(flags, *driver, flags_of(flags)).first->second;
  if (context) contexts.insert(context.native_handle());
  return ++acquired % 2 == 0 ? all.try_acquire(lease, CU_STREAM_PER_THREAD)
                             : all.try_acquire(lease, {context, CU_STREAM_LEGACY});
}

} // namespace

EventFlags flags_of(unsigned flags) {
  const bool timing = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  return EventFlags(flags & ~unsigned{CU_EVENT_DISABLE_TIMING}) |
         (timing ? EventFlags::timing : EventFlags::none);
}

CUresult acquire(PooledEvent& lease, unsigned flags, Pools from) {
  return from == Pools::of_a_context ? acquire_from_pool(lease, current(), flags)
                                     : acquire_from_pools(lease, current(), flags);
}

void lease_as_a_neighbour() {
  for (auto& [kind, pool] : pools) {
    PooledEvent lease;
    static_cast<void>(pool.try_acquire(lease)); // flags that no event can have stay refused
  }
}

long idle_events() {
  long idle = 0;
  for (const auto& [kind, pool] : pools)
    idle += static_cast<long>(pool.counters().idle);
  for (const auto& [flags, all] : pools_of_flags)
    for (const CUcontext context : contexts)
      idle += static_cast<long>(all.counters(Context::borrow(context, *driver)).idle);
  return idle;
}

void end_pools() {
  pools.clear();
  pools_of_flags.clear();
}

} // namespace on_cuevent
