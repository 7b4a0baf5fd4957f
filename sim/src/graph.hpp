// SPDX-License-Identifier: MIT
#pragma once

#include "context.hpp"
#include "object.hpp"
#include "operation.hpp"
#include "user_object.hpp"

#include <map>
#include <memory>
#include <span>
#include <vector>

namespace cuevent::sim {

struct Conditional;
struct ConditionalHandle;
struct Graph;

struct Node : Object {
  Graph* graph = nullptr;
  Work work;
  std::vector<Node*> after;
  unsigned long long original = 0; ///< the number of the node of which this one is a clone
  CUgraphNode original_handle = nullptr;
};

struct Graph : Object {
  std::vector<std::shared_ptr<Node>> nodes; ///< in order of creation
  bool child = false;                       ///< belongs to a node of another graph
  bool body = false;                        ///< belongs to a conditional node
  bool lost = false;                        ///< the same, and a failed capture has destroyed the graph
  bool names_memory = false; ///< it has had a node that allocates or frees, or such a node was refused
  UserObjectReferences user_objects;
  std::shared_ptr<std::vector<ConditionalHandle>> conditional_handles; ///< null before the first one
  std::weak_ptr<Object> only_exec;                                     ///< of a graph with memory nodes
};

bool is_of_memory(CUgraphNodeType); ///< it allocates or frees
const std::shared_ptr<GraphMemory>& graph_memory_of(const Work&);

const Conditional* conditional_of(const Work&); ///< null for other nodes

/// None for other nodes than conditional ones.
std::span<const std::shared_ptr<Graph>> bodies_of(const Work&);

/// Of a graph, for conditional nodes.
std::size_t handles_of(const Graph&);
/// Of the handle that the node's work has, or 0.
unsigned initial_value(const Graph&, const Work&);
/// The user objects of the graph and of the bodies in it.
void share_user_objects(const Graph&, UserObjectReferences& with);
bool has_unused_handle(const Graph&); ///< one that no conditional node has

/// What keeps an exec from taking the second work for the first.
CUgraphExecUpdateResult hindrance(const Work&, const Work&);

/// An instantiated graph. It is a copy: later changes of the graph do not affect the exec, and
/// changes of the exec do not affect the graph.
struct Exec : Object {
  struct Step {
    unsigned long long node = 0; ///< the number of the graph's node that the step was made from
    Work work;
    std::vector<std::size_t> after; ///< earlier steps
    std::size_t inside = 0;         ///< of a child graph: so many steps before this one are its own
    bool enabled = true;
    std::vector<std::vector<Step>> bodies{}; ///< of a conditional node
    unsigned initial = 0;                    ///< the value of its handle at the start of a launch
    bool of_child = false;                   ///< its handle is one of a child graph
  };
  struct Body {
    std::vector<Step> steps;                                ///< in topological order
    bool has_memory = false;                                ///< some of them allocate or free
    std::size_t handles = 0;                                ///< of the graph, for conditional nodes
    bool is_conditional = false;                            ///< it, a child graph, or both have such nodes
    std::map<unsigned long long, unsigned> chosen_values{}; ///< which a control call has set
    /// An update replaces them. A running launch keeps those that it started with, even after the exec is
    /// destroyed.
    std::shared_ptr<UserObjectReferences> user_objects = std::make_shared<UserObjectReferences>();
    std::shared_ptr<Operation> last_launch; ///< launches of one exec run one after another
  };
  std::shared_ptr<Body> body;
  unsigned long long flags = 0;
  Birthplace home;
};

/// What a launch runs: the bodies of conditional nodes as often as their handles say.
std::vector<Exec::Step> running_steps(const Exec::Body&);

} // namespace cuevent::sim
