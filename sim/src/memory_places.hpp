// SPDX-License-Identifier: MIT
// Where memory is, and of which kind: enumerators of later headers than those of CUDA 12.0.
#pragma once

#include "cuda_headers.hpp"

namespace cuevent::sim::place {

inline constexpr auto none = static_cast<CUmemLocationType>(0);              // CU_MEM_LOCATION_TYPE_NONE
inline constexpr auto host = static_cast<CUmemLocationType>(2);              // CU_MEM_LOCATION_TYPE_HOST
inline constexpr auto host_numa = static_cast<CUmemLocationType>(3);         // CU_MEM_LOCATION_TYPE_HOST_NUMA
inline constexpr auto host_numa_current = static_cast<CUmemLocationType>(4); // the same with _CURRENT

inline constexpr auto managed = static_cast<CUmemAllocationType>(2);      // CU_MEM_ALLOCATION_TYPE_MANAGED
inline constexpr auto fabric = static_cast<CUmemAllocationHandleType>(8); // CU_MEM_HANDLE_TYPE_FABRIC
inline constexpr int shareable = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | fabric; // on Linux

/// Whether the place is the host. The simulated computer has one NUMA node. The place of the host needs no
/// number.
inline bool is_of_host(const CUmemLocation& where) {
  return where.type == host || (where.type == host_numa && where.id == 0);
}

} // namespace cuevent::sim::place
