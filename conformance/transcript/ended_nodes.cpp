// SPDX-License-Identifier: MIT
// Each call that takes a node, after the end of its graph, of the node, of the graph that its graph is a
// clone of, and of the graph that holds its graph. A device reads the memory of the node, also after its end.
// So it crashes in some calls, and others succeed with what they find there: those are probes.

#include "lab.hpp"

#include <array>

namespace transcript {
namespace {

// One node of each kind, and an exec that was made from them. The handles stay as they are when nodes end.
struct Nodes {
  explicit Nodes(Lab& in) : lab(in), cu(in.cu), first(in), second(in) {
    lab.must(cu.MemAlloc(&memory, 4096), "cuMemAlloc");
    word = lab.word();
    lab.must(cu.GraphCreate(&graph, 0), "cuGraphCreate");
    lab.must(cu.GraphCreate(&inner, 0), "cuGraphCreate");
    launch.func = lab.kernel("step");
    launch.gridDimX = launch.gridDimY = launch.gridDimZ = 1;
    launch.blockDimX = launch.blockDimY = launch.blockDimZ = 1;
    fill = {memory, 0, 7, 4, 16, 1};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = word;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = memory;
    copy.WidthInBytes = 4, copy.Height = copy.Depth = 1;
    host.fn = [](void*) {};
    fill_graph(graph);
    lab.must(cu.GraphAddEventRecordNode(&inside, inner, nullptr, 0, first), "record node");
    lab.must(cu.GraphAddChildGraphNode(&child, graph, nullptr, 0, inner), "child");
  }

  void fill_graph(CUgraph into) {
    lab.must(cu.GraphAddEmptyNode(&empty, into, nullptr, 0), "empty");
    lab.must(cu.GraphAddEventRecordNode(&record, into, &empty, 1, first), "record");
    lab.must(cu.GraphAddEventWaitNode(&wait, into, &record, 1, first), "wait");
    lab.must(cu.GraphAddKernelNode(&kernel, into, &wait, 1, &launch), "kernel");
    lab.must(cu.GraphAddKernelNode(&kernel_too, into, &kernel, 1, &launch), "kernel");
    lab.must(cu.GraphAddMemcpyNode(&copying, into, nullptr, 0, &copy, lab.home), "copy");
    lab.must(cu.GraphAddMemsetNode(&filling, into, nullptr, 0, &fill, lab.home), "fill");
    lab.must(cu.GraphAddHostNode(&calling, into, nullptr, 0, &host), "host");
  }
  void instantiate() {
    lab.must(cu.GraphInstantiateWithFlags(&exec, graph, 0), "instantiate");
    lab.must(cu.GraphClone(&clone, graph), "clone");
    lab.must(cu.GraphCreate(&another, 0), "cuGraphCreate");
    lab.must(cu.GraphAddEmptyNode(&alive, another, nullptr, 0), "empty");
  }

  Lab& lab;
  const Api& cu;
  Event first, second;
  CUdeviceptr memory = 0;
  unsigned* word = nullptr;
  CUDA_KERNEL_NODE_PARAMS launch{};
  CUDA_MEMSET_NODE_PARAMS fill{};
  CUDA_MEMCPY3D copy{};
  CUDA_HOST_NODE_PARAMS host{};
  CUgraph graph = nullptr;   // ends in some cases
  CUgraph inner = nullptr;   // of the node `child`
  CUgraph clone = nullptr;   // of `graph`, lives on
  CUgraph another = nullptr; // has the node `alive`
  CUgraphExec exec = nullptr;
  CUgraphNode empty = nullptr, record = nullptr, wait = nullptr, kernel = nullptr, kernel_too = nullptr;
  CUgraphNode copying = nullptr, filling = nullptr, calling = nullptr, child = nullptr, inside = nullptr;
  CUgraphNode alive = nullptr;
};

// How the nodes end.
void graph_destroyed(Nodes& nodes) {
  nodes.instantiate();
  nodes.lab.must(nodes.cu.GraphDestroy(nodes.graph), "cuGraphDestroy");
}

void node_destroyed(Nodes& nodes) {
  nodes.instantiate();
  for (CUgraphNode const node : {nodes.child, nodes.calling, nodes.filling, nodes.copying, nodes.kernel_too,
                                 nodes.kernel, nodes.wait, nodes.record, nodes.empty})
    nodes.lab.must(nodes.cu.GraphDestroyNode(node), "cuGraphDestroyNode");
}

// The nodes are those of a clone, and only the original ends. The exec is of the original.
void original_destroyed(Nodes& nodes) {
  nodes.instantiate();
  for (CUgraphNode* const node : {&nodes.empty, &nodes.record, &nodes.wait, &nodes.kernel, &nodes.kernel_too,
                                  &nodes.copying, &nodes.filling, &nodes.calling, &nodes.child})
    nodes.lab.must(nodes.cu.GraphNodeFindInClone(node, *node, nodes.clone), "find");
  nodes.lab.must(nodes.cu.GraphDestroy(nodes.graph), "cuGraphDestroy");
}

// The same, and the exec is of the clone.
void original_of_exec_destroyed(Nodes& nodes) {
  original_destroyed(nodes);
  nodes.lab.must(nodes.cu.GraphInstantiateWithFlags(&nodes.exec, nodes.clone, 0), "instantiate");
}

// The nodes are inside a child graph, and the graph around it ends.
void parent_destroyed(Nodes& nodes) {
  CUgraphNode node = nullptr;
  CUgraph parent = make_graph(nodes.lab);
  nodes.lab.must(nodes.cu.GraphAddChildGraphNode(&node, parent, nullptr, 0, nodes.graph), "child");
  CUgraph const original = nodes.graph;
  nodes.lab.must(nodes.cu.GraphChildGraphNodeGetGraph(node, &nodes.graph), "child graph");
  for (CUgraphNode* const one : {&nodes.empty, &nodes.record, &nodes.wait, &nodes.kernel, &nodes.kernel_too,
                                 &nodes.copying, &nodes.filling, &nodes.calling, &nodes.child})
    nodes.lab.must(nodes.cu.GraphNodeFindInClone(one, *one, nodes.graph), "find");
  nodes.lab.must(nodes.cu.GraphInstantiateWithFlags(&nodes.exec, parent, 0), "instantiate");
  nodes.lab.must(nodes.cu.GraphClone(&nodes.clone, nodes.graph), "clone");
  nodes.lab.must(nodes.cu.GraphCreate(&nodes.another, 0), "cuGraphCreate");
  nodes.lab.must(nodes.cu.GraphAddEmptyNode(&nodes.alive, nodes.another, nullptr, 0), "empty");
  nodes.lab.must(nodes.cu.GraphDestroy(original), "cuGraphDestroy");
  nodes.lab.must(nodes.cu.GraphDestroy(parent), "cuGraphDestroy");
}

struct End {
  const char* name;
  void (*make)(Nodes&);
  bool of_nodes; // or only of another graph
};
constexpr End ends[] = {{"graph", graph_destroyed, true},
                        {"node", node_destroyed, true},
                        {"original", original_destroyed, false},
                        {"original_of_exec", original_of_exec_destroyed, false},
                        {"parent", parent_destroyed, true}};

// What a call does with a node that has ended.
enum class Use { refuses, crashes, reads };

struct Question {
  const char* name;
  CUresult (*ask)(Nodes&);
  Use use = Use::refuses;
};

constexpr Question questions[] = {
    {"exec.set_record",
     [](Nodes& n) { return n.cu.GraphExecEventRecordNodeSetEvent(n.exec, n.record, n.second); }},
    {"exec.set_wait", [](Nodes& n) { return n.cu.GraphExecEventWaitNodeSetEvent(n.exec, n.wait, n.second); }},
    {"exec.set_kernel",
     [](Nodes& n) { return n.cu.GraphExecKernelNodeSetParams(n.exec, n.kernel, &n.launch); }},
    {"exec.set_copy",
     [](Nodes& n) { return n.cu.GraphExecMemcpyNodeSetParams(n.exec, n.copying, &n.copy, n.lab.home); }},
    {"exec.set_fill",
     [](Nodes& n) { return n.cu.GraphExecMemsetNodeSetParams(n.exec, n.filling, &n.fill, n.lab.home); }},
    {"exec.set_host", [](Nodes& n) { return n.cu.GraphExecHostNodeSetParams(n.exec, n.calling, &n.host); }},
    {"exec.set_child",
     [](Nodes& n) { return n.cu.GraphExecChildGraphNodeSetParams(n.exec, n.child, n.inner); }},
    {"exec.get_enabled",
     [](Nodes& n) {
       unsigned enabled = 0;
       return n.cu.GraphNodeGetEnabled(n.exec, n.kernel, &enabled);
     }},
    {"exec.set_enabled", [](Nodes& n) { return n.cu.GraphNodeSetEnabled(n.exec, n.kernel, 0); }},
#if CUDA_VERSION >= 13000
    {"exec.set_any",
     [](Nodes& n) {
       CUgraphNodeParams parameters{};
       parameters.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
       parameters.eventRecord.event = n.second;
       return n.cu.GraphExecNodeSetParams(n.exec, n.record, &parameters);
     }},
#endif
    {"type",
     [](Nodes& n) {
       CUgraphNodeType type{};
       return n.cu.GraphNodeGetType(n.record, &type);
     },
     Use::reads},
    {"dependencies",
     [](Nodes& n) {
       std::size_t count = 0;
       return n.cu.GraphNodeGetDependencies(n.record, nullptr, &count);
     },
     Use::reads},
    {"dependents",
     [](Nodes& n) {
       std::size_t count = 0;
       return n.cu.GraphNodeGetDependentNodes(n.record, nullptr, &count);
     },
     Use::reads},
    {"edge_from", [](Nodes& n) { return n.cu.GraphAddDependencies(n.another, &n.record, &n.alive, 1); }},
    {"edge_to", [](Nodes& n) { return n.cu.GraphAddDependencies(n.another, &n.alive, &n.record, 1); }},
    {"no_edge", [](Nodes& n) { return n.cu.GraphRemoveDependencies(n.another, &n.record, &n.alive, 1); }},
    {"after",
     [](Nodes& n) {
       CUgraphNode node = nullptr;
       return n.cu.GraphAddEventRecordNode(&node, n.another, &n.record, 1, n.first);
     }},
    {"record.get",
     [](Nodes& n) {
       CUevent event = nullptr;
       return n.cu.GraphEventRecordNodeGetEvent(n.record, &event);
     }},
    {"record.set", [](Nodes& n) { return n.cu.GraphEventRecordNodeSetEvent(n.record, n.second); }},
    {"wait.get",
     [](Nodes& n) {
       CUevent event = nullptr;
       return n.cu.GraphEventWaitNodeGetEvent(n.wait, &event);
     }},
    {"wait.set", [](Nodes& n) { return n.cu.GraphEventWaitNodeSetEvent(n.wait, n.second); }},
    {"kernel.get",
     [](Nodes& n) {
       CUDA_KERNEL_NODE_PARAMS found{};
       return n.cu.GraphKernelNodeGetParams(n.kernel, &found);
     },
     Use::reads},
    {"kernel.set", [](Nodes& n) { return n.cu.GraphKernelNodeSetParams(n.kernel, &n.launch); }, Use::reads},
    {"copy.get",
     [](Nodes& n) {
       CUDA_MEMCPY3D found{};
       return n.cu.GraphMemcpyNodeGetParams(n.copying, &found);
     }},
    {"copy.set", [](Nodes& n) { return n.cu.GraphMemcpyNodeSetParams(n.copying, &n.copy); }},
    {"fill.get",
     [](Nodes& n) {
       CUDA_MEMSET_NODE_PARAMS found{};
       return n.cu.GraphMemsetNodeGetParams(n.filling, &found);
     }},
    {"fill.set", [](Nodes& n) { return n.cu.GraphMemsetNodeSetParams(n.filling, &n.fill); }},
    {"host.get",
     [](Nodes& n) {
       CUDA_HOST_NODE_PARAMS found{};
       return n.cu.GraphHostNodeGetParams(n.calling, &found);
     }},
    {"host.set", [](Nodes& n) { return n.cu.GraphHostNodeSetParams(n.calling, &n.host); }},
    {"child.get",
     [](Nodes& n) {
       CUgraph found = nullptr;
       return n.cu.GraphChildGraphNodeGetGraph(n.child, &found);
     }},
    {"find_in_clone",
     [](Nodes& n) {
       CUgraphNode found = nullptr;
       return n.cu.GraphNodeFindInClone(&found, n.record, n.clone);
     },
     Use::crashes},
    {"destroy", [](Nodes& n) { return n.cu.GraphDestroyNode(n.record); }, Use::crashes},
#if CUDA_VERSION >= 13000
    {"set_any",
     [](Nodes& n) {
       CUgraphNodeParams parameters{};
       parameters.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
       parameters.eventRecord.event = n.second;
       return n.cu.GraphNodeSetParams(n.record, &parameters);
     }},
#endif
};

// Not modelled by the simulator.
constexpr Question attributes[] = {
    {"kernel.get_attribute",
     [](Nodes& n) {
       CUkernelNodeAttrValue value{};
       return n.cu.GraphKernelNodeGetAttribute(n.kernel, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &value);
     }},
    {"kernel.set_attribute",
     [](Nodes& n) {
       CUkernelNodeAttrValue value{};
       return n.cu.GraphKernelNodeSetAttribute(n.kernel, CU_KERNEL_NODE_ATTRIBUTE_PRIORITY, &value);
     }},
    {"kernel.copy_attributes",
     [](Nodes& n) { return n.cu.GraphKernelNodeCopyAttributes(n.kernel_too, n.kernel); }}};

CUresult answer(Lab& lab, const End& end, const Question& question) {
  Nodes nodes(lab);
  end.make(nodes);
  return question.ask(nodes);
}

// The questions that are safe.
template <std::size_t At>
void all_of(Lab& lab) {
  const End& end = ends[At];
  for (const Question& question : questions)
    if (!end.of_nodes || question.use == Use::refuses) lab.is(question.name, answer(lab, end, question));
}

template <const auto& Questions, std::size_t At>
void one_of(Lab& lab) {
  constexpr std::size_t count = std::size(Questions);
  lab.is("answer", answer(lab, ends[At / count], Questions[At % count]));
}

// Whether the handle of a node that has ended names another node later, and what an exec says to that node.
void reused(Lab& lab) {
  const Api& cu = lab.cu;
  Nodes nodes(lab);
  graph_destroyed(nodes);
  int same = 0;
  CUresult answer = CUDA_ERROR_UNKNOWN;
  for (int i = 0; i < 1000; ++i) {
    CUgraphNode node = nullptr;
    CUgraph graph = make_graph(lab);
    lab.must(cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, nodes.first), "record");
    if (node != nodes.record) continue;
    ++same;
    answer = cu.GraphExecEventRecordNodeSetEvent(nodes.exec, node, nodes.second);
  }
  lab.shows("is_reused", same != 0);
  lab.is("set_record", answer);
}

template <std::size_t... At>
void add_all(std::vector<Scenario>& all, std::index_sequence<At...>) {
  (all.push_back({std::string("ended_nodes.") + ends[At].name, all_of<At>, Place::child}), ...);
}

template <const auto& Questions, std::size_t At>
void add_one(std::vector<Scenario>& all) {
  constexpr std::size_t count = std::size(Questions);
  constexpr End end = ends[At / count];
  constexpr Question question = Questions[At % count];
  constexpr bool crashes = question.use == Use::crashes;
  const std::string name = std::string("ended_nodes.") + end.name + "." + question.name;
  if (std::data(Questions) == attributes || (end.of_nodes && question.use == Use::reads))
    all.push_back({name, one_of<Questions, At>, Place::probe});
  else if (end.of_nodes && crashes)
    all.push_back({name, one_of<Questions, At>, Place::child});
}

template <const auto& Questions, std::size_t... At>
void add(std::vector<Scenario>& all, std::index_sequence<At...>) {
  (add_one<Questions, At>(all), ...);
}

} // namespace

std::vector<Scenario> ended_nodes_scenarios() {
  std::vector<Scenario> all;
  add_all(all, std::make_index_sequence<std::size(ends)>());
  add<questions>(all, std::make_index_sequence<std::size(ends) * std::size(questions)>());
  add<attributes>(all, std::make_index_sequence<std::size(ends) * std::size(attributes)>());
  all.push_back({"ended_nodes.reused", reused, Place::probe});
  return all;
}

} // namespace transcript
