// SPDX-License-Identifier: MIT
#pragma once

// cuda.h renames functions to their newest variant. The simulator implements every variant under its own
// name, so its sources are compiled with __CUDA_API_VERSION_INTERNAL, which switches the renaming off.
#if !defined(__CUDA_API_VERSION_INTERNAL)
#error "the simulator's sources are compiled with -D__CUDA_API_VERSION_INTERNAL"
#endif
#include <cuda.h>
#include <cudaTypedefs.h>
