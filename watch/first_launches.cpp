// SPDX-License-Identifier: MIT
#include "first_launches.hpp"

#include <atomic>

namespace watch {

namespace {

constexpr std::uint64_t word_count = 256;

std::atomic<std::uint64_t> launched[word_count]; // a bit for each hash

} // namespace

bool is_first_launch(std::uint64_t function) {
  const std::uint64_t hash = (function * 0x9E37'79B9'7F4A'7C15U) >> 40U;
  std::atomic<std::uint64_t>& word = launched[(hash >> 6U) % word_count];
  const std::uint64_t bit = std::uint64_t{1} << (hash & 63U);
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return false;
  return (word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
}

} // namespace watch
