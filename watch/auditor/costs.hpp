// SPDX-License-Identifier: MIT
// With Feature::costs, how long calls took that make or free memory, and copies of memory that is pageable:
// records of them come next to the record of the call, see spent_entry.
#pragma once

#include "auditor/libraries.hpp"
#include "protocol/protocol.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace watch {

/// A copy on a stream that takes less has not waited.
inline constexpr std::uint64_t shortest_wait_us = 10;

// The memory that a call has made, or has freed: its first argument.
template <class... More>
std::uint64_t memory_of(CUdeviceptr* made, More...) {
  return *made;
}
template <class... More>
std::uint64_t memory_of(void** made, More...) {
  return reinterpret_cast<std::uintptr_t>(*made);
}
template <class... More>
std::uint64_t memory_of(CUdeviceptr memory, More...) {
  return memory;
}
template <class... More>
std::uint64_t memory_of(void* memory, More...) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

/// Whether the driver knows nothing of this memory. It is asked in a way that never fails.
bool is_pageable(const Library& library, std::uint64_t memory);

// Whether a copy on a stream reads or writes memory that is pageable. The overloads take the arguments of the
// driver's functions; other functions copy no such memory, or read it later.
template <class... Arguments>
bool copies_pageable(const Library&, Arguments...) {
  return false;
}
bool copies_pageable(const Library& library, CUdeviceptr to, CUdeviceptr from, std::size_t, CUstream);
bool copies_pageable(const Library& library, CUdeviceptr to, const void* from, std::size_t, CUstream);
bool copies_pageable(const Library& library, void* to, CUdeviceptr from, std::size_t, CUstream);
bool copies_pageable(const Library& library, void* to, CUarray, std::size_t, std::size_t, CUstream);
bool copies_pageable(const Library& library, CUarray, std::size_t, const void* from, std::size_t, CUstream);
bool copies_pageable(const Library& library, const CUDA_MEMCPY2D* copy, CUstream);
bool copies_pageable(const Library& library, const CUDA_MEMCPY3D* copy, CUstream);

} // namespace watch
