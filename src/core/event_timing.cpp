// SPDX-License-Identifier: MIT
#include <cuevent/event_ref.hpp>

#include "core/driver_log.hpp"
#include "core/event_errors.hpp"
#include "core/failure.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

void DriverEvent::fail_elapsed(CUresult result, const DriverEvent& end) const {
  const char* const call = "cuEventElapsedTime";
  const KeepLog keep;
  const struct {
    const DriverEvent& event;
    const char* name;
  } both[] = {{*this, "the start event"}, {end, "the end event"}};

  for (const auto& [event, name] : both)
    if (!event) fail_empty(call, name);
  const bool known = context_ && end.context_; // not if only a CUevent is known
  if (result == CUDA_ERROR_INVALID_HANDLE) {
    for (const auto& [event, name] : both)
      if (event.context_ && !has(event.flags(), EventFlags::timing))
        fail(ErrorCause::timing_disabled, call, "%s was made without timing: make it with EventFlags::timing",
             name);
    if (known && context_ != end.context_) {
      const bool one_driver = context_.driver() == end.context_.driver();
      fail(ErrorCause::context_mismatch, call,
           "the start event belongs to %s and the end event to %s%s: time between two events of one context",
           ContextName(context_).text, ContextName(end.context_).text,
           one_driver ? "" : " of another driver");
    }
  }
  // The elapsed time from a recorded event to itself is 0. Asking about each event alone therefore
  // tells which event the driver refused.
  for (const auto& [event, name] : both) {
    float none = 0;
    const CUresult alone = event.table().cuEventElapsedTime_v12080(&none, event.event_, event.event_);
    if (result == CUDA_ERROR_INVALID_HANDLE && alone == result && !event.context_)
      fail(result, call,
           "%s was never recorded, or was made without timing: call record() first, and make it with timing",
           name);
    if (result == CUDA_ERROR_INVALID_HANDLE && alone == result)
      fail(ErrorCause::never_recorded, call, "%s was never recorded: call record() first", name);
    if (result == CUDA_ERROR_INVALID_VALUE && alone == result) fail_recorded_in_capture(call, name);
  }
  if (result == CUDA_ERROR_INVALID_HANDLE && !known)
    fail(ErrorCause::context_mismatch, call,
         "the events belong to different contexts: time between two events of one context");
  context_.driver().fail(result, call);
}

void EventAccess::fail_elapsed(CUresult result, const EventAccess& end) const {
  const char* const call = "cuEventElapsedTime";
  if (unrecorded()) fail_unrecorded(call, "the start event");
  if (end.unrecorded()) fail_unrecorded(call, "the end event");
  borrowed().fail_elapsed(result, end.borrowed());
}

}} // namespace cuevent::CUEVENT_ABI
