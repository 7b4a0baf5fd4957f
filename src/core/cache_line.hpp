// SPDX-License-Identifier: MIT
// The size of a cache line. Internal to the library.
#pragma once

#include <cuevent/version.hpp>

#include <cstddef>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Data that different threads write is this many bytes apart.
/// std::hardware_destructive_interference_size would become part of the ABI.
inline constexpr std::size_t cache_line = 64;

}} // namespace cuevent::CUEVENT_ABI
