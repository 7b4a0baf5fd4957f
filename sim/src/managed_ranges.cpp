// SPDX-License-Identifier: MIT
#include "managed_ranges.hpp"

namespace cuevent::sim {

RangeState ManagedRanges::at(std::size_t offset) const {
  const auto next = starts_.upper_bound(offset);
  return next == starts_.begin() ? RangeState{} : std::prev(next)->second;
}

std::vector<RangeState> ManagedRanges::over(std::size_t offset, std::size_t bytes) const {
  std::vector<RangeState> states = {at(offset)};
  for (auto part = starts_.upper_bound(offset); part != starts_.end() && part->first < offset + bytes; ++part)
    states.push_back(part->second);
  return states;
}

} // namespace cuevent::sim
