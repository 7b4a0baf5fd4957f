// SPDX-License-Identifier: MIT
#include "timing/captured_stages.hpp"

#include "core/erase_where.hpp"
#include "core/refusal.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

CapturedStages::OnStream& CapturedStages::on(std::uint32_t stream) {
  const auto found = std::find_if(streams.begin(), streams.end(),
                                  [&](const OnStream& each) { return each.stream == stream; });
  return found != streams.end() ? *found
                                : streams.emplace_back(OnStream{.stream = stream, .open = {}, .waits = {}});
}

bool CapturedStages::has_open(std::uint32_t stream) const noexcept {
  return std::any_of(streams.begin(), streams.end(),
                     [&](const OnStream& each) { return each.stream == stream && !each.open.empty(); });
}

Status CapturedStages::change(std::uint32_t stream, const BoundaryRecorder& recorder, const Context& context,
                              CUgraph graph, Change change) {
  OnStream& here = on(stream);
  // After the record nothing can throw.
  here.open.reserve(here.open.size() + 1);
  nodes.reserve(nodes.size() + 1);
  waits.reserve(waits.size() + static_cast<std::size_t>(here.waits.end() - here.waits.begin()));

  DriverEvent event;
  const CUresult result = DriverEvent::try_create(event, context, EventFlags::timing);
  if (result != CUDA_SUCCESS) return {result, "cuEventCreate"};
  // The graph owns the event before the graph refers to it. A record that failed may have left a
  // node in the graph, so the graph keeps the event then too.
  event = events->keep(std::move(event));
  // If the record fails, the stage stays as it was: without one of its boundaries a capture cannot
  // be timed.
  if (const Status status = recorder.capture(event, graph, here.last_record); !status) return status;

  if (change.closes) here.open.pop_back();
  if (change.opens) here.open.push_back(*change.opens);
  here.depth = std::max(here.depth, here.open.size());
  here.last = nodes.size();
  ++here.nodes;
  nodes.push_back({.event = std::move(event), .stream = stream, .change = change});
  here.waits.end_at(here.last, [&](const TracedWait& wait) { waits.push_back(wait); });
  return {};
}

CapturedStages* Captures::find(cuuint64_t capture) noexcept {
  const auto found = std::find_if(captures_.begin(), captures_.end(), [&](const CapturedStages& each) {
    return each.capture == capture && !each.events->ended();
  });
  return found != captures_.end() ? &*found : nullptr;
}

Status Captures::begin(const DriverTable& table, Capturing capture, CapturedStages*& begun) {
  forget_ended();
  // The events of abandoned captures: perhaps nothing else ever destroys them.
  released_by_graphs.destroy_all();
  captures_.reserve(captures_.size() + 1);
  std::shared_ptr<CaptureEvents> events;
  const Status status = CaptureEvents::attach(events, table, capture.graph);
  if (!status) return status;
  captures_.push_back(
      {.capture = capture.id, .events = std::move(events), .nodes = {}, .streams = {}, .waits = {}});
  begun = &captures_.back();
  return {};
}

Status Captures::of_graph(ArrayView<CapturedStages>& out, const Graph& graph, const char* call) {
  // Later events can have the handles of events that have ended.
  forget_ended();
  std::unordered_map<CUevent, EventRecordNode> nodes; // by their events
  Graph::EventNodes found;
  CUresult result = graph.try_event_nodes(found);
  if (result != CUDA_SUCCESS) return {result, refused_call(&graph, result, "cuGraphGetNodes")};
  for (const EventRecordNode node : found.records) {
    CUevent event = nullptr;
    result = graph.try_event(event, node);
    if (result != CUDA_SUCCESS) return {result, "cuGraphEventRecordNodeGetEvent"};
    nodes.emplace(event, node);
  }
  const auto in_graph = [&](const CapturedStages::Node& each) {
    return nodes.count(each.event.native_handle()) != 0;
  };
  // The captures of the graph come last, and stay in their order.
  auto first = captures_.end();
  for (auto each = first; each != captures_.begin();) {
    --each;
    if (std::none_of(each->nodes.begin(), each->nodes.end(), in_graph)) continue;
    std::rotate(each, each + 1, first);
    --first;
  }
  if (first == captures_.end()) return {CUDA_ERROR_NOT_FOUND, call, Reason::no_captured_stage};
  for (auto each = first; each != captures_.end(); ++each) {
    if (!std::all_of(each->nodes.begin(), each->nodes.end(), in_graph))
      return {CUDA_ERROR_NOT_FOUND, call, Reason::no_node};
    erase_where(each->streams, [](const auto& stream) { return stream.nodes == 0; });
    for (const CapturedStages::OnStream& stream : each->streams)
      if (!stream.open.empty()) return {CUDA_ERROR_ILLEGAL_STATE, call, Reason::not_closed};
    for (CapturedStages::Node& node : each->nodes)
      node.node = nodes.at(node.event.native_handle());
  }
  out = {&*first, static_cast<std::size_t>(captures_.end() - first)};
  return {};
}

void Captures::take(ArrayView<CapturedStages> captured, std::vector<CapturedStages>& taken) noexcept {
  const auto first = captures_.end() - static_cast<std::ptrdiff_t>(captured.size());
  std::move(first, captures_.end(), std::back_inserter(taken));
  captures_.erase(first, captures_.end());
}

void Captures::forget_ended() noexcept {
  erase_where(captures_, [](const CapturedStages& each) { return each.events->ended(); });
}

}} // namespace cuevent::CUEVENT_ABI
