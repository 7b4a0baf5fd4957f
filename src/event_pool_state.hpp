// What is behind an EventPool: its state, and what threads keep of it. Inside the library only.
#pragma once

#include <cuevent/event_pool.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace cuevent {

/// What a processor's cache moves.
inline constexpr std::size_t line_size = 64;

/// The idle events of one pool that one thread keeps. That thread alone uses it, and writes to it, but for the
/// end of the pool, which empties it. As that cannot run together with an acquire(), but can with the end of a
/// lease, the one place where the two meet is EventPoolState::give_back().
struct alignas(line_size) EventCache {
  static constexpr std::size_t size = 64, batch = 32; // as EventPool's comment says

  explicit EventCache(EventPoolState& pool) noexcept;

  void put(DriverEvent* event) noexcept {
    const std::uint32_t at = count.load(std::memory_order_relaxed);
    idle[at].store(event, std::memory_order_release);
    count.store(at + 1, std::memory_order_relaxed);
  }
  DriverEvent* take() noexcept { // there is one
    const std::uint32_t at = count.load(std::memory_order_relaxed) - 1;
    count.store(at, std::memory_order_relaxed);
    DriverEvent* const event = idle[at].load(std::memory_order_relaxed);
    idle[at].store(nullptr, std::memory_order_relaxed);
    return event;
  }
  bool empty() const noexcept { return count.load(std::memory_order_relaxed) == 0; }
  bool full() const noexcept { return count.load(std::memory_order_relaxed) == room; }
  void count_reused() noexcept {
    reused.store(reused.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Whichever it is that the slot has, for the end of the pool and for what meets it.
  static DriverEvent* empty(std::atomic<DriverEvent*>& slot) noexcept {
    return slot.exchange(nullptr, std::memory_order_acquire);
  }

  const std::uint64_t id;      // the pool's
  EventPoolState* const state; // kept alive by this
  std::uint32_t room = 0;      // of max_idle
  std::atomic<std::uint32_t> count{0};
  std::atomic<std::uint64_t> reused{0};
  std::array<std::atomic<DriverEvent*>, size> idle{};
};

/// The caches of a thread, by the index of the pool. An index is used again when its pool has ended, so a cache
/// is this pool's only if the id is.
class ThreadEventCaches {
public:
  static constinit thread_local ThreadEventCaches here [[gnu::tls_model("initial-exec")]];

  EventCache* find(const EventPoolState& state) const noexcept;

  /// The cache that is found from now on; null if there is no memory, or the thread is at its end.
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
class alignas(line_size) EventPoolState {
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
    if (cache == nullptr || cache->empty()) [[unlikely]]
      return nullptr;
    cache->count_reused();
    return cache->take();
  }
  /// One from the reserve, or a new one.
  DriverEvent* take_beyond();
  void give_back(DriverEvent* event) noexcept {
    EventCache* const cache = ThreadEventCaches::here.find(*this);
    if (cache == nullptr || cache->full()) [[unlikely]]
      return give_back_beyond(cache, event);
    cache->put(event);
    // A store and then a load, with no barrier of the processor between them, which would be a third of the
    // whole cost: close() makes each thread pass one, so that it finds the event, or is seen here, or both.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (closing_.load(std::memory_order_relaxed)) [[unlikely]]
      retire_left(*cache);
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

  /// Retires what close() has not found.
  [[gnu::cold]] void retire_left(EventCache& cache) noexcept;

  /// The mutex, across a fork.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

private:
  ~EventPoolState() = default;
  void drop() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  void give_back_beyond(EventCache* cache, DriverEvent* event) noexcept;
  DriverEvent* create();
  void destroy_reserve() noexcept;
  void empty_into_reserve(EventCache& cache) noexcept;

  // With the mutex held.
  void note_high_water() noexcept {
    high_water_ = std::max(high_water_, events_.load(std::memory_order_relaxed) - reserve_.size());
  }
  std::size_t spare() const noexcept {
    const std::size_t taken = rooms_ + reserve_.size();
    return max_idle > taken ? max_idle - taken : 0;
  }
  void grow(EventCache& cache, std::size_t by) noexcept {
    cache.room += static_cast<std::uint32_t>(by);
    rooms_ += by;
  }

  std::atomic<bool> closing_ = false;

  // Threads that are content with their caches do not come here.
  alignas(line_size) std::mutex mutex_; // never held in a driver call
  std::vector<DriverEvent*>
      reserve_; // with capacity for all events that exist, so that to return one needs none
  std::vector<EventCache*> caches_;
  std::size_t rooms_ = 0; // of the caches, together
  std::size_t high_water_ = 0;
  std::uint64_t reused_ = 0;         // beside what is counted in caches
  std::atomic<bool> closed_ = false; // after which the caches are left to their threads
  std::atomic<std::uint64_t> created_{0};
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
