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
  CUgraph graph = make_graph(lab);
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

// A graph as it is built, with other graphs in it.
using Build = std::function<CUgraph()>;

CUgraph chain_of(Lab& lab, const std::vector<Build>& children, const std::vector<Node>& more, bool chain) {
  const CUgraph graph = graph_of(lab, more);
  CUgraphNode last = nullptr;
  for (const Build& child : children) {
    CUgraphNode added = nullptr;
    const std::size_t count = chain && last != nullptr ? 1 : 0;
    lab.must(lab.cu.GraphAddChildGraphNode(&added, graph, &last, count, child()), "add a child");
    last = added;
  }
  return graph;
}

// Which difference a device names between graphs that hold graphs.
void children(Lab& lab) {
  const Api& cu = lab.cu;
  Event event(lab);
  const Node record{Kind::record, event}, wait{Kind::wait, event}, empty{Kind::empty};
  const Node then_empty{Kind::empty, nullptr, true};
  const auto plain = [&](const std::vector<Node>& nodes) -> Build {
    return [&lab, nodes] { return graph_of(lab, nodes); };
  };
  const auto with = [&](const std::vector<Build>& inside, const std::vector<Node>& more = {},
                        bool chain = false) -> Build {
    return [&lab, inside, more, chain] { return chain_of(lab, inside, more, chain); };
  };
  const auto ask = [&](const std::string& name, const Build& from, const Build& to) {
    CUgraphExec exec = nullptr;
    lab.must(cu.GraphInstantiateWithFlags(&exec, from(), 0), "instantiate");
    CUgraphExecUpdateResultInfo info{};
    lab.is(name, cu.GraphExecUpdate(exec, to(), &info));
    lab.shows(name + ".reason", static_cast<int>(info.result));
    cu.GraphExecDestroy(exec);
  };
  const Build waits = plain({wait}), records = plain({record}), two = plain({wait, empty});
  const Build row = plain({wait, then_empty}), none = plain({});
  ask("child_or_node", with({waits}), waits);
  ask("node_or_child", waits, with({waits}));
  ask("child_or_two_nodes", with({waits}), two);
  ask("child_of_two_or_node", with({two}), waits);
  ask("child_of_two_or_two", with({two}), two);
  ask("empty_child_or_node", with({none}), plain({empty}));
  ask("child_of_child_or_child", with({with({waits})}), with({waits}));
  ask("inner_edge", with({two}), with({row}));
  ask("inner_edge_and_outer_type", with({two}, {record}), with({row}, {empty}));
  ask("inner_count_and_outer_type", with({waits}, {record}), with({two}, {empty}));
  ask("inner_type_and_outer_type", with({waits}, {record}), with({records}, {empty}));
  ask("outer_edge", with({waits, waits}), with({waits, waits}, {}, true));
  ask("outer_edge_and_inner_type", with({waits, waits}), with({records, waits}, {}, true));
  ask("inner_count_and_inner_type", with({waits, two}), with({two, plain({record, empty})}));
  ask("inner_type_and_inner_count", with({two, waits}), with({plain({record, empty}), two}));
  ask("deep_count_and_inner_type", with({with({waits}), records}), with({with({two}), waits}));
  ask("deep_type", with({with({waits})}), with({with({records})}));
}

std::atomic<int> ended[2];

// How often the objects of the first and of the second graph have ended.
void update_of_objects(Lab& lab, const std::string& prefix,
                       const std::function<void(CUgraphExec, CUgraph)>& update) {
  const Api& cu = lab.cu;
  for (std::atomic<int>& count : ended)
    count = 0;
  const auto graph_with_object = [&](int number) {
    const CUgraph graph = graph_of(lab, {{Kind::empty}});
    const CUhostFn end = [](void* count) { ++*static_cast<std::atomic<int>*>(count); };
    CUuserObject object = nullptr;
    lab.must(cu.UserObjectCreate(&object, &ended[number], end, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
             "object");
    lab.must(cu.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE), "retain");
    return graph;
  };
  const CUgraph before = graph_with_object(0), after = graph_with_object(1);
  CUgraphExec exec = nullptr;
  lab.must(cu.GraphInstantiateWithFlags(&exec, before, 0), "instantiate");
  update(exec, after);
  lab.must(cu.GraphDestroy(before), "destroy");
  lab.must(cu.GraphDestroy(after), "destroy");
  Stream stream(lab);
  lab.must(cu.GraphLaunch(exec, stream), "launch");
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  const auto state = [&] { return std::to_string(ended[0]) + " " + std::to_string(ended[1]); };
  const auto wait_for = [&](int number) {
    eventually([&] { return ended[number] > 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; });
  };
  wait_for(0);
  lab.shows(prefix + "graphs_destroyed", state());
  lab.must(cu.GraphExecDestroy(exec), "destroy");
  wait_for(1);
  lab.shows(prefix + "exec_destroyed", state());
}

// After an update, an exec holds the user objects of the other graph, and has let the first graph's go.
void user_objects(Lab& lab) {
  if (lab.cu.GraphExecUpdate == nullptr) return;
  update_of_objects(lab, "", [&](CUgraphExec exec, CUgraph to) {
    CUgraphExecUpdateResultInfo info{};
    lab.is("update", lab.cu.GraphExecUpdate(exec, to, &info));
  });
}

// When the first objects end if the update comes while a launch has not ended, and whether a refused update
// changes anything.
void user_objects_in_flight(Lab& lab) {
  if (lab.cu.GraphExecUpdate == nullptr) return;
  CUgraphExecUpdateResultInfo info{};
  update_of_objects(lab, "", [&](CUgraphExec exec, CUgraph to) {
    Stream stream(lab);
    Gate gate(lab, stream);
    lab.must(lab.cu.GraphLaunch(exec, stream), "launch");
    lab.is("update", lab.cu.GraphExecUpdate(exec, to, &info));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    lab.shows("behind_gate", ended[0].load());
    gate.open();
    lab.must(lab.cu.StreamSynchronize(stream), "synchronize");
  });
  update_of_objects(lab, "refused_update.", [&](CUgraphExec exec, CUgraph to) {
    CUgraphNode another = nullptr;
    lab.must(lab.cu.GraphAddEmptyNode(&another, to, nullptr, 0), "add");
    lab.is("refused_update", lab.cu.GraphExecUpdate(exec, to, &info));
  });
}

} // namespace

std::vector<Scenario> exec_update_scenarios() {
  return {{"exec_update.events", update, Place::child},
          {"exec_update.children", children, Place::child},
          {"exec_update.user_objects", user_objects, Place::child},
          {"exec_update.user_objects_in_flight", user_objects_in_flight, Place::alone}};
}

} // namespace transcript
