// SPDX-License-Identifier: MIT
// What the rules of the order know of work by its kind.
#pragma once

#include "rules/memory.hpp"

#include <vector>

namespace watch {

/// A record of memory: see MemoryPart.
struct Part {
  MemoryPart kind;
  std::uint64_t words[3];
};

/// Nodes of these kinds are known, and what they use.
bool is_known_node(Work work);
/// Work whose use of memory is not told.
bool is_opaque(const Call& call, const std::vector<Part>& parts);
/// The allocation itself, which comes before all uses.
bool is_allocation(const Access& access);
/// "a copy".
const char* verb_of(const Access& access);

} // namespace watch
