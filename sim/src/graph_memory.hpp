// SPDX-License-Identifier: MIT
#pragma once

#include "process.hpp"

#include <cstddef>
#include <memory>
#include <set>

namespace cuevent::sim {

/// What one allocation node allocates. The address is the same in all launches. Nodes of any graph can name
/// the memory. Other calls can while a launch has allocated it and nothing has freed it: then it is one of
/// the allocations of the process.
struct GraphMemory {
  Allocation named; ///< as calls see it that build nodes
  std::unique_ptr<std::byte[]> block;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  unsigned long long home = 0;             ///< the number of the graph that has the allocation node
  std::set<unsigned long long> freed_in{}; ///< the numbers of the graphs that have a free node for it
};

} // namespace cuevent::sim
