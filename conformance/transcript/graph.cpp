// SPDX-License-Identifier: MIT
// Graphs with event nodes: adding, reading, changing the event, launching; who keeps what alive.

#include "lab.hpp"

namespace transcript {
namespace {

using namespace std::chrono_literals;

class EventGraph : public Graph {
public:
  using Graph::Graph;
  CUgraphNode record(CUevent event, CUgraphNode after = nullptr) {
    CUgraphNode node = nullptr;
    lab_.must(lab_.cu.GraphAddEventRecordNode(&node, handle_, &after, after != nullptr, event),
              "add record node");
    return node;
  }
  CUgraphNode wait(CUevent event, CUgraphNode after = nullptr) {
    CUgraphNode node = nullptr;
    lab_.must(lab_.cu.GraphAddEventWaitNode(&node, handle_, &after, after != nullptr, event),
              "add wait node");
    return node;
  }
  CUgraphExec instantiate() { return make_exec(lab_, handle_); }
  CUresult destroy() { return lab_.cu.GraphDestroy(release()); }
};

void nodes(Lab& lab) {
  const Api& cu = lab.cu;
  Event first(lab, CU_EVENT_DEFAULT), second(lab, CU_EVENT_DEFAULT);
  Event shared(lab, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  EventGraph graph(lab);
  CUgraphNode node = nullptr, wait = nullptr;
  CUevent event = nullptr;
  lab.is("add_record", cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, first));
  lab.is("add_wait", cu.GraphAddEventWaitNode(&wait, graph, &node, 1, second));
  lab.shows("types", node_types(lab, graph));
  CUgraphNodeType type{};
  cu.GraphNodeGetType(node, &type);
  lab.shows("record.type", static_cast<int>(type));
  cu.GraphNodeGetType(wait, &type);
  lab.shows("wait.type", static_cast<int>(type));
  std::size_t count = 0;
  lab.is("dependencies", cu.GraphNodeGetDependencies(wait, nullptr, &count));
  lab.shows("dependencies.count", count);
  lab.is("record.get_event", cu.GraphEventRecordNodeGetEvent(node, &event));
  lab.shows("record.get_event.same", event == first);
  lab.is("record.set_event", cu.GraphEventRecordNodeSetEvent(node, second));
  cu.GraphEventRecordNodeGetEvent(node, &event);
  lab.shows("record.set_event.then_get", event == second);
  lab.is("wait.get_event", cu.GraphEventWaitNodeGetEvent(wait, &event));
  lab.shows("wait.get_event.same", event == second);
  lab.is("wait.set_event", cu.GraphEventWaitNodeSetEvent(wait, first));
  cu.GraphEventWaitNodeGetEvent(wait, &event);
  lab.shows("wait.set_event.then_get", event == first);
  lab.is("record.get_event_of_wait_node", cu.GraphEventRecordNodeGetEvent(wait, &event));
  lab.is("wait.get_event_of_record_node", cu.GraphEventWaitNodeGetEvent(node, &event));
  lab.is("record.set_event_of_wait_node", cu.GraphEventRecordNodeSetEvent(wait, first));
  lab.is("record.set_null", cu.GraphEventRecordNodeSetEvent(node, nullptr));
  lab.is("record.set_interprocess", cu.GraphEventRecordNodeSetEvent(node, shared));
  lab.is("add_record.null_event", cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, nullptr));
  lab.is("add_wait.null_event", cu.GraphAddEventWaitNode(&node, graph, nullptr, 0, nullptr));
  lab.is("add_record.null_graph", cu.GraphAddEventRecordNode(&node, nullptr, nullptr, 0, first));
  lab.is("add_record.interprocess", cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, shared));
  lab.is("add_wait.interprocess", cu.GraphAddEventWaitNode(&node, graph, nullptr, 0, shared));
  const Current guard(lab, lab.second_context());
  Event theirs(lab);
  lab.is("add_record.event_of_another_context", cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, theirs));
  lab.is("add_wait.event_of_another_context", cu.GraphAddEventWaitNode(&node, graph, nullptr, 0, theirs));
}

// A change in the exec does not change the graph, and a change in the graph does not change the exec.
void exec(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Event in_graph(lab, CU_EVENT_DEFAULT), in_exec(lab, CU_EVENT_DEFAULT);
  Event later(lab, CU_EVENT_DEFAULT);
  EventGraph graph(lab);
  const CUgraphNode node = graph.record(in_graph), wait = graph.wait(in_graph, node);
  CUgraphExec exec = graph.instantiate();
  float ms = 0;
  const auto recorded = [&](CUevent event) { return cu.EventElapsedTime(&ms, event, event); };
  lab.is("set_record", cu.GraphExecEventRecordNodeSetEvent(exec, node, in_exec));
  CUevent event = nullptr;
  cu.GraphEventRecordNodeGetEvent(node, &event);
  lab.shows("set_record.shows_in_graph", event == in_exec);
  lab.is("launch", cu.GraphLaunch(exec, stream));
  lab.is("launch.synchronize", cu.StreamSynchronize(stream));
  lab.is("launch.event_of_exec", recorded(in_exec));
  lab.is("launch.event_of_graph", recorded(in_graph));
  lab.is("set_in_graph", cu.GraphEventRecordNodeSetEvent(node, later));
  lab.is("set_in_graph.launch", cu.GraphLaunch(exec, stream));
  lab.is("set_in_graph.synchronize", cu.StreamSynchronize(stream));
  lab.is("set_in_graph.event", recorded(later));
  lab.is("set_wait", cu.GraphExecEventWaitNodeSetEvent(exec, wait, later));
  lab.is("set_record.on_wait_node", cu.GraphExecEventRecordNodeSetEvent(exec, wait, later));
  lab.is("set_wait.on_record_node", cu.GraphExecEventWaitNodeSetEvent(exec, node, later));
  lab.is("set_record.null_event", cu.GraphExecEventRecordNodeSetEvent(exec, node, nullptr));
  lab.is("set_record.null_node", cu.GraphExecEventRecordNodeSetEvent(exec, nullptr, later));
  lab.is("set_record.null_exec", cu.GraphExecEventRecordNodeSetEvent(nullptr, node, later));
  {
    EventGraph other(lab);
    const CUgraphNode foreign = other.record(in_graph);
    lab.is("set_record.node_of_another_graph", cu.GraphExecEventRecordNodeSetEvent(exec, foreign, later));
  }
  {
    const Current guard(lab, lab.second_context());
    Event theirs(lab);
    lab.is("set_record.event_of_another_context", cu.GraphExecEventRecordNodeSetEvent(exec, node, theirs));
  }
  // Whatever the exec accepted above: now it only refers to events that are alive.
  lab.is("set_record.back", cu.GraphExecEventRecordNodeSetEvent(exec, node, in_exec));
  lab.is("set_wait.back", cu.GraphExecEventWaitNodeSetEvent(exec, wait, in_exec));
  lab.is("graph_destroy", graph.destroy());
  lab.is("graph_destroy.then_launch", cu.GraphLaunch(exec, stream));
  lab.is("graph_destroy.then_synchronize", cu.StreamSynchronize(stream));
  lab.is("exec_destroy", cu.GraphExecDestroy(exec));
  lab.is("launch_null", cu.GraphLaunch(nullptr, stream));
}

// Once a graph is destroyed, its node handles no longer name nodes of its exec.
void nodes_of_destroyed(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Event in_graph(lab, CU_EVENT_DEFAULT), later(lab, CU_EVENT_DEFAULT);
  EventGraph graph(lab);
  const CUgraphNode node = graph.record(in_graph), wait = graph.wait(in_graph, node);
  CUgraphExec exec = graph.instantiate();
  CUgraph clone = nullptr;
  lab.must(cu.GraphClone(&clone, graph), "cuGraphClone");
  lab.is("set_record.before", cu.GraphExecEventRecordNodeSetEvent(exec, node, in_graph));
  lab.must(graph.destroy(), "cuGraphDestroy");
  lab.is("set_record", cu.GraphExecEventRecordNodeSetEvent(exec, node, later));
  lab.is("set_wait", cu.GraphExecEventWaitNodeSetEvent(exec, wait, later));
  lab.is("launch", cu.GraphLaunch(exec, stream));
  lab.is("synchronize", cu.StreamSynchronize(stream));
  float ms = 0;
  lab.is("event_of_graph", cu.EventElapsedTime(&ms, in_graph, in_graph));
  lab.is("event_set_since", cu.EventElapsedTime(&ms, later, later));
  cu.GraphExecDestroy(exec);
  cu.GraphDestroy(clone);
}

// An event that only graphs record.
void launches(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Event start(lab, CU_EVENT_DEFAULT), end(lab, CU_EVENT_DEFAULT), next(lab, CU_EVENT_DEFAULT);
  EventGraph graph(lab);
  const CUgraphNode first = graph.record(start), last = graph.record(end, first);
  CUgraphExec exec = graph.instantiate();
  float ms = 0;
  const auto show = [&](const std::string& name) {
    lab.is(name + ".query", cu.EventQuery(end));
    lab.is(name + ".elapsed", cu.EventElapsedTime(&ms, start, end));
    lab.is(name + ".elapsed_itself", cu.EventElapsedTime(&ms, start, start));
  };
  show("before");
  lab.is("before.synchronize", cu.EventSynchronize(end));
  {
    Gate gate(lab, stream);
    lab.is("launch", cu.GraphLaunch(exec, stream));
    show("in_flight");
    lab.is("in_flight.set_event", cu.GraphExecEventRecordNodeSetEvent(exec, last, next));
    Stream waiter(lab);
    lab.is("in_flight.wait", cu.StreamWaitEvent(waiter, end, 0));
    lab.is("in_flight.waiter", cu.StreamQuery(waiter));
    lab.is("in_flight.launch_again", cu.GraphLaunch(exec, stream));
    lab.is("in_flight.event_set_since", cu.EventQuery(next));
    gate.open();
    lab.is("synchronize", cu.EventSynchronize(end));
    lab.is("waiter.afterwards", cu.StreamSynchronize(waiter));
  }
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  show("after");
  lab.shows("after.is_positive", ms >= 0);
  lab.is("after.event_set_since", cu.EventElapsedTime(&ms, next, next));
  {
    // After a plain record that follows a launch, the event belongs to that record until the next launch.
    Stream held(lab);
    const Gate gate(lab, held);
    cu.EventRecord(start, held);
    lab.is("rerecorded_outside.query", cu.EventQuery(start));
    lab.is("rerecorded_outside.launch", cu.GraphLaunch(exec, stream));
    lab.is("rerecorded_outside.query_after_launch", eventually([&] { return cu.EventQuery(start); }));
    lab.must(cu.StreamSynchronize(stream), "synchronize");
  }
  {
    // Two launches are in flight. The first one has recorded its events, and the second one is held.
    Stream held(lab);
    const Gate gate(lab, held);
    Event opened(lab), first_is_done(lab);
    cu.EventRecord(opened, held);
    cu.GraphLaunch(exec, stream);
    cu.EventRecord(first_is_done, stream);
    cu.StreamWaitEvent(stream, opened, 0);
    lab.is("second_held.launch", cu.GraphLaunch(exec, stream));
    lab.must(cu.EventSynchronize(first_is_done), "synchronize");
    lab.is("second_held.query", cu.EventQuery(start));
  }
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  lab.is("second_held.query_afterwards", cu.EventQuery(start));
  const CUresult moved = on_other_thread(lab, [&] {
    CUcontext popped = nullptr;
    cu.CtxPopCurrent(&popped);
    return cu.GraphLaunch(exec, stream);
  });
  lab.is("launch_without_context", moved);
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  const Current guard(lab, lab.second_context());
  Stream theirs(lab);
  lab.is("launch_on_stream_of_another_context", cu.GraphLaunch(exec, theirs));
  lab.is("launch_on_stream_of_another_context.synchronize", cu.StreamSynchronize(theirs));
  lab.is("launch_on_stream_of_another_context.elapsed", cu.EventElapsedTime(&ms, start, start));
  cu.GraphExecDestroy(exec);
}

// A wait node waits for the record that its event has when the graph is launched.
void wait_nodes(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab), held(lab);
  Event event(lab);
  EventGraph graph(lab);
  graph.wait(event);
  CUgraphExec exec = graph.instantiate();
  lab.is("never_recorded.launch", cu.GraphLaunch(exec, stream));
  lab.is("never_recorded.synchronize", cu.StreamSynchronize(stream));
  Gate gate(lab, held);
  cu.EventRecord(event, held);
  lab.is("pending.launch", cu.GraphLaunch(exec, stream));
  lab.is("pending.stream", cu.StreamQuery(stream));
  Stream free(lab);
  cu.EventRecord(event, free);
  lab.is("pending.rerecorded", eventually([&] { return cu.EventQuery(event); }));
  lab.is("pending.stream_after_rerecord", cu.StreamQuery(stream));
  gate.open();
  lab.is("pending.synchronize", cu.StreamSynchronize(stream));
  cu.GraphExecDestroy(exec);
}

std::atomic<int> destroyed = 0;

int destroyed_by_now(int expected) {
  const auto deadline = std::chrono::steady_clock::now() + (expected == 0 ? 100ms : 1000ms);
  while (destroyed < (expected == 0 ? 1 : expected) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
  }
  return destroyed;
}

// A user object is destroyed after the last graph and the last exec that hold it.
void user_objects(Lab& lab) {
  const Api& cu = lab.cu;
  const auto retain = [&](Graph& graph, const char* name) {
    destroyed = 0;
    CUuserObject object = nullptr;
    lab.is(std::string(name) + ".create",
           cu.UserObjectCreate(
               &object, &destroyed, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, 1,
               CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    lab.is(std::string(name) + ".retain",
           cu.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  };
  Event event(lab);
  Stream stream(lab);
  {
    EventGraph graph(lab);
    graph.record(event);
    retain(graph, "graph_alone");
    lab.is("graph_alone.destroy", graph.destroy());
    lab.shows("graph_alone.destroyed", destroyed_by_now(1));
  }
  {
    EventGraph graph(lab);
    graph.record(event);
    retain(graph, "graph_then_exec");
    CUgraphExec exec = graph.instantiate();
    graph.destroy();
    lab.shows("graph_then_exec.after_graph", destroyed_by_now(0));
    cu.GraphExecDestroy(exec);
    lab.shows("graph_then_exec.after_exec", destroyed_by_now(1));
  }
  {
    EventGraph graph(lab);
    graph.record(event);
    retain(graph, "exec_then_graph");
    CUgraphExec exec = graph.instantiate();
    cu.GraphExecDestroy(exec);
    lab.shows("exec_then_graph.after_exec", destroyed_by_now(0));
    graph.destroy();
    lab.shows("exec_then_graph.after_graph", destroyed_by_now(1));
  }
  {
    EventGraph graph(lab);
    graph.record(event);
    retain(graph, "clone");
    CUgraph clone = nullptr;
    lab.is("clone", cu.GraphClone(&clone, graph));
    graph.destroy();
    lab.shows("clone.after_graph", destroyed_by_now(0));
    cu.GraphDestroy(clone);
    lab.shows("clone.after_clone", destroyed_by_now(1));
  }
  {
    EventGraph graph(lab);
    graph.record(event);
    CUgraphExec exec = graph.instantiate();
    retain(graph, "retained_after_instantiation");
    graph.destroy();
    lab.shows("retained_after_instantiation.after_graph", destroyed_by_now(1));
    cu.GraphExecDestroy(exec);
  }
  {
    EventGraph graph(lab);
    graph.record(event);
    retain(graph, "in_flight");
    CUgraphExec exec = graph.instantiate();
    graph.destroy();
    Gate gate(lab, stream);
    cu.GraphLaunch(exec, stream);
    Background destroy(lab, [&] { return cu.GraphExecDestroy(exec); });
    lab.shows("in_flight.exec_destroy_returns", destroy.returns_within(500ms));
    lab.shows("in_flight.after_exec", destroyed_by_now(0));
    gate.open();
    lab.is("in_flight.exec_destroy", destroy.join());
    lab.must(cu.StreamSynchronize(stream), "synchronize");
    lab.shows("in_flight.after_completion", destroyed_by_now(1));
  }
  {
    Stream capturing(lab);
    lab.must(cu.StreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "begin");
    CUgraph graph = nullptr;
    CUstreamCaptureStatus status{};
    lab.is("in_capture.info", cu.StreamGetCaptureInfo(capturing, &status, nullptr, &graph, nullptr, nullptr));
    destroyed = 0;
    CUuserObject object = nullptr;
    cu.UserObjectCreate(
        &object, &destroyed, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, 1,
        CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    lab.is("in_capture.retain", cu.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    lab.is("in_capture.end", end_capture(lab, capturing));
    lab.shows("in_capture.after_graph", destroyed_by_now(1));
  }
  {
    // Taken from the graph while the graph is being instantiated, and then given back.
    EventGraph graph(lab);
    graph.record(event);
    destroyed = 0;
    CUuserObject object = nullptr;
    cu.UserObjectCreate(
        &object, &destroyed, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, 1,
        CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    cu.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
    lab.is("apart.retain", cu.UserObjectRetain(object, 1));
    lab.is("apart.release", cu.GraphReleaseUserObject(graph, object, 1));
    CUgraphExec exec = nullptr;
    lab.is("apart.instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
    lab.is("apart.give_back", cu.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    lab.is("apart.launch", cu.GraphLaunch(exec, stream));
    lab.must(cu.StreamSynchronize(stream), "synchronize");
    lab.shows("apart.destroyed_before_graph", destroyed_by_now(0));
    lab.is("apart.destroy", graph.destroy());
    lab.shows("apart.destroyed_with_graph", destroyed_by_now(1));
    lab.is("apart.destroy_exec", cu.GraphExecDestroy(exec));
  }
  CUuserObject object = nullptr;
  lab.is("unknown_flags", cu.UserObjectCreate(
                              &object, &destroyed, [](void*) {}, 1, 0));
}

/// Instantiates and launches the captured graph, and asks for the times between the events that it records.
CUgraphExec launched_once(Lab& lab, CUgraph graph, CUstream stream, CUevent from, CUevent to) {
  const Api& cu = lab.cu;
  CUgraphExec exec = nullptr;
  lab.is("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
  lab.is("launch", cu.GraphLaunch(exec, stream));
  lab.is("synchronize", cu.StreamSynchronize(stream));
  float ms = -1;
  lab.is("elapsed", cu.EventElapsedTime(&ms, from, to));
  lab.shows("elapsed.is_positive", ms > 0);
  return exec;
}

// Nodes that are added to the graph of a capture in addition to the work of the stream.
void beside_captured(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Event first(lab, CU_EVENT_DEFAULT), second(lab, CU_EVENT_DEFAULT);
  Event unjoined(lab, CU_EVENT_DEFAULT);
  const CUfunction nothing = lab.kernel("step");
  const auto work = [&] { cu.LaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr); };
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
  CUstreamCaptureStatus status{};
  CUgraph graph = nullptr;
  const CUgraphNode* last = nullptr;
  std::size_t count = 7;
  lab.is("info_at_first", cu.StreamGetCaptureInfo(stream, &status, nullptr, &graph, &last, &count));
  lab.shows("info_at_first.nodes", count);
  CUgraphNode root = nullptr;
  lab.is("add_root", cu.GraphAddEventRecordNode(&root, graph, nullptr, 0, unjoined));
  work();
  lab.is("info", cu.StreamGetCaptureInfo(stream, &status, nullptr, &graph, &last, &count));
  lab.shows("info.nodes", count);
  CUgraphNode one = nullptr;
  lab.is("add", cu.GraphAddEventRecordNode(&one, graph, last, count, first));
  work();
  CUgraphNode before[2] = {one};
  lab.is("info_again", cu.StreamGetCaptureInfo(stream, &status, nullptr, &graph, &last, &count));
  lab.shows("info_again.nodes", count);
  lab.shows("info_again.is_added", last[0] == one);
  before[1] = last[0];
  CUgraphNode two = nullptr;
  lab.is("add_again", cu.GraphAddEventRecordNode(&two, graph, before, 2, second));
  lab.is("end", cu.StreamEndCapture(stream, &graph));
  lab.shows("types", node_types(lab, graph));
  CUevent event = nullptr;
  lab.is("get_event", cu.GraphEventRecordNodeGetEvent(two, &event));
  lab.shows("get_event.same", event == second);
  CUgraphExec exec = launched_once(lab, graph, stream, first, second);
  float ms = 0;
  lab.is("elapsed_of_root", cu.EventElapsedTime(&ms, unjoined, second));
  cu.GraphExecDestroy(exec);
  cu.GraphDestroy(graph);
}

// The graph of a capture with external records.
void captured(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Event start(lab, CU_EVENT_DEFAULT), end(lab, CU_EVENT_DEFAULT), gate_event(lab);
  Event inside(lab);
  const CUfunction nothing = lab.kernel("step");
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "begin");
  cu.StreamWaitEvent(stream, gate_event, CU_EVENT_WAIT_EXTERNAL);
  cu.EventRecordWithFlags(start, stream, CU_EVENT_RECORD_EXTERNAL);
  cu.EventRecord(inside, stream);
  cu.LaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  cu.EventRecordWithFlags(end, stream, CU_EVENT_RECORD_EXTERNAL);
  CUgraph graph = nullptr;
  lab.is("end", cu.StreamEndCapture(stream, &graph));
  lab.shows("types", node_types(lab, graph));
  std::size_t count = 4;
  CUgraphNode nodes[4] = {};
  cu.GraphGetNodes(graph, nodes, &count);
  CUevent event = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t dependencies = 0;
    cu.GraphNodeGetDependencies(nodes[i], nullptr, &dependencies);
    lab.shows("dependencies_of_node_" + std::to_string(i), dependencies);
  }
  lab.is("first_record.get_event", cu.GraphEventRecordNodeGetEvent(nodes[1], &event));
  lab.shows("first_record.is_start", event == start);
  CUgraphExec exec = launched_once(lab, graph, stream, start, end);
  lab.is("inside_event.query", cu.EventQuery(inside));
  cu.GraphExecDestroy(exec);
  cu.GraphDestroy(graph);
}

// A graph of three empty nodes.
struct Three {
  explicit Three(Lab& owner) : lab(owner), graph(owner) {
    for (CUgraphNode& each : nodes)
      lab.must(lab.cu.GraphAddEmptyNode(&each, graph, nullptr, 0), "add");
  }
  using Edges = std::vector<std::pair<int, int>>;
  CUresult add(const Edges& edges) { return change(lab.cu.GraphAddDependencies, edges); }
  CUresult remove(const Edges& edges) { return change(lab.cu.GraphRemoveDependencies, edges); }
  std::size_t edges() const {
    std::size_t count = 77;
    lab.must(lab.cu.GraphGetEdges(graph, nullptr, nullptr, &count), "cuGraphGetEdges");
    return count;
  }
  CUresult instantiate() {
    CUgraphExec exec = nullptr;
    const CUresult result = lab.cu.GraphInstantiateWithFlags(&exec, graph, 0);
    if (exec != nullptr) lab.cu.GraphExecDestroy(exec);
    return result;
  }
  CUgraphNode node(int number) const { return number < 0 ? nullptr : nodes[number]; }

  Lab& lab;
  Graph graph;
  CUgraphNode nodes[3]{};

private:
  template <class Function>
  CUresult change(Function function, const Edges& edges) {
    std::vector<CUgraphNode> from, to;
    for (const auto& [before, after] : edges) {
      from.push_back(node(before));
      to.push_back(node(after));
    }
    return function(graph, from.data(), to.data(), edges.size());
  }
};

// Edges that a device refuses, and what stays of their list.
void edges(Lab& lab) {
  {
    Three three(lab);
    lab.is("self", three.add({{0, 0}}));
    lab.shows("self.edges", three.edges());
  }
  {
    Three three(lab);
    lab.must(three.add({{0, 1}}), "add");
    lab.is("new_and_old", three.add({{1, 2}, {0, 1}}));
    lab.shows("new_and_old.edges", three.edges());
  }
  Three three(lab);
  lab.is("cycle", three.add({{1, 2}, {2, 1}}));
  lab.is("cycle.instantiate", three.instantiate());
}

// Where the refused edge is in the list, and lists of edges to remove.
void refused_lists(Lab& lab) {
  const std::pair<std::string, Three::Edges> lists[] = {
      {"old_first", {{0, 1}, {1, 2}}},           {"self_last", {{1, 2}, {2, 2}}},
      {"self_first", {{2, 2}, {1, 2}}},          {"twice", {{1, 2}, {1, 2}}},
      {"two_and_old", {{1, 2}, {0, 2}, {0, 1}}}, {"then_null", {{1, 2}, {0, -1}}}};
  for (const auto& [name, list] : lists) {
    Three three(lab);
    lab.must(three.add({{0, 1}}), "add");
    lab.is("add." + name, three.add(list));
    lab.shows("add." + name + ".edges", three.edges());
  }
  for (const auto& [name, list] : lists) {
    Three three(lab);
    lab.must(three.add({{0, 1}, {1, 2}}), "add");
    lab.is("remove." + name, three.remove(list));
    lab.shows("remove." + name + ".edges", three.edges());
  }
}

// Each flag, by both functions.
void instantiate_with_parameters(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Graph empty(lab), kernel(lab), host(lab), cycle(lab);
  CUgraphNode node = nullptr, second = nullptr;
  CUDA_KERNEL_NODE_PARAMS launch{};
  launch.func = lab.kernel("step");
  launch.gridDimX = launch.gridDimY = launch.gridDimZ = 1;
  launch.blockDimX = launch.blockDimY = launch.blockDimZ = 1;
  lab.must(cu.GraphAddKernelNode(&node, kernel, nullptr, 0, &launch), "kernel node");
  CUDA_HOST_NODE_PARAMS function{};
  function.fn = [](void*) {};
  lab.must(cu.GraphAddHostNode(&node, host, nullptr, 0, &function), "host node");
  lab.must(cu.GraphAddEmptyNode(&node, cycle, nullptr, 0), "node");
  lab.must(cu.GraphAddEmptyNode(&second, cycle, &node, 1), "node");
  lab.must(cu.GraphAddDependencies(cycle, &second, &node, 1), "edge");
  const std::pair<const char*, CUgraph> graphs[] = {
      {"empty", empty}, {"kernel", kernel}, {"host", host}, {"cycle", cycle}};
  for (const auto& [graph_name, graph] : graphs)
    for (unsigned long long flags : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 12U, 16U, 32U}) {
      const std::string name = std::string(graph_name) + ".flags_" + std::to_string(flags);
      CUgraphExec exec = nullptr;
      cuuint64_t kept = 0;
      lab.is(name, cu.GraphInstantiateWithFlags(&exec, graph, flags));
      if (exec != nullptr && cu.GraphExecGetFlags(exec, &kept) == CUDA_SUCCESS)
        lab.shows(name + ".kept", kept);
      if (exec != nullptr) cu.GraphExecDestroy(exec);
      exec = nullptr;
      CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
      parameters.flags = flags;
      parameters.hUploadStream = stream;
      lab.is(name + ".parameters", cu.GraphInstantiateWithParams(&exec, graph, &parameters));
      lab.shows(name + ".parameters.result", static_cast<int>(parameters.result_out));
      lab.shows(name + ".parameters.node", parameters.hErrNode_out != nullptr);
      if (exec != nullptr && cu.GraphExecGetFlags(exec, &kept) == CUDA_SUCCESS)
        lab.shows(name + ".parameters.kept", kept);
      if (exec != nullptr) cu.GraphExecDestroy(exec);
    }
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  lab.is("nothing", cu.GraphInstantiateWithParams(&exec, kernel, nullptr));
  lab.is("nowhere", cu.GraphInstantiateWithParams(nullptr, kernel, &parameters));
  lab.is("no_graph", cu.GraphInstantiateWithParams(&exec, nullptr, &parameters));
  lab.shows("no_graph.result", static_cast<int>(parameters.result_out));
}

} // namespace

std::vector<Scenario> graph_scenarios() {
  return {{"graph.nodes", nodes},
          {"graph.exec", exec},
          {"graph.launches", launches},
          {"graph.wait_nodes", wait_nodes},
          {"graph.captured", captured},
          {"graph.user_objects", user_objects, Place::child},
          {"graph.nodes_of_destroyed", nodes_of_destroyed, Place::child},
          {"graph.beside_captured", beside_captured},
          {"graph.edges", edges},
          {"graph.refused_lists", refused_lists, Place::child},
          {"graph.instantiate_with_parameters", instantiate_with_parameters, Place::child}};
}

} // namespace transcript
