// SPDX-License-Identifier: MIT
// The classes of the causes.
#include "core/failure.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

Failure failure_of(ErrorCause cause, const char* call, const char* advice) noexcept {
  return {.result = result_for(cause), .call = call, .advice = advice, .cause = cause};
}

} // namespace

#define CUEVENT_CAUSE(cause, Class, Base)                                                                    \
  Class::Class(const char* call, const char* advice_if_known)                                                \
      : Class(failure_of(ErrorCause::cause, call, advice_if_known)) {}                                       \
  Class::Class(const Failure& failure) : Base(failure) {}                                                    \
  Class::~Class() = default;
CUEVENT_CAUSE(empty_event, EmptyEvent, InvalidHandle)
CUEVENT_CAUSE(timing_disabled, TimingDisabled, InvalidHandle)
CUEVENT_CAUSE(never_recorded, NeverRecorded, InvalidHandle)
CUEVENT_CAUSE(context_mismatch, ContextMismatch, InvalidHandle)
CUEVENT_CAUSE(recorded_in_capture, RecordedInCapture, InvalidValue)
CUEVENT_CAUSE(external_outside_capture, ExternalOutsideCapture, IllegalState)
CUEVENT_CAUSE(semaphore_abandoned, SemaphoreAbandoned, IllegalState)
#undef CUEVENT_CAUSE

void throw_cause_of_failure(const Failure& failure) {
  switch (failure.cause) {
  case ErrorCause::empty_event:
    throw EmptyEvent(failure);
  case ErrorCause::timing_disabled:
    throw TimingDisabled(failure);
  case ErrorCause::never_recorded:
    throw NeverRecorded(failure);
  case ErrorCause::context_mismatch:
    throw ContextMismatch(failure);
  case ErrorCause::recorded_in_capture:
    throw RecordedInCapture(failure);
  case ErrorCause::external_outside_capture:
    throw ExternalOutsideCapture(failure);
  case ErrorCause::semaphore_abandoned:
    throw SemaphoreAbandoned(failure);
  case ErrorCause::unknown:
    return;
  }
}

}} // namespace cuevent::CUEVENT_ABI
