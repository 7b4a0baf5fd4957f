// SPDX-License-Identifier: MIT
#include <cuevent/event_ref.hpp>

#include "core/capture_state.hpp"
#include "core/event_errors.hpp"
#include "core/failure.hpp"
#include "core/kept_table.hpp"
#include "core/on_stream.hpp"
#include "core/require_context.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

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

} // namespace

constinit const DriverEvent EventAccess::none_;

void fail_unrecorded(const char* call, const char* which) {
  fail(ErrorCause::never_recorded, call, "%s was not recorded since it was acquired: call record() first",
       which);
}

EventRef::EventRef(CUevent event, const Driver& driver) noexcept : EventRef() {
  if (event == nullptr || !driver) return;
  event_ = event;
  owner_ = const_cast<DriverEvent*>(&static_cast<const KeptTable&>(driver.table()).of_plain_events);
}

const DriverEvent* EventAccess::fresh() const noexcept {
  return static_cast<const PoolEvent*>(owner_)->fresh; // only leases are ever unrecorded
}

bool EventAccess::refuses() const noexcept { return unrecorded() && fresh() == nullptr; }

DriverEvent EventAccess::readable() const noexcept {
  if (!unrecorded()) return borrowed();
  const DriverEvent* const fresh = this->fresh();
  if (fresh == nullptr) return {};
  return DriverEvent(fresh->context_, fresh->event_, fresh->flags_, Ownership::borrowed);
}

CUresult EventAccess::query_fresh() const noexcept { return readable().try_query(); }
CUresult EventAccess::synchronize_fresh() const noexcept { return readable().try_synchronize(); }

DriverEvent EventAccess::borrowed() const noexcept {
  return DriverEvent(owner_->context_, event_, owner_->flags_, Ownership::borrowed);
}

template <class Call>
CUresult EventAccess::on_plain(StreamRef stream, const Call& call) const noexcept {
  const Context* const context = stream.context();
  if (context == nullptr) return call(); // a default stream is then one of the current context
  const CUresult result = check_driver(owner_->context_, *context);
  return result == CUDA_SUCCESS ? on_stream(*context, stream.native_handle(), call) : result;
}

CUresult EventAccess::record_otherwise(StreamRef stream, RecordFlags flags) const noexcept {
  if (plain()) return on_plain(stream, [&] { return borrowed().call_record(stream.native_handle(), flags); });
  if (!leased()) return owner_->try_record(stream, flags);
  CUresult result = flags == RecordFlags::none ? CUDA_SUCCESS : check_context(owner_->context_, stream);
  if (result == CUDA_SUCCESS) result = check_lease_flags(owner_->context_, stream.native_handle(), flags);
  if (result == CUDA_SUCCESS) result = owner_->try_record(stream);
  if (result == CUDA_SUCCESS) note_record();
  return result;
}

CUresult EventAccess::wait_otherwise(StreamRef stream, WaitFlags flags) const noexcept {
  if (plain()) return on_plain(stream, [&] { return borrowed().call_wait(stream.native_handle(), flags); });
  const DriverEvent* const event = unrecorded() ? fresh() : owner_;
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!leased()) return event->try_wait(stream, flags);
  const Context& context = stream.context_or(owner_->context_);
  CUresult result = flags == WaitFlags::none ? CUDA_SUCCESS : check_driver(owner_->context_, context);
  if (result == CUDA_SUCCESS) result = check_lease_flags(context, stream.native_handle(), flags);
  return result == CUDA_SUCCESS ? event->try_wait(stream) : result;
}

void EventAccess::fail_record(CUresult result, StreamRef stream, RecordFlags flags) const {
  if (leased() && flags != RecordFlags::none && result == CUDA_ERROR_NOT_SUPPORTED)
    fail_lease("cuEventRecordWithFlags");
  borrowed().fail_record(result, stream, flags);
}

void EventAccess::fail_wait(CUresult result, StreamRef stream, WaitFlags flags) const {
  const char* const call = "cuStreamWaitEvent";
  if (refuses()) fail_unrecorded(call);
  if (leased() && flags != WaitFlags::none && result == CUDA_ERROR_NOT_SUPPORTED) fail_lease(call);
  borrowed().fail_wait(result, stream, flags);
}

void EventAccess::fail_query(CUresult result, const char* call) const {
  if (refuses()) fail_unrecorded(call);
  borrowed().fail_query(result, call);
}

}} // namespace cuevent::CUEVENT_ABI
