// SPDX-License-Identifier: MIT
#include "scheduling/event_pool_state.hpp"

#include "core/erase_where.hpp"
#include "core/explanation.hpp"
#include "core/failure.hpp"
#include "core/refusal.hpp"
#include "core/result_of.hpp"

#include <linux/membarrier.h>
#include <new>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr const char* create_event = "cuEventCreate";
/// 1 if this process may call pass_barriers(), -1 if the system cannot do it, 0 if not known yet. Not
/// a local static: a child of a fork would wait forever for the thread that was initialising it.
constinit std::atomic<int> barriers{0};

bool can_pass_barriers() noexcept {
  int can = barriers.load(std::memory_order_relaxed);
  if (can == 0) {
    can = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) == 0 ? 1 : -1;
    barriers.store(can, std::memory_order_relaxed);
  }
  return can == 1;
}

/// Makes each running thread of the process pass a memory barrier.
void pass_barriers() noexcept { syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0); }

/// Takes time only if the owner was interrupted between begin() and end().
void wait_until_unused(const EventCache& cache) noexcept {
  for (int looks = 0; cache.in_use.load(std::memory_order_acquire); ++looks) {
    constexpr timespec moment{0, 50'000};
    if (looks < 100)
      sched_yield();
    else
      nanosleep(&moment, nullptr); // lets threads of lower priority run too
  }
}

/// The pools that have not ended, by index. The Registry lives forever.
class Registry {
public:
  static Registry& instance() noexcept { return *only; }
  /// False if there was no memory when the library was loaded. Then there can be no pool.
  static bool is_made() noexcept { return only != nullptr; }
  [[gnu::constructor(first_constructor)]] static void make() noexcept { make_only(only); }

  void add(EventPoolState& state) {
    const std::lock_guard lock(mutex_);
    auto free = std::find(pools_.begin(), pools_.end(), nullptr);
    if (free == pools_.end()) free = pools_.insert(free, nullptr);
    *free = &state;
    state.index = static_cast<std::uint32_t>(free - pools_.begin());
    state.id = ++last_id_;
    state.code = &code;
  }
  void remove(const EventPoolState& state) noexcept {
    const std::lock_guard lock(mutex_);
    pools_[state.index] = nullptr;
  }

  template <class Lock>
  void each_fork_lock(Lock lock) {
    lock(changing_pools);
    lock(mutex_);
    for (EventPoolState* const pool : pools_)
      if (pool != nullptr) lock(pool->fork_lock());
  }
  void forked() noexcept {
    for (EventPoolState* const pool : pools_)
      if (pool != nullptr) pool->forked();
  }

  static const PoolCode code;

private:
  static inline constinit Registry* only = nullptr;

  ForkLock mutex_;
  std::vector<EventPoolState*> pools_;
  // 2^16 ids for each byte of the Registry, so that no other copy has the same. No pool has id 0.
  std::uint64_t last_id_ = reinterpret_cast<std::uintptr_t>(this) << 16;
};

const PoolCode Registry::code{
    .take = [](EventPoolState& state, LeasedEvent*& out) noexcept { return state.take_any(out); },
    .give_back = [](EventPoolState& state, LeasedEvent* event) noexcept { state.give_back(event); },
    .trim = [](EventPoolState& state) noexcept { state.trim(); },
    .remove = [](EventPoolState& state) noexcept { only->remove(state); },
};

bool made_here(const EventPoolState& state) noexcept { return state.code == &Registry::code; }

} // namespace

constinit ForkLock changing_pools;
constinit thread_local ThreadEventCaches ThreadEventCaches::here;

EventCache* ThreadEventCaches::make(EventPoolState& state) noexcept {
  static thread_local struct AtEnd {
    ~AtEnd() { here.end(); }
  } const at_end;
  if (ended_ || !can_pass_barriers()) return nullptr;
  if (state.index >= size_) {
    const std::uint32_t size = std::max(2 * size_, state.index + 1);
    auto** const caches = new (std::nothrow) EventCache*[size]();
    if (caches == nullptr) return nullptr;
    std::copy_n(caches_, size_, caches);
    delete[] caches_;
    caches_ = caches;
    size_ = size;
  }
  EventCache*& cache = caches_[state.index];
  if (cache != nullptr) { // the cache of a pool that has ended
    cache->state->remove(cache);
    cache = nullptr;
  }
  auto* const made = new (std::nothrow) EventCache(state);
  if (made != nullptr && !state.add(made))
    delete made;
  else
    cache = made;
  return cache;
}

void ThreadEventCaches::end() noexcept {
  ended_ = true; // events returned by later destructors of this thread go to the reserve
  for (std::uint32_t i = 0; i < size_; ++i)
    if (EventCache* const cache = std::exchange(caches_[i], nullptr)) cache->state->remove(cache);
  delete[] std::exchange(caches_, nullptr);
  size_ = 0;
}

Status EventPoolState::make(EventPoolState*& out, const Context& context, EventFlags flags, FreshLease fresh,
                            std::size_t max_idle) noexcept {
  DriverEvent never_recorded;
  if (fresh == FreshLease::reads_new)
    if (const CUresult result = DriverEvent::try_create(never_recorded, context, flags);
        result != CUDA_SUCCESS)
      return {result, create_event};
  const char* const call = "EventPool";
  if (!Registry::is_made()) return {CUDA_ERROR_OUT_OF_MEMORY, call};
  EventPoolState* made = nullptr;
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): thrown_by() catches what it throws
  const CUresult result = thrown_by(
      [&] { made = new (std::nothrow) EventPoolState(context, flags, max_idle, std::move(never_recorded)); });
  if (made == nullptr) return {result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result, call};
  out = made;
  return {};
}

EventPoolState::EventPoolState(const Context& pool_context, EventFlags event_flags, std::size_t most_idle,
                               DriverEvent&& never_recorded)
    : flags(event_flags), max_idle(most_idle), context(pool_context), fresh_(std::move(never_recorded)) {
  Registry::instance().add(*this);
}

bool EventPoolState::add(EventCache* cache) noexcept {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  if (thrown_by([&] { caches_.push_back(cache); }) != CUDA_SUCCESS) return false;
  hold();
  return true;
}

void EventPoolState::remove(EventCache* cache) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      empty_into_reserve(*cache);
      reused_ += cache->reused;
      erase_where(caches_, [&](const EventCache* const each) { return each == cache; });
    }
  }
  delete cache;
  drop();
}

void EventPoolState::empty_into_reserve(EventCache& cache) noexcept {
  while (LeasedEvent* const event = cache.take())
    reserve_.push_back(event);
  rooms_ -= std::exchange(cache.room, 0);
}

void EventPoolState::freeze_all() noexcept {
  if (caches_.empty()) return;
  for (EventCache* const cache : caches_)
    cache->frozen.store(true, std::memory_order_relaxed);
  pass_barriers();
  for (const EventCache* const cache : caches_)
    wait_until_unused(*cache);
}

/// Moves the cached events of all threads to the reserve. All caches are frozen at once. Otherwise
/// an event could move from a cache that is still full to a cache that is already empty.
void EventPoolState::gather() noexcept {
  freeze_all();
  for (EventCache* const cache : caches_) {
    empty_into_reserve(*cache);
    cache->frozen.store(false, std::memory_order_release);
  }
}

Status EventPoolState::take_slow(LeasedEvent*& out) noexcept {
  if (!made_here(*this)) return code->take(*this, out);
  EventCache* cache = ThreadEventCaches::here.find(*this);
  if (cache == nullptr) cache = ThreadEventCaches::here.make(*this);
  {
    const std::lock_guard lock(mutex_);
    if (reserve_.empty() && promised_ != 0) {
      const std::size_t cached = in_caches();
      if (cached != 0 && on_lease(cached) < promised_) gather();
    }
    if (!reserve_.empty()) {
      out = reserve_.back();
      reserve_.pop_back();
      if (cache != nullptr) {
        // Promised events are distributed evenly. Otherwise threads would repeatedly take them
        // from each other.
        const std::size_t share = promised_ != 0 ? reserve_.size() / caches_.size() : reserve_.size();
        const std::size_t moved = std::min(EventCache::batch, share);
        if (cache->room < moved) grow(*cache, moved - cache->room);
        for (std::size_t i = 0; i < moved; ++i) {
          cache->put(reserve_.back());
          reserve_.pop_back();
        }
      }
      ++reused_;
      note_high_water();
      return {};
    }
  }
  if (const Status status = create(out); !status) return status;
  const std::lock_guard lock(mutex_);
  count_created();
  note_high_water();
  return {};
}

void EventPoolState::give_back_slow(LeasedEvent* event) noexcept {
  if (closed_.load(std::memory_order_acquire)) return retire(event);
  if (!made_here(*this)) return code->give_back(*this, event);
  EventCache* cache = ThreadEventCaches::here.find(*this);
  if (cache == nullptr) cache = ThreadEventCaches::here.make(*this);
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      // A promised event is kept, even if other threads have taken all the room and do not use it.
      if (spare() == 0 && events_ <= promised_ && in_caches() + reserve_.size() < max_idle) gather();
      if (cache != nullptr && cache->full()) {
        const std::size_t most = std::min(EventCache::batch, spare());
        if (cache->room < EventCache::size)
          grow(*cache, std::min(most, EventCache::size - cache->room));
        else
          for (std::size_t i = 0; i < most; ++i)
            reserve_.push_back(cache->take());
      }
      if (cache != nullptr && cache->put(event)) return;
      if (cache == nullptr && spare() > 0) return reserve_.push_back(event);
    }
  }
  retire(event);
}

void EventPoolState::retire(LeasedEvent* event) noexcept {
  cuevent::retire(std::move(*event));
  forget(event);
}

Status EventPoolState::create(LeasedEvent*& out) noexcept {
  CUresult result = thrown_by([this] {
    const std::lock_guard lock(mutex_);
    const std::size_t events = events_.load(std::memory_order_relaxed) + creating_ + 1;
    if (events > reserve_.capacity()) reserve_.reserve(2 * events);
    ++creating_;
  });
  if (result != CUDA_SUCCESS) return {result, create_event};
  DriverEvent event;
  result = DriverEvent::try_create(event, context, flags);
  LeasedEvent* leased = nullptr;
  if (result == CUDA_SUCCESS) {
    leased = new (std::nothrow) LeasedEvent(std::move(event), fresh_ ? &fresh_ : nullptr, *this);
    if (leased == nullptr) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (leased == nullptr) {
    const std::lock_guard lock(mutex_);
    --creating_;
    return {result, create_event};
  }
  hold();
  out = leased;
  return {};
}

void EventPoolState::count_created() noexcept {
  --creating_;
  ++created_;
  events_.fetch_add(1, std::memory_order_relaxed); // forget() does not take the mutex
}

void fail_to_take(const Driver& driver, CUresult result, const char* call, EventFlags flags) {
  if (is_call(call, create_event)) Explanation::fail_create<DriverEvent>(result, driver, flags);
  driver.fail(result, call);
}

void EventPoolState::trim() noexcept {
  if (!made_here(*this)) return code->trim(*this);
  {
    EventCache* const cache = ThreadEventCaches::here.find(*this);
    const std::lock_guard lock(mutex_);
    if (cache != nullptr) empty_into_reserve(*cache);
    promised_ = 0;
  }
  destroy_reserve();
}

bool EventPoolState::context_lost() noexcept {
  const Context own = [this] {
    const std::lock_guard lock(mutex_);
    return context;
  }();
  return kind_of(own.status()) == ErrorKind::context_lost;
}

void EventPoolState::destroy_reserve() noexcept {
  // Destroys a few events at a time, because the vector must keep its capacity.
  std::array<LeasedEvent*, EventCache::size> some{};
  while (true) {
    std::size_t count = 0;
    {
      const std::lock_guard lock(mutex_);
      for (; count < some.size() && !reserve_.empty(); ++count) {
        some[count] = reserve_.back();
        reserve_.pop_back();
      }
    }
    if (count == 0) return;
    const bool lost = context_lost();
    for (std::size_t i = 0; i < count; ++i) {
      if (lost)
        static_cast<void>(some[i]->release()); // the event is gone with its context: no error to report
      forget(some[i]);
    }
  }
}

void EventPoolState::end_fresh() noexcept {
  if (events_.load() != 0) { // a lease may still read it
    fresh_is_left_.store(true);
    if (events_.load() == 0) retire_fresh();
    return;
  }
  if (context_lost()) static_cast<void>(fresh_.release()); // it is gone with its context: no error to report
  fresh_ = DriverEvent();
}

void EventPoolState::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    freeze_all(); // permanently
    for (EventCache* const cache : caches_)
      empty_into_reserve(*cache);
    caches_.clear();
    closed_.store(true, std::memory_order_release);
  }
  code->remove(*this);
  destroy_reserve();
  if (fresh_) end_fresh();
  Context ended; // the last reference ends an owned context, without the mutex
  {
    const std::lock_guard lock(mutex_);
    std::swap(ended, context);
  }
  drop();
}

EventPool::Counters EventPoolState::counters() noexcept {
  const std::lock_guard lock(mutex_);
  EventPool::Counters counters{created_, reused_, reserve_.size(), high_water_};
  for (const EventCache* const cache : caches_) {
    counters.reused += cache->reused;
    counters.idle += cache->count;
  }
  return counters;
}

}} // namespace cuevent::CUEVENT_ABI
