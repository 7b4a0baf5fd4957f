// SPDX-License-Identifier: MIT
// The classes of the kinds.
#include "core/failure.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

UsageError::~UsageError() = default;
Unsupported::~Unsupported() = default;
CaptureError::~CaptureError() = default;
ContextLost::~ContextLost() = default;
OutOfResources::~OutOfResources() = default;
DeviceFault::~DeviceFault() = default;
DriverUnavailable::~DriverUnavailable() = default;

void throw_kind_of_failure(const Failure& failure) {
  switch (failure.kind) {
  case ErrorKind::usage:
    throw UsageError(failure);
  case ErrorKind::unsupported:
    throw Unsupported(failure);
  case ErrorKind::capture:
    throw CaptureError(failure);
  case ErrorKind::context_lost:
    throw ContextLost(failure);
  case ErrorKind::out_of_resources:
    throw OutOfResources(failure);
  case ErrorKind::device_fault:
    throw DeviceFault(failure);
  case ErrorKind::driver_unavailable:
    throw DriverUnavailable(failure);
  default:
    return;
  }
}

}} // namespace cuevent::CUEVENT_ABI
