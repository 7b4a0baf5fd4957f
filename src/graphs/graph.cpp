// SPDX-License-Identifier: MIT
#include <cuevent/error_hook.hpp>
#include <cuevent/graph.hpp>
#include <cuevent/graph_exec.hpp>

#include "core/result_of.hpp"
#include "core/retired_events.hpp"
#include "core/status.hpp"
#include "core/stay_loaded.hpp"
#include "graphs/require_graph.hpp"

#include <memory>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

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

constexpr const char* not_such_a_node =
    "the node is of another kind, or it has ended with its graph: keep the graph, and use a node from its "
    "event_nodes()";

/// The destructor of a user object. A thread of the driver calls this function when the last graph
/// has released the object. The function must not call the driver.
void CUDA_CB retire_kept(void* retired) { released_by_graphs.push(static_cast<RetiredEvent*>(retired)); }

/// The same for an object that is not an event.
void CUDA_CB retire_object(void* retired) { objects_of_graphs.push(static_cast<RetiredObject*>(retired)); }

/// The graph becomes the only owner of `object`, whose destructor is code of this copy of cuevent.
Status hand_to_graph(const DriverTable& table, CUgraph graph, CUuserObject object) noexcept {
  if (!stay_loaded()) return {CUDA_ERROR_OPERATING_SYSTEM, "dlopen"};
  return {table.cuGraphRetainUserObject_v11030(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE),
          "cuGraphRetainUserObject"};
}

/// An event that a graph owns.
struct HandedOver {
  RetiredEvent* kept;
  CUuserObject object; // owns `kept`, and is owned by the graph
};

/// If this throws, the caller still owns `event`.
HandedOver give_to_graph(const Graph& graph, DriverEvent& event) {
  const DriverTable& table = graph.context().driver().table();
  auto retired = std::make_unique<RetiredEvent>();
  CUuserObject object = nullptr;
  require_success(graph.context(),
                  table.cuUserObjectCreate_v11030(&object, retired.get(), retire_kept, 1,
                                                  CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
                  "cuUserObjectCreate");
  RetiredEvent* const kept = retired.release(); // the user object owns it now
  kept->hold(std::move(event));
  const Status status = hand_to_graph(table, graph.native_handle(), object);
  if (status) return {kept, object};
  event = std::move(kept->event);
  kept->holds = false;
  table.cuUserObjectRelease_v11030(object, 1); // retires the remaining empty entry
  graph.context().driver().fail(status.result, status.call);
}

/// The graph owns `event` before a node refers to it. If `refer` throws, the caller owns it again.
template <class Refer>
auto give_and_refer(const Graph& graph, DriverEvent& event, const char* call, const Refer& refer) {
  require_not_empty(graph, call);
  require_lasting_event(graph.context(), event, call);
  const HandedOver handed = give_to_graph(graph, event);
  try {
    return refer(EventRef(handed.kept->event));
  } catch (...) {
    event = std::move(handed.kept->event);
    handed.kept->holds = false;
    graph.context().driver().table().cuGraphReleaseUserObject_v11030(graph.native_handle(), handed.object, 1);
    throw;
  }
}

} // namespace

Graph::Graph(const Context& context, CUgraph graph, Ownership ownership) noexcept
    : context_(context), graph_(graph), ownership_(ownership) {}

Graph::Graph(const Context& context) : context_(context), ownership_(Ownership::owned) {
  require_success(context, table().cuGraphCreate_v10000(&graph_, 0), "cuGraphCreate");
}

Graph Graph::from_native_handle(const Context& context, CUgraph graph) {
  require_handle(graph, "Graph::from_native_handle");
  return Graph(context, graph, Ownership::owned);
}

Graph Graph::borrow(const Context& context, CUgraph graph) {
  require_handle(graph, "Graph::borrow");
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
  require_not_empty(*this, call);
  require_lasting_event(context_, event, call);
  CUgraphNode node = nullptr;
  require_success(context_,
                  table().cuGraphAddEventRecordNode_v11010(&node, graph_, after.data(), after.size(),
                                                           event.native_handle()),
                  call);
  return EventRecordNode(node);
}

EventRecordNode Graph::add_record(EventRef event, std::initializer_list<CUgraphNode> after) {
  return add_record(event, ArrayView(after));
}

EventRecordNode Graph::add_record(DriverEvent&& event, ArrayView<CUgraphNode> after) {
  return give_and_refer(*this, event, "cuGraphAddEventRecordNode",
                        [&](EventRef given) { return add_record(given, after); });
}

EventRecordNode Graph::add_record(DriverEvent&& event, std::initializer_list<CUgraphNode> after) {
  return add_record(std::move(event), ArrayView(after));
}

EventWaitNode Graph::add_wait(EventRef event, ArrayView<CUgraphNode> after) {
  const char* const call = "cuGraphAddEventWaitNode";
  require_not_empty(*this, call);
  require_lasting_event(context_, event, call);
  CUgraphNode node = nullptr;
  require_success(context_,
                  table().cuGraphAddEventWaitNode_v11010(&node, graph_, after.data(), after.size(),
                                                         event.native_handle()),
                  call);
  return EventWaitNode(node);
}

EventWaitNode Graph::add_wait(EventRef event, std::initializer_list<CUgraphNode> after) {
  return add_wait(event, ArrayView(after));
}

EventWaitNode Graph::add_wait(DriverEvent&& event, ArrayView<CUgraphNode> after) {
  return give_and_refer(*this, event, "cuGraphAddEventWaitNode",
                        [&](EventRef given) { return add_wait(given, after); });
}

EventWaitNode Graph::add_wait(DriverEvent&& event, std::initializer_list<CUgraphNode> after) {
  return add_wait(std::move(event), ArrayView(after));
}

CUevent Graph::event(EventRecordNode node) const {
  require_not_empty(*this, "cuGraphEventRecordNodeGetEvent");
  CUevent event = nullptr;
  require_success(context_, table().cuGraphEventRecordNodeGetEvent_v11010(node.native_handle(), &event),
                  "cuGraphEventRecordNodeGetEvent", not_such_a_node);
  return event;
}

CUevent Graph::event(EventWaitNode node) const {
  require_not_empty(*this, "cuGraphEventWaitNodeGetEvent");
  CUevent event = nullptr;
  require_success(context_, table().cuGraphEventWaitNodeGetEvent_v11010(node.native_handle(), &event),
                  "cuGraphEventWaitNodeGetEvent", not_such_a_node);
  return event;
}

void Graph::set_event(EventRecordNode node, EventRef event) {
  const char* const call = "cuGraphEventRecordNodeSetEvent";
  require_not_empty(*this, call);
  require_lasting_event(context_, event, call);
  require_success(context_,
                  table().cuGraphEventRecordNodeSetEvent_v11010(node.native_handle(), event.native_handle()),
                  call, not_such_a_node);
}

void Graph::set_event(EventRecordNode node, DriverEvent&& event) {
  give_and_refer(*this, event, "cuGraphEventRecordNodeSetEvent",
                 [&](EventRef given) { set_event(node, given); });
}

void Graph::set_event(EventWaitNode node, EventRef event) {
  const char* const call = "cuGraphEventWaitNodeSetEvent";
  require_not_empty(*this, call);
  require_lasting_event(context_, event, call);
  require_success(context_,
                  table().cuGraphEventWaitNodeSetEvent_v11010(node.native_handle(), event.native_handle()),
                  call, not_such_a_node);
}

void Graph::set_event(EventWaitNode node, DriverEvent&& event) {
  give_and_refer(*this, event, "cuGraphEventWaitNodeSetEvent",
                 [&](EventRef given) { set_event(node, given); });
}

Graph::EventNodes Graph::event_nodes() const {
  require_not_empty(*this, "cuGraphGetNodes");
  std::size_t count = 0;
  require_success(context_, table().cuGraphGetNodes_v10000(graph_, nullptr, &count), "cuGraphGetNodes");
  std::vector<CUgraphNode> nodes(count);
  if (count != 0)
    require_success(context_, table().cuGraphGetNodes_v10000(graph_, nodes.data(), &count),
                    "cuGraphGetNodes");
  EventNodes found;
  for (CUgraphNode const node : nodes) {
    CUgraphNodeType type{};
    require_success(context_, table().cuGraphNodeGetType_v10000(node, &type), "cuGraphNodeGetType");
    if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) found.records.emplace_back(node);
    if (type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) found.waits.emplace_back(node);
  }
  return found;
}

EventRecordNode Graph::record_node(EventRef event) const {
  const char* const call = "Graph::record_node";
  require_not_empty(*this, call);
  require_event(context_, event, call);
  return only_node(*this, event_nodes().records, event, call);
}

EventWaitNode Graph::wait_node(EventRef event) const {
  const char* const call = "Graph::wait_node";
  require_not_empty(*this, call);
  require_event(context_, event, call);
  return only_node(*this, event_nodes().waits, event, call);
}

void Graph::retain(DriverEvent&& event) {
  require_not_empty(*this, "cuUserObjectCreate");
  require_event(context_, event, "cuUserObjectCreate");
  give_to_graph(*this, event);
}

void Graph::keep(RetiredObject* kept) {
  CUuserObject object = nullptr;
  const char* call = "cuUserObjectCreate";
  CUresult result = graph_ == nullptr ? CUDA_ERROR_INVALID_HANDLE
                                      : table().cuUserObjectCreate_v11030(&object, kept, retire_object, 1,
                                                                          CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) {
    kept->end(kept); // it is still empty
    require_not_empty(*this, call);
    require_success(context_, result, call);
  }
  Status status{CUDA_ERROR_OPERATING_SYSTEM, "dlopen"}; // the user object owns it now
  // Templates of graph.hpp make `end`, so it belongs to the plugin that called them.
  if (stay_loaded(reinterpret_cast<const void*>(kept->end))) status = hand_to_graph(table(), graph_, object);
  if (status) return;
  table().cuUserObjectRelease_v11030(object, 1); // retires the empty entry
  require_success(context_, status.result, status.call);
}

CUresult Graph::hand_over(RetiredObject* kept) noexcept {
  return thrown_by([&] { keep(kept); });
}

CUresult Graph::try_end_notice(EndNotice& out) noexcept {
  if (graph_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  EndNotice notice;
  notice.state_ = EndNotice::make();
  if (notice.state_ == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  CUuserObject object = nullptr;
  CUresult result = table().cuUserObjectCreate_v11030(&object, notice.state_, EndNotice::end, 1,
                                                      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) {
    EndNotice::drop(notice.state_); // in place of the user object
    return result;
  }
  result = hand_to_graph(table(), graph_, object).result;
  if (result == CUDA_SUCCESS)
    out = std::move(notice);
  else
    table().cuUserObjectRelease_v11030(object, 1); // ends the notice that nobody has
  return result;
}

EndNotice Graph::end_notice() {
  EndNotice notice;
  const CUresult result = try_end_notice(notice);
  if (result == CUDA_SUCCESS) return notice;
  require_not_empty(*this, "Graph::end_notice");
  context_.driver().fail(result, "Graph::end_notice");
}

GraphExec Graph::instantiate() const {
  const char* const call = "cuGraphInstantiateWithFlags";
  require_not_empty(*this, call);
  const ContextGuard guard(context_);
  CUgraphExec exec = nullptr;
  const CUresult result = table().cuGraphInstantiateWithFlags_v11040(&exec, graph_, 0);
  if (result == CUDA_ERROR_INVALID_VALUE) // the driver says it here, not where the node was added
    context_.driver().fail(
        result, call,
        "the driver does not accept a node of the graph: keep event nodes, host functions, "
        "memory operations and allocations out of the bodies of conditional nodes");
  require_success(context_, result, call);
  return GraphExec(context_, exec, Ownership::owned);
}

CUresult Graph::try_create(Graph& out, const Context& context) noexcept {
  return thrown_by([&] { out = Graph(context); });
}

CUresult Graph::try_add_record(EventRecordNode& out, EventRef event, ArrayView<CUgraphNode> after) noexcept {
  return thrown_by([&] { out = add_record(event, after); });
}
CUresult Graph::try_add_wait(EventWaitNode& out, EventRef event, ArrayView<CUgraphNode> after) noexcept {
  return thrown_by([&] { out = add_wait(event, after); });
}

CUresult Graph::try_add_record(EventRecordNode& out, DriverEvent&& event,
                               ArrayView<CUgraphNode> after) noexcept {
  return thrown_by([&] { out = add_record(std::move(event), after); });
}
CUresult Graph::try_add_wait(EventWaitNode& out, DriverEvent&& event, ArrayView<CUgraphNode> after) noexcept {
  return thrown_by([&] { out = add_wait(std::move(event), after); });
}

CUresult Graph::try_event(CUevent& out, EventRecordNode node) const noexcept {
  return thrown_by([&] { out = event(node); });
}
CUresult Graph::try_event(CUevent& out, EventWaitNode node) const noexcept {
  return thrown_by([&] { out = event(node); });
}

CUresult Graph::try_set_event(EventRecordNode node, EventRef event) noexcept {
  return thrown_by([&] { set_event(node, event); });
}
CUresult Graph::try_set_event(EventWaitNode node, EventRef event) noexcept {
  return thrown_by([&] { set_event(node, event); });
}

CUresult Graph::try_set_event(EventRecordNode node, DriverEvent&& event) noexcept {
  return thrown_by([&] { set_event(node, std::move(event)); });
}
CUresult Graph::try_set_event(EventWaitNode node, DriverEvent&& event) noexcept {
  return thrown_by([&] { set_event(node, std::move(event)); });
}

CUresult Graph::try_event_nodes(EventNodes& out) const noexcept {
  return thrown_by([&] { out = event_nodes(); });
}
CUresult Graph::try_record_node(EventRecordNode& out, EventRef event) const noexcept {
  return thrown_by([&] { out = record_node(event); });
}
CUresult Graph::try_wait_node(EventWaitNode& out, EventRef event) const noexcept {
  return thrown_by([&] { out = wait_node(event); });
}

CUresult Graph::try_retain(DriverEvent&& event) noexcept {
  return thrown_by([&] { retain(std::move(event)); });
}
CUresult Graph::try_instantiate(GraphExec& out) const noexcept {
  return thrown_by([&] { out = instantiate(); });
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

}} // namespace cuevent::CUEVENT_ABI
