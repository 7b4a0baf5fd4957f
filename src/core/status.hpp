// SPDX-License-Identifier: MIT
// The error type for internal calls. Internal to the library.
#pragma once

#include <cuda.h>

namespace cuevent {

/// The result of one or more driver calls, and the name of the call that failed.
struct Status {
  CUresult result = CUDA_SUCCESS;
  const char* call = "";

  explicit operator bool() const noexcept { return result == CUDA_SUCCESS; }
};

} // namespace cuevent
