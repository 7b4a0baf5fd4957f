#include "event_pool_state.hpp"

#include <cuevent/retired_events.hpp>

#include <linux/membarrier.h>
#include <new>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace cuevent {

namespace {

/// Makes each thread of the process that is running pass a memory barrier. Where the system cannot do it, an event
/// that is returned at the very moment of the pool's end may stay with its thread until that ends.
void pass_barriers() noexcept {
  static const bool registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) == 0;
  if (registered) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0);
}

/// The pools that have not ended, each at its index. Lives for ever.
class Registry {
public:
  static Registry& instance() {
    static Registry& registry = *new Registry;
    return registry;
  }

  void add(EventPoolState& state) {
    const std::lock_guard lock(mutex_);
    auto free = std::find(pools_.begin(), pools_.end(), nullptr);
    if (free == pools_.end()) free = pools_.insert(free, nullptr);
    *free = &state;
    state.index = static_cast<std::uint32_t>(free - pools_.begin());
    state.id = ++last_id_;
  }
  void remove(const EventPoolState& state) noexcept {
    const std::lock_guard lock(mutex_);
    pools_[state.index] = nullptr;
  }

private:
  Registry() {
    // A child has only the thread that forked: what another held at that moment would stay locked there.
    const auto unlock = [] { instance().unlock(); };
    if (pthread_atfork([] { instance().lock(); }, unlock, unlock) != 0) throw std::bad_alloc();
  }
  void lock() {
    mutex_.lock();
    for (EventPoolState* const pool : pools_)
      if (pool != nullptr) pool->lock();
  }
  void unlock() {
    for (EventPoolState* const pool : pools_)
      if (pool != nullptr) pool->unlock();
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::vector<EventPoolState*> pools_;
  std::uint64_t last_id_ = 0; // 0 is no pool's
};

} // namespace

constinit thread_local ThreadEventCaches ThreadEventCaches::here;

EventCache* ThreadEventCaches::make(EventPoolState& state) noexcept {
  static thread_local struct AtEnd {
    ~AtEnd() { here.end(); }
  } const at_end;
  if (ended_) return nullptr;
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
  if (cache != nullptr) { // of a pool that has ended
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
  ended_ = true; // what this thread's later destructors return goes straight to the reserve
  for (std::uint32_t i = 0; i < size_; ++i)
    if (EventCache* const cache = std::exchange(caches_[i], nullptr)) cache->state->remove(cache);
  delete[] std::exchange(caches_, nullptr);
  size_ = 0;
}

EventPoolState::EventPoolState(const Context& pool_context, EventFlags event_flags, std::size_t most_idle)
    : flags(event_flags), max_idle(most_idle), context(pool_context) {
  Registry::instance().add(*this);
}

bool EventPoolState::add(EventCache* cache) noexcept {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  try {
    caches_.push_back(cache);
  } catch (const std::bad_alloc&) {
    return false;
  }
  references_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void EventPoolState::remove(EventCache* cache) noexcept {
  if (!closed_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      empty_into_reserve(*cache);
      reused_ += cache->reused;
      std::erase(caches_, cache);
    }
  }
  retire_left(*cache);
  delete cache;
  drop();
}

void EventPoolState::retire_left(EventCache& cache) noexcept {
  for (std::atomic<DriverEvent*>& slot : cache.idle)
    if (DriverEvent* const event = EventCache::empty(slot)) retire(event);
  cache.count = 0;
}

void EventPoolState::empty_into_reserve(EventCache& cache) noexcept {
  while (!cache.empty())
    reserve_.push_back(cache.take());
  rooms_ -= std::exchange(cache.room, 0);
}

DriverEvent* EventPoolState::take_beyond() {
  EventCache* cache = ThreadEventCaches::here.find(*this);
  if (cache == nullptr) cache = ThreadEventCaches::here.make(*this);
  {
    const std::lock_guard lock(mutex_);
    if (!reserve_.empty()) {
      DriverEvent* const event = reserve_.back();
      reserve_.pop_back();
      if (cache != nullptr) {
        const std::size_t moved = std::min(EventCache::batch, reserve_.size());
        if (cache->room < moved) grow(*cache, moved - cache->room);
        for (std::size_t i = 0; i < moved; ++i) {
          cache->put(reserve_.back());
          reserve_.pop_back();
        }
      }
      ++reused_;
      note_high_water();
      return event;
    }
  }
  DriverEvent* const event = create();
  const std::lock_guard lock(mutex_);
  note_high_water();
  return event;
}

void EventPoolState::give_back_beyond(EventCache* cache, DriverEvent* event) noexcept {
  if (closed_.load(std::memory_order_acquire)) return retire(event);
  if (cache == nullptr) cache = ThreadEventCaches::here.make(*this);
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      if (cache != nullptr && cache->full()) {
        const std::size_t most = std::min(EventCache::batch, spare());
        if (cache->room < EventCache::size)
          grow(*cache, std::min(most, EventCache::size - cache->room));
        else
          for (std::size_t i = 0; i < most; ++i)
            reserve_.push_back(cache->take());
      }
      if (cache != nullptr && !cache->full()) {
        cache->put(event);
        return;
      }
      if (cache == nullptr && spare() > 0) return reserve_.push_back(event);
    }
  }
  retire(event);
}

void EventPoolState::retire(DriverEvent* event) noexcept {
  cuevent::retire(static_cast<DriverEvent&&>(*event));
  forget(event);
}

DriverEvent* EventPoolState::create() {
  {
    const std::lock_guard lock(mutex_);
    const std::size_t events = events_.load(std::memory_order_relaxed) + 1;
    if (events > reserve_.capacity()) reserve_.reserve(2 * events);
    events_.store(events, std::memory_order_relaxed);
  }
  try {
    auto* const event = new DriverEvent(context, flags);
    references_.fetch_add(1, std::memory_order_relaxed);
    created_.fetch_add(1, std::memory_order_relaxed);
    return event;
  } catch (...) {
    events_.fetch_sub(1, std::memory_order_relaxed);
    throw;
  }
}

void EventPoolState::reserve(std::size_t count) {
  if (count > max_idle)
    throw InvalidValue("EventPool::reserve",
                       "the pool keeps fewer idle events: make it with a larger max_idle");
  if (EventCache* const cache = ThreadEventCaches::here.find(*this)) {
    const std::lock_guard lock(mutex_);
    empty_into_reserve(*cache);
  }
  const auto has_enough = [this, count] {
    const std::lock_guard lock(mutex_);
    return reserve_.size() >= count;
  };
  while (!has_enough()) {
    DriverEvent* const event = create();
    const std::lock_guard lock(mutex_);
    reserve_.push_back(event);
  }
}

void EventPoolState::trim() noexcept {
  if (EventCache* const cache = ThreadEventCaches::here.find(*this)) {
    const std::lock_guard lock(mutex_);
    empty_into_reserve(*cache);
  }
  destroy_reserve();
}

void EventPoolState::destroy_reserve() noexcept {
  // A few at a time, as the vector has to keep its capacity.
  std::array<DriverEvent*, EventCache::size> some{};
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
    const bool lost = kind_of(context.status()) == ErrorKind::context_lost;
    for (std::size_t i = 0; i < count; ++i) {
      if (lost) some[i]->release(); // the event went with its context: nothing to do, and nothing to report
      forget(some[i]);
    }
  }
}

void EventPoolState::close() noexcept {
  closing_.store(true);
  pass_barriers();
  {
    const std::lock_guard lock(mutex_);
    for (EventCache* const cache : caches_)
      for (std::atomic<DriverEvent*>& slot : cache->idle)
        if (DriverEvent* const event = EventCache::empty(slot)) reserve_.push_back(event);
    caches_.clear();
    closed_.store(true, std::memory_order_release);
  }
  Registry::instance().remove(*this);
  destroy_reserve();
  context = Context();
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

} // namespace cuevent
