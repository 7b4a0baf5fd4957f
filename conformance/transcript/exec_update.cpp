// SPDX-License-Identifier: MIT
// cuGraphExecUpdate, as far as it concerns graphs of events.

#include "lab.hpp"

namespace transcript {
namespace {

enum class Kind { empty, record, wait };

struct Node {
  Kind kind;
  CUevent event = nullptr;
  bool after = false; // the node before it
};

CUgraph graph_of(Lab& lab, const std::vector<Node>& nodes) {
  const Api& cu = lab.cu;
  CUgraph graph = nullptr;
  lab.must(cu.GraphCreate(&graph, 0), "create");
  CUgraphNode last = nullptr;
  for (const auto& [kind, event, after] : nodes) {
    CUgraphNode added = nullptr;
    const CUgraphNode* const before = after ? &last : nullptr;
    const std::size_t count = after ? 1 : 0;
    lab.must(kind == Kind::empty    ? cu.GraphAddEmptyNode(&added, graph, before, count)
             : kind == Kind::record ? cu.GraphAddEventRecordNode(&added, graph, before, count, event)
                                    : cu.GraphAddEventWaitNode(&added, graph, before, count, event),
             "add");
    last = added;
  }
  return graph;
}

void update(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.GraphExecUpdate == nullptr) return;
  Event first(lab), second(lab);
  CUevent other = nullptr;
  {
    const Current guard(lab, lab.second_context());
    other = Event(lab).release();
  }
  const auto ask = [&](const std::string& name, const std::vector<Node>& from, const std::vector<Node>& to) {
    CUgraphExec exec = nullptr;
    lab.must(cu.GraphInstantiateWithFlags(&exec, graph_of(lab, from), 0), "instantiate");
    CUgraphExecUpdateResultInfo info{};
    lab.is(name, cu.GraphExecUpdate(exec, graph_of(lab, to), &info));
    lab.shows(name + ".reason", static_cast<int>(info.result));
    cu.GraphExecDestroy(exec);
  };
  const Node record{Kind::record, first}, wait{Kind::wait, first}, empty{Kind::empty};
  ask("same", {record}, {record});
  ask("another_event", {record}, {{Kind::record, second}});
  ask("event_of_another_context", {record}, {{Kind::record, other}});
  ask("waited_event_of_another_context", {wait}, {{Kind::wait, other}});
  ask("another_type", {record}, {wait});
  ask("more_nodes", {record}, {record, empty});
  ask("another_edge", {record, empty}, {record, {Kind::empty, nullptr, true}});
  ask("another_edge_and_type", {record, empty}, {wait, {Kind::empty, nullptr, true}});
  ask("type_then_context", {record, record}, {wait, {Kind::record, other}});
  ask("context_then_type", {record, record}, {{Kind::record, other}, wait});
}

} // namespace

std::vector<Scenario> exec_update_scenarios() { return {{"exec_update.events", update, Place::child}}; }

} // namespace transcript
