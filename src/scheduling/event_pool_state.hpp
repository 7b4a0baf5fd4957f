// SPDX-License-Identifier: MIT
// What is behind an EventPool: its state, and what threads keep of it. Inside the library only.
#pragma once

#include "core/cache_line.hpp"

#include <cuevent/event_pool.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace cuevent {

/// The idle events of one pool that one thread keeps. That thread uses the cache between begin() and end(), or with
/// the pool's mutex held. Another thread uses it while the cache is frozen, for which it holds the mutex.
///
/// begin() is a store and then a load, without a processor's barrier between them, which would be a third of the whole
/// cost. Instead the thread that freezes a cache makes all threads pass a barrier. Then either the owner sees that the
/// cache is frozen, or the other thread sees that the cache is in use, and waits for the few instructions until end().
struct alignas(cache_line) EventCache {
  static constexpr std::size_t size = 64, batch = 32; // as EventPool's comment says

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

  /// False if there is no room.
  bool put(DriverEvent* event) noexcept {
    const std::uint32_t at = count.load(std::memory_order_relaxed);
    if (at == room) [[unlikely]]
      return false;
    idle[at] = event;
    count.store(at + 1, std::memory_order_relaxed);
    return true;
  }
  /// Null if there is none.
  DriverEvent* take() noexcept {
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

  const std::uint64_t id;      // the pool's
  EventPoolState* const state; // kept alive by this
  std::uint32_t room = 0;      // of max_idle
  std::atomic<bool> in_use{false}, frozen{false};
  std::atomic<std::uint32_t> count{0}; // this and the next may be read by any thread
  std::atomic<std::uint64_t> reused{0};
  std::array<DriverEvent*, size> idle{};
};

/// The caches of a thread, by the index of the pool. An index is used again when its pool has ended, so a cache
/// is this pool's only if the id is.
class ThreadEventCaches {
public:
  static constinit thread_local ThreadEventCaches here [[gnu::tls_model("initial-exec")]];

  EventCache* find(const EventPoolState& state) const noexcept;

  /// The cache that is found from now on; null if there is no memory, if the thread is at its end, and on a system
  /// where no cache can be frozen.
  EventCache* make(EventPoolState& state) noexcept;

private:
  void end() noexcept;

  EventCache** caches_ = nullptr;
  std::uint32_t size_ = 0;
  bool ended_ = false;
};

/// What leases and caches need of a pool. It is counted by them, once for each event and not for each lease.
///
/// Each event that exists is on lease, in a thread's cache, or in the reserve.
class alignas(cache_line) EventPoolState {
public:
  EventPoolState(const Context& pool_context, EventFlags event_flags, std::size_t most_idle);

  std::uint64_t id = 0;    // never another's; these two are the Registry's to set
  std::uint32_t index = 0; // another's after the pool's end
  const EventFlags flags;
  const std::size_t max_idle;
  Context context; // for events to come: until the pool's end

  /// An idle event that this thread keeps; null if there is none.
  DriverEvent* take() noexcept {
    EventCache* const cache = ThreadEventCaches::here.find(*this);
    if (cache == nullptr || !cache->begin()) [[unlikely]]
      return nullptr;
    DriverEvent* const event = cache->take();
    if (event != nullptr) [[likely]]
      cache->count_reused();
    cache->end();
    return event;
  }
  /// One from the reserve, one that another thread keeps if reserve() has promised it, or a new one.
  DriverEvent* take_slow();
  void give_back(DriverEvent* event) noexcept {
    EventCache* const cache = ThreadEventCaches::here.find(*this);
    if (cache == nullptr || !cache->begin()) [[unlikely]]
      return give_back_slow(event);
    const bool put = cache->put(event);
    cache->end();
    if (!put) [[unlikely]]
      give_back_slow(event);
  }
  /// The event will not come back: for collect() to destroy.
  [[gnu::cold]] void retire(DriverEvent* event) noexcept;
  /// The event does not exist any more, or is somebody else's.
  void forget(DriverEvent* event) noexcept {
    delete event;
    events_.fetch_sub(1, std::memory_order_relaxed);
    drop();
  }

  void reserve(std::size_t count);
  void trim() noexcept;
  EventPool::Counters counters() noexcept;

  /// The end of the pool; the state may be gone afterwards.
  void close() noexcept;

  bool add(EventCache* cache) noexcept;
  /// The end of a thread, or of its use of the cache.
  void remove(EventCache* cache) noexcept;

  /// The mutex, across a fork. In the child no other thread comes to the end() of what it was doing.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void unlock_in_child() {
    for (EventCache* const cache : caches_)
      cache->end();
    mutex_.unlock();
  }

private:
  ~EventPoolState() = default;
  void drop() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  void give_back_slow(DriverEvent* event) noexcept;
  /// For count_created() to count.
  DriverEvent* create();
  void add_to_reserve(DriverEvent* event) noexcept;
  void destroy_reserve() noexcept;

  // With the mutex held.
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
  /// Of the events that exist, those that are neither in a cache nor in the reserve.
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

  // Threads that are content with their caches do not come here.
  alignas(cache_line) std::mutex mutex_; // never held in a driver call
  std::vector<DriverEvent*>
      reserve_; // with capacity for all events that exist, so that to return one needs none
  std::vector<EventCache*> caches_;
  std::size_t rooms_ = 0;    // of the caches, together
  std::size_t creating_ = 0; // events, by whichever thread
  std::size_t promised_ = 0; // leases, up to which acquire() makes no event
  std::size_t high_water_ = 0;
  std::uint64_t reused_ = 0;         // beside what is counted in caches
  std::atomic<bool> closed_ = false; // after which the caches are left to their threads
  std::uint64_t created_ = 0;
  std::atomic<std::size_t> events_{0};     // that exist
  std::atomic<std::size_t> references_{1}; // of the pool, each event and each cache
};

inline EventCache::EventCache(EventPoolState& pool) noexcept : id(pool.id), state(&pool) {}

inline EventCache* ThreadEventCaches::find(const EventPoolState& state) const noexcept {
  if (state.index >= size_) [[unlikely]]
    return nullptr;
  EventCache* const cache = caches_[state.index];
  return cache != nullptr && cache->id == state.id ? cache : nullptr;
}

} // namespace cuevent
