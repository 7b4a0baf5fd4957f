// SPDX-License-Identifier: MIT
// Which kernels were launched before. The first launch of a kernel loads its code, which can wait until other
// kernels have ended.
#pragma once

#include <atomic>
#include <cstdint>

namespace watch {

class FirstLaunches {
public:
  /// Whether there was a launch with this handle, or with another one that has the same hash.
  [[gnu::always_inline]] bool were_before(std::uint64_t function) const {
    const std::uint64_t hash = hash_of(function);
    return (words_[hash >> 6U].load(std::memory_order_relaxed) >> (hash & 63U) & 1U) != 0;
  }

  /// Notes a launch. True for the first one with this handle, unless another one with the same hash came
  /// before.
  bool note(std::uint64_t function) {
    if (were_before(function)) [[likely]]
      return false;
    const std::uint64_t hash = hash_of(function), bit = std::uint64_t{1} << (hash & 63U);
    return (words_[hash >> 6U].fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }

private:
  static constexpr std::uint64_t word_count = 256;

  static std::uint64_t hash_of(std::uint64_t function) {
    return ((function * 0x9E37'79B9'7F4A'7C15U) >> 40U) % (word_count * 64);
  }

  std::atomic<std::uint64_t> words_[word_count]; // a bit for each hash of a handle
};

} // namespace watch
