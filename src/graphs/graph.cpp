// SPDX-License-Identifier: MIT
#include <cuevent/graph.hpp>

#include "core/on_stream.hpp"
#include "core/retired_events.hpp"

#include <memory>
#include <utility>

namespace cuevent {

namespace {

void check(const Context& context, CUresult result, const char* call, const char* advice = nullptr) {
  if (result != CUDA_SUCCESS) context.driver().fail(result, call, advice);
}

void check_event(const Context& context, EventRef event, const char* call) {
  if (!event)
    throw EmptyEvent(call, "the event is empty: give the graph an event that lives as long as the graph");
  if (context && event.driver() != context.driver())
    throw ContextMismatch(
        call, "the event and the graph belong to different drivers: make the event with the graph's driver");
}

void check_not_empty(const Graph& graph, const char* call) {
  if (!graph)
    throw InvalidHandle(
        call, "the graph is empty, because it was moved from or released: use the object that has it now");
}

void check_not_empty(const GraphExec& exec, const char* call) {
  if (!exec)
    throw InvalidHandle(
        call,
        "the GraphExec is empty, because it was moved from or released: use the object that has it now");
}

template <class Handle>
void check_handle(Handle handle, const char* call) {
  if (handle == nullptr) throw InvalidHandle(call, "the handle is null: pass a live handle");
}

constexpr const char* not_of_this_graph =
    "the event belongs to a different context than the event it replaces, or the node is not an "
    "event node of this graph: use an event of that context and a node from event_nodes()";

template <class Node>
Node only_node(const Graph& graph, const std::vector<Node>& nodes, EventRef event, const char* call) {
  const Node* found = nullptr;
  for (const Node& node : nodes) {
    if (graph.event(node) != event.native_handle()) continue;
    if (found != nullptr)
      throw InvalidValue(call, "several nodes of the graph have this event: choose one of event_nodes()");
    found = &node;
  }
  if (found == nullptr)
    throw NotFound(
        call, "no node of the graph has this event: record or wait with the external flag in the capture, "
              "or look for the event that set_event() gave the node");
  return *found;
}

/// The destructor of a user object. A thread of the driver calls this function when the last graph
/// has released the object. The function must not call the driver.
void CUDA_CB retire_kept(void* retired) { released_by_graphs.push(static_cast<RetiredEvent*>(retired)); }

/// The same for an object that is not an event.
void CUDA_CB retire_object(void* retired) { objects_of_graphs.push(static_cast<RetiredObject*>(retired)); }

} // namespace

Graph::Graph(const Context& context, CUgraph graph, Ownership ownership) noexcept
    : context_(context), graph_(graph), ownership_(ownership) {}

Graph::Graph(const Context& context) : context_(context), ownership_(Ownership::owned) {
  check(context, table().cuGraphCreate_v10000(&graph_, 0), "cuGraphCreate");
}

Graph Graph::from_native_handle(const Context& context, CUgraph graph) {
  check_handle(graph, "Graph::from_native_handle");
  return Graph(context, graph, Ownership::owned);
}

Graph Graph::borrow(const Context& context, CUgraph graph) {
  check_handle(graph, "Graph::borrow");
  return Graph(context, graph, Ownership::borrowed);
}

Graph::Graph(Graph&& other) noexcept
    : context_(std::move(other.context_)), graph_(std::exchange(other.graph_, nullptr)),
      ownership_(std::exchange(other.ownership_, Ownership::borrowed)) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  Graph taken(std::move(other));
  swap(taken);
  return *this;
}

Graph::~Graph() {
  if (ownership_ == Ownership::borrowed) return;
  const CUresult result = table().cuGraphDestroy_v10000(graph_);
  if (result != CUDA_SUCCESS) report_error(result, "cuGraphDestroy");
  released_by_graphs.destroy_all();
}

EventRecordNode Graph::add_record(EventRef event, ArrayView<CUgraphNode> after) {
  const char* const call = "cuGraphAddEventRecordNode";
  check_not_empty(*this, call);
  check_event(context_, event, call);
  CUgraphNode node = nullptr;
  check(context_,
        table().cuGraphAddEventRecordNode_v11010(&node, graph_, after.data(), after.size(),
                                                 event.native_handle()),
        call);
  return EventRecordNode(node);
}

EventRecordNode Graph::add_record(EventRef event, std::initializer_list<CUgraphNode> after) {
  return add_record(event, ArrayView(after));
}

EventWaitNode Graph::add_wait(EventRef event, ArrayView<CUgraphNode> after) {
  const char* const call = "cuGraphAddEventWaitNode";
  check_not_empty(*this, call);
  check_event(context_, event, call);
  CUgraphNode node = nullptr;
  check(context_,
        table().cuGraphAddEventWaitNode_v11010(&node, graph_, after.data(), after.size(),
                                               event.native_handle()),
        call);
  return EventWaitNode(node);
}

EventWaitNode Graph::add_wait(EventRef event, std::initializer_list<CUgraphNode> after) {
  return add_wait(event, ArrayView(after));
}

CUevent Graph::event(EventRecordNode node) const {
  check_not_empty(*this, "cuGraphEventRecordNodeGetEvent");
  CUevent event = nullptr;
  check(context_, table().cuGraphEventRecordNodeGetEvent_v11010(node.native_handle(), &event),
        "cuGraphEventRecordNodeGetEvent");
  return event;
}

CUevent Graph::event(EventWaitNode node) const {
  check_not_empty(*this, "cuGraphEventWaitNodeGetEvent");
  CUevent event = nullptr;
  check(context_, table().cuGraphEventWaitNodeGetEvent_v11010(node.native_handle(), &event),
        "cuGraphEventWaitNodeGetEvent");
  return event;
}

void Graph::set_event(EventRecordNode node, EventRef event) {
  const char* const call = "cuGraphEventRecordNodeSetEvent";
  check_not_empty(*this, call);
  check_event(context_, event, call);
  check(context_, table().cuGraphEventRecordNodeSetEvent_v11010(node.native_handle(), event.native_handle()),
        call);
}

void Graph::set_event(EventWaitNode node, EventRef event) {
  const char* const call = "cuGraphEventWaitNodeSetEvent";
  check_not_empty(*this, call);
  check_event(context_, event, call);
  check(context_, table().cuGraphEventWaitNodeSetEvent_v11010(node.native_handle(), event.native_handle()),
        call);
}

Graph::EventNodes Graph::event_nodes() const {
  check_not_empty(*this, "cuGraphGetNodes");
  std::size_t count = 0;
  check(context_, table().cuGraphGetNodes_v10000(graph_, nullptr, &count), "cuGraphGetNodes");
  std::vector<CUgraphNode> nodes(count);
  if (count != 0)
    check(context_, table().cuGraphGetNodes_v10000(graph_, nodes.data(), &count), "cuGraphGetNodes");
  EventNodes found;
  for (CUgraphNode const node : nodes) {
    CUgraphNodeType type{};
    check(context_, table().cuGraphNodeGetType_v10000(node, &type), "cuGraphNodeGetType");
    if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) found.records.emplace_back(node);
    if (type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) found.waits.emplace_back(node);
  }
  return found;
}

EventRecordNode Graph::record_node(EventRef event) const {
  const char* const call = "Graph::record_node";
  check_not_empty(*this, call);
  check_event(context_, event, call);
  return only_node(*this, event_nodes().records, event, call);
}

EventWaitNode Graph::wait_node(EventRef event) const {
  const char* const call = "Graph::wait_node";
  check_not_empty(*this, call);
  check_event(context_, event, call);
  return only_node(*this, event_nodes().waits, event, call);
}

void Graph::retain(DriverEvent&& event) {
  check_not_empty(*this, "cuUserObjectCreate");
  check_event(context_, event, "cuUserObjectCreate");
  auto retired = std::make_unique<RetiredEvent>();
  CUuserObject object = nullptr;
  check(context_,
        table().cuUserObjectCreate_v11030(&object, retired.get(), retire_kept, 1,
                                          CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
        "cuUserObjectCreate");
  RetiredEvent* const kept = retired.release(); // the user object owns it now
  kept->hold(std::move(event));
  const CUresult result =
      table().cuGraphRetainUserObject_v11030(graph_, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (result == CUDA_SUCCESS) return;
  event = std::move(kept->event);
  kept->holds = false;
  table().cuUserObjectRelease_v11030(object, 1); // retires the remaining empty entry
  check(context_, result, "cuGraphRetainUserObject");
}

void Graph::keep(RetiredObject* kept) {
  CUuserObject object = nullptr;
  const char* call = "cuUserObjectCreate";
  CUresult result = graph_ == nullptr ? CUDA_ERROR_INVALID_HANDLE
                                      : table().cuUserObjectCreate_v11030(&object, kept, retire_object, 1,
                                                                          CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) {
    kept->end(kept); // it is still empty
    check_not_empty(*this, call);
    check(context_, result, call);
  }
  call = "cuGraphRetainUserObject"; // the user object owns it now
  result = table().cuGraphRetainUserObject_v11030(graph_, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (result == CUDA_SUCCESS) return;
  table().cuUserObjectRelease_v11030(object, 1); // retires the empty entry
  check(context_, result, call);
}

GraphExec Graph::instantiate() const {
  const char* const call = "cuGraphInstantiateWithFlags";
  check_not_empty(*this, call);
  const ContextGuard guard(context_);
  CUgraphExec exec = nullptr;
  const CUresult result = table().cuGraphInstantiateWithFlags_v11040(&exec, graph_, 0);
  if (result == CUDA_ERROR_INVALID_VALUE) // the driver says it here, not where the node was added
    context_.driver().fail(
        result, call,
        "the driver does not accept a node of the graph: keep event nodes, host functions, "
        "memory operations and allocations out of the bodies of conditional nodes");
  check(context_, result, call);
  return GraphExec(context_, exec, Ownership::owned);
}

CUgraph Graph::release() noexcept {
  ownership_ = Ownership::borrowed;
  context_ = Context();
  return std::exchange(graph_, nullptr);
}

void Graph::swap(Graph& other) noexcept {
  context_.swap(other.context_);
  std::swap(graph_, other.graph_);
  std::swap(ownership_, other.ownership_);
}

GraphExec::GraphExec(const Context& context, CUgraphExec exec, Ownership ownership) noexcept
    : context_(context), exec_(exec), ownership_(ownership) {}

GraphExec GraphExec::from_native_handle(const Context& context, CUgraphExec exec) {
  check_handle(exec, "GraphExec::from_native_handle");
  return GraphExec(context, exec, Ownership::owned);
}

GraphExec GraphExec::borrow(const Context& context, CUgraphExec exec) {
  check_handle(exec, "GraphExec::borrow");
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
  if (ownership_ == Ownership::owned) {
    const CUresult result = table().cuGraphExecDestroy_v10000(exec_);
    if (result != CUDA_SUCCESS) report_error(result, "cuGraphExecDestroy");
  }
  released_by_graphs.destroy_all();
}

void GraphExec::launch(CUstream stream) {
  check_not_empty(*this, "cuGraphLaunch");
  const Status status = on_stream(context_, stream, [&] {
    return Status{table().cuGraphLaunch_v10000(exec_, stream), "cuGraphLaunch"};
  });
  check(context_, status.result, status.call);
}

void GraphExec::set_event(EventRecordNode node, EventRef event) {
  const char* const call = "cuGraphExecEventRecordNodeSetEvent";
  check_not_empty(*this, call);
  check_event(context_, event, call);
  check(context_,
        table().cuGraphExecEventRecordNodeSetEvent_v11010(exec_, node.native_handle(), event.native_handle()),
        call, not_of_this_graph);
}

void GraphExec::set_event(EventWaitNode node, EventRef event) {
  const char* const call = "cuGraphExecEventWaitNodeSetEvent";
  check_not_empty(*this, call);
  check_event(context_, event, call);
  check(context_,
        table().cuGraphExecEventWaitNodeSetEvent_v11010(exec_, node.native_handle(), event.native_handle()),
        call, not_of_this_graph);
}

DriverEvent GraphExec::set_event(EventRecordNode node, DriverEvent&& event) {
  return keep(node, std::move(event));
}
DriverEvent GraphExec::set_event(EventWaitNode node, DriverEvent&& event) {
  return keep(node, std::move(event));
}

template <class Node>
DriverEvent GraphExec::keep(Node node, DriverEvent&& event) {
  for (Kept& kept : kept_)
    if (kept.node == node.native_handle()) {
      set_event(node, std::as_const(event));
      return std::exchange(kept.event, std::move(event));
    }
  kept_.reserve(kept_.size() + 1); // nothing may throw after the node is set
  set_event(node, std::as_const(event));
  kept_.push_back({node.native_handle(), std::move(event)});
  return {};
}

CUgraphExec GraphExec::release() noexcept {
  for (Kept& kept : kept_)
    kept.event.release();
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

} // namespace cuevent
