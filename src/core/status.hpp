// SPDX-License-Identifier: MIT
// The one error channel inside the library. Inside the library only.
#pragma once

#include <cuda.h>

namespace cuevent {

/// What came of some driver calls, and which of them did not succeed.
struct Status {
  CUresult result = CUDA_SUCCESS;
  const char* call = "";

  explicit operator bool() const noexcept { return result == CUDA_SUCCESS; }
};

} // namespace cuevent
