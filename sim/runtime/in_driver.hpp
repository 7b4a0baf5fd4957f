// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>

namespace cuevent::sim {

/// Calls the function of the driver that has this signature since a version of CUDA. Headers may be older.
template <class Function, class... Arguments>
CUresult in_driver(const char* name, int version, Arguments... arguments) {
  void* function = nullptr;
  const CUresult found = cuGetProcAddress(name, &function, version, 0, nullptr);
  if (found != CUDA_SUCCESS || function == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return reinterpret_cast<Function*>(function)(arguments...);
}

} // namespace cuevent::sim
