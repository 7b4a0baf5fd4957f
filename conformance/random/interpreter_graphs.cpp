// SPDX-License-Identifier: MIT
#include "interpreter.hpp"

#include <algorithm>

namespace conformance {

/// Remembers what the newest node of the stream's capture does.
void Interpreter::note_captured_node(int stream, Node node) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode* newest = nullptr;
  std::size_t count = 0;
  const CUresult result =
      cu_.StreamGetCaptureInfo(stream_handle(stream), &status, nullptr, nullptr, &newest, &count);
  if (result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count != 0)
    nodes_[newest[0]] = std::move(node);
}

std::string Interpreter::capture_call(const Call& call) {
  const auto& [slot, origin, unused] = call.arguments;
  switch (call.op) {
  case Op::streamBeginCapture:
    return short_form(
        cu_.StreamBeginCapture(stream_handle(slot), static_cast<CUstreamCaptureMode>(call.flags)));
  case Op::streamEndCapture: {
    CUgraph graph = nullptr;
    const CUresult result = cu_.StreamEndCapture(stream_handle(origin), slot == no_object ? nullptr : &graph);
    if (result != CUDA_SUCCESS || graph == nullptr) return short_form(result);
    std::size_t count = 0;
    cu_.GraphGetNodes(graph, nullptr, &count);
    if (graphs_[slot].handle != nullptr) {
      cu_.GraphDestroy(graph);
    } else {
      graphs_[slot] = {graph, ++graph_numbers_, std::vector<CUgraphNode>(count)};
      if (count != 0) cu_.GraphGetNodes(graph, graphs_[slot].nodes.data(), &count);
    }
    return short_form(result) + std::to_string(count);
  }
  case Op::exchangeMode: {
    auto mode = static_cast<CUstreamCaptureMode>(call.flags);
    const CUresult result = cu_.ThreadExchangeStreamCaptureMode(place(call, mode));
    return short_form(result) + std::to_string(static_cast<int>(mode));
  }
  default: {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode* newest = nullptr;
    std::size_t count = 0;
    const bool info = call.op == Op::streamGetCaptureInfo;
    const CUstream stream = stream_handle(slot);
    CUstreamCaptureStatus* const asked = place(call, status);
    const CUresult result = info ? cu_.StreamGetCaptureInfo(stream, asked, nullptr, nullptr, &newest, &count)
                                 : cu_.StreamIsCapturing(stream, asked);
    if (result != CUDA_SUCCESS) return short_form(result);
    const std::string text = short_form(result) + std::to_string(static_cast<int>(status));
    return info && status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? text + ":" + std::to_string(count) : text;
  }
  }
}

std::string Interpreter::add_node(const Call& call) {
  const auto& [slot, after, event_slot] = call.arguments;
  Graph& into = graph(slot);
  CUgraphNode added = nullptr;
  const CUgraphNode no_node = nullptr;
  const CUgraphNode* const before = after == no_object                  ? &no_node
                                    : after != 0 && !into.nodes.empty() ? &into.nodes.back()
                                                                        : nullptr;
  const std::size_t count = before != nullptr ? 1 : 0;
  CUresult result = CUDA_SUCCESS;
  Node node;
  if (call.op == Op::graphAddEmptyNode) {
    result = cu_.GraphAddEmptyNode(place(call, added), into.handle, before, count);
  } else {
    const auto event = event_slot == no_object ? nullptr : events_[event_slot];
    const bool records = call.op == Op::graphAddEventRecordNode;
    const auto add = records ? cu_.GraphAddEventRecordNode : cu_.GraphAddEventWaitNode;
    result = add(place(call, added), into.handle, before, count, event_handle(event_slot));
    if (result == CUDA_SUCCESS && event) event->in_a_graph = true;
    (records ? node.records : node.waits) = event;
  }
  if (result == CUDA_SUCCESS && added != nullptr) {
    into.nodes.push_back(added);
    nodes_[added] = node;
  }
  return short_form(result);
}

std::string Interpreter::graph_call(const Call& call) {
  const auto& [slot, index, event_slot] = call.arguments;
  Graph& named = graph(slot);
  switch (call.op) {
  case Op::graphCreate: {
    if (named.handle != nullptr) return not_made;
    CUgraph handle = nullptr;
    const CUresult result = cu_.GraphCreate(slot == no_object ? nullptr : &handle, 0);
    if (result == CUDA_SUCCESS) named = {handle, ++graph_numbers_, {}};
    return short_form(result);
  }
  case Op::graphDestroy: {
    const CUresult result = cu_.GraphDestroy(named.handle);
    for (const CUgraphNode node : named.nodes)
      nodes_.erase(node);
    named = {};
    return short_form(result);
  }
  case Op::graphEventRecordNodeSetEvent:
  case Op::graphEventWaitNodeSetEvent: {
    const bool no_node = slot < 0 || index == no_object;
    if (!no_node && named.nodes.empty()) return not_made;
    const bool records = call.op == Op::graphEventRecordNodeSetEvent;
    const auto set = records ? cu_.GraphEventRecordNodeSetEvent : cu_.GraphEventWaitNodeSetEvent;
    const CUgraphNode node =
        no_node ? nullptr : named.nodes[static_cast<std::size_t>(index) % named.nodes.size()];
    const CUresult result = set(node, event_handle(event_slot));
    if (result == CUDA_SUCCESS) {
      events_[event_slot]->in_a_graph = true;
      (records ? nodes_[node].records : nodes_[node].waits) = events_[event_slot];
    }
    return short_form(result);
  }
  default:
    return add_node(call);
  }
}

std::vector<Interpreter::Node> Interpreter::steps_of(const std::vector<CUgraphNode>& nodes) const {
  std::vector<Node> steps;
  for (const CUgraphNode node : nodes) {
    const auto known = nodes_.find(node);
    Node step = known != nodes_.end() ? known->second : Node{};
    std::size_t count = 0;
    cu_.GraphNodeGetDependencies(node, nullptr, &count);
    std::vector<CUgraphNode> before(count);
    if (count != 0) cu_.GraphNodeGetDependencies(node, before.data(), &count);
    for (const CUgraphNode one : before)
      step.after.push_back(
          static_cast<std::size_t>(std::find(nodes.begin(), nodes.end(), one) - nodes.begin()));
    steps.push_back(std::move(step));
  }
  return steps;
}

std::string Interpreter::update(const Call& call) {
  const auto& [slot, graph_slot, unused] = call.arguments;
  if (cu_.GraphExecUpdate == nullptr) return not_made;
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = cu_.GraphExecUpdate(exec(slot).handle, graph(graph_slot).handle, place(call, info));
  if (result == CUDA_SUCCESS) exec(slot).steps = steps_of(graph(graph_slot).nodes);
  return short_form(result) + std::to_string(static_cast<int>(info.result));
}

std::string Interpreter::instantiate(const Call& call) {
  const auto& [slot, graph_slot, unused] = call.arguments;
  if (exec(slot).handle != nullptr) return not_made;
  const Graph& from = graph(graph_slot);
  Exec made;
  const CUresult result =
      cu_.GraphInstantiateWithFlags(slot == no_object ? nullptr : &made.handle, from.handle, 0);
  if (result != CUDA_SUCCESS) return short_form(result);
  made.graph = from.number;
  made.nodes = from.nodes;
  made.steps = steps_of(from.nodes);
  exec(slot) = std::move(made);
  return short_form(result);
}

/// What the work of a graph is behind at its end.
Gates Interpreter::run_steps(const std::vector<Node>& steps, Gates begin) {
  std::vector<Gates> ends(steps.size());
  Gates end = begin;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Node& step = steps[i];
    ends[i] = begin | step.gates;
    for (const std::size_t before : step.after)
      if (before < i) ends[i] |= ends[before];
    if (step.child) ends[i] = run_steps(*step.child, ends[i]);
    if (step.waits && !step.waits->captured) ends[i] |= step.waits->behind;
    if (step.writes != no_object) note_write(step.writes, ends[i]);
    if (step.records) step.records->recorded(ends[i], true);
    end |= ends[i];
  }
  return end;
}

bool Interpreter::any_at_null(const std::vector<Node>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Node& step) {
    return step.at_null || (step.child && any_at_null(*step.child));
  });
}

std::string Interpreter::launch(const Call& call) {
  const auto& [slot, stream, unused] = call.arguments;
  Exec& launched = exec(slot);
  if (any_at_null(launched.steps) && !capturing(stream)) return not_made;
  const CUresult result = cu_.GraphLaunch(launched.handle, stream_handle(stream));
  Lane* const lane = lane_of(call, stream);
  if (result != CUDA_SUCCESS || lane == nullptr) return short_form(result);
  // A launch comes after the one before of the same launched.
  const Gates begin = held_.next(*lane) | (launched.steps.empty() ? 0 : launched.behind);
  const Gates end = run_steps(launched.steps, begin);
  launched.behind = end;
  submit(call, stream, end);
  return short_form(result);
}

std::string Interpreter::exec_call(const Call& call) {
  const auto& [slot, index, event_slot] = call.arguments;
  switch (call.op) {
  case Op::graphInstantiate:
    return instantiate(call);
  case Op::graphLaunch:
    return launch(call);
  case Op::graphExecUpdate:
    return update(call);
  case Op::graphExecDestroy: {
    const CUresult result = cu_.GraphExecDestroy(exec(slot).handle);
    if (result == CUDA_SUCCESS) exec(slot) = {};
    return short_form(result);
  }
  default: {
    Exec& changed = exec(slot);
    const bool graph_lives = std::any_of(std::begin(graphs_), std::end(graphs_), [&](const Graph& graph) {
      return graph.handle != nullptr && graph.number == changed.graph;
    });
    const bool no_node = slot < 0 || index == no_object;
    if (!no_node && (!graph_lives || changed.nodes.empty())) return not_made; // a node is named by its graph
    const bool records = call.op == Op::graphExecEventRecordNodeSetEvent;
    const auto set = records ? cu_.GraphExecEventRecordNodeSetEvent : cu_.GraphExecEventWaitNodeSetEvent;
    const std::size_t node = no_node ? 0 : static_cast<std::size_t>(index) % changed.nodes.size();
    const CUresult result =
        set(changed.handle, no_node ? nullptr : changed.nodes[node], event_handle(event_slot));
    if (result == CUDA_SUCCESS) {
      events_[event_slot]->in_a_graph = true;
      (records ? changed.steps[node].records : changed.steps[node].waits) = events_[event_slot];
    }
    return short_form(result);
  }
  }
}

} // namespace conformance
