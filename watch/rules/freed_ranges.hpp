// SPDX-License-Identifier: MIT
// Memory of pools that was freed, and not used again yet.
#pragma once

#include "order/order.hpp"

#include <map>
#include <vector>

namespace watch {

/// The driver orders an allocation behind the frees of what was there before.
class FreedRanges {
public:
  void add(std::uint64_t begin, std::uint64_t size, OrderMark free);
  /// The frees that an allocation comes after. The range is in use then.
  std::vector<OrderMark> take(std::uint64_t begin, std::uint64_t size);

private:
  struct Range {
    std::uint64_t size;
    OrderMark free;
  };
  std::map<std::uint64_t, Range> ranges_;       // by their begin
  std::map<std::uint32_t, OrderMark> unplaced_; // of each stream, the last free that found no room
};

} // namespace watch
