// SPDX-License-Identifier: MIT
// Checks whether a stream is being captured. Internal to the library.
#pragma once

#include <cuevent/driver.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The capture state of a stream. Reading the state is harmless in every capture mode. A default
/// stream belongs to the current context.
struct CaptureState {
  CUresult result;
  CUstreamCaptureStatus status; // CU_STREAM_CAPTURE_STATUS_NONE if the driver reported none

  bool capturing() const noexcept { return status != CU_STREAM_CAPTURE_STATUS_NONE; }
  bool invalidated() const noexcept { return status == CU_STREAM_CAPTURE_STATUS_INVALIDATED; }
};

/// Driver function: cuStreamIsCapturing.
inline CaptureState capture_state(const DriverTable& table, CUstream stream) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = table.cuStreamIsCapturing_v10000(stream, &status);
  return {result, result == CUDA_SUCCESS ? status : CU_STREAM_CAPTURE_STATUS_NONE};
}

}} // namespace cuevent::CUEVENT_ABI
