// SPDX-License-Identifier: MIT
// Kernels of two streams that get a pointer to the same memory, and that nothing orders. Nothing tells
// whether one of them writes, so each pair is a candidate, for `--jitter` to try.
#pragma once

#include "rules/finding.hpp"
#include "rules/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace watch {

/// How likely the pair is a mistake that a hold shows: the smallest first. Whether the second kernel comes
/// too late for any hold; whether a copy or a fill has written the memory, so that both kernels may only read
/// it; whether a pointer is none to its begin; and the time between the two.
std::uint64_t rank_of(const Access& earlier, const Access& later, const Allocation& allocation);

class KernelPairs {
public:
  static constexpr std::size_t kept = 1024; // pairs of places in the program

  /// `make` makes the finding, which is kept if it is the likeliest or the last one of its two places.
  /// Returns whether there is room.
  template <class Make>
  bool add(std::uint64_t rank, const Access& earlier, const Access& later, Make make) {
    const auto places = std::pair(earlier.site.stack, later.site.stack);
    auto known = pairs_.find(places);
    if (known == pairs_.end()) {
      if (pairs_.size() >= kept) return false;
      known = pairs_.try_emplace(places).first;
      known->second = {rank, 0, make(), make()};
    }
    Pair& pair = known->second;
    if (++pair.count == 1) return true;
    if (rank < pair.rank) {
      pair.rank = rank;
      pair.likeliest = make();
    } else {
      pair.last = make();
    }
    return true;
  }

  /// Those of each two places, the likeliest first.
  void report_to(const Report& report);

private:
  struct Pair {
    std::uint64_t rank = 0;
    unsigned long count = 0;
    Finding likeliest, last;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, Pair> pairs_; // by their stacks
};

} // namespace watch
