// SPDX-License-Identifier: MIT
// A driver library from before CUDA 11.3, which has no cuGetProcAddress. OLD_DRIVER_VERSION is its version.
// Without the variable, the question for the version fails.
#include <cuda.h>

#include <cstdlib>

extern "C" [[gnu::visibility("default")]] CUresult CUDAAPI cuDriverGetVersion(int* version) {
  const char* const number = std::getenv("OLD_DRIVER_VERSION");
  if (number == nullptr) return CUDA_ERROR_UNKNOWN;
  *version = std::atoi(number);
  return CUDA_SUCCESS;
}
