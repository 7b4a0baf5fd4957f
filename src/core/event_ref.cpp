// SPDX-License-Identifier: MIT
#include <cuevent/event_ref.hpp>

#include "core/capture_state.hpp"
#include "core/event_errors.hpp"
#include "core/kept_table.hpp"
#include "core/on_stream.hpp"

namespace cuevent {

namespace {

[[noreturn]] void fail_unrecorded(const char* call, const char* which = "the event") {
  throw NeverRecorded(
      call, (std::string(which) + " was not recorded since it was acquired: call record() first").c_str());
}

/// A lease cannot be part of a graph. Returns CUDA_SUCCESS if `flags` mean none for `stream`, a stream
/// of `context`.
template <class Flags>
CUresult check_lease_flags(const Context& context, CUstream stream, Flags flags) noexcept {
  if (flags == Flags::none) return CUDA_SUCCESS;
  if (flags != Flags::external_in_capture) return CUDA_ERROR_NOT_SUPPORTED;
  return on_stream(context, stream, [&] {
    const CaptureState capture = capture_state(context.driver().table(), stream);
    return capture.capturing() ? CUDA_ERROR_NOT_SUPPORTED : capture.result;
  });
}

[[noreturn]] void fail_lease_flags(const char* call) {
  throw NotSupported(call, "a lease cannot have external records or waits, because the graph would outlive "
                           "it: use PooledEvent::detach() or a DriverEvent");
}

} // namespace

constinit const DriverEvent EventRef::none_;

EventRef::EventRef(CUevent event, const Driver& driver) noexcept : EventRef() {
  if (event == nullptr || !driver) return;
  event_ = event;
  owner_ = const_cast<DriverEvent*>(&static_cast<const KeptTable&>(driver.table()).of_plain_events);
}

DriverEvent EventRef::owner_of_plain_events(const DriverTable& table) noexcept {
  return DriverEvent(Context(Driver(table), nullptr, 0), nullptr, EventFlags::none, Ownership::borrowed);
}

DriverEvent EventRef::borrowed() const noexcept {
  return DriverEvent(owner_->context_, event_, owner_->flags_, Ownership::borrowed);
}

CUresult EventRef::record_otherwise(CUstream stream, RecordFlags flags) const noexcept {
  // For a plain event, a default stream is one of the current context.
  if (plain()) return borrowed().call_record(stream, flags);
  if (!leased()) return owner_->try_record(stream, flags);
  CUresult result = check_lease_flags(owner_->context_, stream, flags);
  if (result == CUDA_SUCCESS) result = owner_->try_record(stream);
  if (result == CUDA_SUCCESS) note_record();
  return result;
}

CUresult EventRef::wait_otherwise(CUstream stream, WaitFlags flags) const noexcept {
  if (plain()) return borrowed().call_wait(stream, flags);
  if (unrecorded()) return CUDA_ERROR_INVALID_HANDLE;
  if (!leased()) return owner_->try_wait(stream, flags);
  const CUresult result = check_lease_flags(owner_->context_, stream, flags);
  return result == CUDA_SUCCESS ? owner_->try_wait(stream) : result;
}

void EventRef::record(const Context& context, CUstream stream, RecordFlags flags) const {
  if (const CUresult result = try_record(context, stream, flags); result != CUDA_SUCCESS)
    fail_record(result, stream, flags, &context);
}

CUresult EventRef::try_record(const Context& context, CUstream stream, RecordFlags flags) const noexcept {
  if (plain()) {
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (context.driver() != driver()) return CUDA_ERROR_INVALID_HANDLE;
    return on_stream(context, stream, [&] { return try_record(stream, flags); });
  }
  if (!leased()) return owner_->try_record(context, stream, flags);
  CUresult result = check_lease_flags(owner_->context_, stream, flags);
  if (result == CUDA_SUCCESS) result = owner_->try_record(context, stream);
  if (result == CUDA_SUCCESS) note_record();
  return result;
}

void EventRef::wait(const Context& context, CUstream stream, WaitFlags flags) const {
  if (const CUresult result = try_wait(context, stream, flags); result != CUDA_SUCCESS)
    fail_wait(result, stream, flags, &context);
}

CUresult EventRef::try_wait(const Context& context, CUstream stream, WaitFlags flags) const noexcept {
  if (plain()) {
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (context.driver() != driver()) return CUDA_ERROR_INVALID_HANDLE;
    return on_stream(context, stream, [&] { return try_wait(stream, flags); });
  }
  if (!leased()) return owner_->try_wait(context, stream, flags);
  if (unrecorded()) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult result = check_lease_flags(context, stream, flags);
  return result == CUDA_SUCCESS ? owner_->try_wait(context, stream) : result;
}

bool EventRef::query_relaxed() const {
  const CUresult result = try_query_relaxed();
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) fail_query(result, "cuEventQuery");
  return result == CUDA_SUCCESS;
}

CUresult EventRef::try_query_relaxed() const noexcept {
  if (unrecorded()) return CUDA_ERROR_INVALID_HANDLE;
  return borrowed().try_query_relaxed();
}

bool EventRef::synchronize_for(TimeLimit timeout) const { return synchronize_until(Deadline(timeout)); }

bool EventRef::synchronize_until(Deadline deadline) const {
  const CUresult result = try_synchronize_until(deadline);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) fail_query(result, "cuEventQuery");
  return result == CUDA_SUCCESS;
}

CUresult EventRef::try_synchronize_for(TimeLimit timeout) const noexcept {
  return try_synchronize_until(Deadline(timeout));
}

CUresult EventRef::try_synchronize_until(Deadline deadline) const noexcept {
  if (unrecorded()) return CUDA_ERROR_INVALID_HANDLE;
  return borrowed().try_synchronize_until(deadline);
}

void EventRef::fail_record(CUresult result, CUstream stream, RecordFlags flags,
                           const Context* context) const {
  if (leased() && flags != RecordFlags::none && result == CUDA_ERROR_NOT_SUPPORTED)
    fail_lease_flags("cuEventRecordWithFlags");
  borrowed().fail_record(result, stream, flags, context);
}

void EventRef::fail_wait(CUresult result, CUstream stream, WaitFlags flags, const Context* context) const {
  const char* const call = "cuStreamWaitEvent";
  if (unrecorded()) fail_unrecorded(call);
  if (leased() && flags != WaitFlags::none && result == CUDA_ERROR_NOT_SUPPORTED) fail_lease_flags(call);
  borrowed().fail_wait(result, stream, flags, context);
}

void EventRef::fail_query(CUresult result, const char* call) const {
  if (unrecorded()) fail_unrecorded(call);
  borrowed().fail_query(result, call);
}

void EventRef::fail_elapsed(CUresult result, const EventRef& end) const {
  const char* const call = "cuEventElapsedTime";
  if (unrecorded()) fail_unrecorded(call, "the start event");
  if (end.unrecorded()) fail_unrecorded(call, "the end event");
  borrowed().fail_elapsed(result, end.borrowed());
}

} // namespace cuevent
