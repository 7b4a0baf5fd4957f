// SPDX-License-Identifier: MIT
// What a program has said about ranges of managed memory, by advice and by prefetching.
#pragma once

#include "memory_places.hpp"

#include <cstddef>
#include <map>
#include <vector>

namespace cuevent::sim {

/// A place as range attributes show it.
struct ShownPlace {
  CUmemLocationType type = place::none;
  int id = -2; ///< -1: the host

  bool operator==(const ShownPlace&) const = default;
};

struct RangeState {
  bool read_mostly = false;
  ShownPlace preferred, prefetched;
  unsigned accessed_by_devices = 0; ///< one bit each
  bool accessed_by_host = false;
};

/// The state of each page of an allocation. Offsets are in bytes. A change applies to whole pages.
class ManagedRanges {
public:
  template <class Change>
  void change(std::size_t offset, std::size_t bytes, Change change) {
    const std::size_t begin = offset / page * page, end = (offset + bytes + page - 1) / page * page;
    split(end);
    split(begin);
    for (auto part = starts_.find(begin); part != starts_.end() && part->first < end; ++part)
      change(part->second);
  }
  RangeState at(std::size_t offset) const;
  std::vector<RangeState> over(std::size_t offset, std::size_t bytes) const;

private:
  static constexpr std::size_t page = 4096;
  void split(std::size_t offset) { starts_.emplace(offset, at(offset)); }

  std::map<std::size_t, RangeState> starts_; ///< each state goes on until the next begins
};

} // namespace cuevent::sim
