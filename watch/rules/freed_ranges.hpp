// SPDX-License-Identifier: MIT
// Addresses of memory that was freed, and not allocated again yet.
#pragma once

#include "rules/memory.hpp"

#include <map>
#include <optional>
#include <vector>

namespace watch {

class FreedRanges {
public:
  /// `free` is of a stream-ordered free: the driver orders an allocation behind the frees of what was there
  /// before.
  void add(const Allocation& freed, std::optional<OrderMark> free);
  /// The frees that an allocation comes after. The range is in use then.
  std::vector<OrderMark> take(std::uint64_t begin, std::uint64_t size);

  struct Range {
    std::uint64_t size;
    Identity memory;
    Origin origin;
    bool of_host;
    std::optional<OrderMark> free;
  };
  /// The range that begins there, and the one that holds the address, or null.
  const Range* beginning_at(std::uint64_t address) const;
  const Range* holding(std::uint64_t address) const;

private:
  std::map<std::uint64_t, Range> ranges_;       // by their begin
  std::size_t without_stream_ = 0;              // ranges of frees that are not stream-ordered
  std::map<std::uint32_t, OrderMark> unplaced_; // of each stream, the last free that found no room
};

} // namespace watch
