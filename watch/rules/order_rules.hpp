// SPDX-License-Identifier: MIT
// The rules of `cuevent watch --order`.
#pragma once

#include "rules/finding.hpp"
#include "rules/unseen_memory.hpp"
#include "rules/world.hpp"

namespace watch {

/// What the rules could not see.
struct OrderBlindness {
  unsigned long kernels = 0;  // launches without information about parameters
  unsigned long launches = 0; // of graphs that were not captured, or were changed
  unsigned long frees = 0;    // of memory of pools that it did see
  unsigned long blocks = 0;   // of PyTorch's allocator that it did see
  unsigned long sources = 0;  // of copies that nobody looked at until the copies began
  unsigned long targets = 0;  // of copies that the host might use too early, and nobody would see it
  unsigned long pairs = 0;    // of kernels that are candidates, and were not kept
  UnseenMemory memory;
};

struct OrderOptions {
  bool all = false;                // also what is only possible
  bool candidates = false;         // also what is not reported, but may be tried
  OrderBlindness* blind = nullptr; // counts up; lives longer than the rules
};

std::shared_ptr<Observer> order_rules(const World& world, Report report, OrderOptions options);

} // namespace watch
