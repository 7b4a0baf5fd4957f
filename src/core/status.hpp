// SPDX-License-Identifier: MIT
// The error type for internal calls, and the report of a destructor. Internal to the library.
#pragma once

#include <cuevent/error.hpp>

#include <cuda.h>

namespace cuevent {

/// The result of one or more driver calls, and the name of the call that failed.
struct Status {
  CUresult result = CUDA_SUCCESS;
  const char* call = "";

  explicit operator bool() const noexcept { return result == CUDA_SUCCESS; }
};

/// For destructors: reports a failed `call` to the error hook. A lost context has taken its objects with
/// it, so there is nothing to report.
inline void report_end(CUresult result, const char* call) noexcept {
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_CONTEXT_IS_DESTROYED) [[unlikely]]
    report_error(result, call);
}

} // namespace cuevent
