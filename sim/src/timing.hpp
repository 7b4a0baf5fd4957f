// SPDX-License-Identifier: MIT
#pragma once

#include "operation.hpp"

#include <cstddef>

// Durations in ns. The proportions are those of one H200. No value is a promise.
namespace cuevent::sim::timing {

inline constexpr Time plain_record = 116;
inline constexpr Time timed_record = 1'250;
inline constexpr Time timestamp_resolution = 32;
inline constexpr Time write_value = 1'780;

inline Time copy(std::size_t bytes) { return 2'000 + static_cast<Time>(bytes / 25); }    // 25 GB/s
inline Time fill(std::size_t bytes) { return 2'000 + static_cast<Time>(bytes / 2'000); } // 2 TB/s

/// What is left of a copy when its call has returned early. A copy of the new bytes on another stream, which
/// begins at once, is done before.
inline Time late_write(std::size_t bytes) { return 2 * copy(bytes); }

} // namespace cuevent::sim::timing
