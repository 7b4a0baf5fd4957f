// SPDX-License-Identifier: MIT
#include <cuevent/event_pools.hpp>

#include "core/failure.hpp"
#include "core/refusal.hpp"
#include "core/require_context.hpp"
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

EventPools::State::Place* EventPools::State::free_place() noexcept {
  for (Place* place = first_.load(std::memory_order_relaxed); place != nullptr; place = place->next)
    if (place->id.load(std::memory_order_relaxed) == 0) return place;
  auto* const place = new (std::nothrow) Place;
  if (place == nullptr) return nullptr;
  place->next = first_.load(std::memory_order_relaxed);
  first_.store(place, std::memory_order_release);
  return place;
}

Status EventPools::State::pool_of(EventPoolState*& out, CUcontext context, unsigned long long id) noexcept {
  out = find(id);
  if (out != nullptr) return {};
  end_pools_of_lost_contexts();
  Context borrowed; // so that an owned context can end
  const CUresult result = context != nullptr ? Context::try_borrow(borrowed, context, driver_)
                                             : Context::try_current(borrowed, driver_);
  if (result != CUDA_SUCCESS) return {result, context != nullptr ? "cuCtxGetId" : "cuCtxGetCurrent"};
  out = find(borrowed.id()); // `id` found none, but what counts is the id of the events' context
  if (out != nullptr) return {};
  // Made without the lock, because a driver call may not return.
  EventPoolState* pool = nullptr;
  if (const Status status = EventPoolState::make(pool, borrowed, flags_, fresh_, max_idle_); !status)
    return status;
  struct Close {
    void operator()(EventPoolState* pool) const noexcept { pool->close(); }
  };
  std::unique_ptr<EventPoolState, Close> made(pool);
  const std::lock_guard lock(changing_pools);
  out = find(borrowed.id());
  if (out != nullptr) return {}; // made by another thread
  Place* const place = free_place();
  if (place == nullptr) return {CUDA_ERROR_OUT_OF_MEMORY, "EventPools::acquire"};
  out = made.release();
  place->pool.store(out, std::memory_order_relaxed);
  place->id.store(borrowed.id(), std::memory_order_release);
  return {};
}

Status EventPools::State::lease(LeasedEvent*& out, Found found) noexcept {
  EventPoolState* pool = nullptr;
  const Status status = pool_of(pool, found.handle, found.id);
  return status ? pool->take_any(out) : status;
}

Status EventPools::State::pool_for(EventPoolState*& out, const Context& context, const char* call) noexcept {
  if (!context) return {CUDA_ERROR_INVALID_CONTEXT, call};
  if (context.driver() != driver_) return {CUDA_ERROR_INVALID_HANDLE, call};
  if (const CUresult lost = context.status(); lost != CUDA_SUCCESS) return {lost, "cuCtxGetId"};
  return pool_of(out, context.native_handle(), context.id());
}

Status EventPools::State::pool_for(EventPoolState*& out, StreamRef stream, const char* call) noexcept {
  const Context* const named = stream.context();
  if (named != nullptr)
    if (const Status status = pool_for(out, *named, call); !status) return status;
  if (named != nullptr && is_default_stream(stream.native_handle())) return {};
  Found found;
  if (const Status status = find_context(stream.native_handle(), found); !status) return status;
  if (named != nullptr) return found.id == named->id() ? Status() : Status(CUDA_ERROR_INVALID_HANDLE, call);
  return pool_of(out, found.handle, found.id);
}

void EventPools::State::trim() noexcept {
  end_pools_of_lost_contexts();
  for (Place* place = first_.load(std::memory_order_acquire); place != nullptr; place = place->next)
    if (const Pool pool = pool_in(*place)) pool->trim();
}

EventPool::Counters EventPools::State::counters(unsigned long long id) const noexcept {
  EventPoolState* const pool = find(id);
  return pool != nullptr ? pool->counters() : EventPool::Counters();
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

constexpr const char* acquire_event = "EventPools::acquire";
constexpr const char* reserve_in_pools = "EventPools::reserve";
constexpr const char* wait_in_pools = "EventPools::wait_stream";

[[noreturn]] void fail_empty_pools(const char* call) {
  throw_error(
      CUDA_ERROR_INVALID_CONTEXT, call,
      "the EventPools is empty, because it was default-constructed or moved from: make it with a Driver");
}

/// What is wrong with a context that the caller named, if anything.
void require_driver_of(const Context& context, const Driver& driver, const char* call) {
  require_context(context, call);
  if (context.driver() != driver)
    throw_error(ErrorCause::context_mismatch, call,
                "the context and the pools belong to different drivers: make one EventPools for "
                "each driver");
}

} // namespace

EventPools::EventPools(const Driver& driver, EventFlags flags, FreshLease fresh, std::size_t max_idle)
    : state_(new State(driver, flags, fresh, max_idle)) {}

CUresult EventPools::try_create(EventPools& out, const Driver& driver, EventFlags flags, FreshLease fresh,
                                std::size_t max_idle) noexcept {
  EventPools pools;
  pools.state_ = new (std::nothrow) State(driver, flags, fresh, max_idle);
  if (pools.state_ == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  out = std::move(pools);
  return CUDA_SUCCESS;
}

void EventPools::close() noexcept { delete state_; }

PooledEvent EventPools::acquire_of(CUstream stream) {
  if (State* const state = state_; state != nullptr) [[likely]] {
    State::Found found;
    if (const Status status = state->find_context(stream, found); !status) [[unlikely]]
      fail_acquire(status.result, status.call, stream);
    if (EventPoolState* const pool = state->find(found.id)) [[likely]]
      if (LeasedEvent* const event = pool->take()) [[likely]]
        return PooledEvent(*event);
    LeasedEvent* event = nullptr;
    if (const Status status = state->lease(event, found); !status) [[unlikely]]
      fail_acquire(status.result, status.call, stream);
    return PooledEvent(*event);
  }
  fail_empty_pools(acquire_event);
}

PooledEvent EventPools::acquire_slow(StreamRef stream) {
  PooledEvent event;
  const CUresult result = lease_slow(event, stream);
  if (result != CUDA_SUCCESS) fail_acquire(result, stream);
  return event;
}

CUresult EventPools::try_acquire(PooledEvent& out, StreamRef stream) noexcept {
  return state_ != nullptr ? lease_slow(out, stream) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult EventPools::lease_slow(PooledEvent& out, StreamRef stream) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  EventPoolState* pool = nullptr;
  LeasedEvent* event = nullptr;
  Status status = state_->pool_for(pool, stream, acquire_event);
  if (status) status = pool->take_any(event);
  if (!status) return noted(state_, status);
  out = PooledEvent(*event);
  return CUDA_SUCCESS;
}

void EventPools::fail_acquire(CUresult result, const char* call, CUstream stream) const {
  fail_acquire(noted(state_, {result, call}), stream);
}

void EventPools::fail_acquire(CUresult result, StreamRef stream) const {
  if (state_ == nullptr) fail_empty_pools(acquire_event);
  if (stream.context() != nullptr) require_driver_of(*stream.context(), state_->driver(), acquire_event);
  const char* const call = refused_call(state_, result, acquire_event);
  if (result == CUDA_ERROR_INVALID_HANDLE && stream.context() != nullptr && is_call(call, acquire_event))
    throw_error(ErrorCause::context_mismatch, call,
                "the stream does not belong to the context: pass the context of the stream, or none");
  fail_to_take(state_->driver(), result, call, state_->flags());
}

void EventPools::wait_stream(StreamRef later, StreamRef earlier) {
  const CUresult result = try_wait_stream(later, earlier);
  if (result != CUDA_SUCCESS) fail_wait_stream(result, later, earlier);
}

CUresult EventPools::try_wait_stream(StreamRef later, StreamRef earlier) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (later.native_handle() == earlier.native_handle()) {
    const Context *const first = later.context(), *const second = earlier.context();
    if (first == second || (first != nullptr && second != nullptr && *first == *second)) return CUDA_SUCCESS;
  }
  if (later.context() != nullptr && !*later.context())
    return noted(state_, {CUDA_ERROR_INVALID_CONTEXT, wait_in_pools});
  PooledEvent event;
  CUresult result = lease_slow(event, earlier);
  if (result != CUDA_SUCCESS) return result;
  result = event.try_record(earlier);
  if (result != CUDA_SUCCESS) return noted(state_, {result, "cuEventRecord"});
  Context current; // without a context, a default stream would be one of the event's context
  if (later.context() == nullptr && is_default_stream(later.native_handle())) {
    result = Context::try_current(current, state_->driver());
    if (result != CUDA_SUCCESS) return noted(state_, {result, "cuCtxGetCurrent"});
    later = {current, later.native_handle()};
  }
  return noted(state_, {event.try_wait(later), "cuStreamWaitEvent"});
}

void EventPools::fail_wait_stream(CUresult result, StreamRef later, StreamRef earlier) const {
  if (state_ == nullptr) fail_empty_pools(wait_in_pools);
  const char* const call = refused_call(state_, result, wait_in_pools);
  if (later.context() != nullptr && is_call(call, wait_in_pools)) require_context(*later.context(), call);
  EventPoolState* pool = nullptr;
  const bool of_event = is_call(call, "cuEventRecord") || is_call(call, "cuStreamWaitEvent");
  if (!of_event || !state_->pool_for(pool, earlier, call)) fail_acquire(result, earlier);
  Context current;
  if (later.context() == nullptr && is_default_stream(later.native_handle()) &&
      Context::try_current(current, state_->driver()) == CUDA_SUCCESS)
    later = {current, later.native_handle()};
  fail_to_wait(*pool, result, call, later, earlier);
}

void EventPools::reserve(const Context& context, std::size_t count) {
  const CUresult result = try_reserve(context, count);
  if (result != CUDA_SUCCESS) fail_reserve(result, context, count);
}

CUresult EventPools::try_reserve(const Context& context, std::size_t count) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  EventPoolState* pool = nullptr;
  Status status = state_->pool_for(pool, context, reserve_in_pools);
  if (status) status = pool->reserve(count);
  return noted(state_, status);
}

void EventPools::fail_reserve(CUresult result, const Context& context, std::size_t count) const {
  if (state_ == nullptr) fail_empty_pools(reserve_in_pools);
  require_driver_of(context, state_->driver(), reserve_in_pools);
  fail_to_reserve(state_->driver(), result, refused_call(state_, result, reserve_in_pools), state_->flags(),
                  count, state_->max_idle());
}

void EventPools::trim() noexcept {
  if (state_ != nullptr) state_->trim();
}

EventPool::Counters EventPools::counters(const Context& context) const noexcept {
  if (state_ == nullptr || !context || context.driver() != state_->driver()) return {};
  return state_->counters(context.id());
}

EventPool::Counters EventPools::counters(CUcontext context) const noexcept {
  if (state_ == nullptr || context == nullptr) return {}; // to the driver, null is the current context
  unsigned long long id = 0;
  const CUresult result = state_->driver().table().cuCtxGetId_v12000(context, &id);
  return result == CUDA_SUCCESS ? state_->counters(id) : EventPool::Counters();
}

EventPool::Counters EventPools::counters() const noexcept {
  return state_ != nullptr ? state_->counters() : EventPool::Counters();
}

std::size_t EventPools::size() const noexcept { return state_ != nullptr ? state_->size() : 0; }

}} // namespace cuevent::CUEVENT_ABI
