// SPDX-License-Identifier: MIT
// The pools of an EventPools, found by the id of their context. Internal to the library.
#pragma once

#include "core/status.hpp"
#include "scheduling/event_pool_state.hpp"

#include <cuevent/event_pools.hpp>

#include <atomic>
#include <memory>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A list that only grows, so that a reader needs no lock. A place in the list is free if its id
/// is 0, and is used again for another context. The driver never reuses an id.
class EventPools::State {
public:
  State(const Driver& driver, EventFlags flags, FreshLease fresh, std::size_t max_idle)
      : driver_(driver), flags_(flags), fresh_(fresh), max_idle_(max_idle) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  const Driver& driver() const noexcept { return driver_; }
  EventFlags flags() const noexcept { return flags_; }
  std::size_t max_idle() const noexcept { return max_idle_; }

  /// The context of a stream. It has an id that a Context of the same context also has.
  struct Found {
    CUcontext handle = nullptr; // null for the current context
    unsigned long long id = 0;
  };
  Status find_context(CUstream stream, Found& found) const noexcept {
    const DriverTable& driver = driver_.table();
    if (!is_default_stream(stream))
      if (const CUresult result = driver.cuStreamGetCtx_v9020(stream, &found.handle); result != CUDA_SUCCESS)
          [[unlikely]]
        return {result, "cuStreamGetCtx"};
    return {driver.cuCtxGetId_v12000(found.handle, &found.id), "cuCtxGetId"};
  }

  /// Null if the context has no pool.
  EventPoolState* find(unsigned long long id) const noexcept {
    for (const Place* place = first_.load(std::memory_order_acquire); place != nullptr; place = place->next)
      if (place->id.load(std::memory_order_acquire) == id) [[likely]]
        return place->pool.load(std::memory_order_relaxed);
    return nullptr;
  }
  /// Finds the pool of a context, or makes one. A null `context` is the current one.
  Status pool_of(EventPoolState*& out, CUcontext context, unsigned long long id) noexcept;
  /// An event of a context, which may need a pool first.
  [[gnu::noinline]] Status lease(LeasedEvent*& out, Found found) noexcept;
  /// The pool of a named context.
  Status pool_for(EventPoolState*& out, const Context& context, const char* call) noexcept;
  /// The pool for events of a stream.
  Status pool_for(EventPoolState*& out, StreamRef stream, const char* call) noexcept;

  void trim() noexcept;
  EventPool::Counters counters(unsigned long long id) const noexcept;
  EventPool::Counters counters() const noexcept;
  std::size_t size() const noexcept;

private:
  struct Place {
    std::atomic<unsigned long long> id{0};
    std::atomic<EventPoolState*> pool{nullptr};
    Place* next = nullptr; // does not change once the place is in the list
  };

  struct Drop {
    void operator()(EventPoolState* pool) const noexcept { pool->drop(); }
  };
  /// A pool whose state stays, even if another thread ends the pool.
  using Pool = std::unique_ptr<EventPoolState, Drop>;
  /// Null if the place is free.
  static Pool pool_in(Place& place) noexcept;
  /// The caller must hold the lock.
  Place* free_place() noexcept;
  void end_pools_of_lost_contexts() noexcept;
  static void end(Place& place, EventPoolState& pool) noexcept;

  const Driver driver_;
  const EventFlags flags_;
  const FreshLease fresh_;
  const std::size_t max_idle_;
  std::atomic<Place*> first_{nullptr};
};

}} // namespace cuevent::CUEVENT_ABI
