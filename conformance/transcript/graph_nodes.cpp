// SPDX-License-Identifier: MIT
// Child graphs, copies, fills and kernels as nodes: what builds them, reads them, and changes an exec.

#include "everywhere.hpp"

#include <array>

namespace transcript {
namespace {

void children(Lab& lab) {
  const Api& cu = lab.cu;
  Event event(lab), second(lab);
  Stream stream(lab);
  Graph child(lab), parent(lab), empty(lab), other(lab), wider(lab);
  CUgraphNode record = nullptr, node = nullptr, wrong = nullptr, fresh = nullptr;
  lab.must(cu.GraphAddEventRecordNode(&record, child, nullptr, 0, event), "record node");
  lab.must(cu.GraphAddEventRecordNode(&fresh, other, nullptr, 0, second), "record node");
  lab.must(cu.GraphAddEventRecordNode(&fresh, wider, nullptr, 0, second), "record node");
  lab.must(cu.GraphAddEmptyNode(&fresh, wider, nullptr, 0), "empty node");
  lab.is("add", cu.GraphAddChildGraphNode(&node, parent, nullptr, 0, child));
  lab.is("add.empty", cu.GraphAddChildGraphNode(&fresh, parent, nullptr, 0, empty));
  lab.is("add.null", cu.GraphAddChildGraphNode(&fresh, parent, nullptr, 0, nullptr));
  lab.is("add.to_null", cu.GraphAddChildGraphNode(&fresh, nullptr, nullptr, 0, child));
  lab.is("add.nowhere", cu.GraphAddChildGraphNode(nullptr, parent, nullptr, 0, child));
  lab.shows("nodes", node_types(lab, parent));
  CUgraph inside = nullptr;
  lab.is("get", cu.GraphChildGraphNodeGetGraph(node, &inside));
  lab.shows("get.is_the_child", inside == child);
  lab.shows("get.nodes", node_types(lab, inside));
  CUgraph again = nullptr;
  cu.GraphChildGraphNodeGetGraph(node, &again);
  lab.shows("get.again.is_the_same", again == inside);
  lab.is("get.nowhere", cu.GraphChildGraphNodeGetGraph(node, nullptr));
  lab.is("get.null", cu.GraphChildGraphNodeGetGraph(nullptr, &inside));
  lab.must(cu.GraphAddEmptyNode(&wrong, parent, nullptr, 0), "empty node");
  lab.is("get.wrong_node", cu.GraphChildGraphNodeGetGraph(wrong, &again));
  cu.GraphChildGraphNodeGetGraph(node, &inside);
  // The node has a clone, so a later change of the child does not reach it.
  lab.must(cu.GraphAddEmptyNode(&fresh, child, nullptr, 0), "empty node");
  lab.shows("get.nodes.child_changed", node_types(lab, inside));
  lab.must(cu.GraphDestroyNode(fresh), "cuGraphDestroyNode");
  lab.is("inside.add", cu.GraphAddEmptyNode(&fresh, inside, nullptr, 0));
  lab.is("inside.destroy_node", cu.GraphDestroyNode(fresh));
  lab.shows("inside.nodes", node_types(lab, inside));
  std::array<CUgraphNode, 1> found{};
  std::size_t count = 1;
  lab.is("inside.get_nodes", cu.GraphGetNodes(inside, found.data(), &count));
  CUevent of_node = nullptr;
  lab.is("inside.event", cu.GraphEventRecordNodeGetEvent(found[0], &of_node));
  lab.shows("inside.event.is_the_event", of_node == event);
  lab.is("find_in_clone.not_a_clone", cu.GraphNodeFindInClone(&fresh, record, parent));
  CUgraph clone = nullptr;
  lab.must(cu.GraphClone(&clone, parent), "cuGraphClone");
  lab.is("find_in_clone", cu.GraphNodeFindInClone(&fresh, node, clone));
  lab.is("find_in_clone.null_node", cu.GraphNodeFindInClone(&fresh, nullptr, clone));
  lab.is("find_in_clone.null_graph", cu.GraphNodeFindInClone(&fresh, node, nullptr));
  lab.is("find_in_clone.nowhere", cu.GraphNodeFindInClone(nullptr, node, clone));
  lab.is("find_in_clone.node_inside", cu.GraphNodeFindInClone(&fresh, found[0], clone));
  cu.GraphDestroy(clone);
  CUgraphExec const exec = make_exec(lab, parent);
  {
    Gate gate(lab, stream);
    lab.is("launch", cu.GraphLaunch(exec, stream));
    lab.is("launch.event_pending", cu.EventQuery(event));
  }
  lab.is("launch.synchronize", cu.StreamSynchronize(stream));
  lab.is("launch.event", cu.EventQuery(event));
  cuuint64_t flags = 77;
  lab.is("flags", cu.GraphExecGetFlags(exec, &flags));
  lab.shows("flags.value", flags);
  lab.is("flags.null", cu.GraphExecGetFlags(nullptr, &flags));
  lab.is("flags.nowhere", cu.GraphExecGetFlags(exec, nullptr));
  lab.is("exec_set", cu.GraphExecChildGraphNodeSetParams(exec, node, other));
  lab.is("exec_set.wider", cu.GraphExecChildGraphNodeSetParams(exec, node, wider));
  lab.is("exec_set.empty", cu.GraphExecChildGraphNodeSetParams(exec, node, empty));
  lab.is("exec_set.wrong_node", cu.GraphExecChildGraphNodeSetParams(exec, wrong, other));
  lab.is("exec_set.null_child", cu.GraphExecChildGraphNodeSetParams(exec, node, nullptr));
  lab.is("exec_set.null_node", cu.GraphExecChildGraphNodeSetParams(exec, nullptr, other));
  lab.is("exec_set.null_exec", cu.GraphExecChildGraphNodeSetParams(nullptr, node, other));
  {
    Gate gate(lab, stream);
    lab.is("exec_set.launch", cu.GraphLaunch(exec, stream));
    lab.shows("exec_set.launch.events", joined(lab, {cu.EventQuery(event), cu.EventQuery(second)}));
  }
  cu.StreamSynchronize(stream);
  // The event of a node inside the child.
  lab.is("exec_set_event.inside", cu.GraphExecEventRecordNodeSetEvent(exec, found[0], event));
  lab.is("exec_set_event.of_the_child", cu.GraphExecEventRecordNodeSetEvent(exec, record, event));
  const auto update = [&](const char* name, CUgraph with) {
    CUgraphExecUpdateResultInfo info{};
    lab.is(name, cu.GraphExecUpdate(exec, with, &info));
    lab.shows(std::string(name) + ".result", static_cast<int>(info.result));
  };
  Graph same(lab), changed(lab);
  for (CUgraph const graph : {CUgraph(same), CUgraph(changed)}) {
    const bool is_same = graph == CUgraph(same);
    cu.GraphAddChildGraphNode(&fresh, graph, nullptr, 0, is_same ? CUgraph(other) : CUgraph(wider));
    cu.GraphAddChildGraphNode(&fresh, graph, nullptr, 0, empty);
    cu.GraphAddEmptyNode(&fresh, graph, nullptr, 0);
  }
  update("update", same);
  update("update.wider_child", changed);
  lab.is("destroy_inside", cu.GraphDestroyNode(found[0]));
  lab.is("destroy_node", cu.GraphDestroyNode(node));
  lab.is("launch.node_destroyed", cu.GraphLaunch(exec, stream));
  lab.is("print", cu.GraphDebugDotPrint(parent, "/dev/null", 0));
  lab.is("print.null", cu.GraphDebugDotPrint(nullptr, "/dev/null", 0));
  lab.is("print.no_path", cu.GraphDebugDotPrint(parent, nullptr, 0));
  lab.is("print.bad_path", cu.GraphDebugDotPrint(parent, "/nowhere/missing/x", 0));
  Graph built(lab);
  lab.must(cu.GraphAddChildGraphNode(&node, built, nullptr, 0, child), "child node");
  CUgraphExec const second_exec = make_exec(lab, built);
  everywhere(lab, "add",
             [&](CUstream) { return cu.GraphAddChildGraphNode(&fresh, built, nullptr, 0, child); });
  everywhere(lab, "add_null",
             [&](CUstream) { return cu.GraphAddChildGraphNode(&fresh, built, nullptr, 0, nullptr); });
  everywhere(lab, "get", [&](CUstream) { return cu.GraphChildGraphNodeGetGraph(node, &inside); });
  everywhere(lab, "flags", [&](CUstream) { return cu.GraphExecGetFlags(second_exec, &flags); });
  everywhere(lab, "exec_set",
             [&](CUstream) { return cu.GraphExecChildGraphNodeSetParams(second_exec, node, other); });
  everywhere_and_captured(lab, "launch", [&](CUstream on) { return cu.GraphLaunch(second_exec, on); });
  cu.StreamSynchronize(stream);
  cu.GraphExecDestroy(second_exec);
  cu.GraphExecDestroy(exec);
}

// Execs of copies, fills and child graphs, updated from graphs that differ in one thing.
void updates(Lab& lab) {
  const Api& cu = lab.cu;
  CUdeviceptr device = 0, second = 0;
  void* pinned = nullptr;
  lab.must(cu.MemAlloc(&device, 4096), "cuMemAlloc");
  lab.must(cu.MemAlloc(&second, 4096), "cuMemAlloc");
  lab.must(cu.MemHostAlloc(&pinned, 4096, 0), "cuMemHostAlloc");
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = second, copy.dstDevice = device;
  copy.WidthInBytes = 64, copy.Height = copy.Depth = 1;
  const CUDA_MEMSET_NODE_PARAMS fill{device, 0, 7, 4, 16, 1};
  CUgraphNode node = nullptr;
  using Build = std::function<void(CUgraph)>;
  const auto ask = [&](const std::string& name, const Build& from, const Build& to) {
    Graph before(lab), after(lab);
    from(before), to(after);
    CUgraphExec const exec = make_exec(lab, before);
    CUgraphExecUpdateResultInfo info{};
    lab.is(name, cu.GraphExecUpdate(exec, after, &info));
    lab.shows(name + ".reason", static_cast<int>(info.result));
    lab.is(name + ".launch", cu.GraphLaunch(exec, nullptr));
    lab.is(name + ".synchronize", cu.CtxSynchronize());
    cu.GraphExecDestroy(exec);
  };
  const auto copies = [&](const std::function<void(CUDA_MEMCPY3D&)>& change) -> Build {
    CUDA_MEMCPY3D changed = copy;
    change(changed);
    return [&cu, &lab, &node, changed](CUgraph graph) {
      lab.must(cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &changed, lab.home), "copy");
    };
  };
  const auto fills = [&](const std::function<void(CUDA_MEMSET_NODE_PARAMS&)>& change) -> Build {
    CUDA_MEMSET_NODE_PARAMS changed = fill;
    change(changed);
    return [&cu, &lab, &node, changed](CUgraph graph) {
      lab.must(cu.GraphAddMemsetNode(&node, graph, nullptr, 0, &changed, lab.home), "fill");
    };
  };
  const Build plain = copies([](CUDA_MEMCPY3D&) {}), same = fills([](CUDA_MEMSET_NODE_PARAMS&) {});
  const Build from_pinned =
      copies([&](CUDA_MEMCPY3D& c) { c.srcMemoryType = CU_MEMORYTYPE_HOST, c.srcHost = pinned; });
  const Build rows = copies([](CUDA_MEMCPY3D& c) { c.Height = 2, c.srcPitch = c.dstPitch = 128; });
  ask("copy.same", plain, plain);
  ask("copy.less", plain, copies([](CUDA_MEMCPY3D& c) { c.WidthInBytes = 32; }));
  ask("copy.swapped", plain, copies([](CUDA_MEMCPY3D& c) { std::swap(c.srcDevice, c.dstDevice); }));
  ask("copy.from_pinned", plain, from_pinned);
  ask("copy.from_device", from_pinned, plain);
  ask("copy.rows", plain, rows);
  ask("copy.of_rows", rows, plain);
  ask("copy.other_type", plain, same);
  ask("fill.same", same, same);
  ask("fill.value", same, fills([](CUDA_MEMSET_NODE_PARAMS& f) { f.value = 9; }));
  ask("fill.less", same, fills([](CUDA_MEMSET_NODE_PARAMS& f) { f.width = 8; }));
  ask("fill.elements", same, fills([](CUDA_MEMSET_NODE_PARAMS& f) { f.elementSize = 1; }));
  ask("fill.rows", same, fills([](CUDA_MEMSET_NODE_PARAMS& f) { f.height = 2, f.pitch = 128; }));
  ask("fill.elsewhere", same, fills([&](CUDA_MEMSET_NODE_PARAMS& f) { f.dst = second; }));
  const auto child = [&](const Build& inside) -> Build {
    return [&lab, &cu, &node, inside](CUgraph graph) {
      Graph built(lab);
      inside(built);
      lab.must(cu.GraphAddChildGraphNode(&node, graph, nullptr, 0, built), "child");
    };
  };
  ask("child.same", child(plain), child(plain));
  ask("child.type", child(plain), child(same));
  ask("child.from_pinned", child(plain), child(from_pinned));
  ask("child.more", child(plain), child([&](CUgraph graph) { plain(graph), same(graph); }));
  ask("child.empty", child(plain), child([](CUgraph) {}));
}

struct Memory {
  explicit Memory(Lab& lab) {
    lab.must(lab.cu.MemAlloc(&device, 4096), "cuMemAlloc");
    lab.must(lab.cu.MemAlloc(&second, 4096), "cuMemAlloc");
    lab.must(lab.cu.MemHostAlloc(&pinned, 4096, 0), "cuMemHostAlloc");
  }
  CUDA_MEMCPY3D copy() const {
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = second;
    copy.dstDevice = device;
    copy.WidthInBytes = 64;
    copy.Height = copy.Depth = 1;
    return copy;
  }
  CUDA_MEMSET_NODE_PARAMS fill() const { return {device, 0, 7, 4, 16, 1}; }
  CUdeviceptr device = 0, second = 0;
  void* pinned = nullptr;
};

void copies(Lab& lab) {
  const Api& cu = lab.cu;
  Memory memory(lab);
  Stream stream(lab);
  Graph graph(lab);
  CUcontext const other = lab.second_context();
  CUgraphNode node = nullptr, fresh = nullptr, wrong = nullptr;
  std::array<char, 64> pageable{};
  using Copy = CUDA_MEMCPY3D;
  const auto changed = [&](const auto& change) {
    Copy copy = memory.copy();
    change(copy);
    return copy;
  };
  struct Variant {
    const char* name;
    Copy copy;
  };
  const Variant variants[] = {
      {"plain", memory.copy()},
      {"less", changed([](Copy& c) { c.WidthInBytes = 32; })},
      {"swapped", changed([](Copy& c) { std::swap(c.srcDevice, c.dstDevice); })},
      {"rows", changed([](Copy& c) { c.Height = 2, c.srcPitch = c.dstPitch = 128; })},
      {"rows_no_pitch", changed([](Copy& c) { c.Height = 2; })},
      {"nothing", changed([](Copy& c) { c.WidthInBytes = 0; })},
      {"no_height", changed([](Copy& c) { c.Height = 0; })},
      {"from_pinned",
       changed([&](Copy& c) { c.srcMemoryType = CU_MEMORYTYPE_HOST, c.srcHost = memory.pinned; })},
      {"from_pageable",
       changed([&](Copy& c) { c.srcMemoryType = CU_MEMORYTYPE_HOST, c.srcHost = pageable.data(); })},
      {"to_pageable",
       changed([&](Copy& c) { c.dstMemoryType = CU_MEMORYTYPE_HOST, c.dstHost = pageable.data(); })},
      {"unified", changed([](Copy& c) { c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_UNIFIED; })},
      {"null_source", changed([](Copy& c) { c.srcDevice = 0; })},
      {"null_target", changed([](Copy& c) { c.dstDevice = 0; })},
      {"too_far", changed([](Copy& c) { c.WidthInBytes = 8192; })},
      {"no_type", changed([](Copy& c) { c.srcMemoryType = number<CUmemorytype>(0); })}};
  for (const Variant& variant : variants) {
    Graph one(lab);
    const std::string name = variant.name;
    const CUresult result = cu.GraphAddMemcpyNode(&fresh, one, nullptr, 0, &variant.copy, lab.home);
    lab.is("add." + name, result);
    if (result != CUDA_SUCCESS) continue;
    CUgraphExec exec = nullptr;
    lab.is("add." + name + ".instantiate", cu.GraphInstantiateWithFlags(&exec, one, 0));
    if (exec == nullptr) continue;
    lab.is("add." + name + ".launch", cu.GraphLaunch(exec, stream));
    lab.is("add." + name + ".synchronize", cu.StreamSynchronize(stream));
    cu.GraphExecDestroy(exec);
  }
  const Copy plain = memory.copy();
  lab.is("add.null", cu.GraphAddMemcpyNode(&fresh, graph, nullptr, 0, nullptr, lab.home));
  lab.is("add.nowhere", cu.GraphAddMemcpyNode(nullptr, graph, nullptr, 0, &plain, lab.home));
  lab.is("add.no_graph", cu.GraphAddMemcpyNode(&fresh, nullptr, nullptr, 0, &plain, lab.home));
  lab.is("add.no_context", cu.GraphAddMemcpyNode(&fresh, graph, nullptr, 0, &plain, nullptr));
  lab.is("add.other_context", cu.GraphAddMemcpyNode(&fresh, graph, nullptr, 0, &plain, other));
  Graph one(lab);
  lab.must(cu.GraphAddMemcpyNode(&node, one, nullptr, 0, &plain, lab.home), "copy node");
  lab.must(cu.GraphAddEmptyNode(&wrong, one, nullptr, 0), "empty node");
  Copy found{};
  lab.is("get", cu.GraphMemcpyNodeGetParams(node, &found));
  lab.shows("get.value", std::to_string(found.WidthInBytes) + ", " + std::to_string(found.Height) + ", " +
                             std::to_string(found.Depth) + ", " + std::to_string(found.srcPitch) + ", " +
                             std::to_string(found.srcHeight) + ", " +
                             (found.srcDevice == memory.second ? "source" : "other") + ", " +
                             std::to_string(static_cast<int>(found.srcMemoryType)));
  lab.is("get.wrong_node", cu.GraphMemcpyNodeGetParams(wrong, &found));
  lab.is("get.null", cu.GraphMemcpyNodeGetParams(nullptr, &found));
  lab.is("get.nowhere", cu.GraphMemcpyNodeGetParams(node, nullptr));
  CUgraphExec const exec = make_exec(lab, one);
  for (const Variant& variant : variants) {
    const std::string name = variant.name;
    lab.is("exec_set." + name, cu.GraphExecMemcpyNodeSetParams(exec, node, &variant.copy, lab.home));
    lab.is("set." + name, cu.GraphMemcpyNodeSetParams(node, &variant.copy));
    cu.GraphMemcpyNodeSetParams(node, &plain);
  }
  lab.is("set.null", cu.GraphMemcpyNodeSetParams(node, nullptr));
  lab.is("set.wrong_node", cu.GraphMemcpyNodeSetParams(wrong, &plain));
  lab.is("exec_set.null", cu.GraphExecMemcpyNodeSetParams(exec, node, nullptr, lab.home));
  lab.is("exec_set.wrong_node", cu.GraphExecMemcpyNodeSetParams(exec, wrong, &plain, lab.home));
  lab.is("exec_set.null_node", cu.GraphExecMemcpyNodeSetParams(exec, nullptr, &plain, lab.home));
  lab.is("exec_set.null_exec", cu.GraphExecMemcpyNodeSetParams(nullptr, node, &plain, lab.home));
  lab.is("exec_set.no_context", cu.GraphExecMemcpyNodeSetParams(exec, node, &plain, nullptr));
  lab.is("exec_set.other_context", cu.GraphExecMemcpyNodeSetParams(exec, node, &plain, other));
  everywhere(lab, "add",
             [&](CUstream) { return cu.GraphAddMemcpyNode(&fresh, graph, nullptr, 0, &plain, lab.home); });
  everywhere(lab, "get", [&](CUstream) { return cu.GraphMemcpyNodeGetParams(node, &found); });
  everywhere(lab, "set", [&](CUstream) { return cu.GraphMemcpyNodeSetParams(node, &plain); });
  everywhere(lab, "exec_set",
             [&](CUstream) { return cu.GraphExecMemcpyNodeSetParams(exec, node, &plain, lab.home); });
  // What a capture makes of copies.
  CUgraph captured = nullptr;
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.must(cu.MemcpyDtoDAsync(memory.device, memory.second, 100, stream), "copy");
  lab.must(cu.StreamEndCapture(stream, &captured), "end");
  std::size_t count = 1;
  lab.must(cu.GraphGetNodes(captured, &fresh, &count), "nodes");
  lab.is("captured.get", cu.GraphMemcpyNodeGetParams(fresh, &found));
  lab.shows("captured.get.value", std::to_string(found.WidthInBytes) + ", " + std::to_string(found.Height) +
                                      ", " + std::to_string(found.Depth) + ", " +
                                      std::to_string(found.srcPitch) + ", " +
                                      std::to_string(static_cast<int>(found.srcMemoryType)));
  cu.GraphDestroy(captured);
  cu.GraphExecDestroy(exec);
}

void fills(Lab& lab) {
  const Api& cu = lab.cu;
  Memory memory(lab);
  Graph graph(lab);
  CUgraphNode node = nullptr, wrong = nullptr, fresh = nullptr;
  using Fill = CUDA_MEMSET_NODE_PARAMS;
  const auto changed = [&](const auto& change) {
    Fill fill = memory.fill();
    change(fill);
    return fill;
  };
  struct Variant {
    const char* name;
    Fill fill;
  };
  const Variant variants[] = {{"plain", memory.fill()},
                              {"value", changed([](Fill& f) { f.value = 9; })},
                              {"wide_value", changed([](Fill& f) { f.elementSize = 1, f.value = 0x1234; })},
                              {"less", changed([](Fill& f) { f.width = 8; })},
                              {"rows", changed([](Fill& f) { f.height = 2, f.pitch = 128; })},
                              {"rows_small_pitch", changed([](Fill& f) { f.height = 2, f.pitch = 8; })},
                              {"elements", changed([](Fill& f) { f.elementSize = 2; })},
                              {"odd_elements", changed([](Fill& f) { f.elementSize = 3; })},
                              {"no_elements", changed([](Fill& f) { f.elementSize = 0; })},
                              {"no_width", changed([](Fill& f) { f.width = 0; })},
                              {"no_height", changed([](Fill& f) { f.height = 0; })},
                              {"null", changed([](Fill& f) { f.dst = 0; })},
                              {"elsewhere", changed([&](Fill& f) { f.dst = memory.second; })},
                              {"odd", changed([](Fill& f) { f.dst += 1; })},
                              {"too_far", changed([](Fill& f) { f.width = 4096; })}};
  lab.must(cu.GraphAddMemsetNode(&node, graph, nullptr, 0, &variants[0].fill, lab.home), "fill node");
  lab.must(cu.GraphAddEmptyNode(&wrong, graph, nullptr, 0), "empty node");
  CUgraphExec const exec = make_exec(lab, graph);
  for (const Variant& variant : variants) {
    Graph one(lab);
    const std::string name = variant.name;
    lab.shows(name, joined(lab, {cu.GraphAddMemsetNode(&fresh, one, nullptr, 0, &variant.fill, lab.home),
                                 cu.GraphMemsetNodeSetParams(node, &variant.fill),
                                 cu.GraphExecMemsetNodeSetParams(exec, node, &variant.fill, lab.home)}));
    cu.GraphMemsetNodeSetParams(node, &variants[0].fill);
  }
  Fill found{};
  lab.is("get", cu.GraphMemsetNodeGetParams(node, &found));
  lab.shows("get.value", std::to_string(found.width) + ", " + std::to_string(found.height) + ", " +
                             std::to_string(found.pitch) + ", " + std::to_string(found.value) + ", " +
                             std::to_string(found.elementSize));
  lab.is("get.wrong_node", cu.GraphMemsetNodeGetParams(wrong, &found));
  lab.is("get.nowhere", cu.GraphMemsetNodeGetParams(node, nullptr));
  lab.is("set.nothing", cu.GraphMemsetNodeSetParams(node, nullptr));
  lab.is("exec_set.nothing", cu.GraphExecMemsetNodeSetParams(exec, node, nullptr, lab.home));
  lab.is("add.nothing", cu.GraphAddMemsetNode(&fresh, graph, nullptr, 0, nullptr, lab.home));
  lab.is("add.no_context", cu.GraphAddMemsetNode(&fresh, graph, nullptr, 0, &variants[0].fill, nullptr));
  lab.is("exec_set.no_context", cu.GraphExecMemsetNodeSetParams(exec, node, &variants[0].fill, nullptr));
  lab.is("exec_set.other_context",
         cu.GraphExecMemsetNodeSetParams(exec, node, &variants[0].fill, lab.second_context()));
  everywhere(lab, "get", [&](CUstream) { return cu.GraphMemsetNodeGetParams(node, &found); });
  everywhere(lab, "set", [&](CUstream) { return cu.GraphMemsetNodeSetParams(node, &variants[0].fill); });
  everywhere(lab, "exec_set", [&](CUstream) {
    return cu.GraphExecMemsetNodeSetParams(exec, node, &variants[0].fill, lab.home);
  });
  cu.GraphExecDestroy(exec);
}

void kernels(Lab& lab) {
  const Api& cu = lab.cu;
  Graph graph(lab);
  Memory memory(lab);
  Stream stream(lab);
  CUgraphNode node = nullptr, wrong = nullptr, fresh = nullptr, fill = nullptr, record = nullptr;
  CUdeviceptr where = memory.device;
  void* arguments[] = {&where};
  using Kernel = CUDA_KERNEL_NODE_PARAMS;
  Kernel plain{};
  plain.func = lab.kernel("touch");
  plain.gridDimX = plain.gridDimY = plain.gridDimZ = 1;
  plain.blockDimX = plain.blockDimY = plain.blockDimZ = 1;
  plain.kernelParams = arguments;
  CUfunction const step = lab.kernel("step");
  CUfunction foreign = nullptr;
  {
    const Current other(lab, lab.second_context());
    foreign = lab.kernel("touch");
  }
  const auto changed = [&](const auto& change) {
    Kernel kernel = plain;
    change(kernel);
    return kernel;
  };
  struct Variant {
    const char* name;
    Kernel kernel;
  };
  const Variant variants[] = {
      {"plain", plain},
      {"grid", changed([](Kernel& k) { k.gridDimX = 4; })},
      {"no_grid", changed([](Kernel& k) { k.gridDimX = 0; })},
      {"large_block", changed([](Kernel& k) { k.blockDimX = 2000; })},
      {"shared", changed([](Kernel& k) { k.sharedMemBytes = 1024; })},
      {"too_much_shared", changed([](Kernel& k) { k.sharedMemBytes = 60000; })},
      {"another_kernel", changed([&](Kernel& k) { k.func = step, k.kernelParams = nullptr; })},
      {"other_context", changed([&](Kernel& k) { k.func = foreign; })},
      {"no_parameters", changed([](Kernel& k) { k.kernelParams = nullptr; })},
      {"no_kernel", changed([](Kernel& k) { k.func = nullptr; })}};
  lab.must(cu.GraphAddKernelNode(&node, graph, nullptr, 0, &plain), "kernel node");
  lab.must(cu.GraphAddEmptyNode(&wrong, graph, nullptr, 0), "empty node");
  const CUDA_MEMSET_NODE_PARAMS filling = memory.fill();
  lab.must(cu.GraphAddMemsetNode(&fill, graph, nullptr, 0, &filling, lab.home), "fill node");
  Event event(lab);
  lab.must(cu.GraphAddEventRecordNode(&record, graph, nullptr, 0, event), "record node");
  CUgraphExec const exec = make_exec(lab, graph);
  for (const Variant& variant : variants) {
    Graph one(lab);
    const std::string name = variant.name;
    lab.is("add." + name, cu.GraphAddKernelNode(&fresh, one, nullptr, 0, &variant.kernel));
    lab.is("set." + name, cu.GraphKernelNodeSetParams(node, &variant.kernel));
    cu.GraphKernelNodeSetParams(node, &plain);
    lab.is("exec_set." + name, cu.GraphExecKernelNodeSetParams(exec, node, &variant.kernel));
  }
  Kernel found{};
  lab.is("get", cu.GraphKernelNodeGetParams(node, &found));
  lab.shows("get.func", found.func == plain.func);
  lab.shows("get.value", std::to_string(found.gridDimX) + ", " + std::to_string(found.blockDimX) + ", " +
                             std::to_string(found.sharedMemBytes));
  lab.shows("get.arguments",
            found.kernelParams != nullptr && *static_cast<CUdeviceptr*>(found.kernelParams[0]) == where);
  lab.shows("get.kern", found.kern == nullptr ? "none" : "some");
  lab.shows("get.ctx", found.ctx == lab.home ? "home" : found.ctx == nullptr ? "none" : "other");
  lab.is("get.wrong_node", cu.GraphKernelNodeGetParams(wrong, &found));
  lab.is("get.nowhere", cu.GraphKernelNodeGetParams(node, nullptr));
  lab.is("set.nothing", cu.GraphKernelNodeSetParams(node, nullptr));
  lab.is("exec_set.nothing", cu.GraphExecKernelNodeSetParams(exec, node, nullptr));
  lab.is("exec_set.wrong_node", cu.GraphExecKernelNodeSetParams(exec, wrong, &plain));
  // Nodes that a launch leaves out.
  unsigned enabled = 77;
  const auto enable = [&](const char* name, CUgraphNode of) {
    lab.is(std::string("enabled.") + name, cu.GraphNodeGetEnabled(exec, of, &enabled));
    lab.is(std::string("disable.") + name, cu.GraphNodeSetEnabled(exec, of, 0));
  };
  enable("kernel", node);
  lab.shows("enabled.kernel.value", enabled);
  enable("fill", fill);
  enable("record", record);
  enable("empty", wrong);
  enable("null", nullptr);
  lab.is("disable.launch", cu.GraphLaunch(exec, stream));
  lab.is("disable.launch.synchronize", cu.StreamSynchronize(stream));
  std::uint32_t left = 0;
  lab.must(cu.MemsetD8(memory.device, 1, 64), "fill");
  cu.GraphLaunch(exec, stream);
  cu.StreamSynchronize(stream);
  lab.must(cu.MemcpyDtoH(&left, memory.device, 4), "copy");
  lab.shows("disable.fill_left_out", left == 0x01010101);
  lab.is("enable.2", cu.GraphNodeSetEnabled(exec, fill, 2));
  cu.GraphNodeGetEnabled(exec, fill, &enabled);
  lab.shows("enable.2.value", enabled);
  cu.GraphExecDestroy(exec);
}

// An exec and a child in an exec, updated from graphs with one node that differs in nothing or in its rows.
void more_updates(Lab& lab) {
  const Api& cu = lab.cu;
  Memory memory(lab);
  Event event(lab);
  CUgraphNode node = nullptr;
  using Build = std::function<void(CUgraph)>;
  const auto ask = [&](const std::string& name, const Build& from, const Build& to) {
    Graph before(lab), after(lab), parent(lab);
    from(before), to(after);
    CUgraphExec exec = make_exec(lab, before);
    CUgraphExecUpdateResultInfo info{};
    lab.is(name, cu.GraphExecUpdate(exec, after, &info));
    lab.shows(name + ".reason", static_cast<int>(info.result));
    cu.GraphExecDestroy(exec);
    lab.must(cu.GraphAddChildGraphNode(&node, parent, nullptr, 0, before), "child");
    exec = make_exec(lab, parent);
    lab.is(name + ".as_child", cu.GraphExecChildGraphNodeSetParams(exec, node, after));
    cu.GraphExecDestroy(exec);
  };
  const auto copies = [&](std::size_t rows) -> Build {
    CUDA_MEMCPY3D copy = memory.copy();
    copy.Height = rows, copy.srcPitch = copy.dstPitch = 128;
    return [&cu, &lab, &node, copy](CUgraph graph) {
      lab.must(cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, lab.home), "copy");
    };
  };
  const auto fills = [&](std::size_t rows) -> Build {
    CUDA_MEMSET_NODE_PARAMS fill = memory.fill();
    fill.height = rows, fill.pitch = 128;
    return [&cu, &lab, &node, fill](CUgraph graph) {
      lab.must(cu.GraphAddMemsetNode(&node, graph, nullptr, 0, &fill, lab.home), "fill");
    };
  };
  CUDA_KERNEL_NODE_PARAMS launch{};
  launch.func = lab.kernel("step");
  launch.gridDimX = launch.gridDimY = launch.gridDimZ = 1;
  launch.blockDimX = launch.blockDimY = launch.blockDimZ = 1;
  const Build kernel = [&](CUgraph graph) {
    lab.must(cu.GraphAddKernelNode(&node, graph, nullptr, 0, &launch), "kernel");
  };
  const Build empty = [&](CUgraph graph) {
    lab.must(cu.GraphAddEmptyNode(&node, graph, nullptr, 0), "empty");
  };
  const Build record = [&](CUgraph graph) {
    lab.must(cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, event), "record");
  };
  ask("empty", empty, empty);
  ask("kernel", kernel, kernel);
  ask("record", record, record);
  ask("copy", copies(1), copies(1));
  ask("copy.rows", copies(2), copies(2));
  ask("copy.more_rows", copies(2), copies(3));
  ask("fill", fills(1), fills(1));
  ask("fill.rows", fills(2), fills(2));
  ask("fill.of_rows", fills(2), fills(1));
}

#if CUDA_VERSION >= 13000
// cuGraphAddNode and its relatives, for each kind of node.
void any_node(Lab& lab) {
  const Api& cu = lab.cu;
  if (cu.GraphAddNode == nullptr) return;
  Memory memory(lab);
  Graph graph(lab), child(lab);
  Event event(lab), second(lab);
  CUgraphNode node = nullptr;
  struct Kind {
    const char* name;
    CUgraphNodeParams parameters;
  };
  const auto of = [](CUgraphNodeType type, const auto& set) {
    CUgraphNodeParams parameters{};
    parameters.type = type;
    set(parameters);
    return parameters;
  };
  using Parameters = CUgraphNodeParams;
  const Kind kinds[] = {
      {"kernel", of(CU_GRAPH_NODE_TYPE_KERNEL,
                    [&](Parameters& p) {
                      p.kernel.func = lab.kernel("step");
                      p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = 1;
                      p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
                    })},
      {"memcpy",
       of(CU_GRAPH_NODE_TYPE_MEMCPY,
          [&](Parameters& p) { p.memcpy.copyCtx = lab.home, p.memcpy.copyParams = memory.copy(); })},
      {"memset", of(CU_GRAPH_NODE_TYPE_MEMSET,
                    [&](Parameters& p) { p.memset = {memory.device, 0, 7, 4, 16, 1, lab.home}; })},
      {"host", of(CU_GRAPH_NODE_TYPE_HOST, [](Parameters& p) { p.host.fn = [](void*) {}; })},
      {"graph", of(CU_GRAPH_NODE_TYPE_GRAPH, [&](Parameters& p) { p.graph.graph = child; })},
      {"empty", of(CU_GRAPH_NODE_TYPE_EMPTY, [](Parameters&) {})},
      {"wait", of(CU_GRAPH_NODE_TYPE_WAIT_EVENT, [&](Parameters& p) { p.eventWait.event = event; })},
      {"record", of(CU_GRAPH_NODE_TYPE_EVENT_RECORD, [&](Parameters& p) { p.eventRecord.event = event; })},
      {"unknown", of(number<CUgraphNodeType>(99), [](Parameters&) {})}};
  for (const Kind& kind : kinds) {
    Graph one(lab);
    Parameters parameters = kind.parameters;
    const std::string name = kind.name;
    const CUresult result = cu.GraphAddNode(&node, one, nullptr, nullptr, 0, &parameters);
    lab.is(name, result);
    if (result != CUDA_SUCCESS) continue;
    CUgraphExec const exec = make_exec(lab, one);
    parameters = kind.parameters;
    lab.is(name + ".set", cu.GraphNodeSetParams(node, &parameters));
    parameters = kind.parameters;
    lab.is(name + ".exec_set", cu.GraphExecNodeSetParams(exec, node, &parameters));
    cu.GraphExecDestroy(exec);
  }
  lab.is("null", cu.GraphAddNode(&node, graph, nullptr, nullptr, 0, nullptr));
  Parameters empty = kinds[5].parameters, record = kinds[7].parameters;
  lab.is("nowhere", cu.GraphAddNode(nullptr, graph, nullptr, nullptr, 0, &empty));
  lab.is("no_graph", cu.GraphAddNode(&node, nullptr, nullptr, nullptr, 0, &empty));
  lab.must(cu.GraphAddNode(&node, graph, nullptr, nullptr, 0, &record), "node");
  lab.is("set.another_kind", cu.GraphNodeSetParams(node, &empty));
  lab.is("set.null", cu.GraphNodeSetParams(node, nullptr));
  record.eventRecord.event = second;
  lab.is("set", cu.GraphNodeSetParams(node, &record));
  CUevent found = nullptr;
  cu.GraphEventRecordNodeGetEvent(node, &found);
  lab.shows("set.then", found == second);
  empty.reserved2 = 1;
  lab.is("reserved", cu.GraphAddNode(&node, graph, nullptr, nullptr, 0, &empty));
  empty.reserved2 = 0;
  everywhere(lab, "add",
             [&](CUstream) { return cu.GraphAddNode(&node, graph, nullptr, nullptr, 0, &empty); });
}
#endif

#if CUDA_VERSION >= 12050
// Execs whose fill or copy gets memory of another kind, or of another context.
void other_memory(Lab& lab) {
  const Api& cu = lab.cu;
  const Memory here(lab);
  const auto there = made_in<Memory>(lab, lab.second_context());
  const Green green(lab);
  const auto of_green = made_in<Memory>(lab, green.context);
  const auto of_primary = made_in<Memory>(lab, green.primary);
  Stream stream(lab);
  CUdeviceptr pooled = 0, managed = 0;
  lab.must(cu.MemAllocAsync(&pooled, 4096, stream), "cuMemAllocAsync");
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  lab.must(cu.MemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
  const std::pair<const char*, CUdeviceptr> all[] = {
      {"device", here.device},
      {"second", here.second},
      {"other_device", there.device},
      {"pinned", reinterpret_cast<CUdeviceptr>(here.pinned)},
      {"other_pinned", reinterpret_cast<CUdeviceptr>(there.pinned)},
      {"pooled", pooled},
      {"green_device", of_green.device},
      {"primary_device", of_primary.device},
      {"managed", managed}};
  CUgraphNode node = nullptr;
  const auto fill_of = [](CUdeviceptr memory) { return CUDA_MEMSET_NODE_PARAMS{memory, 0, 7, 4, 16, 1}; };
  const auto copy_to = [&](CUdeviceptr memory) {
    CUDA_MEMCPY3D copy = here.copy();
    copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.dstDevice = memory;
    return copy;
  };
  // A node of each kind is made by `add`, and changed in an exec by `set`.
  const auto ask = [&](const std::string& kind, const auto& add, const auto& set) {
    return [&, kind, add, set](const std::string& name, CUdeviceptr from, CUdeviceptr to) {
      Graph before(lab), after(lab);
      lab.must(add(after, to), kind.c_str());
      lab.must(add(before, from), kind.c_str());
      CUgraphExec exec = make_exec(lab, before);
      const std::string result = lab.name_of(set(exec, to));
      cu.GraphExecDestroy(exec);
      CUgraphExecUpdateResultInfo info{};
      exec = make_exec(lab, before);
      cu.GraphExecUpdate(exec, after, &info);
      cu.GraphExecDestroy(exec);
      lab.shows(kind + "." + name, result + ", reason " + std::to_string(static_cast<int>(info.result)));
    };
  };
  const auto ask_fill = ask(
      "fill",
      [&](CUgraph graph, CUdeviceptr memory) {
        const auto fill = fill_of(memory);
        return cu.GraphAddMemsetNode(&node, graph, nullptr, 0, &fill, lab.home);
      },
      [&](CUgraphExec exec, CUdeviceptr memory) {
        const auto fill = fill_of(memory);
        return cu.GraphExecMemsetNodeSetParams(exec, node, &fill, lab.home);
      });
  const auto ask_copy = ask(
      "copy",
      [&](CUgraph graph, CUdeviceptr memory) {
        const auto copy = copy_to(memory);
        return cu.GraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, lab.home);
      },
      [&](CUgraphExec exec, CUdeviceptr memory) {
        const auto copy = copy_to(memory);
        return cu.GraphExecMemcpyNodeSetParams(exec, node, &copy, lab.home);
      });
  for (const auto& [from_name, from] : all)
    for (const auto& [to_name, to] : all) {
      const std::string name = std::string(from_name) + ".to_" + to_name;
      ask_fill(name, from, to);
      ask_copy(name, from, to);
    }
}

// Fills of memory of pools: the context that is current, the one that the call names, and the one whose
// stream allocated the memory.
void fills_of_pools(Lab& lab) {
  const Api& cu = lab.cu;
  const Green green(lab);
  const std::pair<const char*, CUcontext> contexts[] = {{"primary", green.primary},
                                                        {"created", lab.second_context()},
                                                        {"green", green.context},
                                                        {"none", nullptr}};
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = lab.device;
  CUmemoryPool own = nullptr, common = nullptr;
  lab.must(cu.MemPoolCreate(&own, &properties), "cuMemPoolCreate");
  lab.must(cu.DeviceGetDefaultMemPool(&common, lab.device), "cuDeviceGetDefaultMemPool");
  for (const auto& [pool_name, pool] : {std::pair{"own", own}, std::pair{"default", common}})
    for (const auto& [home_name, home] : contexts) {
      if (home == nullptr) continue;
      CUdeviceptr memory = 0;
      {
        const Current guard(lab, home);
        Stream stream(lab);
        lab.must(cu.MemAllocFromPoolAsync(&memory, 64, pool, stream), "cuMemAllocFromPoolAsync");
        lab.must(cu.StreamSynchronize(stream), "synchronize");
      }
      const CUDA_MEMSET_NODE_PARAMS fill{memory, 0, 7, 4, 16, 1};
      for (const auto& [current_name, current] : contexts) {
        const Current guard(lab, current);
        std::vector<CUresult> results;
        for (const auto& [named_name, named] : contexts) {
          CUgraphNode node = nullptr;
          CUgraph graph = make_graph(lab);
          results.push_back(cu.GraphAddMemsetNode(&node, graph, nullptr, 0, &fill, named));
          cu.GraphDestroy(graph);
        }
        lab.shows(std::string(pool_name) + "." + home_name + ".current_" + current_name,
                  joined(lab, results));
      }
    }
}
#endif

// What a capture makes of launches: arguments by list, in one buffer, and none.
void captured_kernels(Lab& lab) {
  const Api& cu = lab.cu;
  Memory memory(lab);
  Stream stream(lab);
  CUfunction const touch = lab.kernel("touch"), step = lab.kernel("step");
  CUdeviceptr where = memory.device;
  std::size_t bytes = sizeof where;
  void* list[] = {&where};
  void* buffer[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &where, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                    CU_LAUNCH_PARAM_END};
  const auto ask = [&](const std::string& name, CUfunction kernel, void** parameters, void** extra) {
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    std::size_t count = 1;
    lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    lab.is(name, cu.LaunchKernel(kernel, 2, 1, 1, 3, 1, 1, 16, stream, parameters, extra));
    lab.must(cu.StreamEndCapture(stream, &graph), "end");
    lab.must(cu.GraphGetNodes(graph, &node, &count), "nodes");
    CUDA_KERNEL_NODE_PARAMS found{};
    lab.is(name + ".get", cu.GraphKernelNodeGetParams(node, &found));
    lab.shows(name + ".get.func", found.func == kernel);
    lab.shows(name + ".get.kern", found.kern != nullptr);
    lab.shows(name + ".get.ctx", found.ctx == lab.home);
    lab.shows(name + ".get.sizes", std::to_string(found.gridDimX) + ", " + std::to_string(found.blockDimX) +
                                       ", " + std::to_string(found.sharedMemBytes));
    lab.shows(name + ".get.list", found.kernelParams != nullptr);
    lab.shows(name + ".get.buffer", found.extra != nullptr);
    if (found.kernelParams != nullptr)
      lab.shows(name + ".get.argument", *static_cast<CUdeviceptr*>(found.kernelParams[0]) == where);
    lab.is(name + ".set", cu.GraphKernelNodeSetParams(node, &found));
    cu.GraphDestroy(graph);
  };
  ask("list", touch, list, nullptr);
  ask("none", step, nullptr, nullptr);
  ask("buffer", touch, nullptr, buffer);
}

} // namespace

std::vector<Scenario> graph_nodes_scenarios() {
  return {
    {"nodes.children", children, Place::child}, {"nodes.updates", updates, Place::child},
        {"nodes.more_updates", more_updates, Place::child}, {"nodes.copies", copies, Place::child},
        {"nodes.fills", fills, Place::child}, {"nodes.kernels", kernels, Place::child},
        {"nodes.captured_kernels", captured_kernels, Place::child},
#if CUDA_VERSION >= 12050
        {"nodes.other_memory", other_memory, Place::child},
        {"nodes.fills_of_pools", fills_of_pools, Place::child},
#endif
#if CUDA_VERSION >= 13000
        {"nodes.any", any_node, Place::child},
#endif
  };
}

} // namespace transcript
