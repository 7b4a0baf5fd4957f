// SPDX-License-Identifier: MIT
#include "rules/known_graphs.hpp"

namespace watch {

GraphWork& KnownGraphs::captured(const std::shared_ptr<Capture>& capture) {
  if (captures_.find(capture) == captures_.end()) // captures that failed have no end here
    std::erase_if(captures_, [](const auto& each) { return each.first->over; });
  return captures_[capture];
}

const GraphWork* KnownGraphs::launched(Handle exec) {
  const auto found = execs_.find(exec);
  if (found == execs_.end() || !found->second->is_known) return nullptr;
  found->second->gather();
  return found->second.get();
}

GraphWork* KnownGraphs::see(const Call& call, const std::vector<Part>& parts,
                            const std::function<Used()>& use) {
  switch (call.verb()) {
  case Verb::capture_end:
    end_capture(call);
    break;
  case Verb::graph_create:
    graphs_[call.made_graph] = std::make_shared<GraphWork>();
    graphs_[call.made_graph]->is_built = true;
    break;
  case Verb::graph_clone:
    clone(call);
    break;
  case Verb::graph_instantiate:
  case Verb::exec_update:
    return instantiate(call);
  case Verb::exec_set_event:
  case Verb::exec_destroy:
    execs_.erase(call.exec);
    break;
  case Verb::node_set_event: // of which graph is not known
    graphs_.clear();
    break;
  case Verb::node_add:
    add_node(call, parts, use);
    break;
  case Verb::exec_change:
    change_exec(call, use);
    break;
  case Verb::graph_change:
    change_edges(call, parts);
    break;
  case Verb::node_change:
    change_node(call, use());
    break;
  case Verb::node_add_event:
  case Verb::graph_destroy:
    graphs_.erase(call.graph);
    break;
  default:
    break;
  }
  return nullptr;
}

void KnownGraphs::end_capture(const Call& call) {
  const GraphState* const graph = world_.graph(call.made_graph);
  if (graph == nullptr || !graph->capture) return;
  graphs_.erase(call.made_graph);
  auto in = captures_.extract(graph->capture); // empty if no work of the graph uses memory
  if (graph->capture->into_graph) return;
  const auto work = std::make_shared<GraphWork>(in.empty() ? GraphWork() : std::move(in.mapped()));
  work->is_known = graph->capture->is_known;
  work->used.drop_repeated();
  graphs_[call.made_graph] = work;
}

void KnownGraphs::clone(const Call& call) {
  if (const auto work = graphs_.find(call.graph); work != graphs_.end())
    graphs_[call.made_graph] = std::make_shared<GraphWork>(work->second->clone());
  else
    graphs_.erase(call.made_graph);
}

GraphWork* KnownGraphs::instantiate(const Call& call) {
  execs_.erase(call.exec);
  const auto found = graphs_.find(call.graph);
  if (found == graphs_.end()) return nullptr;
  GraphWork& work = *found->second;
  work.gather();
  if (!work.is_known) return nullptr;
  // The graph may change later.
  execs_[call.exec] = work.is_built ? std::make_shared<GraphWork>(work) : found->second;
  return &work;
}

/// The program adds a node to a graph. Only graphs that consist of such nodes are known.
void KnownGraphs::add_node(const Call& call, const std::vector<Part>& parts,
                           const std::function<Used()>& use) {
  const auto found = graphs_.find(call.graph);
  if (found == graphs_.end()) return;
  GraphWork& work = *found->second;
  if (!work.is_built || !is_known_node(call.work())) {
    graphs_.erase(found);
    return;
  }
  std::vector<Handle> after;
  for (const Part& part : parts)
    if (part.kind == MemoryPart::after)
      for (const Handle node : part.words)
        if (node != 0) after.push_back(node);
  work.add_node(call.node, use(), after);
}

void KnownGraphs::change_exec(const Call& call, const std::function<Used()>& use) {
  const auto exec = execs_.find(call.exec);
  if (exec == execs_.end()) return;
  if (exec->second.use_count() > 1) exec->second = std::make_shared<GraphWork>(*exec->second);
  const bool enables = call.work() == Work::any; // or disables: not modelled
  if (enables || !exec->second->change_node(call.node, use())) execs_.erase(exec);
}

void KnownGraphs::change_edges(const Call& call, const std::vector<Part>& parts) {
  const auto graph = graphs_.find(call.graph);
  if (graph == graphs_.end()) return;
  const bool is_addition = graph->second->is_built && call.has(adds_order);
  for (const Part& part : parts)
    if (is_addition) graph->second->add_dependency(part.words[0], part.words[1]);
  if (!is_addition) graphs_.erase(graph);
}

/// Of a graph whose handle the call does not have.
void KnownGraphs::change_node(const Call& call, const Used& used) {
  bool is_known = false;
  if (is_known_node(call.work()))
    for (const auto& [handle, work] : graphs_)
      is_known = is_known || work->change_node(call.node, used);
  if (!is_known) graphs_.clear();
}

} // namespace watch
