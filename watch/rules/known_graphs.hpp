// SPDX-License-Identifier: MIT
// The graphs and executable graphs whose work is known: captured ones, and those that calls have built.
#pragma once

#include "rules/graph_work.hpp"
#include "rules/work_kinds.hpp"
#include "rules/world.hpp"

#include <functional>

namespace watch {

class KnownGraphs {
public:
  explicit KnownGraphs(const World& world) : world_(world) {}

  /// What a capture that is under way has put into its graph.
  GraphWork& captured(const std::shared_ptr<Capture>& capture);
  /// What a launch does. Null: that is not known.
  const GraphWork* launched(Handle exec);

  /// A call makes, changes or ends graphs. `use` tells what its node uses. Returns the work of a graph that
  /// the call has instantiated, if it is known.
  GraphWork* see(const Call& call, const std::vector<Part>& parts, const std::function<Used()>& use);

private:
  void end_capture(const Call& call);
  void clone(const Call& call);
  GraphWork* instantiate(const Call& call);
  void add_node(const Call& call, const std::vector<Part>& parts, const std::function<Used()>& use);
  void change_exec(const Call& call, const std::function<Used()>& use);
  void change_edges(const Call& call, const std::vector<Part>& parts);
  void change_node(const Call& call, const Used& used);

  const World& world_;
  std::map<std::shared_ptr<const Capture>, GraphWork> captures_;          // that may not be over
  std::unordered_map<Handle, std::shared_ptr<GraphWork>> graphs_, execs_; // no work: not known
};

} // namespace watch
