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

// As in cudaProfilerTypedefs.h, which not every installation has.
using PFN_cuProfilerInitialize_v4000 = CUresult(CUDAAPI*)(const char*, const char*, int);
using PFN_cuProfilerStart_v4000 = CUresult(CUDAAPI*)();
using PFN_cuProfilerStop_v4000 = CUresult(CUDAAPI*)();
