// SPDX-License-Identifier: MIT
#pragma once

#include "object.hpp"
#include "operation.hpp"
#include "user_object.hpp"

#include <map>
#include <memory>
#include <vector>

namespace cuevent::sim {

struct Graph;

struct Node : Object {
  Graph* graph = nullptr;
  Work work;
  std::vector<Node*> after;
};

struct Graph : Object {
  std::vector<std::shared_ptr<Node>> nodes; ///< in order of creation
  UserObjectReferences user_objects;
};

/// An instantiated graph: a copy that later changes of the graph do not reach, nor its own changes the graph.
struct Exec : Object {
  struct Step {
    std::uintptr_t node = 0; ///< the graph's node that it was made from
    Work work;
    std::vector<std::size_t> after; ///< earlier steps
  };
  /// What a launch in flight still needs, also once the exec is destroyed.
  struct Body {
    std::vector<Step> steps; ///< in topological order
    UserObjectReferences user_objects;
    std::shared_ptr<Operation> last_launch; ///< launches of one exec run one after the other
  };
  std::shared_ptr<Body> body;
};

} // namespace cuevent::sim
