// SPDX-License-Identifier: MIT
// What a thread knows of memory, in the view-based semantics that explore.hpp describes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace model {

constexpr std::size_t most_locations = 16, most_threads = 4;

/// For each atomic location, the oldest message that may still be read, as an index into the
/// modification order. For each thread, the part of it that happens before this point.
struct View {
  std::array<std::uint8_t, most_locations> seen{};
  std::array<std::uint8_t, most_threads> clock{};

  void join_seen(const View& other) noexcept {
    for (std::size_t i = 0; i < seen.size(); ++i)
      seen[i] = std::max(seen[i], other.seen[i]);
  }
  void join(const View& other) noexcept {
    join_seen(other);
    for (std::size_t i = 0; i < clock.size(); ++i)
      clock[i] = std::max(clock[i], other.clock[i]);
  }
  /// Makes room for a new message in the modification order.
  void insert(std::size_t location, std::size_t at) noexcept {
    if (seen[location] >= at) ++seen[location];
  }
};

/// A value in the modification order of a location.
struct Message {
  std::int64_t value = 0;
  View view;             // what a thread learns by reading the value with acquire
  bool attached = false; // written by an operation that read the message before, so nothing fits between
};

} // namespace model
