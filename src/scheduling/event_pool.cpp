// SPDX-License-Identifier: MIT
#include <cuevent/event_pool.hpp>

#include "core/failure.hpp"
#include "core/refusal.hpp"
#include "core/require_context.hpp"
#include "scheduling/event_pool_state.hpp"

#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

void fail_empty_pool(const char* call) {
  fail(CUDA_ERROR_INVALID_CONTEXT, call,
       "the EventPool is empty, because it was default-constructed or moved from: make it with a Context");
}

void Lease::give_back(LeasedEvent& event) noexcept {
  if (event.exported) [[unlikely]]
    event.pool->retire(&event);
  else
    event.pool->give_back(&event);
}

DriverEvent PooledEvent::detach() && noexcept {
  if (!*this) return {};
  LeasedEvent& leased = leased_event();
  DriverEvent event = std::move(static_cast<DriverEvent&>(leased));
  leased.pool->forget(&leased);
  forget();
  return event;
}

EventPool::EventPool(const Context& context, EventFlags flags, FreshLease fresh, std::size_t max_idle) {
  const CUresult result = try_create(*this, context, flags, fresh, max_idle);
  if (result != CUDA_SUCCESS) fail_create(result, context, flags);
}

CUresult EventPool::try_create(EventPool& out, const Context& context, EventFlags flags, FreshLease fresh,
                               std::size_t max_idle) noexcept {
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  EventPool pool;
  const Status status = EventPoolState::make(pool.state_, context, flags, fresh, max_idle);
  if (status) out = std::move(pool);
  return noted(nullptr, status);
}

void EventPool::fail_create(CUresult result, const Context& context, EventFlags flags) {
  const char* const call = "EventPool";
  require_context(context, call);
  fail_to_take(context.driver(), result, refused_call(nullptr, result, call), flags);
}

void EventPool::close() noexcept { state_->close(); }

PooledEvent EventPool::acquire() {
  if (state_ != nullptr) [[likely]]
    if (LeasedEvent* const event = state_->take()) [[likely]]
      return PooledEvent(*event);
  return acquire_slow();
}

PooledEvent EventPool::acquire_slow() {
  PooledEvent event;
  const CUresult result = try_acquire(event);
  if (result != CUDA_SUCCESS) fail_acquire(result);
  return event;
}

CUresult EventPool::try_acquire(PooledEvent& out) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  LeasedEvent* event = nullptr;
  if (const Status status = state_->take_any(event); !status) [[unlikely]]
    return noted(state_, status);
  out = PooledEvent(*event);
  return CUDA_SUCCESS;
}

void EventPool::fail_acquire(CUresult result) const {
  const char* const call = "EventPool::acquire";
  if (state_ == nullptr) fail_empty_pool(call);
  fail_to_take(state_->context.driver(), result, refused_call(state_, result, "cuEventCreate"),
               state_->flags);
}

void EventPool::trim() noexcept {
  if (state_ != nullptr) state_->trim();
}

EventPool::Counters EventPool::counters() const noexcept {
  return state_ != nullptr ? state_->counters() : Counters();
}

Context EventPool::context() const noexcept { return state_ != nullptr ? state_->context : Context(); }
EventFlags EventPool::flags() const noexcept { return state_ != nullptr ? state_->flags : EventFlags::none; }
std::size_t EventPool::max_idle() const noexcept { return state_ != nullptr ? state_->max_idle : 0; }
FreshLease EventPool::fresh() const noexcept {
  return state_ != nullptr ? state_->fresh() : FreshLease::refuses;
}

}} // namespace cuevent::CUEVENT_ABI
