// SPDX-License-Identifier: MIT
#include <cuevent/error.hpp>
#include <cuevent/graph.hpp>
#include <cuevent/graph_exec.hpp>

#include "core/on_stream.hpp"
#include "core/refusal.hpp"
#include "core/result_of.hpp"
#include "core/retired_events.hpp"
#include "graphs/require_graph.hpp"

#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr const char* launch_graph = "cuGraphLaunch";
constexpr const char* not_of_this_graph =
    "the node is not an event node of this graph, the graph that the exec was made from has ended, or the "
    "event belongs to a different context than the event it replaces: keep the Graph for as long as you set "
    "events, and use a node from its event_nodes() and an event of that context";

} // namespace

GraphExec::GraphExec(const Context& context, CUgraphExec exec, Ownership ownership) noexcept
    : context_(context), exec_(exec), ownership_(ownership) {}

GraphExec GraphExec::from_native_handle(const Context& context, CUgraphExec exec) {
  require_handle(exec, "GraphExec::from_native_handle");
  return GraphExec(context, exec, Ownership::owned);
}

GraphExec GraphExec::borrow(const Context& context, CUgraphExec exec) {
  require_handle(exec, "GraphExec::borrow");
  return GraphExec(context, exec, Ownership::borrowed);
}

GraphExec::GraphExec(GraphExec&& other) noexcept
    : context_(std::move(other.context_)), exec_(std::exchange(other.exec_, nullptr)),
      ownership_(std::exchange(other.ownership_, Ownership::borrowed)), kept_(std::move(other.kept_)) {}

GraphExec& GraphExec::operator=(GraphExec&& other) noexcept {
  GraphExec taken(std::move(other));
  swap(taken);
  return *this;
}

GraphExec::~GraphExec() {
  if (ownership_ == Ownership::owned) destroy();
  released_by_graphs.destroy_all();
}

void GraphExec::destroy() noexcept {
  // An exec ends with its context. After a reset, the driver crashes if it destroys one.
  const CUresult lost = context_.status();
  if (lost == CUDA_ERROR_CONTEXT_IS_DESTROYED) return;
  if (lost != CUDA_SUCCESS) report_error(lost, "cuCtxGetId");
  const CUresult result = table().cuGraphExecDestroy_v10000(exec_);
  if (result != CUDA_SUCCESS) report_error(result, "cuGraphExecDestroy");
}

void GraphExec::launch(CUstream stream) {
  const CUresult result = try_launch(stream);
  if (result != CUDA_SUCCESS) fail_launch(result);
}

CUresult GraphExec::try_launch(CUstream stream) noexcept {
  if (const CUresult refused = check_not_empty(*this); refused != CUDA_SUCCESS) return refused;
  return noted(this, on_stream(context_, stream, [&] {
                 return Status{table().cuGraphLaunch_v10000(exec_, stream), launch_graph};
               }));
}

void GraphExec::set_event(EventRecordNode node, EventRef event) {
  const CUresult result = try_set_event(node, event);
  if (result != CUDA_SUCCESS) fail_set_event(result, node, event);
}

void GraphExec::set_event(EventWaitNode node, EventRef event) {
  const CUresult result = try_set_event(node, event);
  if (result != CUDA_SUCCESS) fail_set_event(result, node, event);
}

CUresult GraphExec::try_set_event(EventRecordNode node, EventRef event) noexcept {
  if (const CUresult refused = check_lasting_event(*this, event); refused != CUDA_SUCCESS) return refused;
  return table().cuGraphExecEventRecordNodeSetEvent_v11010(exec_, node.native_handle(),
                                                           event.native_handle());
}
CUresult GraphExec::try_set_event(EventWaitNode node, EventRef event) noexcept {
  if (const CUresult refused = check_lasting_event(*this, event); refused != CUDA_SUCCESS) return refused;
  return table().cuGraphExecEventWaitNodeSetEvent_v11010(exec_, node.native_handle(), event.native_handle());
}

DriverEvent GraphExec::set_event(EventRecordNode node, DriverEvent&& event) {
  DriverEvent before;
  const CUresult result = try_set_event(before, node, std::move(event));
  // NOLINTNEXTLINE(bugprone-use-after-move): not moved then
  if (result != CUDA_SUCCESS) fail_set_event(result, node, event);
  return before;
}
DriverEvent GraphExec::set_event(EventWaitNode node, DriverEvent&& event) {
  DriverEvent before;
  const CUresult result = try_set_event(before, node, std::move(event));
  // NOLINTNEXTLINE(bugprone-use-after-move): not moved then
  if (result != CUDA_SUCCESS) fail_set_event(result, node, event);
  return before;
}

CUresult GraphExec::try_set_event(DriverEvent& before, EventRecordNode node, DriverEvent&& event) noexcept {
  return keep(before, node, std::move(event));
}
CUresult GraphExec::try_set_event(DriverEvent& before, EventWaitNode node, DriverEvent&& event) noexcept {
  return keep(before, node, std::move(event));
}

template <class Node>
CUresult GraphExec::keep(DriverEvent& before, Node node, DriverEvent&& event) noexcept {
  for (Kept& kept : kept_)
    if (kept.node == node.native_handle()) {
      const CUresult result = try_set_event(node, std::as_const(event));
      if (result == CUDA_SUCCESS) before = std::exchange(kept.event, std::move(event));
      return result;
    }
  // Nothing may fail after the node is set.
  CUresult result = thrown_by([&] { kept_.reserve(kept_.size() + 1); });
  if (result == CUDA_SUCCESS) result = try_set_event(node, std::as_const(event));
  if (result != CUDA_SUCCESS) return result;
  kept_.push_back({node.native_handle(), std::move(event)});
  before = DriverEvent();
  return result;
}

void GraphExec::fail_launch(CUresult result) const {
  require_not_empty(*this, launch_graph);
  context_.driver().fail(result, refused_call(this, result, launch_graph));
}

void GraphExec::fail_set_event(CUresult result, EventRecordNode, EventRef event) const {
  const char* const call = "cuGraphExecEventRecordNodeSetEvent";
  require_not_empty(*this, call);
  require_lasting_event(context_, event, call);
  context_.driver().fail(result, call, not_of_this_graph);
}

void GraphExec::fail_set_event(CUresult result, EventWaitNode, EventRef event) const {
  const char* const call = "cuGraphExecEventWaitNodeSetEvent";
  require_not_empty(*this, call);
  require_lasting_event(context_, event, call);
  context_.driver().fail(result, call, not_of_this_graph);
}

CUgraphExec GraphExec::release() noexcept {
  for (Kept& kept : kept_)
    static_cast<void>(kept.event.release());
  kept_.clear();
  ownership_ = Ownership::borrowed;
  context_ = Context();
  return std::exchange(exec_, nullptr);
}

void GraphExec::swap(GraphExec& other) noexcept {
  context_.swap(other.context_);
  std::swap(exec_, other.exec_);
  std::swap(ownership_, other.ownership_);
  kept_.swap(other.kept_);
}

}} // namespace cuevent::CUEVENT_ABI
