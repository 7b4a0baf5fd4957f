// SPDX-License-Identifier: MIT
// Changes of what the next work of a captured stream depends on: cuStreamUpdateCaptureDependencies.

#include "scene.hpp"

#include <algorithm>
#include <vector>

namespace transcript {
namespace {

constexpr unsigned add = CU_STREAM_ADD_CAPTURE_DEPENDENCIES, set = CU_STREAM_SET_CAPTURE_DEPENDENCIES;

using Nodes = std::vector<CUgraphNode>;

Nodes frontier(Scene& s, CUstream stream) {
  CUstreamCaptureStatus status{};
  const CUgraphNode* nodes = nullptr;
  std::size_t count = 0;
  const CUresult result = s.cu.StreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &count);
  if (result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return {};
  return {nodes, nodes + count};
}

CUgraphNode work(Scene& s, CUstream stream) {
  s.lab.must(s.launch(stream), "work");
  const Nodes nodes = frontier(s, stream);
  return nodes.empty() ? nullptr : nodes.back();
}

CUresult change(Scene& s, CUstream stream, Nodes nodes, unsigned flags) {
  return s.cu.StreamUpdateCaptureDependencies(stream, nodes.data(), nodes.size(), flags);
}

// The places of these nodes in the list of all nodes, in order.
std::string places(const Nodes& nodes, const Nodes& all) {
  std::string text;
  for (CUgraphNode const node : nodes)
    text += (text.empty() ? "" : " ") + std::to_string(std::find(all.begin(), all.end(), node) - all.begin());
  return text.empty() ? "none" : text;
}

CUgraphNode foreign_node(Scene& s) {
  CUgraphNode node = nullptr;
  CUgraph graph = make_graph(s.lab);
  s.lab.must(s.cu.GraphAddEmptyNode(&node, graph, nullptr, 0), "add");
  return node;
}

const Probe probes[] = {
    {"set_nothing", [](Scene& s) { return s.cu.StreamUpdateCaptureDependencies(s.origin, nullptr, 0, set); }},
    {"set_empty_array",
     [](Scene& s) {
       CUgraphNode none = nullptr;
       const CUresult result = s.cu.StreamUpdateCaptureDependencies(s.origin, &none, 0, set);
       s.lab.shows("set_empty_array.count", frontier(s, s.origin).size());
       return result;
     }},
    {"add_nothing", [](Scene& s) { return s.cu.StreamUpdateCaptureDependencies(s.origin, nullptr, 0, add); }},
    {"nothing_but_a_count",
     [](Scene& s) { return s.cu.StreamUpdateCaptureDependencies(s.origin, nullptr, 1, set); }},
    {"add_again",
     [](Scene& s) {
       const CUresult result = change(s, s.origin, frontier(s, s.origin), add);
       s.lab.shows("add_again.count", frontier(s, s.origin).size());
       return result;
     }},
    {"set_twice_the_same",
     [](Scene& s) {
       CUgraphNode const node = frontier(s, s.origin).at(0);
       const CUresult result = change(s, s.origin, {node, node}, set);
       s.lab.shows("set_twice_the_same.count", frontier(s, s.origin).size());
       return result;
     }},
    {"set_from_driver_array",
     [](Scene& s) {
       CUstreamCaptureStatus status{};
       const CUgraphNode* nodes = nullptr;
       std::size_t count = 0;
       s.cu.StreamGetCaptureInfo(s.origin, &status, nullptr, nullptr, &nodes, &count);
       return s.cu.StreamUpdateCaptureDependencies(s.origin, const_cast<CUgraphNode*>(nodes), count, set);
     }},
    {"order",
     [](Scene& s) {
       CUgraphNode const first = work(s, s.origin), second = work(s, s.origin), third = work(s, s.origin);
       const CUresult result = change(s, s.origin, {third, first}, set);
       s.lab.shows("order.after_set", places(frontier(s, s.origin), {first, second, third}));
       s.lab.is("order.add", change(s, s.origin, {second}, add));
       s.lab.shows("order.after_add", places(frontier(s, s.origin), {first, second, third}));
       return result;
     }},
    {"foreign_node", [](Scene& s) { return change(s, s.origin, {foreign_node(s)}, add); }},
    {"own_and_foreign_node",
     [](Scene& s) {
       CUgraphNode const first = frontier(s, s.origin).at(0), second = work(s, s.origin);
       const CUresult result = change(s, s.origin, {first, foreign_node(s)}, set);
       s.lab.shows("own_and_foreign_node.left", places(frontier(s, s.origin), {first, second}));
       return result;
     }},
    {"unknown_flags", [](Scene& s) { return change(s, s.origin, frontier(s, s.origin), 2); }},
    {"bystander", [](Scene& s) { return change(s, s.bystander, frontier(s, s.origin), set); }},
    {"bystander.unknown_flags", [](Scene& s) { return change(s, s.bystander, {}, 2); }},
    {"legacy", [](Scene& s) { return change(s, CU_STREAM_LEGACY, frontier(s, s.origin), set); }},
    {"per_thread", [](Scene& s) { return change(s, CU_STREAM_PER_THREAD, frontier(s, s.origin), set); }},
    {"other_thread",
     [](Scene& s) {
       const Nodes nodes = frontier(s, s.origin);
       return on_other_thread(s.lab, [&] { return change(s, s.origin, nodes, set); });
     }},
    {"invalidated",
     [](Scene& s) {
       const Nodes nodes = frontier(s, s.origin);
       s.cu.EventQuery(s.captured);
       return change(s, s.origin, nodes, set);
     }},
    {"removed_work",
     [](Scene& s) {
       const Nodes before = frontier(s, s.origin);
       work(s, s.origin);
       return change(s, s.origin, before, set);
     }},
    {"two_branches",
     [](Scene& s) {
       const Nodes before = frontier(s, s.origin);
       CUgraphNode const left = work(s, s.origin);
       s.lab.is("two_branches.set", change(s, s.origin, before, set));
       CUgraphNode const right = work(s, s.origin);
       const CUresult result = change(s, s.origin, {left}, add);
       s.lab.shows("two_branches.ends", places(frontier(s, s.origin), {left, right}));
       CUgraphNode const last = work(s, s.origin);
       std::size_t of_right = 0, of_last = 0;
       s.cu.GraphNodeGetDependencies(right, nullptr, &of_right);
       s.cu.GraphNodeGetDependencies(last, nullptr, &of_last);
       s.lab.shows("two_branches.before_right", of_right);
       s.lab.shows("two_branches.before_last", of_last);
       return result;
     }},
    {"fork_joined_by_node",
     [](Scene& s) {
       s.branch(false);
       return change(s, s.origin, {work(s, s.fork)}, add);
     }},
    {"fork_joined_and_removed",
     [](Scene& s) {
       const Nodes before = frontier(s, s.origin);
       s.branch(true);
       Event event(s.lab);
       s.cu.EventRecord(event, s.fork);
       s.cu.StreamWaitEvent(s.origin, event, 0);
       return change(s, s.origin, before, set);
     }},
    {"fork_removes_its_work",
     [](Scene& s) {
       s.branch(true);
       return change(s, s.fork, frontier(s, s.origin), set);
     }},
    {"event_from_before",
     [](Scene& s) {
       CUgraphNode const first = work(s, s.origin);
       Event event(s.lab);
       s.cu.EventRecord(event, s.origin);
       CUgraphNode none = nullptr;
       const CUresult result = s.cu.StreamUpdateCaptureDependencies(s.origin, &none, 0, set);
       s.lab.is("event_from_before.wait", s.cu.StreamWaitEvent(s.origin, event, 0));
       s.lab.shows("event_from_before.frontier", places(frontier(s, s.origin), {first}));
       return result;
     }},
#if CUDA_VERSION >= 12030
    {"with_edges.null",
     [](Scene& s) {
       Nodes nodes = frontier(s, s.origin);
       return s.cu.StreamUpdateCaptureDependenciesV2(s.origin, nodes.data(), nullptr, nodes.size(), set);
     }},
#endif
};

template <std::size_t mode>
void in_capture(Lab& lab) {
  for (const Probe& item : probes)
    probe(lab, item.name, capture_modes[mode].value, item.call);
  probe(
      lab, "legacy_beside_blocking", capture_modes[mode].value,
      [](Scene& s) { return change(s, CU_STREAM_LEGACY, frontier(s, s.origin), set); }, CU_STREAM_DEFAULT);
}

// These may end the process.
void null_node(Lab& lab) {
  probe(lab, "null_node", CU_STREAM_CAPTURE_MODE_RELAXED,
        [](Scene& s) { return change(s, s.origin, {nullptr}, add); });
}

#if CUDA_VERSION >= 12030
CUresult change_with_edge(Scene& s, CUgraphEdgeData edge) {
  CUgraphNode node = work(s, s.origin);
  return s.cu.StreamUpdateCaptureDependenciesV2(s.origin, &node, &edge, 1, set);
}

// What the two signatures of cuStreamGetCaptureInfo say about edges.
void show_edges(Scene& s, const std::string& name) {
  CUstreamCaptureStatus status{};
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  s.lab.is(name + ".info_without_edges",
           s.cu.StreamGetCaptureInfo(s.origin, &status, nullptr, nullptr, &nodes, &count));
  s.lab.is(name + ".info_without_nodes",
           s.cu.StreamGetCaptureInfo(s.origin, &status, nullptr, nullptr, nullptr, nullptr));
  s.lab.is(name + ".info_with_edges",
           s.cu.StreamGetCaptureInfoV3(s.origin, &status, nullptr, nullptr, &nodes, &edges, &count));
  s.lab.shows(name + ".edges", edges == nullptr || count == 0
                                   ? "none"
                                   : std::to_string(edges->from_port) + " " + std::to_string(edges->to_port) +
                                         " " + std::to_string(edges->type));
}

void plain_edges(Lab& lab) {
  probe(lab, "plain_edge", CU_STREAM_CAPTURE_MODE_RELAXED, [](Scene& s) {
    const CUresult result = change_with_edge(s, {});
    show_edges(s, "plain_edge");
    return result;
  });
}

void programmatic_edges(Lab& lab) {
  CUgraphEdgeData edge{};
  edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  probe(lab, "programmatic_edge", CU_STREAM_CAPTURE_MODE_RELAXED, [&](Scene& s) {
    const CUresult result = change_with_edge(s, edge);
    show_edges(s, "programmatic_edge");
    return result;
  });
  probe(lab, "programmatic_edge.of_no_kernel", CU_STREAM_CAPTURE_MODE_RELAXED, [&](Scene& s) {
    CUgraphNode node = frontier(s, s.origin).at(0);
    return s.cu.StreamUpdateCaptureDependenciesV2(s.origin, &node, &edge, 1, set);
  });
  edge.type = 0x77;
  probe(lab, "unknown_edge", CU_STREAM_CAPTURE_MODE_RELAXED,
        [&](Scene& s) { return change_with_edge(s, edge); });
}
#endif

} // namespace

std::vector<Scenario> capture_dependencies_scenarios() {
  return {
    {"capture_dependencies.global", in_capture<0>, Place::child},
        {"capture_dependencies.thread_local", in_capture<1>, Place::child},
        {"capture_dependencies.relaxed", in_capture<2>, Place::child},
#if CUDA_VERSION >= 12030
        {"capture_dependencies.plain_edges", plain_edges, Place::child},
        {"capture_dependencies.programmatic_edges", programmatic_edges, Place::child},
#endif
    {
      "capture_dependencies.null_node", null_node, Place::child
    }
  };
}

} // namespace transcript
