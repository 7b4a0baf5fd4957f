// SPDX-License-Identifier: MIT
// The kernels of the stand-in, with the names that NCCL's kernels have in a trace.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>

namespace cuevent::sim::nccl {

/// Kernels of transfers have this many pointers as parameters. Further pointers are not shown.
inline constexpr std::size_t shown_transfers = 32;

/// "_Sum_f32", as NCCL names a reduction of values of a type. NCCL uses one kernel for several of them.
std::string reduction_name(int reduction, int type, bool is_pre_mul_sum);

/// Bytes of a value, or 0 if there is no such type.
std::size_t bytes_of(int type);

/// The kernel, such as AllReduce_Sum_f32, whose parameters are two pointers and a count; or SendRecv, whose
/// parameters are pointers. `load_kernels` has made its code ready in the current context.
CUfunction kernel(const std::string& name);
void load_kernels();

} // namespace cuevent::sim::nccl
