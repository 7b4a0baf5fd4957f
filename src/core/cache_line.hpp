// SPDX-License-Identifier: MIT
// What a processor's cache moves at once. Inside the library only.
#pragma once

#include <cstddef>

namespace cuevent {

/// What different threads write is this far apart. std::hardware_destructive_interference_size would be part of the ABI.
inline constexpr std::size_t cache_line = 64;

} // namespace cuevent
