// SPDX-License-Identifier: MIT
#include "core/failure.hpp"
#include "core/refusal.hpp"
#include "scheduling/event_pool_state.hpp"

#include <algorithm>
#include <cstddef>
#include <mutex>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr const char* reserve_events = "EventPool::reserve";
constexpr std::size_t most_reserved = std::size_t{1} << 31; // documented in EventPool

} // namespace

void EventPool::reserve(std::size_t count) {
  const CUresult result = try_reserve(count);
  if (result != CUDA_SUCCESS) fail_reserve(result, count);
}

CUresult EventPool::try_reserve(std::size_t count) noexcept {
  return state_ != nullptr ? noted(state_, state_->reserve(count)) : CUDA_ERROR_INVALID_CONTEXT;
}

void EventPool::fail_reserve(CUresult result, std::size_t count) const {
  const char* const call = "EventPool::reserve";
  if (state_ == nullptr) fail_empty_pool(call);
  fail_to_reserve(state_->context.driver(), result, refused_call(state_, result, call), state_->flags, count,
                  state_->max_idle);
}

Status EventPoolState::reserve(std::size_t count) noexcept {
  if (count > max_idle || count > most_reserved) return {CUDA_ERROR_INVALID_VALUE, reserve_events};
  while (true) {
    std::size_t missing = 0;
    {
      const std::lock_guard lock(mutex_);
      if (reserve_.size() < count) gather();
      promised_ = std::max(promised_, on_lease(in_caches()) + creating_ + count);
      if (reserve_.size() >= count) return {};
      missing = count - reserve_.size();
    }
    for (; missing > 0; --missing) {
      LeasedEvent* event = nullptr;
      if (const Status status = create(event); !status) return status;
      add_to_reserve(event);
    }
  }
}

void EventPoolState::add_to_reserve(LeasedEvent* event) noexcept {
  {
    const std::lock_guard lock(mutex_);
    count_created();
    if (spare() == 0) gather(); // other threads may have taken room in the meantime
    if (spare() > 0) return reserve_.push_back(event);
  }
  retire(event); // other threads have returned max_idle events
}

void fail_to_reserve(const Driver& driver, CUresult result, const char* call, EventFlags flags,
                     std::size_t count, std::size_t max_idle) {
  if (result == CUDA_ERROR_INVALID_VALUE && is_call(call, reserve_events)) {
    if (count > max_idle)
      fail(CUDA_ERROR_INVALID_VALUE, call,
           "the count is larger than max_idle: make the pool with a larger max_idle");
    if (count > most_reserved)
      fail(CUDA_ERROR_INVALID_VALUE, call,
           "the count is more than 2^31, and each is an event: reserve fewer");
  }
  fail_to_take(driver, result, call, flags);
}

}} // namespace cuevent::CUEVENT_ABI
