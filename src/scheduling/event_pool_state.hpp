// SPDX-License-Identifier: MIT
// The state behind an EventPool, and the caches of its threads. Internal to the library.
#pragma once

#include "core/cache_line.hpp"
#include "core/fork_lock.hpp"
#include "core/status.hpp"

#include <cuevent/event_pool.hpp>
#include <cuevent/retired_events.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The idle events of one pool that one thread keeps. The owning thread uses the cache between
/// begin() and end(), or while it holds the pool's mutex. Another thread may use the cache
/// only while it holds the mutex and the cache is frozen.
///
/// begin() is a store followed by a load, without a processor barrier between them. A barrier
/// would be a third of the whole cost. Instead, the thread that freezes a cache makes all threads
/// pass a barrier. Then one of two things happens:
/// - The owner sees that the cache is frozen.
/// - The other thread sees that the cache is in use, and waits for the few instructions until
///   end().
struct alignas(cache_line) EventCache {
  static constexpr std::size_t size = 64, batch = 32; // documented in EventPool

  explicit EventCache(EventPoolState& pool) noexcept;

  bool begin() noexcept {
    in_use.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!frozen.load(std::memory_order_acquire)) [[likely]]
      return true;
    end();
    return false;
  }
  void end() noexcept { in_use.store(false, std::memory_order_release); }

  /// Returns false if the cache has no room.
  bool put(LeasedEvent* event) noexcept {
    const std::uint32_t at = count.load(std::memory_order_relaxed);
    if (at == room) [[unlikely]]
      return false;
    idle[at] = event;
    count.store(at + 1, std::memory_order_relaxed);
    return true;
  }
  /// Returns null if the cache is empty.
  LeasedEvent* take() noexcept {
    const std::uint32_t at = count.load(std::memory_order_relaxed);
    if (at == 0) [[unlikely]]
      return nullptr;
    count.store(at - 1, std::memory_order_relaxed);
    return idle[at - 1];
  }
  bool full() const noexcept { return count.load(std::memory_order_relaxed) == room; }
  void count_reused() noexcept {
    reused.store(reused.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  const std::uint64_t id;      // the pool's id
  EventPoolState* const state; // kept alive by this cache
  std::uint32_t room = 0;      // this cache's part of max_idle
  std::atomic<bool> in_use{false}, frozen{false};
  std::atomic<std::uint32_t> count{0}; // any thread may read `count` and `reused`
  std::atomic<std::uint64_t> reused{0};
  std::array<LeasedEvent*, size> idle{};
};

/// The caches of a thread, by pool index. An index is reused after its pool has ended, so a cache
/// belongs to a pool only if the ids match.
class ThreadEventCaches {
public:
  static constinit thread_local ThreadEventCaches here [[gnu::tls_model("initial-exec")]];

  EventCache* find(const EventPoolState& state) const noexcept;

  /// Makes the cache that find() returns from now on. Returns null in these cases:
  /// - There is no memory.
  /// - The thread is ending.
  /// - The system cannot freeze caches.
  EventCache* make(EventPoolState& state) noexcept;

private:
  void end() noexcept;

  EventCache** caches_ = nullptr;
  std::uint32_t size_ = 0;
  bool ended_ = false;
};

/// The code of the copy of cuevent that made a pool. Several copies can be in one process, each with thread
/// caches of its own, and the loader keeps one definition of each inline function: a pool meets the code of
/// them all. These are pointers, because a call by name would be a call of the caller's copy.
struct PoolCode {
  Status (*take)(EventPoolState&, LeasedEvent*&) noexcept;
  void (*give_back)(EventPoolState&, LeasedEvent*) noexcept;
  void (*trim)(EventPoolState&) noexcept;
  void (*remove)(EventPoolState&) noexcept;
};

/// The part of a pool that leases and caches need. Each event and each cache holds a reference,
/// but a lease does not.
///
/// Each existing event is on lease, in a thread's cache, or in the reserve.
class alignas(cache_line) EventPoolState {
public:
  /// Driver function: cuEventCreate for leases that read as new events.
  static Status make(EventPoolState*& out, const Context& context, EventFlags flags, FreshLease fresh,
                     std::size_t max_idle) noexcept;

  // The Registry sets these. An id is never reused, and no pool of another copy of cuevent has it.
  const PoolCode* code = nullptr;
  std::uint64_t id = 0;
  std::uint32_t index = 0; // reused after the pool's end
  const EventFlags flags;
  const std::size_t max_idle;
  Context context; // for new events, until the pool's end; changes under the mutex

  /// An idle event from this thread's cache, or null if there is none.
  LeasedEvent* take() noexcept {
    EventCache* const cache = ThreadEventCaches::here.find(*this);
    if (cache == nullptr || !cache->begin()) [[unlikely]]
      return nullptr;
    LeasedEvent* const event = cache->take();
    if (event != nullptr) [[likely]]
      cache->count_reused();
    cache->end();
    return event;
  }
  /// Returns one of these:
  /// - an event from the reserve
  /// - an event from another thread's cache, if reserve() has promised the event
  /// - a new event
  Status take_slow(LeasedEvent*& out) noexcept;
  Status take_any(LeasedEvent*& out) noexcept {
    out = take();
    return out != nullptr ? Status() : take_slow(out);
  }
  void give_back(LeasedEvent* event) noexcept {
    EventCache* const cache = ThreadEventCaches::here.find(*this);
    if (cache == nullptr || !cache->begin()) [[unlikely]]
      return give_back_slow(event);
    const bool put = cache->put(event);
    cache->end();
    if (!put) [[unlikely]]
      give_back_slow(event);
  }
  /// The event will not come back. destroy_retired() destroys the event.
  [[gnu::cold]] void retire(LeasedEvent* event) noexcept;
  /// The event no longer exists, or has another owner.
  void forget(LeasedEvent* event) noexcept {
    delete event;
    if (events_.fetch_sub(1) == 1) retire_fresh();
    drop();
  }

  Status reserve(std::size_t count) noexcept;
  void trim() noexcept;
  EventPool::Counters counters() noexcept;
  FreshLease fresh() const noexcept { return fresh_ ? FreshLease::reads_new : FreshLease::refuses; }

  /// Ends the pool. The state may be gone after this call.
  void close() noexcept;

  bool add(EventCache* cache) noexcept;
  /// Called when a thread ends or stops using the cache.
  void remove(EventCache* cache) noexcept;

  /// Keeps the state, and not the pool, until drop().
  void hold() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void drop() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  /// Whether the context has ended before the pool.
  bool context_lost() noexcept;

  ForkLock& fork_lock() noexcept { return mutex_; }
  /// The child of a fork has no other threads that use caches.
  void forked() noexcept {
    for (EventCache* const cache : caches_)
      cache->end();
  }

private:
  /// Throws std::bad_alloc.
  EventPoolState(const Context& pool_context, EventFlags event_flags, std::size_t most_idle,
                 DriverEvent&& never_recorded);
  ~EventPoolState() = default;

  void give_back_slow(LeasedEvent* event) noexcept;
  /// The caller must then call count_created().
  Status create(LeasedEvent*& out) noexcept;
  void add_to_reserve(LeasedEvent* event) noexcept;
  void destroy_reserve() noexcept;
  void end_fresh() noexcept;

  // The caller must hold the mutex.
  void empty_into_reserve(EventCache& cache) noexcept;
  void count_created() noexcept;
  void freeze_all() noexcept;
  void gather() noexcept;
  std::size_t in_caches() const noexcept {
    std::size_t count = 0;
    for (const EventCache* const cache : caches_)
      count += cache->count.load(std::memory_order_relaxed);
    return count;
  }
  /// The number of existing events that are neither in a cache nor in the reserve.
  std::size_t on_lease(std::size_t cached) const noexcept {
    const std::size_t events = events_.load(std::memory_order_relaxed), idle = cached + reserve_.size();
    return events > idle ? events - idle : 0;
  }
  void note_high_water() noexcept { high_water_ = std::max(high_water_, on_lease(0)); }
  std::size_t spare() const noexcept {
    const std::size_t taken = rooms_ + reserve_.size();
    return max_idle > taken ? max_idle - taken : 0;
  }
  void grow(EventCache& cache, std::size_t by) noexcept {
    cache.room += static_cast<std::uint32_t>(by);
    rooms_ += by;
  }

  /// After the last lease of a pool that has ended. Retires, because this thread may be one that must not
  /// wait. The caches of other threads may keep the state for long.
  void retire_fresh() noexcept {
    if (fresh_is_left_.exchange(false)) cuevent::retire(std::move(fresh_));
  }

  // What a lease reads until its first record: an event that is never recorded. Empty if leases refuse.
  DriverEvent fresh_;
  std::atomic<bool> fresh_is_left_{false}; // to the leases, because the pool has ended

  // Threads whose caches suffice do not access these members.
  alignas(cache_line) ForkLock mutex_;
  std::vector<LeasedEvent*>
      reserve_; // its capacity covers all existing events, so returning an event allocates nothing
  std::vector<EventCache*> caches_;
  std::size_t rooms_ = 0;    // of all caches together
  std::size_t creating_ = 0; // events that any thread is creating
  std::size_t promised_ = 0; // up to this number of leases, acquire() creates no event
  std::size_t high_water_ = 0;
  std::uint64_t reused_ = 0;         // in addition to the counts in the caches
  std::atomic<bool> closed_ = false; // once true, the caches are left to their threads
  std::uint64_t created_ = 0;
  std::atomic<std::size_t> events_{0};     // existing events
  std::atomic<std::size_t> references_{1}; // held by the pool, each event and each cache
};

[[noreturn, gnu::cold]] void fail_empty_pool(const char* call);

/// For a refused acquire() or reserve() of any pool, and for a wait_stream() whose event was refused.
[[noreturn]] void fail_to_take(const Driver& driver, CUresult result, const char* call, EventFlags flags);
[[noreturn]] void fail_to_reserve(const Driver& driver, CUresult result, const char* call, EventFlags flags,
                                  std::size_t count, std::size_t max_idle);

[[noreturn]] void fail_to_wait(EventPoolState& pool, CUresult result, const char* call, StreamRef later,
                               StreamRef earlier);

/// Held while an EventPools changes its list of pools.
extern constinit ForkLock changing_pools;

inline EventCache::EventCache(EventPoolState& pool) noexcept : id(pool.id), state(&pool) {}

inline EventCache* ThreadEventCaches::find(const EventPoolState& state) const noexcept {
  if (state.index >= size_) [[unlikely]]
    return nullptr;
  EventCache* const cache = caches_[state.index];
  return cache != nullptr && cache->id == state.id ? cache : nullptr;
}

}} // namespace cuevent::CUEVENT_ABI
