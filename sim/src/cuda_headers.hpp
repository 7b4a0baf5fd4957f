// SPDX-License-Identifier: MIT
#pragma once

// cuda.h renames functions to their newest variants. The simulator implements every variant under
// its own name. Its sources are therefore compiled with __CUDA_API_VERSION_INTERNAL, which turns
// the renaming off.
#if !defined(__CUDA_API_VERSION_INTERNAL)
#error "the simulator's sources are compiled with -D__CUDA_API_VERSION_INTERNAL"
#endif
#include <cuda.h>
#include <cudaTypedefs.h>
