// SPDX-License-Identifier: MIT
#include "api.hpp"

#include <algorithm>
#include <map>

namespace cuevent::sim {

CUresult Api::cuGraphCreate(CUgraph* out, unsigned int flags) {
  refuse_if(out == nullptr || flags != 0, CUDA_ERROR_INVALID_VALUE);
  *out = as<CUgraph>(*make<Graph>(Kind::graph, nullptr));
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphDestroy(CUgraph handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_VALUE,
            "The source graph pointer is NULL\nGraph is not a valid source graph");
  auto gone = graph(handle);
  refuse_if(gone->body || gone->child, CUDA_ERROR_INVALID_VALUE);
  refuse_if(std::any_of(process_.captures.begin(), process_.captures.end(),
                        [&](const auto& capture) { return capture->graph == gone; }),
            CUDA_ERROR_ILLEGAL_STATE);
  must_not_be_captured(*gone);
  forget(*gone, ending());
  gone.reset();
  computer_.settle(lock_);
  return CUDA_SUCCESS;
}

/// With clones of its child graphs. Conditional handles need no node to forbid it.
std::shared_ptr<Graph> Api::clone(const Graph& from) {
  refuse_if(from.names_memory || from.conditional_handles, CUDA_ERROR_NOT_SUPPORTED);
  auto clone = make<Graph>(Kind::graph, nullptr);
  std::map<const Node*, Node*> copies;
  for (auto& one : from.nodes) {
    auto copy = make<Node>(Kind::node, nullptr);
    copy->graph = clone.get();
    copy->work = one->work;
    copy->original = one->number;
    copy->original_handle = as<CUgraphNode>(*one);
    if (copy->work.child) copy->work.child = child(*copy->work.child);
    copies[one.get()] = copy.get();
    clone->nodes.push_back(std::move(copy));
  }
  for (auto& one : from.nodes)
    for (const Node* before : one->after)
      copies.at(one.get())->after.push_back(copies.at(before));
  clone->user_objects.share_from(from.user_objects);
  return clone;
}

std::shared_ptr<Graph> Api::child(const Graph& from) {
  auto made = clone(from);
  made->child = true;
  return made;
}

CUresult Api::cuGraphClone(CUgraph* out, CUgraph handle) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = as<CUgraph>(*clone(*graph(handle)));
  return CUDA_SUCCESS;
}

/// The handles of a graph that is gone, and of the graphs in it.
void Api::forget(Graph& graph, const std::string& how) {
  for (auto& one : graph.nodes) {
    forget_inside(*one, how);
    computer_.handles.remove(*one, how);
  }
  graph.nodes.clear();
  computer_.handles.remove(graph, how);
}

void Api::forget_inside(const Node& node, const std::string& how) {
  if (node.work.child) forget(*node.work.child, how);
  for (const auto& body : bodies_of(node.work))
    forget(*body, how);
}

CUresult Api::list_nodes(const std::vector<Node*>& found, CUgraphNode* nodes, size_t* count) {
  refuse_if(count == nullptr || (nodes != nullptr && *count == 0), CUDA_ERROR_INVALID_VALUE);
  if (nodes == nullptr) {
    *count = found.size();
    return CUDA_SUCCESS;
  }
  for (size_t i = 0; i < *count; ++i)
    nodes[i] = i < found.size() ? as<CUgraphNode>(*found[i]) : nullptr;
  *count = std::min(*count, found.size());
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  std::vector<Node*> found;
  for (auto& one : graph(handle)->nodes)
    found.push_back(one.get());
  return list_nodes(found, nodes, count);
}

CUresult Api::cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  std::vector<Node*> found;
  for (auto& one : graph(handle)->nodes)
    if (one->after.empty()) found.push_back(one.get());
  return list_nodes(found, nodes, count);
}

CUresult Api::cuGraphGetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  refuse_if(count == nullptr || (from == nullptr) != (to == nullptr) || (from != nullptr && *count == 0),
            CUDA_ERROR_INVALID_VALUE);
  std::vector<std::pair<Node*, Node*>> edges;
  for (auto& one : graph(handle)->nodes)
    for (Node* before : one->after)
      edges.emplace_back(before, one.get());
  if (from != nullptr) {
    for (size_t i = 0; i < *count; ++i) {
      from[i] = i < edges.size() ? as<CUgraphNode>(*edges[i].first) : nullptr;
      to[i] = i < edges.size() ? as<CUgraphNode>(*edges[i].second) : nullptr;
    }
  }
  *count = from == nullptr ? edges.size() : std::min(*count, edges.size());
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  refuse_if(type == nullptr, CUDA_ERROR_INVALID_VALUE);
  *type = node(handle)->work.type;
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode* nodes, size_t* count) {
  return list_nodes(node(handle)->after, nodes, count);
}

CUresult Api::cuGraphNodeGetDependentNodes(CUgraphNode handle, CUgraphNode* nodes, size_t* count) {
  auto asked = node(handle);
  std::vector<Node*> found;
  for (auto& one : asked->graph->nodes)
    if (std::find(one->after.begin(), one->after.end(), asked.get()) != one->after.end())
      found.push_back(one.get());
  return list_nodes(found, nodes, count);
}

/// A list with a wrong edge changes nothing. With an edge that exists, or with one to remove that does
/// not exist, the edges before it count.
std::vector<Api::Edge> Api::edges_of(const Graph& in, const CUgraphNode* from, const CUgraphNode* to,
                                     size_t count) {
  refuse_if((from == nullptr || to == nullptr) && count != 0, CUDA_ERROR_INVALID_VALUE);
  std::vector<Edge> edges;
  for (size_t i = 0; i < count; ++i) {
    edges.push_back({node_of(in, from[i]).get(), node_of(in, to[i]).get()});
    refuse_if(from[i] == to[i], CUDA_ERROR_INVALID_VALUE); // longer cycles are found by the instantiation
  }
  return edges;
}

CUresult Api::cuGraphAddDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                     size_t count) {
  auto into = graph(handle);
  for (const auto& [before, after] : edges_of(*into, from, to, count)) {
    refuse_if(std::find(after->after.begin(), after->after.end(), before) != after->after.end(),
              CUDA_ERROR_INVALID_VALUE);
    after->after.push_back(before);
  }
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphRemoveDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                        size_t count) {
  auto into = graph(handle);
  const std::vector<Edge> edges = edges_of(*into, from, to, count);
  refuse_if(into->names_memory, CUDA_ERROR_NOT_SUPPORTED);
  for (const auto& [before, after] : edges)
    refuse_if(std::erase(after->after, before) == 0, CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12030
namespace {

void full_edges(CUgraphEdgeData* data, size_t count) {
  if (data != nullptr) std::fill_n(data, count, CUgraphEdgeData{});
}

} // namespace

CUresult Api::cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                                 size_t* count) {
  refuse_if(from == nullptr && data != nullptr, CUDA_ERROR_INVALID_VALUE);
  const size_t room = from != nullptr && count != nullptr ? *count : 0;
  const CUresult result = cuGraphGetEdges(handle, from, to, count);
  full_edges(data, room);
  return result;
}

CUresult Api::cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode* nodes, CUgraphEdgeData* data,
                                            size_t* count) {
  refuse_if(nodes == nullptr && data != nullptr, CUDA_ERROR_INVALID_VALUE);
  const CUresult result = cuGraphNodeGetDependencies(handle, nodes, count);
  full_edges(data, *count);
  return result;
}

CUresult Api::cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode* nodes, CUgraphEdgeData* data,
                                              size_t* count) {
  refuse_if(nodes == nullptr && data != nullptr, CUDA_ERROR_INVALID_VALUE);
  const CUresult result = cuGraphNodeGetDependentNodes(handle, nodes, count);
  full_edges(data, *count);
  return result;
}

CUresult Api::cuGraphAddDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                        const CUgraphEdgeData* data, size_t count) {
  refuse_if(has_reserved_edge(data, count), CUDA_ERROR_INVALID_VALUE);
  must_be_plain(*graph(handle), from, to != nullptr ? data : nullptr, count);
  return cuGraphAddDependencies(handle, from, to, count);
}

/// A device removes a full dependency whatever the data says.
CUresult Api::cuGraphRemoveDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                           const CUgraphEdgeData*, size_t count) {
  return cuGraphRemoveDependencies(handle, from, to, count);
}
#endif

CUresult Api::cuGraphDestroyNode(CUgraphNode handle) {
  auto gone = node_or_crash(handle);
  refuse_if(gone->graph->names_memory, CUDA_ERROR_NOT_SUPPORTED);
  for (const auto& body : bodies_of(gone->work))
    must_not_be_captured(*body);
  for (auto& one : gone->graph->nodes)
    std::erase(one->after, gone.get());
  for (auto& capture : process_.captures)
    std::erase(capture->joined, gone.get());
  std::erase(gone->graph->nodes, gone);
  forget_inside(*gone, "destroyed with its node, " + ending());
  computer_.handles.remove(*gone, ending());
  return CUDA_SUCCESS;
}

CUresult Api::add_node(CUgraphNode* out, CUgraph handle, const CUgraphNode* after, std::size_t count,
                       Work work) {
  refuse_if(out == nullptr || (after == nullptr && count != 0), CUDA_ERROR_INVALID_VALUE);
  auto into = graph(handle);
  std::vector<Node*> before;
  for (std::size_t i = 0; i < count; ++i) {
    auto one = node_of(*into, after[i]);
    refuse_if(std::find(before.begin(), before.end(), one.get()) != before.end(), CUDA_ERROR_INVALID_VALUE);
    before.push_back(one.get());
  }
  if (work.child == into)
    crash("the graph is to become a child of itself: " + computer_.handles.describe(handle));
  if (work.child) work.child = child(*work.child);
  auto added = make<Node>(Kind::node, nullptr);
  added->graph = into.get();
  added->work = std::move(work);
  added->after = std::move(before);
  into->nodes.push_back(added);
  *out = as<CUgraphNode>(*added);
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphAddEmptyNode(CUgraphNode* out, CUgraph into, const CUgraphNode* after, size_t count) {
  Work work;
  work.text = "empty node";
  return add_node(out, into, after, count, std::move(work));
}

CUresult Api::cuGraphAddHostNode(CUgraphNode* out, CUgraph into, const CUgraphNode* after, size_t count,
                                 const CUDA_HOST_NODE_PARAMS* parameters) {
  refuse_if(parameters == nullptr || parameters->fn == nullptr, CUDA_ERROR_INVALID_VALUE);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_HOST;
  work.text = "host function";
  work.function = parameters->fn;
  work.data = parameters->userData;
  return add_node(out, into, after, count, std::move(work));
}

CUresult Api::cuGraphHostNodeGetParams(CUgraphNode handle, CUDA_HOST_NODE_PARAMS* parameters) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  const Work& work = node(handle, CU_GRAPH_NODE_TYPE_HOST)->work;
  *parameters = {};
  parameters->fn = work.function;
  parameters->userData = work.data;
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphHostNodeSetParams(CUgraphNode handle, const CUDA_HOST_NODE_PARAMS* parameters) {
  refuse_if(parameters == nullptr || parameters->fn == nullptr, CUDA_ERROR_INVALID_VALUE);
  Work& work = node(handle, CU_GRAPH_NODE_TYPE_HOST)->work;
  work.function = parameters->fn;
  work.data = parameters->userData;
  return CUDA_SUCCESS;
}

// Nodes that refer to an event

CUresult Api::set_node_event(Work& work, CUevent handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto what = find<Event>(handle, Kind::event); // the context may be gone: only the launch fails
  work.event = what;
  if (work.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
    const Work record = record_work(what);
    work.text = record.text;
    work.duration = record.duration;
  } else {
    work.text = "wait for event #" + std::to_string(what->number);
  }
  return CUDA_SUCCESS;
}

CUresult Api::get_node_event(CUgraphNode handle, CUgraphNodeType type, CUevent* out) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = as<CUevent>(*node(handle, type)->work.event);
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph into, const CUgraphNode* after,
                                        size_t count, CUevent event) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  refuse_if(event == nullptr, CUDA_ERROR_INVALID_VALUE, "event cannot be NULL");
  set_node_event(work, event);
  refuse_if(into == nullptr, CUDA_ERROR_INVALID_VALUE,
            "The source graph pointer is NULL\nhGraph is not a valid source graph");
  return add_node(out, into, after, count, std::move(work));
}

CUresult Api::cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph into, const CUgraphNode* after, size_t count,
                                      CUevent event) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  set_node_event(work, event);
  return add_node(out, into, after, count, std::move(work));
}

CUresult Api::cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return get_node_event(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult Api::cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return get_node_event(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

CUresult Api::cuGraphEventRecordNodeSetEvent(CUgraphNode handle, CUevent event) {
  return set_node_event(node(handle, CU_GRAPH_NODE_TYPE_EVENT_RECORD)->work, event);
}

CUresult Api::cuGraphEventWaitNodeSetEvent(CUgraphNode handle, CUevent event) {
  return set_node_event(node(handle, CU_GRAPH_NODE_TYPE_WAIT_EVENT, "Node is not an event wait node")->work,
                        event);
}

} // namespace cuevent::sim
