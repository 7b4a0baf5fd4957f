// SPDX-License-Identifier: MIT
// What fences and semaphores ask before they use stream memory operations. Internal to the library.
#pragma once

#include "core/capture_state.hpp"

#include <cuevent/context.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Memory operations in a capture would become nodes, and store the same value at each launch.
inline CUresult refuse_capture(const DriverTable& table, CUstream stream) noexcept {
  const CaptureState capture = capture_state(table, stream);
  return capture.capturing() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : capture.result;
}

/// For a refused memory operation. The memory ends with the context, and the driver then blames the address.
[[gnu::cold]] inline CUresult end_or(CUresult refused, const Context& context) noexcept {
  const CUresult lost = context.status();
  return lost != CUDA_SUCCESS ? lost : refused;
}

/// Whether the device of the current context has 64-bit memory operations.
inline CUresult can_write_64_bits(const DriverTable& table, bool& can) noexcept {
  CUdevice device = 0;
  int value = 0;
  CUresult result = table.cuCtxGetDevice_v2000(&device);
  if (result == CUDA_SUCCESS)
    // The older attribute ..._V1 describes the operations before CUDA 11.7.
    result =
        table.cuDeviceGetAttribute_v2000(&value, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device);
  can = value != 0;
  return result;
}

}} // namespace cuevent::CUEVENT_ABI
