// SPDX-License-Identifier: MIT
// What the launch of a graph does with memory: as the graph was captured, or as calls have built it.
#pragma once

#include "rules/finding.hpp"
#include "rules/memory.hpp"
#include "rules/order_effects.hpp"

#include <unordered_map>

namespace watch {

/// What one submission uses.
struct Used : HostEffects {
  std::vector<Access> accesses; // without points
  /// Of a copy: other contexts in which memory was allocated that it uses.
  std::vector<Handle> contexts = {};

  void add(const Used& other);
  /// The same bytes need to be compared once only.
  void drop_repeated();
};

/// A node that a call has added.
struct BuiltNode {
  Used used;
  std::vector<std::size_t> after; // the nodes before it, by their index
};

struct GraphWork {
  bool is_known = true; // false: it may wait, store or use anything
  bool is_built = false;
  Used used;                     // of all nodes, after gather()
  std::vector<Finding> findings; // between the branches of a captured graph; not reported yet
  std::vector<BuiltNode> nodes;  // of a graph that calls have built

  void add_node(Handle node, Used used_by_it, const std::vector<Handle>& after);
  void add_dependency(Handle from, Handle to);
  /// Returns whether the node is in this graph.
  bool change_node(Handle node, Used used_by_it);
  /// If a node was added or changed since the last time: a launch comes after many changes.
  void gather();
  /// A graph with the same nodes, which have other handles.
  GraphWork clone() const;

  /// Pairs of copies and memsets of nodes that nothing orders: they overlap, and one of them writes.
  std::vector<std::pair<Access, Access>> unordered_copies() const;

private:
  std::vector<bool> nodes_before(std::size_t node) const;

  std::unordered_map<Handle, std::size_t> index_;
  bool is_stale_ = false;
};

} // namespace watch
