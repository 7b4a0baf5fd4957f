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
    const CUresult result = cu_.StreamEndCapture(stream_handle(origin), &graph);
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
    const CUresult result = cu_.ThreadExchangeStreamCaptureMode(&mode);
    return short_form(result) + std::to_string(static_cast<int>(mode));
  }
  default: {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUgraphNode* newest = nullptr;
    std::size_t count = 0;
    const bool info = call.op == Op::streamGetCaptureInfo;
    const CUstream stream = stream_handle(slot);
    const CUresult result = info
                                ? cu_.StreamGetCaptureInfo(stream, &status, nullptr, nullptr, &newest, &count)
                                : cu_.StreamIsCapturing(stream, &status);
    if (result != CUDA_SUCCESS) return short_form(result);
    const std::string text = short_form(result) + std::to_string(static_cast<int>(status));
    return info && status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? text + ":" + std::to_string(count) : text;
  }
  }
}

std::string Interpreter::add_node(const Call& call) {
  const auto& [slot, after, event_slot] = call.arguments;
  Graph& graph = graphs_[slot];
  CUgraphNode added = nullptr;
  const CUgraphNode* const before = after != 0 && !graph.nodes.empty() ? &graph.nodes.back() : nullptr;
  const std::size_t count = before != nullptr ? 1 : 0;
  CUresult result = CUDA_SUCCESS;
  Node node;
  if (call.op == Op::graphAddEmptyNode) {
    result = cu_.GraphAddEmptyNode(&added, graph.handle, before, count);
  } else {
    const auto event = event_slot == no_object ? nullptr : events_[event_slot];
    const bool records = call.op == Op::graphAddEventRecordNode;
    const auto add = records ? cu_.GraphAddEventRecordNode : cu_.GraphAddEventWaitNode;
    result = add(&added, graph.handle, before, count, event_handle(event_slot));
    if (result == CUDA_SUCCESS) event->in_a_graph = true;
    (records ? node.records : node.waits) = event;
  }
  if (result == CUDA_SUCCESS) {
    graph.nodes.push_back(added);
    nodes_[added] = node;
  }
  return short_form(result);
}

std::string Interpreter::graph_call(const Call& call) {
  const auto& [slot, index, event_slot] = call.arguments;
  Graph& graph = graphs_[slot];
  switch (call.op) {
  case Op::graphCreate: {
    if (graph.handle != nullptr) return not_made;
    CUgraph handle = nullptr;
    const CUresult result = cu_.GraphCreate(&handle, 0);
    if (result == CUDA_SUCCESS) graph = {handle, ++graph_numbers_, {}};
    return short_form(result);
  }
  case Op::graphDestroy: {
    const CUresult result = cu_.GraphDestroy(graph.handle);
    for (const CUgraphNode node : graph.nodes)
      nodes_.erase(node);
    graph = {};
    return short_form(result);
  }
  case Op::graphEventRecordNodeSetEvent:
  case Op::graphEventWaitNodeSetEvent: {
    if (graph.nodes.empty()) return not_made;
    const bool records = call.op == Op::graphEventRecordNodeSetEvent;
    const auto set = records ? cu_.GraphEventRecordNodeSetEvent : cu_.GraphEventWaitNodeSetEvent;
    const CUgraphNode node = graph.nodes[static_cast<std::size_t>(index) % graph.nodes.size()];
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
  const CUresult result = cu_.GraphExecUpdate(execs_[slot].handle, graphs_[graph_slot].handle, &info);
  if (result == CUDA_SUCCESS) execs_[slot].steps = steps_of(graphs_[graph_slot].nodes);
  return short_form(result) + std::to_string(static_cast<int>(info.result));
}

std::string Interpreter::instantiate(const Call& call) {
  const auto& [slot, graph_slot, unused] = call.arguments;
  if (slot == no_object || execs_[slot].handle != nullptr) return not_made;
  const Graph& graph = graphs_[graph_slot];
  Exec exec;
  const CUresult result = cu_.GraphInstantiateWithFlags(&exec.handle, graph.handle, 0);
  if (result != CUDA_SUCCESS) return short_form(result);
  exec.graph = graph.number;
  exec.nodes = graph.nodes;
  exec.steps = steps_of(graph.nodes);
  execs_[slot] = std::move(exec);
  return short_form(result);
}

std::string Interpreter::launch(const Call& call) {
  const auto& [slot, stream, unused] = call.arguments;
  Exec& exec = execs_[slot];
  const CUresult result = cu_.GraphLaunch(exec.handle, stream_handle(stream));
  Lane* const lane = lane_of(call, stream);
  if (result != CUDA_SUCCESS || lane == nullptr) return short_form(result);
  // A launch comes after the one before of the same exec.
  const Gates begin = held_.next(*lane) | (exec.steps.empty() ? 0 : exec.behind);
  std::vector<Gates> ends(exec.steps.size());
  Gates end = begin;
  for (std::size_t i = 0; i < exec.steps.size(); ++i) {
    const Node& step = exec.steps[i];
    ends[i] = begin | step.gates;
    for (const std::size_t before : step.after)
      if (before < i) ends[i] |= ends[before];
    if (step.waits && !step.waits->captured) ends[i] |= step.waits->behind;
    if (step.writes != no_object) note_write(step.writes, ends[i]);
    if (step.records) step.records->recorded(ends[i], true);
    end |= ends[i];
  }
  exec.behind = end;
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
    const CUresult result = cu_.GraphExecDestroy(execs_[slot].handle);
    if (result == CUDA_SUCCESS) execs_[slot] = {};
    return short_form(result);
  }
  default: {
    Exec& exec = execs_[slot];
    const bool graph_lives = std::any_of(std::begin(graphs_), std::end(graphs_), [&](const Graph& graph) {
      return graph.handle != nullptr && graph.number == exec.graph;
    });
    if (!graph_lives || exec.nodes.empty()) return not_made; // a node is named by its graph
    const bool records = call.op == Op::graphExecEventRecordNodeSetEvent;
    const auto set = records ? cu_.GraphExecEventRecordNodeSetEvent : cu_.GraphExecEventWaitNodeSetEvent;
    const std::size_t node = static_cast<std::size_t>(index) % exec.nodes.size();
    const CUresult result = set(exec.handle, exec.nodes[node], event_handle(event_slot));
    if (result == CUDA_SUCCESS) {
      events_[event_slot]->in_a_graph = true;
      (records ? exec.steps[node].records : exec.steps[node].waits) = events_[event_slot];
    }
    return short_form(result);
  }
  }
}

} // namespace conformance
