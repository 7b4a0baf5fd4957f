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

/// True for the first launch with this handle, unless another one with the same hash came before.
inline bool is_first_launch(std::uint64_t function) {
  const std::uint64_t hash = (function * 0x9E37'79B9'7F4A'7C15U) >> 40U;
  std::atomic<std::uint64_t>& word = launched[(hash >> 6U) % launched_words];
  const std::uint64_t bit = std::uint64_t{1} << (hash & 63U);
  if ((word.load(std::memory_order_relaxed) & bit) != 0) [[likely]]
    return false;
  return (word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
}

} // namespace watch
