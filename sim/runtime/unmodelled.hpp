// SPDX-License-Identifier: MIT
// What libcuda.so.1 does with a call that is not modelled, for the stand-in for the runtime.
#pragma once

/// Aborts, or returns cudaErrorNotSupported, which has the number of CUDA_ERROR_NOT_SUPPORTED. A function
/// that returns no error code aborts in either case.
extern "C" int cueventUnmodelled(const char* function, const void* caller);

/// Says at the end of a program which kernels ran and computed nothing, unless a report will have them.
extern "C" void cueventTellKernels();
