// SPDX-License-Identifier: MIT
#include <cuevent/event_pools.hpp>

#include "core/require_context.hpp"
#include "core/result_of.hpp"
#include "scheduling/event_pools_state.hpp"

#include <memory>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

EventPools::State::~State() {
  for (Place* place = first_.load(std::memory_order_relaxed); place != nullptr;) {
    if (const Pool pool = pool_in(*place)) end(*place, *pool);
    delete std::exchange(place, place->next);
  }
}

EventPools::State::Pool EventPools::State::pool_in(Place& place) noexcept {
  const std::lock_guard lock(changing_pools);
  if (place.id.load(std::memory_order_relaxed) == 0) return nullptr;
  Pool pool(place.pool.load(std::memory_order_relaxed));
  pool->hold();
  return pool;
}

void EventPools::State::end(Place& place, EventPoolState& pool) noexcept {
  {
    const std::lock_guard lock(changing_pools);
    const bool there = place.id.load(std::memory_order_relaxed) != 0;
    if (!there || place.pool.load(std::memory_order_relaxed) != &pool) return; // another thread was first
    place.id.store(0, std::memory_order_relaxed);
  }
  pool.close();
}

void EventPools::State::end_pools_of_lost_contexts() noexcept {
  for (Place* place = first_.load(std::memory_order_acquire); place != nullptr; place = place->next) {
    const Pool pool = pool_in(*place);
    if (pool != nullptr && pool->context_lost()) end(*place, *pool);
  }
}

EventPools::State::Place& EventPools::State::free_place() {
  for (Place* place = first_.load(std::memory_order_relaxed); place != nullptr; place = place->next)
    if (place->id.load(std::memory_order_relaxed) == 0) return *place;
  auto* const place = new Place;
  place->next = first_.load(std::memory_order_relaxed);
  first_.store(place, std::memory_order_release);
  return *place;
}

EventPoolState& EventPools::State::pool_of(CUcontext context, unsigned long long id) {
  if (EventPoolState* const pool = find(id)) return *pool;
  end_pools_of_lost_contexts();
  // Borrowed, so that an owned context can end.
  const Context borrowed = Context::borrow(context, driver_);
  struct Close {
    void operator()(EventPoolState* pool) const noexcept { pool->close(); }
  };
  // Made without the lock, because a driver call may not return.
  std::unique_ptr<EventPoolState, Close> made(new EventPoolState(borrowed, flags_, max_idle_));
  const std::lock_guard lock(changing_pools);
  if (EventPoolState* const pool = find(id)) return *pool; // made by another thread
  Place& place = free_place();
  place.pool.store(made.get(), std::memory_order_relaxed);
  place.id.store(borrowed.id(), std::memory_order_release);
  return *made.release();
}

void EventPools::State::trim() noexcept {
  end_pools_of_lost_contexts();
  for (Place* place = first_.load(std::memory_order_acquire); place != nullptr; place = place->next)
    if (const Pool pool = pool_in(*place)) pool->trim();
}

EventPool::Counters EventPools::State::counters() const noexcept {
  EventPool::Counters sum;
  for (Place* place = first_.load(std::memory_order_acquire); place != nullptr; place = place->next)
    if (const Pool pool = pool_in(*place)) {
      const EventPool::Counters its = pool->counters();
      sum.created += its.created;
      sum.reused += its.reused;
      sum.idle += its.idle;
      sum.high_water += its.high_water;
    }
  return sum;
}

std::size_t EventPools::State::size() const noexcept {
  std::size_t size = 0;
  for (const Place* place = first_.load(std::memory_order_acquire); place != nullptr; place = place->next)
    if (place->id.load(std::memory_order_relaxed) != 0) ++size;
  return size;
}

namespace {

[[noreturn]] void fail_empty_pools(const char* call) {
  throw InvalidContext(
      call,
      "the EventPools is empty, because it was default-constructed or moved from: make it with a Driver");
}

} // namespace

EventPools::EventPools(const Driver& driver, EventFlags flags, std::size_t max_idle)
    : state_(new State(driver, flags, max_idle)) {}

CUresult EventPools::try_create(EventPools& out, const Driver& driver, EventFlags flags,
                                std::size_t max_idle) noexcept {
  return thrown_by([&] { out = EventPools(driver, flags, max_idle); });
}

void EventPools::close() noexcept { delete state_; }

PooledEvent EventPools::acquire_of(CUstream stream) {
  if (state_ != nullptr) [[likely]] {
    State::Found found;
    if (state_->find_context(stream, found)) [[likely]]
      if (EventPoolState* const pool = state_->find(found.id)) [[likely]]
        if (LeasedEvent* const event = pool->take()) [[likely]]
          return PooledEvent(*event);
  }
  return acquire_slow(stream);
}

PooledEvent EventPools::acquire_slow(StreamRef stream) {
  const char* const call = "EventPools::acquire";
  if (state_ == nullptr) fail_empty_pools(call);
  if (stream.context() == nullptr) {
    const State::Found found = state_->context_of(stream.native_handle());
    return PooledEvent(*state_->pool_of(found.handle, found.id).take_slow());
  }
  EventPoolState& pool = pool_for(*stream.context(), call);
  if (!is_default_stream(stream.native_handle()) &&
      state_->context_of(stream.native_handle()).id != stream.context()->id())
    throw ContextMismatch(
        call, "the stream does not belong to the context: pass the context of the stream, or none");
  LeasedEvent* const event = pool.take();
  return PooledEvent(event != nullptr ? *event : *pool.take_slow());
}

CUresult EventPools::try_acquire(PooledEvent& out, StreamRef stream) noexcept {
  return thrown_by([&] { out = acquire(stream); });
}

EventPoolState& EventPools::pool_for(const Context& context, const char* call) {
  if (state_ == nullptr) fail_empty_pools(call);
  require_context(context, call);
  if (context.driver() != state_->driver())
    throw ContextMismatch(call,
                          "the context and the pools belong to different drivers: make one EventPools for "
                          "each driver");
  if (const CUresult lost = context.status(); lost != CUDA_SUCCESS) context.driver().fail(lost, "cuCtxGetId");
  return state_->pool_of(context.native_handle(), context.id());
}

void EventPools::wait_stream(StreamRef later, StreamRef earlier) {
  const char* const call = "EventPools::wait_stream";
  if (state_ == nullptr) fail_empty_pools(call);
  if (later.native_handle() == earlier.native_handle()) {
    const Context *const first = later.context(), *const second = earlier.context();
    if (first == second || (first != nullptr && second != nullptr && *first == *second)) return;
  }
  if (later.context() != nullptr) require_context(*later.context(), call);
  const PooledEvent event = acquire(earlier);
  event.record(earlier);
  // Without a context, a default stream would be one of the event's context.
  if (later.context() == nullptr && is_default_stream(later.native_handle()))
    event.wait({Context::current(state_->driver()), later.native_handle()});
  else
    event.wait(later);
}

CUresult EventPools::try_wait_stream(StreamRef later, StreamRef earlier) noexcept {
  return thrown_by([&] { wait_stream(later, earlier); });
}

void EventPools::reserve(const Context& context, std::size_t count) {
  pool_for(context, "EventPools::reserve").reserve(count);
}

CUresult EventPools::try_reserve(const Context& context, std::size_t count) noexcept {
  return thrown_by([&] { reserve(context, count); });
}

void EventPools::trim() noexcept {
  if (state_ != nullptr) state_->trim();
}

EventPool::Counters EventPools::counters(const Context& context) const noexcept {
  if (state_ == nullptr || context.driver() != state_->driver()) return {};
  EventPoolState* const pool = context ? state_->find(context.id()) : nullptr;
  return pool != nullptr ? pool->counters() : EventPool::Counters();
}

EventPool::Counters EventPools::counters() const noexcept {
  return state_ != nullptr ? state_->counters() : EventPool::Counters();
}

std::size_t EventPools::size() const noexcept { return state_ != nullptr ? state_->size() : 0; }

}} // namespace cuevent::CUEVENT_ABI
