// SPDX-License-Identifier: MIT
#include <cuevent/driver_event.hpp>
#include <cuevent/error.hpp>
#include <cuevent/event_ref.hpp>

#include "core/capture_state.hpp"
#include "core/event_errors.hpp"
#include "core/event_family.hpp"
#include "core/failure.hpp"
#include "core/on_stream.hpp"
#include "core/push_context.hpp"
#include "core/require_context.hpp"
#include "core/retired_events.hpp"
#include "core/stream_context.hpp"

#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

/// If the context is gone, the driver would look for its events in freed memory. The handle is a
/// reference, so that it needs no register during the first call.
[[gnu::always_inline]] inline CUresult destroy_in(const Context& context, const CUevent& event) noexcept {
  const CUresult lost = context.status();
  return lost != CUDA_SUCCESS ? lost : context.driver().table().cuEventDestroy_v4000(event);
}

} // namespace

CUresult DriverEvent::create_slow(CUresult asked) noexcept {
  // Does the work of a ContextGuard, without the checks that a scope with other code needs.
  const DriverTable& driver = table();
  CUresult result = push_context(context_, asked);
  if (result != CUDA_SUCCESS) return result;
  result = driver.cuEventCreate_v2000(&event_, driver_flags(flags_));
  CUcontext popped = nullptr;
  if (const CUresult pop = driver.cuCtxPopCurrent_v4000(&popped); pop != CUDA_SUCCESS) [[unlikely]]
    report_error(pop, "cuCtxPopCurrent");
  return result;
}

CUresult DriverEvent::try_create(DriverEvent& out, const Context& context, EventFlags flags) noexcept {
  DriverEvent event(context, nullptr, flags, Ownership::borrowed);
  const CUresult result = event.create(flags);
  if (result != CUDA_SUCCESS) return result;
  event.ownership_ = Ownership::owned;
  out = std::move(event);
  return result;
}

CUresult DriverEvent::record_in_context(StreamRef stream, RecordFlags flags) noexcept {
  if (event_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult result = check_context(context_, stream.context_or(context_));
  if (result != CUDA_SUCCESS) return result;
  return on_stream(context_, stream.native_handle(),
                   [&] { return call_record(stream.native_handle(), flags); });
}

CUresult DriverEvent::wait_in_context(StreamRef stream, WaitFlags flags) const noexcept {
  if (event_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Context& context = stream.context_or(context_);
  const CUresult result = check_driver(context_, context);
  if (result != CUDA_SUCCESS) return result;
  return on_stream(context, stream.native_handle(), [&] { return call_wait(stream.native_handle(), flags); });
}

CUresult DriverEvent::wait_interprocess(CUstream stream, WaitFlags flags) const noexcept {
  const auto wait = [&] { return table().cuStreamWaitEvent_v3020(stream, event_, unsigned(flags)); };
  // With a flag, the driver refuses the call or adds a node. During capture, the driver refuses
  // the event. The driver checks the contexts later, and crashes if they are not in one family.
  if (flags != WaitFlags::none) return wait();
  const CaptureState capture = capture_state(table(), stream);
  if (capture.result != CUDA_SUCCESS) return capture.result;
  if (capture.capturing()) return wait();
  CUresult result = context_.status();
  if (result != CUDA_SUCCESS) return result;
  CUcontext context = nullptr;
  result = table().cuStreamGetCtx_v9020(stream, &context);
  if (result == CUDA_SUCCESS && context != context_.native_handle())
    result = check_family(context_, [&](DriverEvent& event) { return event.call_record(stream, {}); });
  return result == CUDA_SUCCESS ? wait() : result;
}

CUresult DriverEvent::record_as_captured(CUstream stream) noexcept {
  const CaptureState capture = capture_state(table(), stream);
  if (capture.result != CUDA_SUCCESS) return capture.result;
  return call_record(stream, capture.capturing() ? RecordFlags::external : RecordFlags::none);
}

CUresult DriverEvent::wait_as_captured(CUstream stream) const noexcept {
  const CaptureState capture = capture_state(table(), stream);
  if (capture.result != CUDA_SUCCESS) return capture.result;
  return call_wait(stream, capture.capturing() ? WaitFlags::external : WaitFlags::none);
}

CUresult DriverEvent::try_close() noexcept {
  if (event_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Context context = context_; // keeps the context until the event is destroyed
  const bool owned = ownership_ == Ownership::owned;
  CUevent const event = release();
  return owned ? destroy_in(context, event) : CUDA_SUCCESS;
}

void DriverEvent::destroy() noexcept {
  if (has(flags_, EventFlags::retire) || retire_scopes != 0) [[unlikely]]
    return retire(std::move(*this));
  report_end(destroy_in(context_, event_), "cuEventDestroy");
}

DriverEvent EventAccess::owner_of_plain_events(const DriverTable& table) noexcept {
  return DriverEvent(Context(Driver(table), nullptr, 0), nullptr, EventFlags::none, Ownership::borrowed);
}

CUevent DriverEvent::release() noexcept {
  CUevent const event = event_;
  ownership_ = Ownership::borrowed; // the swapped-out object must destroy nothing
  DriverEvent empty;
  swap(empty);
  return event;
}

void DriverEvent::swap(DriverEvent& other) noexcept {
  context_.swap(other.context_);
  std::swap(event_, other.event_);
  std::swap(flags_, other.flags_);
  std::swap(ownership_, other.ownership_);
  const auto moved = static_cast<short>((checks_ ^ other.checks_) & interprocess);
  checks_ = static_cast<short>(checks_ ^ moved);
  other.checks_ = static_cast<short>(other.checks_ ^ moved);
}

}} // namespace cuevent::CUEVENT_ABI
