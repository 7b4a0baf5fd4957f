// SPDX-License-Identifier: MIT
#pragma once

#include "graph.hpp"

#include <memory>
#include <vector>

namespace cuevent::sim {

/// Its name is CU_GRAPH_NODE_TYPE_CONDITIONAL in the headers since CUDA 12.3.
inline constexpr auto conditional_type = static_cast<CUgraphNodeType>(13);

/// As in CUgraphConditionalNodeType.
enum class Choice { if_else = 0, loop = 1, one_of = 2 };

/// What a conditional node asks for the body to run. Kernels would set it. Handles are numbers from 1 on, in
/// order of creation. A graph and the bodies in it have their handles in common.
struct ConditionalHandle {
  CUcontext context = nullptr;
  unsigned initial = 0;       ///< the value at the start of a launch
  std::weak_ptr<Node> node{}; ///< that uses it; expired before that is made, and once it is destroyed
};

/// A conditional node.
struct Conditional {
  Choice choice{};
  cuuint64_t handle = 0;
  CUcontext context = nullptr;
  std::vector<std::shared_ptr<Graph>> bodies{};
  std::vector<CUgraph> given{}; ///< their handles, where the program reads them
};

} // namespace cuevent::sim
