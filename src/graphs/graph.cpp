// SPDX-License-Identifier: MIT
#include <cuevent/error.hpp>
#include <cuevent/graph.hpp>
#include <cuevent/graph_exec.hpp>

#include "core/refusal.hpp"
#include "core/require_context.hpp"
#include "core/result_of.hpp"
#include "core/retired_events.hpp"
#include "core/status.hpp"
#include "core/stay_loaded.hpp"
#include "graphs/require_graph.hpp"

#include <memory>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr const char* add_record_node = "cuGraphAddEventRecordNode";
constexpr const char* add_wait_node = "cuGraphAddEventWaitNode";
constexpr const char* set_record_node = "cuGraphEventRecordNodeSetEvent";
constexpr const char* set_wait_node = "cuGraphEventWaitNodeSetEvent";
constexpr const char* create_object = "cuUserObjectCreate";
constexpr const char* find_record = "Graph::record_node";
constexpr const char* find_wait = "Graph::wait_node";
constexpr const char* get_graph_nodes = "cuGraphGetNodes";
constexpr const char* instantiate_graph = "cuGraphInstantiateWithFlags";
constexpr const char* push_current = "cuCtxPushCurrent";
constexpr const char* retain_object = "cuGraphRetainUserObject";

/// Throws std::bad_alloc.
Status find_event_nodes(Graph::EventNodes& out, const DriverTable& table, CUgraph graph) {
  std::size_t count = 0;
  CUresult result = table.cuGraphGetNodes_v10000(graph, nullptr, &count);
  if (result != CUDA_SUCCESS) return {result, get_graph_nodes};
  std::vector<CUgraphNode> nodes(count);
  if (count != 0) result = table.cuGraphGetNodes_v10000(graph, nodes.data(), &count);
  if (result != CUDA_SUCCESS) return {result, get_graph_nodes};
  Graph::EventNodes found;
  for (CUgraphNode const node : nodes) {
    CUgraphNodeType type{};
    result = table.cuGraphNodeGetType_v10000(node, &type);
    if (result != CUDA_SUCCESS) return {result, "cuGraphNodeGetType"};
    if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) found.records.emplace_back(node);
    if (type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) found.waits.emplace_back(node);
  }
  out = std::move(found);
  return {};
}

CUresult get_event(CUevent& out, const DriverTable& table, EventRecordNode node) noexcept {
  return table.cuGraphEventRecordNodeGetEvent_v11010(node.native_handle(), &out);
}
CUresult get_event(CUevent& out, const DriverTable& table, EventWaitNode node) noexcept {
  return table.cuGraphEventWaitNodeGetEvent_v11010(node.native_handle(), &out);
}
constexpr const char* get_call(EventRecordNode) noexcept { return "cuGraphEventRecordNodeGetEvent"; }
constexpr const char* get_call(EventWaitNode) noexcept { return "cuGraphEventWaitNodeGetEvent"; }

/// The only node of `nodes` that has the event.
template <class Node>
Status only_node(Node& out, const DriverTable& table, const std::vector<Node>& nodes, EventRef event,
                 const char* call) noexcept {
  const Node* found = nullptr;
  for (const Node& node : nodes) {
    CUevent its_event = nullptr;
    const CUresult result = get_event(its_event, table, node);
    if (result != CUDA_SUCCESS) return {result, get_call(node)};
    if (its_event != event.native_handle()) continue;
    if (found != nullptr) return {CUDA_ERROR_INVALID_VALUE, call};
    found = &node;
  }
  if (found == nullptr) return {CUDA_ERROR_NOT_FOUND, call};
  out = *found;
  return {};
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
  return {table.cuGraphRetainUserObject_v11030(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE), retain_object};
}

/// An event that a graph owns.
struct HandedOver {
  RetiredEvent* kept;
  CUuserObject object; // owns `kept`, and is owned by the graph
};

/// If this fails, the caller still owns `event`.
Status give_to_graph(HandedOver& out, const DriverTable& table, CUgraph graph, DriverEvent& event) noexcept {
  std::unique_ptr<RetiredEvent> retired(new (std::nothrow) RetiredEvent);
  if (retired == nullptr) return {CUDA_ERROR_OUT_OF_MEMORY, create_object};
  CUuserObject object = nullptr;
  const CUresult result = table.cuUserObjectCreate_v11030(&object, retired.get(), retire_kept, 1,
                                                          CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) return {result, create_object};
  RetiredEvent* const kept = retired.release(); // the user object owns it now
  kept->hold(std::move(event));
  const Status status = hand_to_graph(table, graph, object);
  if (status) {
    out = {kept, object};
    return status;
  }
  event = std::move(kept->event);
  kept->holds = false;
  table.cuUserObjectRelease_v11030(object, 1); // retires the remaining empty entry
  return status;
}

/// The graph owns `event` before a node refers to it. If `refer` fails, the caller owns it again.
template <class Refer>
CUresult give_and_refer(const Graph& graph, DriverEvent& event, const Refer& refer) noexcept {
  if (const CUresult refused = check_lasting_event(graph, event); refused != CUDA_SUCCESS) return refused;
  const DriverTable& table = graph.context().driver().table();
  HandedOver handed{};
  const Status status = give_to_graph(handed, table, graph.native_handle(), event);
  if (!status) return noted(&graph, status);
  const CUresult result = refer(EventRef(handed.kept->event)); // notes its own refusal
  if (result == CUDA_SUCCESS) return result;
  event = std::move(handed.kept->event);
  handed.kept->holds = false;
  table.cuGraphReleaseUserObject_v11030(graph.native_handle(), handed.object, 1);
  return result;
}

} // namespace

Graph::Graph(const Context& context, CUgraph graph, Ownership ownership) noexcept
    : context_(context), graph_(graph), ownership_(ownership) {}

Graph::Graph(const Context& context) {
  const CUresult result = try_create(*this, context);
  if (result != CUDA_SUCCESS) context.driver().fail(result, "cuGraphCreate");
}

CUresult Graph::try_create(Graph& out, const Context& context) noexcept {
  CUgraph graph = nullptr;
  const CUresult result = context.driver().table().cuGraphCreate_v10000(&graph, 0);
  if (result == CUDA_SUCCESS) out = Graph(context, graph, Ownership::owned);
  return result;
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
  EventRecordNode node;
  const CUresult result = try_add_record(node, event, after);
  if (result != CUDA_SUCCESS) fail(result, add_record_node, event);
  return node;
}

EventRecordNode Graph::add_record(EventRef event, std::initializer_list<CUgraphNode> after) {
  return add_record(event, ArrayView(after));
}

EventRecordNode Graph::add_record(DriverEvent&& event, ArrayView<CUgraphNode> after) {
  EventRecordNode node;
  const CUresult result = try_add_record(node, std::move(event), after);
  // NOLINTNEXTLINE(bugprone-use-after-move): not moved then
  if (result != CUDA_SUCCESS) fail(result, add_record_node, event);
  return node;
}

EventRecordNode Graph::add_record(DriverEvent&& event, std::initializer_list<CUgraphNode> after) {
  return add_record(std::move(event), ArrayView(after));
}

CUresult Graph::try_add_record(EventRecordNode& out, EventRef event, ArrayView<CUgraphNode> after) noexcept {
  if (const CUresult refused = check_lasting_event(*this, event); refused != CUDA_SUCCESS) return refused;
  CUgraphNode node = nullptr;
  const CUresult result = table().cuGraphAddEventRecordNode_v11010(&node, graph_, after.data(), after.size(),
                                                                   event.native_handle());
  if (result == CUDA_SUCCESS) out = EventRecordNode(node);
  return noted(this, {result, add_record_node});
}

CUresult Graph::try_add_record(EventRecordNode& out, DriverEvent&& event,
                               ArrayView<CUgraphNode> after) noexcept {
  return give_and_refer(*this, event, [&](EventRef given) { return try_add_record(out, given, after); });
}

EventWaitNode Graph::add_wait(EventRef event, ArrayView<CUgraphNode> after) {
  EventWaitNode node;
  const CUresult result = try_add_wait(node, event, after);
  if (result != CUDA_SUCCESS) fail(result, add_wait_node, event);
  return node;
}

EventWaitNode Graph::add_wait(EventRef event, std::initializer_list<CUgraphNode> after) {
  return add_wait(event, ArrayView(after));
}

EventWaitNode Graph::add_wait(DriverEvent&& event, ArrayView<CUgraphNode> after) {
  EventWaitNode node;
  const CUresult result = try_add_wait(node, std::move(event), after);
  // NOLINTNEXTLINE(bugprone-use-after-move): not moved then
  if (result != CUDA_SUCCESS) fail(result, add_wait_node, event);
  return node;
}

EventWaitNode Graph::add_wait(DriverEvent&& event, std::initializer_list<CUgraphNode> after) {
  return add_wait(std::move(event), ArrayView(after));
}

CUresult Graph::try_add_wait(EventWaitNode& out, EventRef event, ArrayView<CUgraphNode> after) noexcept {
  if (const CUresult refused = check_lasting_event(*this, event); refused != CUDA_SUCCESS) return refused;
  CUgraphNode node = nullptr;
  const CUresult result = table().cuGraphAddEventWaitNode_v11010(&node, graph_, after.data(), after.size(),
                                                                 event.native_handle());
  if (result == CUDA_SUCCESS) out = EventWaitNode(node);
  return noted(this, {result, add_wait_node});
}

CUresult Graph::try_add_wait(EventWaitNode& out, DriverEvent&& event, ArrayView<CUgraphNode> after) noexcept {
  return give_and_refer(*this, event, [&](EventRef given) { return try_add_wait(out, given, after); });
}

CUevent Graph::event(EventRecordNode node) const {
  CUevent event = nullptr;
  const CUresult result = try_event(event, node);
  if (result != CUDA_SUCCESS) fail(result, get_call(node));
  return event;
}

CUevent Graph::event(EventWaitNode node) const {
  CUevent event = nullptr;
  const CUresult result = try_event(event, node);
  if (result != CUDA_SUCCESS) fail(result, get_call(node));
  return event;
}

CUresult Graph::try_event(CUevent& out, EventRecordNode node) const noexcept {
  const CUresult refused = check_not_empty(*this);
  return refused == CUDA_SUCCESS ? get_event(out, table(), node) : refused;
}
CUresult Graph::try_event(CUevent& out, EventWaitNode node) const noexcept {
  const CUresult refused = check_not_empty(*this);
  return refused == CUDA_SUCCESS ? get_event(out, table(), node) : refused;
}

void Graph::set_event(EventRecordNode node, EventRef event) {
  const CUresult result = try_set_event(node, event);
  if (result != CUDA_SUCCESS) fail(result, set_record_node, event);
}

void Graph::set_event(EventRecordNode node, DriverEvent&& event) {
  const CUresult result = try_set_event(node, std::move(event));
  // NOLINTNEXTLINE(bugprone-use-after-move): not moved then
  if (result != CUDA_SUCCESS) fail(result, set_record_node, event);
}

CUresult Graph::try_set_event(EventRecordNode node, EventRef event) noexcept {
  if (const CUresult refused = check_lasting_event(*this, event); refused != CUDA_SUCCESS) return refused;
  return noted(this,
               {table().cuGraphEventRecordNodeSetEvent_v11010(node.native_handle(), event.native_handle()),
                set_record_node});
}

CUresult Graph::try_set_event(EventRecordNode node, DriverEvent&& event) noexcept {
  return give_and_refer(*this, event, [&](EventRef given) { return try_set_event(node, given); });
}

void Graph::set_event(EventWaitNode node, EventRef event) {
  const CUresult result = try_set_event(node, event);
  if (result != CUDA_SUCCESS) fail(result, set_wait_node, event);
}

void Graph::set_event(EventWaitNode node, DriverEvent&& event) {
  const CUresult result = try_set_event(node, std::move(event));
  // NOLINTNEXTLINE(bugprone-use-after-move): not moved then
  if (result != CUDA_SUCCESS) fail(result, set_wait_node, event);
}

CUresult Graph::try_set_event(EventWaitNode node, EventRef event) noexcept {
  if (const CUresult refused = check_lasting_event(*this, event); refused != CUDA_SUCCESS) return refused;
  return noted(this,
               {table().cuGraphEventWaitNodeSetEvent_v11010(node.native_handle(), event.native_handle()),
                set_wait_node});
}

CUresult Graph::try_set_event(EventWaitNode node, DriverEvent&& event) noexcept {
  return give_and_refer(*this, event, [&](EventRef given) { return try_set_event(node, given); });
}

Graph::EventNodes Graph::event_nodes() const {
  EventNodes nodes;
  const CUresult result = try_event_nodes(nodes);
  require_not_empty(*this, get_graph_nodes); // before a refusal is looked up that may be older
  if (result != CUDA_SUCCESS) fail(result, refused_call(this, result, get_graph_nodes));
  return nodes;
}

CUresult Graph::try_event_nodes(EventNodes& out) const noexcept {
  if (const CUresult refused = check_not_empty(*this); refused != CUDA_SUCCESS) return refused;
  return result_of([&] { return noted(this, find_event_nodes(out, table(), graph_)); });
}

EventRecordNode Graph::record_node(EventRef event) const {
  EventRecordNode node;
  const CUresult result = try_record_node(node, event);
  if (result != CUDA_SUCCESS) fail_find(result, find_record, event);
  return node;
}

EventWaitNode Graph::wait_node(EventRef event) const {
  EventWaitNode node;
  const CUresult result = try_wait_node(node, event);
  if (result != CUDA_SUCCESS) fail_find(result, find_wait, event);
  return node;
}

CUresult Graph::try_record_node(EventRecordNode& out, EventRef event) const noexcept {
  if (const CUresult refused = check_event(*this, event); refused != CUDA_SUCCESS) return refused;
  EventNodes nodes;
  const CUresult result = try_event_nodes(nodes);
  if (result != CUDA_SUCCESS) return result;
  return noted(this, only_node(out, table(), nodes.records, event, find_record));
}
CUresult Graph::try_wait_node(EventWaitNode& out, EventRef event) const noexcept {
  if (const CUresult refused = check_event(*this, event); refused != CUDA_SUCCESS) return refused;
  EventNodes nodes;
  const CUresult result = try_event_nodes(nodes);
  if (result != CUDA_SUCCESS) return result;
  return noted(this, only_node(out, table(), nodes.waits, event, find_wait));
}

void Graph::retain(DriverEvent&& event) {
  const CUresult result = try_retain(std::move(event));
  if (result != CUDA_SUCCESS) fail_retain(result, event); // NOLINT(bugprone-use-after-move): not moved then
}

CUresult Graph::try_retain(DriverEvent&& event) noexcept {
  if (const CUresult refused = check_event(*this, event); refused != CUDA_SUCCESS) return refused;
  HandedOver handed{};
  return noted(this, give_to_graph(handed, table(), graph_, event));
}

void Graph::keep(RetiredObject* kept) {
  const CUresult result = hand_over(kept);
  if (result != CUDA_SUCCESS) fail_retain(result);
}

CUresult Graph::hand_over(RetiredObject* kept) noexcept {
  CUuserObject object = nullptr;
  CUresult result = check_not_empty(*this);
  if (result == CUDA_SUCCESS)
    result =
        table().cuUserObjectCreate_v11030(&object, kept, retire_object, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) {
    kept->end(kept); // it is still empty
    return noted(this, {result, create_object});
  }
  Status status{CUDA_ERROR_OPERATING_SYSTEM, "dlopen"}; // the user object owns it now
  // Templates of graph.hpp make `end`, so it belongs to the plugin that called them.
  if (stay_loaded(reinterpret_cast<const void*>(kept->end))) status = hand_to_graph(table(), graph_, object);
  if (!status) table().cuUserObjectRelease_v11030(object, 1); // retires the empty entry
  return noted(this, status);
}

EndNotice Graph::end_notice() {
  EndNotice notice;
  const CUresult result = try_end_notice(notice);
  if (result != CUDA_SUCCESS) fail_retain(result);
  return notice;
}

CUresult Graph::try_end_notice(EndNotice& out) noexcept {
  if (const CUresult refused = check_not_empty(*this); refused != CUDA_SUCCESS) return refused;
  EndNotice notice;
  notice.state_ = EndNotice::make();
  if (notice.state_ == nullptr) return noted(this, {CUDA_ERROR_OUT_OF_MEMORY, create_object});
  CUuserObject object = nullptr;
  const CUresult result = table().cuUserObjectCreate_v11030(&object, notice.state_, EndNotice::end, 1,
                                                            CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) {
    EndNotice::drop(notice.state_); // in place of the user object
    return noted(this, {result, create_object});
  }
  const Status status = hand_to_graph(table(), graph_, object);
  if (status)
    out = std::move(notice);
  else
    table().cuUserObjectRelease_v11030(object, 1); // ends the notice that nobody has
  return noted(this, status);
}

GraphExec Graph::instantiate() const {
  GraphExec exec;
  const CUresult result = try_instantiate(exec);
  if (result != CUDA_SUCCESS) fail_instantiate(result);
  return exec;
}

CUresult Graph::try_instantiate(GraphExec& out) const noexcept {
  CUresult result = check_not_empty(*this);
  if (result != CUDA_SUCCESS) return result;
  const ContextGuard guard(context_, result);
  if (result != CUDA_SUCCESS) return noted(this, {result, push_current});
  CUgraphExec exec = nullptr;
  result = table().cuGraphInstantiateWithFlags_v11040(&exec, graph_, 0);
  if (result != CUDA_SUCCESS) return noted(this, {result, instantiate_graph});
  out = GraphExec(context_, exec, Ownership::owned);
  return result;
}

void Graph::fail(CUresult result, const char* call) const {
  require_not_empty(*this, call);
  const bool has_node = is_call(call, get_call(EventRecordNode())) ||
                        is_call(call, get_call(EventWaitNode())) || is_call(call, set_record_node) ||
                        is_call(call, set_wait_node);
  context_.driver().fail(result, call, has_node ? not_such_a_node : nullptr);
}

void Graph::fail(CUresult result, const char* call, EventRef event) const {
  require_not_empty(*this, call);
  require_lasting_event(context_, event, call);
  fail(result, refused_call(this, result, call));
}

void Graph::fail_retain(CUresult result) const {
  require_not_empty(*this, create_object);
  fail(result, refused_call(this, result, create_object));
}

void Graph::fail_retain(CUresult result, EventRef event) const {
  require_not_empty(*this, create_object);
  require_event(context_, event, create_object);
  fail(result, refused_call(this, result, create_object));
}

void Graph::fail_find(CUresult result, const char* call, EventRef event) const {
  require_not_empty(*this, call);
  require_event(context_, event, call);
  const char* const refused = refused_call(this, result, call);
  if (result == CUDA_ERROR_INVALID_VALUE && is_call(refused, call))
    throw_error(CUDA_ERROR_INVALID_VALUE, call,
                "several nodes of the graph have this event: choose one of event_nodes()");
  if (result == CUDA_ERROR_NOT_FOUND && is_call(refused, call))
    throw_error(CUDA_ERROR_NOT_FOUND, call,
                "no node of the graph has this event: record or wait with the external flag in the capture, "
                "or look for the event that set_event() gave the node");
  fail(result, refused);
}

void Graph::fail_instantiate(CUresult result) const {
  require_not_empty(*this, instantiate_graph);
  const char* const call = refused_call(this, result, instantiate_graph);
  if (call == push_current) require_context(context_, call);
  const char* advice = nullptr;
  if (result == CUDA_ERROR_INVALID_VALUE && call == instantiate_graph)
    // the driver says it here, not where the node was added
    advice = "the driver does not accept a node of the graph: keep event nodes, host functions, "
             "memory operations and allocations out of the bodies of conditional nodes";
  context_.driver().fail(result, call, advice);
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
