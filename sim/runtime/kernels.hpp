// SPDX-License-Identifier: MIT
// The code that nvcc registers at the start of a program: kernels and variables, by the address that stands
// for them in the program.
#pragma once

#include "runtime.hpp"

#include <cstddef>

namespace cuevent::sim::runtime {

/// A handle of the driver that the runtime gives to programs, which pass it instead of an address.
enum class Handle { kernel, function };
void handle_is_known(const void* handle, Handle);

/// Most calls say this of an address that stands for no kernel, and invalid_device_function of null.
inline constexpr Error unknown_kernel = CUDA_ERROR_INVALID_HANDLE;

/// What the driver's launches take.
Error launchable(const void* kernel, CUfunction&);

/// The kernel's function in the current context.
Error function_of(const void* kernel, CUfunction&);

/// Where a variable of the device is in the current context. invalid_symbol if there is none.
Error variable(const void* symbol, CUdeviceptr*, std::size_t* bytes);

} // namespace cuevent::sim::runtime
