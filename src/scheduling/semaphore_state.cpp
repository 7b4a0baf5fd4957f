// SPDX-License-Identifier: MIT
#include "scheduling/semaphore_state.hpp"

#include "core/erase_where.hpp"
#include "core/relaxed_mode.hpp"
#include "core/result_of.hpp"
#include "scheduling/memory_operations.hpp"
#include "scheduling/semaphore_guard.hpp"

#include <algorithm>
#include <new>

namespace cuevent { inline namespace CUEVENT_ABI {

static_assert(sizeof(cuevent_timeline_page) == cuevent_timeline_bytes);

bool PendingSignals::add(unsigned long long stream, std::uint64_t value) {
  const std::lock_guard lock(mutex_);
  if (cuevent_timeline_is_abandoned(&page_)) return false;
  const auto newest = std::find_if(signals_.rbegin(), signals_.rend(),
                                   [&](const Signal& each) { return each.stream == stream; });
  if (newest != signals_.rend() && newest->value > value) return false;
  if (signals_.size() == signals_.capacity()) { // not each time, because that would look at all signals
    forget_reached();
    signals_.reserve(2 * signals_.size() + 8);
  }
  signals_.push_back({.stream = stream, .value = value});
  return true;
}

void PendingSignals::remove(std::uint64_t value) noexcept {
  const std::lock_guard lock(mutex_);
  erase_where(signals_, [&](const Signal& each) { return each.value == value; });
}

bool PendingSignals::none() noexcept {
  const std::lock_guard lock(mutex_);
  forget_reached();
  return signals_.empty();
}

void PendingSignals::forget_reached() noexcept {
  const std::uint64_t now = cuevent_timeline_value(&page_);
  // Asked last: a stream that was released by force may have signalled before another one.
  if (cuevent_timeline_is_abandoned(&page_)) return;
  erase_where(signals_, [&](const Signal& each) { return each.value <= now; });
}

void abandon_if_died(SemaphoreState& state) noexcept {
  if (state.abandon_on_death.load(std::memory_order_relaxed) && !state.abandoned() &&
      cuevent_timeline_participant_died(&state.timeline) != 0)
    cuevent_timeline_abandon(&state.page());
}

namespace {

/// Pins the page, for all contexts of this process. The context must be current. After a failure,
/// the page may stay registered: unregistering could wait for all work of the context.
CUresult register_page(SemaphoreState& state) noexcept {
  const DriverTable& table = *state.table;
  void* const page = state.timeline.page;
  RelaxedMode relaxed(table);
  CUresult result = relaxed.enter();
  bool wide = false;
  if (result == CUDA_SUCCESS) result = can_write_64_bits(table, wide);
  if (result != CUDA_SUCCESS) return result;
  if (!wide) return CUDA_ERROR_NOT_SUPPORTED;
  Semaphores::instance().free_ended(state);
  constexpr unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  result = table.cuMemHostRegister_v6050(page, cuevent_timeline_bytes, flags);
  if (result != CUDA_SUCCESS) return result;
  state.registered = true;
  CUdeviceptr address = 0;
  result = table.cuMemHostGetDevicePointer_v3020(&address, page, 0);
  if (result != CUDA_SUCCESS) return result;
  // Streams of other devices use the same address, so it has to be the host's.
  return address == reinterpret_cast<std::uintptr_t>(page) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/// Leaves the caller's descriptor as it was, after an import that failed.
void give_back(cuevent_timeline& timeline) noexcept {
  cuevent_timeline_expect_again(&timeline);
  timeline.lock = -1; // not closed
}

CUresult register_and_add(const Context& context, SemaphoreState& state, bool guarded) noexcept {
  CUresult result =
      result_of([&] { return Semaphores::instance().add(state) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY; });
  if (result != CUDA_SUCCESS) return result;
  {
    const ContextGuard guard(context, result);
    if (result == CUDA_SUCCESS) result = register_page(state);
    if (result == CUDA_SUCCESS && guarded && !Semaphores::instance().guard(state))
      result = CUDA_ERROR_OPERATING_SYSTEM;
  }
  return result;
}

} // namespace

CUresult close_semaphore(const Context& context, SemaphoreState& state) noexcept {
  CUresult result = CUDA_SUCCESS;
  const ContextGuard guard(context, result);
  RelaxedMode relaxed(*state.table); // in other modes, unpinning breaks a capture
  if (result == CUDA_SUCCESS) result = relaxed.enter();
  if (result == CUDA_SUCCESS) result = state.table->cuMemHostUnregister_v4000(state.timeline.page);
  if (result != CUDA_SUCCESS) return result;
  state.registered = false;
  Semaphores::instance().retire(state);
  return result;
}

CUresult result_of_page(int error) noexcept {
  switch (error) {
  case 0:
    return CUDA_SUCCESS;
  case EINVAL:
    return CUDA_ERROR_INVALID_VALUE;
  case EPROTONOSUPPORT:
    return CUDA_ERROR_NOT_SUPPORTED;
  case EBUSY:
    return CUDA_ERROR_INVALID_HANDLE;
  case ECANCELED:
    return CUDA_ERROR_ILLEGAL_STATE;
  case ENOMEM:
  case ENOSPC:
    return CUDA_ERROR_OUT_OF_MEMORY;
  default:
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
}

namespace {

/// `open` makes or joins the page, and returns 0 or an errno.
template <class Open>
PageResult open_semaphore(const Context& context, bool imported, SemaphoreState*& out, Open open) noexcept {
  if (!context) return {CUDA_ERROR_INVALID_CONTEXT};
  if (const CUresult result = context.status(); result != CUDA_SUCCESS) return {result};
  if (!Semaphores::are_made()) return {CUDA_ERROR_OUT_OF_MEMORY};
  cuevent_timeline timeline{};
  if (const int error = open(timeline); error != 0) return {result_of_page(error), error};
  SemaphoreState* const state = new (std::nothrow) SemaphoreState(context, timeline);
  const CUresult result =
      state == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : register_and_add(context, *state, imported);
  if (result == CUDA_SUCCESS) {
    out = state;
    return {};
  }
  if (imported) give_back(state != nullptr ? state->timeline : timeline);
  if (state == nullptr)
    cuevent_timeline_close(&timeline);
  else
    Semaphores::instance().retire(*state);
  return {result};
}

} // namespace

PageResult make_semaphore(const Context& context, std::uint64_t initial, SemaphoreState*& out) noexcept {
  return open_semaphore(context, false, out, [&](cuevent_timeline& timeline) {
    return -cuevent_timeline_create(&timeline, initial);
  });
}

PageResult import_semaphore(const Context& context, int descriptor, SemaphoreState*& out) noexcept {
  return open_semaphore(context, true, out, [&](cuevent_timeline& timeline) {
    return -cuevent_timeline_open(&timeline, descriptor);
  });
}

}} // namespace cuevent::CUEVENT_ABI
