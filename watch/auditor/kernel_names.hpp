// SPDX-License-Identifier: MIT
// The names under which the program looks up its kernels: Region::names.
#pragma once

#include <cstdint>

namespace watch {

/// The program has found this kernel. A longer name is cut; without room, the kernel has no name.
void name_kernel(std::uint64_t handle, const char* name);

/// A function that belongs to a kernel has the kernel's name.
void copy_kernel_name(std::uint64_t from, std::uint64_t to);

} // namespace watch
