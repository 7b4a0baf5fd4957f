// SPDX-License-Identifier: MIT
// The device that the benchmarks of a program use.
#pragma once

#include "driver_at_hand.hpp"

#include <gpu.hpp>

/// Never destroyed, because the driver may go before static objects. Current on the thread of the first call.
inline const gpu::Gpu& gpu_at_hand() {
  static const gpu::Gpu& gpu = *new gpu::Gpu{driver_at_hand()};
  return gpu;
}
