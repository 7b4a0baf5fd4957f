// SPDX-License-Identifier: MIT
// The time between two events. Inside the library only.
#pragma once

#include "core/status.hpp"

#include <cuevent/driver_event.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// `nanoseconds` is assigned on success only.
inline Status elapsed(const DriverEvent& from, const DriverEvent& to, double& nanoseconds) noexcept {
  DriverEvent::Milliseconds time;
  const CUresult result = from.try_elapsed_time(time, to);
  if (result == CUDA_SUCCESS) nanoseconds = 1e6 * static_cast<double>(time.count());
  return {result, "cuEventElapsedTime"};
}

}} // namespace cuevent::CUEVENT_ABI
