// SPDX-License-Identifier: MIT
// Conditional handles and nodes, and their bodies. No kernel sets a handle here.

#include "everywhere.hpp"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#if CUDA_VERSION >= 12030

namespace transcript {
namespace {

constexpr int if_type = 0, while_type = 1, switch_type = 2;

CUgraphConditionalHandle new_handle(Lab& lab, CUgraph graph, unsigned initial = 0, unsigned flags = 1) {
  CUgraphConditionalHandle made = 0;
  lab.must(lab.cu.GraphConditionalHandleCreate(&made, graph, lab.home, initial, flags), "handle");
  return made;
}

CUgraphNodeParams plain(const Lab& lab, CUgraphConditionalHandle handle, int type = if_type,
                        unsigned size = 1) {
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  parameters.conditional.handle = handle;
  parameters.conditional.type = number<CUgraphConditionalNodeType>(type);
  parameters.conditional.size = size;
  parameters.conditional.ctx = lab.home;
  return parameters;
}

// A graph with one conditional node.
struct Choosing {
  explicit Choosing(Lab& in, int type = if_type, unsigned size = 1, unsigned initial = 1, unsigned flags = 1)
      : Choosing(in, make_graph(in), type, size, initial, flags) {
    owned = true;
  }
  Choosing(Lab& in, CUgraph into, int type = if_type, unsigned size = 1, unsigned initial = 1,
           unsigned flags = 1)
      : lab(in), graph(into), handle(new_handle(in, into, initial, flags)) {
    CUgraphNodeParams parameters = plain(lab, handle, type, size);
    lab.must(lab.cu.GraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters), "conditional node");
    bodies = parameters.conditional.phGraph_out;
  }
  ~Choosing() {
    if (owned) lab.cu.GraphDestroy(graph);
  }
  Choosing(const Choosing&) = delete;
  Choosing& operator=(const Choosing&) = delete;

  Lab& lab;
  CUgraph graph;
  CUgraphConditionalHandle handle;
  CUgraphNode node = nullptr;
  CUgraph* bodies = nullptr;
  bool owned = false;
};

CUgraphNode add_host(Lab& lab, CUgraph graph) {
  CUDA_HOST_NODE_PARAMS function{};
  function.fn = [](void*) {};
  CUgraphNode node = nullptr;
  lab.must(lab.cu.GraphAddHostNode(&node, graph, nullptr, 0, &function), "host node");
  return node;
}

CUgraphNode add_empty(Lab& lab, CUgraph graph) {
  CUgraphNode node = nullptr;
  lab.must(lab.cu.GraphAddEmptyNode(&node, graph, nullptr, 0), "empty node");
  return node;
}

CUgraphNode add_kernel(Lab& lab, CUgraph graph) {
  CUDA_KERNEL_NODE_PARAMS launch{};
  launch.func = lab.kernel("step");
  launch.gridDimX = launch.gridDimY = launch.gridDimZ = 1;
  launch.blockDimX = launch.blockDimY = launch.blockDimZ = 1;
  CUgraphNode node = nullptr;
  lab.must(lab.cu.GraphAddKernelNode(&node, graph, nullptr, 0, &launch), "kernel node");
  return node;
}

// Stores a 1 in the byte.
void add_fill(Lab& lab, CUgraph graph, CUdeviceptr byte) {
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = byte;
  fill.value = 1;
  fill.elementSize = 1;
  fill.width = fill.height = 1;
  CUgraphNode node = nullptr;
  lab.must(lab.cu.GraphAddMemsetNode(&node, graph, nullptr, 0, &fill, lab.home), "fill node");
}

struct Bytes {
  explicit Bytes(Lab& in) : lab(in) { lab.must(lab.cu.MemAlloc(&device, 64), "cuMemAlloc"); }
  ~Bytes() { lab.cu.MemFree(device); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  Lab& lab;
  CUdeviceptr device = 0;
};

// Asks an instantiation for its result, and for the node that is to blame, out of the named ones.
CUgraphExec instantiate(Lab& lab, const std::string& name, CUgraph graph, cuuint64_t flags,
                        const std::vector<std::pair<const char*, CUgraphNode>>& nodes = {}) {
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  parameters.flags = flags;
  CUgraphExec exec = nullptr;
  lab.is(name, lab.cu.GraphInstantiateWithParams(&exec, graph, &parameters));
  lab.shows(name + ".result", static_cast<int>(parameters.result_out));
  std::string blamed = parameters.hErrNode_out == nullptr ? "none" : "another one";
  for (const auto& [text, node] : nodes)
    if (node != nullptr && node == parameters.hErrNode_out) blamed = text;
  lab.shows(name + ".node", blamed);
  return exec;
}

void handles(Lab& lab) {
  const Api& cu = lab.cu;
  Graph graph(lab), other(lab);
  CUgraphConditionalHandle handle = 77;
  {
    const Current none(lab, nullptr);
    lab.is("without_context", cu.GraphConditionalHandleCreate(&handle, graph, lab.home, 0, 0));
    lab.is("without_context.null", cu.GraphConditionalHandleCreate(&handle, graph, nullptr, 0, 0));
  }
  for (const unsigned flags : {0U, 1U, 2U, 3U, 4U, ~0U}) {
    handle = 77;
    lab.is("flags_" + std::to_string(flags),
           cu.GraphConditionalHandleCreate(&handle, graph, lab.home, 5, flags));
    lab.shows("flags_" + std::to_string(flags) + ".handle", handle);
  }
  lab.is("of_another", cu.GraphConditionalHandleCreate(&handle, other, lab.home, 0, 0));
  lab.shows("of_another.handle", handle);
  lab.is("second_context", cu.GraphConditionalHandleCreate(&handle, other, lab.second_context(), 0, 0));
  wrong_in_pairs(lab, "wrong", {"handle", "graph", "context", "flags"}, [&](const std::vector<bool>& wrong) {
    return cu.GraphConditionalHandleCreate(wrong[0] ? nullptr : &handle, wrong[1] ? nullptr : CUgraph(graph),
                                           wrong[2] ? nullptr : lab.home, 0, wrong[3] ? 2 : 0);
  });
  everywhere(lab, "create",
             [&](CUstream) { return cu.GraphConditionalHandleCreate(&handle, graph, lab.home, 0, 0); });
}

void nodes(Lab& lab) {
  const Api& cu = lab.cu;
  CUgraphNode node = nullptr;
  for (const int type : {if_type, while_type, switch_type, 3, -1})
    for (const unsigned size : {0U, 1U, 2U, 3U, 100U}) {
      Graph graph(lab);
      CUgraphNodeParams parameters = plain(lab, new_handle(lab, graph), type, size);
      const std::string name = "type_" + std::to_string(type) + ".size_" + std::to_string(size);
      lab.is(name, cu.GraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
      lab.shows(name + ".bodies", parameters.conditional.phGraph_out != nullptr);
    }
  Graph graph(lab), without(lab), two(lab);
  const auto handle = new_handle(lab, graph);
  new_handle(lab, two);
  const auto larger = new_handle(lab, two);
  const auto add = [&](const std::string& name, CUgraph into, const auto& change) {
    CUgraphNodeParams parameters = plain(lab, handle);
    change(parameters);
    lab.is(name, cu.GraphAddNode(&node, into, nullptr, nullptr, 0, &parameters));
  };
  add("reserved2", graph, [](CUgraphNodeParams& p) { p.reserved2 = 1; });
  add("handle_0", graph, [](CUgraphNodeParams& p) { p.conditional.handle = 0; });
  add("handle_unknown", graph, [](CUgraphNodeParams& p) { p.conditional.handle = 123456789; });
  add("handle_larger", graph, [&](CUgraphNodeParams& p) { p.conditional.handle = larger; });
  add("without_handles", without, [](CUgraphNodeParams&) {});
  add("no_context", graph, [](CUgraphNodeParams& p) { p.conditional.ctx = nullptr; });
  add("no_context.handle_0", graph,
      [](CUgraphNodeParams& p) { p.conditional.ctx = nullptr, p.conditional.handle = 0; });
  lab.is("null", cu.GraphAddNode(&node, graph, nullptr, nullptr, 0, nullptr));
  const CUgraphEdgeData edge{};
  CUgraphNode const before = add_empty(lab, graph);
  CUgraphNodeParams parameters = plain(lab, handle);
  lab.is("no_graph", cu.GraphAddNode(&node, nullptr, nullptr, nullptr, 0, &parameters));
  lab.is("nowhere", cu.GraphAddNode(nullptr, graph, nullptr, nullptr, 0, &parameters));
  parameters = plain(lab, handle);
  lab.is("after", cu.GraphAddNode(&node, graph, &before, &edge, 1, &parameters));
  if (parameters.conditional.phGraph_out == nullptr) return;
  add("second", graph, [](CUgraphNodeParams&) {});
  CUgraphNodeType type{};
  lab.is("type", cu.GraphNodeGetType(node, &type));
  lab.shows("type.value", static_cast<int>(type));
  CUgraph const body = parameters.conditional.phGraph_out[0];
  lab.shows("body", node_types(lab, body));
  lab.is("body.destroy", cu.GraphDestroy(body));
  const Choosing nested(lab, body); // with a handle of the body
  lab.shows("nested.handle", nested.handle);
  CUgraphNodeParams of_root = plain(lab, new_handle(lab, graph));
  lab.shows("nested.handle_of_root", of_root.conditional.handle);
  lab.is("nested.of_root", cu.GraphAddNode(&node, body, nullptr, nullptr, 0, &of_root));
  lab.shows("nested.types", node_types(lab, body));
}

void bodies(Lab& lab) {
  const Api& cu = lab.cu;
  const Stream stream(lab);
  const Bytes bytes(lab);
  Event event(lab);
  const auto ask = [&](const std::string& name, const auto& add) {
    const Choosing made(lab);
    CUgraphNode node = nullptr;
    lab.is(name, add(made.bodies[0], &node));
    CUgraphExec const exec = instantiate(lab, name + ".instantiate", made.graph, 0,
                                         {{"inside", node}, {"conditional", made.node}});
    if (exec == nullptr) return;
    lab.is(name + ".launch", cu.GraphLaunch(exec, stream));
    lab.is(name + ".synchronize", cu.StreamSynchronize(stream));
    cu.GraphExecDestroy(exec);
  };
  const auto done = [](CUgraphNode made, CUgraphNode* node) {
    *node = made;
    return CUDA_SUCCESS;
  };
  ask("nothing", [](CUgraph, CUgraphNode*) { return CUDA_SUCCESS; });
  ask("kernel", [&](CUgraph body, CUgraphNode* node) { return done(add_kernel(lab, body), node); });
  ask("empty", [&](CUgraph body, CUgraphNode* node) { return done(add_empty(lab, body), node); });
  ask("host", [&](CUgraph body, CUgraphNode* node) { return done(add_host(lab, body), node); });
  ask("fill", [&](CUgraph body, CUgraphNode*) { return add_fill(lab, body, bytes.device), CUDA_SUCCESS; });
  ask("record", [&](CUgraph body, CUgraphNode* node) {
    return cu.GraphAddEventRecordNode(node, body, nullptr, 0, event);
  });
  ask("wait", [&](CUgraph body, CUgraphNode* node) {
    return cu.GraphAddEventWaitNode(node, body, nullptr, 0, event);
  });
  ask("allocation", [&](CUgraph body, CUgraphNode* node) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
    parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, lab.device};
    parameters.bytesize = 64;
    return cu.GraphAddMemAllocNode(node, body, nullptr, 0, &parameters);
  });
  Graph child(lab);
  add_host(lab, child);
  ask("child_with_host", [&](CUgraph body, CUgraphNode* node) {
    return cu.GraphAddChildGraphNode(node, body, nullptr, 0, child);
  });
  ask("nested_with_host", [&](CUgraph body, CUgraphNode* node) {
    const Choosing inner(lab, body);
    return done(add_host(lab, inner.bodies[0]), node);
  });
}

void launches(Lab& lab) {
  const Api& cu = lab.cu;
  const Stream stream(lab);
  const Bytes bytes(lab);
  const auto ask = [&](const std::string& name, int type, unsigned size, unsigned initial, unsigned flags) {
    const Choosing made(lab, type, size, initial, flags);
    for (unsigned i = 0; i < size; ++i)
      add_fill(lab, made.bodies[i], bytes.device + i);
    CUgraphExec const exec = make_exec(lab, made.graph);
    std::vector<std::string> ran;
    for (int launch = 0; launch < 2; ++launch) {
      unsigned char found[2] = {9, 9};
      lab.must(cu.MemsetD8(bytes.device, 0, 2), "fill");
      lab.must(cu.GraphLaunch(exec, stream), "launch");
      lab.must(cu.StreamSynchronize(stream), "synchronize");
      lab.must(cu.MemcpyDtoH(found, bytes.device, 2), "copy");
      ran.push_back(std::to_string(found[0]) + std::to_string(found[1]));
    }
    lab.shows(name, joined(ran));
    cu.GraphExecDestroy(exec);
  };
  for (const unsigned flags : {0U, 1U})
    for (const unsigned initial : {0U, 1U, 2U, 7U}) {
      const std::string value = ".flags_" + std::to_string(flags) + ".default_" + std::to_string(initial);
      ask("if" + value, if_type, 2, initial, flags);
      ask("switch" + value, switch_type, 2, initial, flags);
    }
  ask("while", while_type, 1, 0, 1);
}

void captures(Lab& lab) {
  const Api& cu = lab.cu;
  const Stream stream(lab), inside(lab);
  const auto mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  const Choosing made(lab);
  CUgraph captured = nullptr;
  lab.is("into_body", cu.StreamBeginCaptureToGraph(stream, made.bodies[0], nullptr, nullptr, 0, mode));
  lab.is("into_body.kernel", lab.launch(lab.kernel("step"), stream, {}));
  lab.is("into_body.end", cu.StreamEndCapture(stream, &captured));
  lab.shows("into_body.same", captured == made.bodies[0]);
  lab.is("host", cu.StreamBeginCaptureToGraph(stream, made.bodies[0], nullptr, nullptr, 0, mode));
  lab.is("host.function", cu.LaunchHostFunc(
                              stream, [](void*) {}, nullptr));
  lab.is("host.end", cu.StreamEndCapture(stream, &captured));
  lab.shows("host.types", node_types(lab, made.bodies[0]));
  if (CUgraphExec const exec = instantiate(lab, "host.instantiate", made.graph, 0)) cu.GraphExecDestroy(exec);

  CUstreamCaptureStatus status{};
  CUgraph graph = nullptr;
  lab.must(cu.StreamBeginCapture(stream, mode), "begin");
  lab.must(cu.StreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr), "info");
  const Choosing nested(lab, graph);
  CUgraphNode node = nested.node;
  lab.is("nested.go_on", cu.StreamUpdateCaptureDependencies(stream, &node, 1, 1));
  lab.is("nested.into_body",
         cu.StreamBeginCaptureToGraph(inside, nested.bodies[0], nullptr, nullptr, 0, mode));
  lab.is("nested.kernel", lab.launch(lab.kernel("step"), inside, {}));
  lab.is("nested.into_body.end", cu.StreamEndCapture(inside, &captured));
  lab.is("nested.end", cu.StreamEndCapture(stream, &captured));
  CUgraphExec const exec = instantiate(lab, "nested.instantiate", captured, 0);
  if (exec == nullptr) return;
  lab.is("nested.launch", cu.GraphLaunch(exec, stream));
  lab.is("nested.synchronize", cu.StreamSynchronize(stream));
}

void refused_instantiations(Lab& lab) {
  const Api& cu = lab.cu;
  for (const cuuint64_t flags : {0U, 1U, 4U, 8U}) {
    const std::string name = "flags_" + std::to_string(flags);
    const Choosing plain_one(lab), with_host(lab), nested(lab), unused(lab);
    CUgraphNode const outside = add_host(lab, with_host.graph), host = add_host(lab, with_host.bodies[0]);
    const Choosing inner(lab, nested.bodies[0]);
    CUgraphNode const innermost = add_host(lab, inner.bodies[0]);
    new_handle(lab, unused.graph);
    const auto ask = [&](const std::string& what, const Choosing& made,
                         const std::vector<std::pair<const char*, CUgraphNode>>& nodes) {
      if (CUgraphExec const exec = instantiate(lab, name + "." + what, made.graph, flags, nodes))
        cu.GraphExecDestroy(exec);
    };
    ask("plain", plain_one, {{"conditional", plain_one.node}});
    ask("host", with_host, {{"conditional", with_host.node}, {"outside", outside}, {"inside", host}});
    ask("nested", nested, {{"outer", nested.node}, {"inner", inner.node}, {"inside", innermost}});
    ask("unused", unused, {{"conditional", unused.node}});
  }
  const Choosing body_of(lab);
  if (CUgraphExec const exec = instantiate(lab, "body", body_of.bodies[0], 0)) cu.GraphExecDestroy(exec);
}

void clone(Lab& lab) {
  const Api& cu = lab.cu;
  const Choosing made(lab);
  Graph parent(lab);
  CUgraph copy = nullptr;
  CUgraphNode node = nullptr;
  lab.is("graph", cu.GraphClone(&copy, made.graph));
  if (copy != nullptr) lab.shows("graph.types", node_types(lab, copy));
  lab.is("body", cu.GraphClone(&copy, made.bodies[0]));
  lab.is("child", cu.GraphAddChildGraphNode(&node, parent, nullptr, 0, made.graph));
  lab.is("body_as_child", cu.GraphAddChildGraphNode(&node, parent, nullptr, 0, made.bodies[0]));
  lab.shows("parent", node_types(lab, parent));
  Graph with_handle(lab);
  new_handle(lab, with_handle);
  lab.is("unused_handle", cu.GraphClone(&copy, with_handle));
}

void update(Lab& lab) {
  const Api& cu = lab.cu;
  const Stream stream(lab);
  const Bytes bytes(lab);
  const Choosing first(lab, if_type, 2, 0);
  for (unsigned i = 0; i < 2; ++i)
    add_fill(lab, first.bodies[i], bytes.device + i);
  CUgraphExec const exec = make_exec(lab, first.graph);
  const auto ask = [&](const std::string& name, CUgraph from) {
    CUgraphExecUpdateResultInfo info{};
    const CUresult result = cu.GraphExecUpdate(exec, from, &info);
    lab.is(name, result);
    lab.shows(name + ".result", static_cast<int>(info.result));
    unsigned char found[4] = {};
    cu.MemsetD8(bytes.device, 0, 4);
    lab.is(name + ".launch", cu.GraphLaunch(exec, stream));
    cu.StreamSynchronize(stream);
    cu.MemcpyDtoH(found, bytes.device, 4);
    std::string ran;
    for (const unsigned char each : found)
      ran += std::to_string(each);
    lab.shows(name + ".ran", ran);
  };
  ask("own_graph", first.graph);
  {
    const Choosing other(lab, if_type, 2, 1);
    for (unsigned i = 0; i < 2; ++i)
      add_fill(lab, other.bodies[i], bytes.device + 2 + i);
    ask("other_default", other.graph);
  }
  {
    const Choosing other(lab, switch_type, 2, 1);
    for (unsigned i = 0; i < 2; ++i)
      add_fill(lab, other.bodies[i], bytes.device + i);
    ask("other_type", other.graph);
  }
  const Choosing smaller(lab, if_type, 1, 1), no_work(lab, if_type, 2, 1), other_work(lab, if_type, 2, 1);
  add_fill(lab, smaller.bodies[0], bytes.device);
  ask("fewer_bodies", smaller.graph);
  ask("fewer_nodes", no_work.graph);
  for (unsigned i = 0; i < 2; ++i)
    add_kernel(lab, other_work.bodies[i]);
  ask("other_work", other_work.graph);
  ask("body", first.bodies[0]);
  Graph two(lab);
  const Choosing not_it(lab, two);
  ask("one_more_handle", [&] {
    new_handle(lab, two);
    return CUgraph(two);
  }());
  CUgraphNodeParams parameters = plain(lab, first.handle, if_type, 2);
  lab.is("node.set", cu.GraphNodeSetParams(first.node, &parameters));
  lab.is("node.exec_set", cu.GraphExecNodeSetParams(exec, first.node, &parameters));
  unsigned enabled = 7;
  lab.is("node.enabled", cu.GraphNodeGetEnabled(exec, first.node, &enabled));
  lab.is("node.disable", cu.GraphNodeSetEnabled(exec, first.node, 0));
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = bytes.device + 3;
  fill.value = fill.elementSize = 1;
  fill.width = fill.height = 1;
  CUgraphNode inside = nullptr;
  std::size_t count = 1;
  lab.must(cu.GraphGetNodes(first.bodies[0], &inside, &count), "nodes");
  lab.is("inside.exec_set", cu.GraphExecMemsetNodeSetParams(exec, inside, &fill, lab.home));
  lab.is("inside.disable", cu.GraphNodeSetEnabled(exec, inside, 0));
}

void unusual(Lab& lab) {
  const Api& cu = lab.cu;
  const Stream stream(lab);
  CUgraphNode node = nullptr;
  {
    Graph graph(lab);
    CUgraphNodeParams parameters = plain(lab, new_handle(lab, graph));
    parameters.reserved0[0] = 1;
    lab.is("reserved", cu.GraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
  }
  {
    const Choosing made(lab);
    lab.is("destroy_node", cu.GraphDestroyNode(made.node));
    if (CUgraphExec const exec = instantiate(lab, "destroy_node.instantiate", made.graph, 0))
      cu.GraphExecDestroy(exec);
    CUgraphNodeParams parameters = plain(lab, made.handle);
    lab.is("destroy_node.again", cu.GraphAddNode(&node, made.graph, nullptr, nullptr, 0, &parameters));
  }
  {
    Graph graph(lab);
    CUgraphNodeParams parameters = plain(lab, new_handle(lab, graph));
    parameters.conditional.ctx = lab.second_context();
    lab.is("other_context", cu.GraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
    if (CUgraphExec const exec = instantiate(lab, "other_context.instantiate", graph, 0))
      cu.GraphExecDestroy(exec);
  }
  {
    const Choosing made(lab);
    const Current second(lab, lab.second_context());
    add_kernel(lab, made.bodies[0]);
    if (CUgraphExec const exec = instantiate(lab, "kernel_of_other_context", made.graph, 0))
      cu.GraphExecDestroy(exec);
  }
  const Bytes bytes(lab);
  static char pageable[16];
  for (const bool from_host : {true, false}) {
    const Choosing made(lab);
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.dstMemoryType = from_host ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    copy.srcHost = copy.dstHost = pageable;
    copy.srcDevice = copy.dstDevice = bytes.device;
    copy.WidthInBytes = copy.Height = copy.Depth = 1;
    const std::string name = from_host ? "from_pageable" : "to_pageable";
    lab.is(name, cu.GraphAddMemcpyNode(&node, made.bodies[0], nullptr, 0, &copy, lab.home));
    if (CUgraphExec const exec = instantiate(lab, name + ".instantiate", made.graph, 0, {{"inside", node}}))
      cu.GraphExecDestroy(exec);
  }
  {
    Graph graph(lab), child(lab);
    CUgraph inside = nullptr;
    lab.must(cu.GraphAddChildGraphNode(&node, graph, nullptr, 0, child), "child");
    lab.must(cu.GraphChildGraphNodeGetGraph(node, &inside), "graph of the child");
    CUgraphConditionalHandle handle = 0;
    lab.is("handle_of_child", cu.GraphConditionalHandleCreate(&handle, inside, lab.home, 1, 1));
    CUgraphNodeParams parameters = plain(lab, handle);
    lab.is("node_of_child", cu.GraphAddNode(&node, inside, nullptr, nullptr, 0, &parameters));
    if (CUgraphExec const exec = instantiate(lab, "node_of_child.instantiate", graph, 0))
      cu.GraphExecDestroy(exec);
  }
  const Choosing made(lab);
  CUuserObject object = nullptr;
  lab.must(cu.UserObjectCreate(
               &object, nullptr, [](void*) {}, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
           "object");
  lab.is("user_object", cu.GraphRetainUserObject(made.bodies[0], object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  lab.must(cu.StreamBeginCaptureToGraph(stream, made.bodies[0], nullptr, nullptr, 0,
                                        CU_STREAM_CAPTURE_MODE_GLOBAL),
           "begin");
  lab.is("failed_capture", cu.StreamSynchronize(stream));
  CUgraph captured = nullptr;
  lab.is("failed_capture.end", cu.StreamEndCapture(stream, &captured));
  lab.shows("failed_capture.graph", captured != nullptr);
  if (CUgraphExec const exec = instantiate(lab, "failed_capture.instantiate", made.graph, 0))
    cu.GraphExecDestroy(exec);
}

// Captures into the body, and makes a call that invalidates the capture.
CUresult end_of_failed_capture(Lab& lab, CUstream stream, CUgraph body) {
  lab.must(lab.cu.StreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL),
           "begin");
  lab.cu.StreamSynchronize(stream);
  CUgraph captured = nullptr;
  return lab.cu.StreamEndCapture(stream, &captured);
}

// What the answers above leave open.
void unasked(Lab& lab) {
  const Api& cu = lab.cu;
  const Stream stream(lab);
  {
    const Choosing both(lab); // an unused handle, and a node that no body can have
    new_handle(lab, both.graph);
    CUgraphNode const host = add_host(lab, both.bodies[0]);
    if (CUgraphExec const exec = instantiate(lab, "two_hindrances", both.graph, 0, {{"inside", host}}))
      cu.GraphExecDestroy(exec);
  }
  {
    const Choosing made(lab);
    static std::atomic<bool> ended{false};
    CUuserObject object = nullptr;
    lab.must(cu.UserObjectCreate(
                 &object, &ended, [](void*) { ended = true; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
             "object");
    lab.is("user_object", cu.GraphRetainUserObject(made.bodies[0], object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    if (CUgraphExec const exec = instantiate(lab, "user_object.instantiate", made.graph, 0)) {
      lab.is("user_object.destroy_node", cu.GraphDestroyNode(made.node));
      lab.shows("user_object.ended_with_the_node", ended.load());
      lab.is("user_object.destroy_exec", cu.GraphExecDestroy(exec));
      eventually([&] { return ended ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; });
      lab.shows("user_object.ended_with_the_exec", ended.load());
    }
  }
  {
    const Choosing one(lab), other(lab);
    new_handle(lab, other.graph);
    CUgraphExec const exec = make_exec(lab, one.graph);
    CUgraphExecUpdateResultInfo info{};
    lab.is("unused_handle", cu.GraphExecUpdate(exec, other.graph, &info));
    lab.shows("unused_handle.result", static_cast<int>(info.result));
    Graph second(lab);
    new_handle(lab, second);
    const Choosing with_second_handle(lab, second);
    info = {};
    lab.is("other_handle", cu.GraphExecUpdate(exec, second, &info));
    lab.shows("other_handle.result", static_cast<int>(info.result));
    cu.GraphExecDestroy(exec);
  }
  {
    Graph graph(lab), child(lab);
    const Bytes bytes(lab);
    CUgraphNode node = nullptr;
    CUgraph inside = nullptr;
    lab.must(cu.GraphAddChildGraphNode(&node, graph, nullptr, 0, child), "child");
    lab.must(cu.GraphChildGraphNodeGetGraph(node, &inside), "graph of the child");
    const Choosing choosing(lab, inside);
    add_fill(lab, choosing.bodies[0], bytes.device);
    unsigned char found = 9;
    lab.must(cu.MemsetD8(bytes.device, 0, 1), "fill");
    if (CUgraphExec const exec = instantiate(lab, "child", graph, 0)) {
      lab.is("child.launch", cu.GraphLaunch(exec, stream));
      lab.is("child.synchronize", cu.StreamSynchronize(stream));
      lab.must(cu.MemcpyDtoH(&found, bytes.device, 1), "copy");
      lab.shows("child.ran", static_cast<int>(found));
      cu.GraphExecDestroy(exec);
    }
  }
  const Choosing failing(lab); // without a user object of the body
  lab.is("failed_capture", end_of_failed_capture(lab, stream, failing.bodies[0]));
  lab.is("failed_capture.destroy_node", cu.GraphDestroyNode(failing.node));
}

// What becomes of the whole graph after a failed capture into the body of one of its nodes.
template <CUresult (*call)(Lab&, CUgraph)>
void after_failed_capture(Lab& lab) {
  const Stream stream(lab);
  CUgraph const graph = make_graph(lab); // not destroyed at the end
  const Choosing made(lab, graph);
  lab.is("end", end_of_failed_capture(lab, stream, made.bodies[0]));
  lab.is("then", call(lab, graph));
}

CUresult destroy(Lab& lab, CUgraph graph) { return lab.cu.GraphDestroy(graph); }

CUresult count_nodes(Lab& lab, CUgraph graph) {
  std::size_t count = 0;
  const CUresult result = lab.cu.GraphGetNodes(graph, nullptr, &count);
  lab.shows("count", count);
  return result;
}

CUresult copy(Lab& lab, CUgraph graph) {
  CUgraph copied = nullptr;
  return lab.cu.GraphClone(&copied, graph);
}

CUresult add_and_destroy(Lab& lab, CUgraph graph) {
  add_host(lab, graph);
  return lab.cu.GraphDestroy(graph);
}

} // namespace

std::vector<Scenario> conditional_scenarios() {
  return {{"conditional.handles", handles, Place::child},
          {"conditional.nodes", nodes, Place::child},
          {"conditional.bodies", bodies, Place::child},
          {"conditional.launches", launches, Place::child},
          {"conditional.captures", captures, Place::child},
          {"conditional.refused_instantiations", refused_instantiations, Place::child},
          {"conditional.clone", clone, Place::child},
          {"conditional.update", update, Place::child},
          {"conditional.unusual", unusual, Place::alone},
          {"conditional.unasked", unasked, Place::alone},
          {"conditional.failed_capture.destroy", after_failed_capture<destroy>, Place::alone},
          {"conditional.failed_capture.add", after_failed_capture<add_and_destroy>, Place::alone},
          {"conditional.failed_capture.count", after_failed_capture<count_nodes>, Place::alone},
          {"conditional.failed_capture.clone", after_failed_capture<copy>, Place::alone}};
}

} // namespace transcript

#else

namespace transcript {

std::vector<Scenario> conditional_scenarios() { return {}; }

} // namespace transcript

#endif
