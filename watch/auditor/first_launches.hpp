// SPDX-License-Identifier: MIT
// Which kernels were launched before. The first launch of a kernel loads its code, which can wait until other
// kernels have ended.
#pragma once

#include <atomic>
#include <cstdint>

namespace watch {

inline constexpr std::uint64_t launched_words = 256;
/// A bit for each hash of a handle. For the alignment see meson.build.
alignas(64) inline std::atomic<std::uint64_t> launched[launched_words];

inline std::uint64_t hash_of_launch(std::uint64_t function) {
  return (function * 0x9E37'79B9'7F4A'7C15U) >> 40U;
}

/// Whether there was a launch with this handle, or with another one that has the same hash.
inline bool was_launched(std::uint64_t function) {
  const std::uint64_t hash = hash_of_launch(function);
  return (launched[(hash >> 6U) % launched_words].load(std::memory_order_relaxed) >> (hash & 63U) & 1U) != 0;
}

/// Notes a launch. True for the first one with this handle, unless another one with the same hash came
/// before.
inline bool is_first_launch(std::uint64_t function) {
  if (was_launched(function)) [[likely]]
    return false;
  const std::uint64_t hash = hash_of_launch(function), bit = std::uint64_t{1} << (hash & 63U);
  return (launched[(hash >> 6U) % launched_words].fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
}

} // namespace watch
