// SPDX-License-Identifier: MIT
// Memory that graphs allocate: arguments of the nodes, who may free, and what a device keeps. The scenario
// pools.captured has what was asked first.

#include "everywhere.hpp"

namespace transcript {
namespace {

using Parameters = CUDA_MEM_ALLOC_NODE_PARAMS;

Parameters plain(const Lab& lab, std::size_t bytes = 64) {
  Parameters parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  parameters.poolProps.location.id = lab.device;
  parameters.bytesize = bytes;
  return parameters;
}

// A graph with an allocation, and perhaps with its free.
struct Allocating {
  enum class Freed { no, yes };
  Allocating(Lab& lab, Freed freed) : graph(lab), parameters(plain(lab)) {
    lab.must(lab.cu.GraphAddMemAllocNode(&allocation, graph, nullptr, 0, &parameters), "allocation node");
    if (freed == Freed::yes)
      lab.must(lab.cu.GraphAddMemFreeNode(&free, graph, &allocation, 1, parameters.dptr), "free node");
  }
  CUdeviceptr address() const { return parameters.dptr; }

  Graph graph;
  Parameters parameters;
  CUgraphNode allocation = nullptr, free = nullptr;
};

std::string used_and_reserved(Lab& lab) {
  std::vector<std::string> parts;
  for (int which = 0; which < 4; ++which) {
    std::uint64_t bytes = 0;
    const CUresult result =
        lab.cu.DeviceGetGraphMemAttribute(lab.device, number<CUgraphMem_attribute>(which), &bytes);
    parts.push_back(result == CUDA_SUCCESS ? std::to_string(bytes) : lab.name_of(result));
  }
  return joined(parts);
}

// Adds allocation nodes.
struct Adding {
  explicit Adding(Lab& of) : lab(of), graph(of) {}
  template <class Change>
  void operator()(const std::string& name, const Change& change) {
    Parameters parameters = plain(lab);
    change(parameters);
    parameters.dptr = 0;
    CUgraphNode node = nullptr;
    lab.is(name, lab.cu.GraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
    lab.shows(name + ".address", parameters.dptr != 0);
  }
  Lab& lab;
  Graph graph;
};

void arguments(Lab& lab) {
  Adding add(lab);
  add("plain", [](Parameters&) {});
  add("one_byte", [](Parameters& p) { p.bytesize = 1; });
  add("too_much", [](Parameters& p) { p.bytesize = std::size_t{1} << 50; });
  for (int type = 0; type < 4; ++type)
    add("type_" + std::to_string(type),
        [&](Parameters& p) { p.poolProps.allocType = number<CUmemAllocationType>(type); });
  for (int type = 0; type < 6; ++type)
    for (int id : {0, -1, 99})
      add("place_" + std::to_string(type) + ".id_" + std::to_string(id), [&](Parameters& p) {
        p.poolProps.location = {number<CUmemLocationType>(type), id};
      });
  for (int type : {1, 2, 4, 8, 64})
    add("handles_" + std::to_string(type),
        [&](Parameters& p) { p.poolProps.handleTypes = number<CUmemAllocationHandleType>(type); });
  CUmemAccessDesc access{};
  access.location = plain(lab).poolProps.location;
  for (int flags : {0, 1, 3}) {
    access.flags = number<CUmemAccess_flags>(flags);
    add("access_" + std::to_string(flags),
        [&](Parameters& p) { p.accessDescs = &access, p.accessDescCount = 1; });
  }
}

// An H200 has ended the process.
void no_access(Lab& lab) {
  Adding add(lab);
  add("parameters", [&](Parameters& p) { p.accessDescCount = 1; });
}

void more_arguments(Lab& lab) {
  const Api& cu = lab.cu;
  Adding add(lab);
  const CUgraph graph = add.graph;
  add("reserved", [](Parameters& p) { p.poolProps.reserved[0] = 1; });
  Parameters parameters = plain(lab);
  CUgraphNode node = nullptr;
  lab.is("no_place_for_the_node", cu.GraphAddMemAllocNode(nullptr, graph, nullptr, 0, &parameters));
  lab.is("no_graph", cu.GraphAddMemAllocNode(&node, nullptr, nullptr, 0, &parameters));
  lab.is("no_list", cu.GraphAddMemAllocNode(&node, graph, nullptr, 1, &parameters));
  {
    const Current none(lab, nullptr);
    lab.is("no_context", cu.GraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
  }
  lab.is("free.no_address", cu.GraphAddMemFreeNode(&node, graph, nullptr, 0, 0));
  lab.is("free.no_place_for_the_node", cu.GraphAddMemFreeNode(nullptr, graph, nullptr, 0, parameters.dptr));
}

// Who may free what one graph allocates.
void freed_elsewhere(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  CUgraphNode node = nullptr;
  {
    Allocating one(lab, Allocating::Freed::no);
    lab.is("without_an_edge", cu.GraphAddMemFreeNode(&node, one.graph, nullptr, 0, one.address()));
  }
  {
    Allocating one(lab, Allocating::Freed::yes);
    Graph other(lab);
    lab.is("freed_at_home", cu.GraphAddMemFreeNode(&node, other, nullptr, 0, one.address()));
  }
  Allocating one(lab, Allocating::Freed::no);
  Graph other(lab), third(lab);
  lab.is("inside", cu.GraphAddMemFreeNode(&node, other, nullptr, 0, one.address() + 1));
  lab.is("other", cu.GraphAddMemFreeNode(&node, other, nullptr, 0, one.address()));
  lab.is("other.again", cu.GraphAddMemFreeNode(&node, other, nullptr, 0, one.address()));
  lab.is("third", cu.GraphAddMemFreeNode(&node, third, nullptr, 0, one.address()));
  lab.is("home", cu.GraphAddMemFreeNode(&node, one.graph, &one.allocation, 1, one.address()));
  CUgraphExec const allocating = make_exec(lab, one.graph), freeing = make_exec(lab, other);
  lab.is("launch.free_first", cu.GraphLaunch(freeing, stream));
  lab.is("launch.allocate", cu.GraphLaunch(allocating, stream));
  lab.is("launch.free", cu.GraphLaunch(freeing, stream));
  lab.is("launch.free.again", cu.GraphLaunch(freeing, stream));
  lab.is("launch.allocate.again", cu.GraphLaunch(allocating, stream));
  lab.is("synchronize", cu.StreamSynchronize(stream));
  CUgraphExecUpdateResultInfo info{};
  lab.is("update", cu.GraphExecUpdate(allocating, one.graph, &info));
  lab.shows("update.result", static_cast<int>(info.result));
}

// What cannot be changed in a graph that allocates.
void fixed(Lab& lab) {
  const Api& cu = lab.cu;
  CUgraphNode node = nullptr;
  Allocating one(lab, Allocating::Freed::yes);
  Graph other(lab);
  lab.is("child", cu.GraphAddChildGraphNode(&node, other, nullptr, 0, one.graph));
  lab.is("remove_no_edges", cu.GraphRemoveDependencies(one.graph, nullptr, nullptr, 0));
  lab.is("remove_edge", cu.GraphRemoveDependencies(one.graph, &one.allocation, &one.free, 1));
  lab.is("destroy_node", cu.GraphDestroyNode(one.free));
  Graph freeing(lab);
  Allocating kept(lab, Allocating::Freed::no);
  lab.must(cu.GraphAddMemFreeNode(&node, freeing, nullptr, 0, kept.address()), "free node");
  CUgraph clone = nullptr;
  lab.is("clone_of_a_free", cu.GraphClone(&clone, freeing));
}

// What a device keeps for graphs.
void kept(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  lab.shows("first", used_and_reserved(lab));
  Allocating one(lab, Allocating::Freed::no);
  lab.shows("built", used_and_reserved(lab));
  CUgraphExec exec = make_exec(lab, one.graph);
  lab.shows("instantiated", used_and_reserved(lab));
  lab.must(cu.GraphLaunch(exec, stream), "cuGraphLaunch");
  lab.must(cu.StreamSynchronize(stream), "cuStreamSynchronize");
  lab.shows("launched", used_and_reserved(lab));
  lab.is("free", cu.MemFree(one.address()));
  lab.shows("freed", used_and_reserved(lab));
  cu.DeviceGraphMemTrim(lab.device);
  lab.shows("trimmed", used_and_reserved(lab));
  lab.must(cu.GraphLaunch(exec, stream), "cuGraphLaunch");
  cu.GraphExecDestroy(exec);
  lab.shows("exec_destroyed", used_and_reserved(lab));
  lab.is("fill_then", cu.MemsetD8(one.address(), 1, 64));
  lab.is("free_then", cu.MemFree(one.address()));
  lab.shows("freed_then", used_and_reserved(lab));
  cu.DeviceGraphMemTrim(lab.device);
  lab.shows("trimmed_then", used_and_reserved(lab));
  for (int which = 0; which < 5; ++which)
    for (std::uint64_t value : {0U, 1U})
      lab.is("set_" + std::to_string(which) + "_to_" + std::to_string(value),
             cu.DeviceSetGraphMemAttribute(lab.device, number<CUgraphMem_attribute>(which), &value));
  lab.shows("set", used_and_reserved(lab));
  std::uint64_t value = 0;
  lab.is("get.no_device", cu.DeviceGetGraphMemAttribute(99, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
  lab.is("set.no_device", cu.DeviceSetGraphMemAttribute(99, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
  lab.is("get.nowhere", cu.DeviceGetGraphMemAttribute(lab.device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, nullptr));
}

// An allocation in a capture, and calls that name its memory.
void captures(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab), outside(lab);
  CUdeviceptr pointer = 0;
  CUgraph graph = nullptr;
  const auto ask = [&](const std::string& name, const auto& call) {
    lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    lab.must(cu.MemAllocAsync(&pointer, 64, stream), "cuMemAllocAsync");
    lab.is(name, call());
    lab.is(name + ".end", cu.StreamEndCapture(stream, &graph));
    if (graph != nullptr) cu.GraphDestroy(graph);
  };
  ask("fill_too_long", [&] { return cu.MemsetD8Async(pointer, 1, 1 << 26, stream); });
  ask("copy", [&] { return cu.MemcpyDtoDAsync(pointer + 32, pointer, 32, stream); });
  ask("fill_outside", [&] { return cu.MemsetD8Async(pointer, 1, 64, outside); });
  ask("free_outside", [&] { return cu.MemFreeAsync(pointer, outside); });
  ask("free_plainly", [&] { return cu.MemFree(pointer); });
  ask("too_much", [&] { return cu.MemAllocAsync(&pointer, std::size_t{1} << 50, stream); });
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.must(cu.MemAllocAsync(&pointer, 64, stream), "cuMemAllocAsync");
  lab.must(cu.StreamEndCapture(stream, &graph), "cuStreamEndCapture");
  std::vector<CUgraphNode> nodes(1);
  std::size_t count = 1;
  lab.must(cu.GraphGetNodes(graph, nodes.data(), &count), "cuGraphGetNodes");
  Parameters read{};
  lab.is("read", cu.GraphMemAllocNodeGetParams(nodes[0], &read));
  lab.shows("read.type", static_cast<int>(read.poolProps.allocType));
  lab.shows("read.place", static_cast<int>(read.poolProps.location.type));
  lab.shows("read.id", read.poolProps.location.id);
  lab.shows("read.handles", static_cast<int>(read.poolProps.handleTypes));
  lab.shows("read.accesses", read.accessDescCount);
  CUgraphExec exec = make_exec(lab, graph);
  lab.must(cu.GraphLaunch(exec, stream), "cuGraphLaunch");
  lab.must(cu.StreamSynchronize(stream), "cuStreamSynchronize");
  CUmemoryPool pool = nullptr;
  lab.is("pool", cu.PointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer));
  lab.shows("pool.is_null", pool == nullptr);
  CUcontext context = nullptr;
  lab.is("context", cu.PointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, pointer));
  lab.shows("context.is_null", context == nullptr);
}

// What a graph is after a refused allocation or free in its capture, or a refused node. A random program
// could not clone one.
void refused(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab), outside(lab);
  const auto show = [&](const std::string& name, CUresult result, CUgraph graph) {
    std::size_t nodes = 0;
    cu.GraphGetNodes(graph, nullptr, &nodes);
    std::vector<std::string> parts{lab.name_of(result), std::to_string(nodes) + " nodes"};
    CUgraph clone = nullptr;
    parts.push_back("clone " + lab.name_of(cu.GraphClone(&clone, graph)));
    if (clone != nullptr) cu.GraphDestroy(clone);
    Graph parent(lab);
    CUgraphNode child = nullptr;
    parts.push_back("child " + lab.name_of(cu.GraphAddChildGraphNode(&child, parent, nullptr, 0, graph)));
    CUgraphExec first = nullptr, second = nullptr;
    const CUresult once = cu.GraphInstantiateWithFlags(&first, graph, 0);
    parts.push_back("instantiate " + lab.name_of(once) + ", " +
                    lab.name_of(cu.GraphInstantiateWithFlags(&second, graph, 0)));
    for (CUgraphExec const exec : {first, second})
      if (exec != nullptr) cu.GraphExecDestroy(exec);
    lab.shows(name, joined(parts));
  };
  CUdeviceptr device = 0, managed = 0, pooled = 0, allocated = 0;
  void* pinned = nullptr;
  lab.must(cu.MemAlloc(&device, 64), "cuMemAlloc");
  lab.must(cu.MemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
  lab.must(cu.MemHostAlloc(&pinned, 64, 0), "cuMemHostAlloc");
  lab.must(cu.MemAllocAsync(&pooled, 64, outside), "cuMemAllocAsync");
  lab.must(cu.StreamSynchronize(outside), "cuStreamSynchronize");
  using Call = std::function<CUresult()>;
  const std::pair<const char*, Call> captured[] = {
      {"nothing", [] { return CUDA_SUCCESS; }},
      {"free_null", [&] { return cu.MemFreeAsync(0, stream); }},
      {"free_device", [&] { return cu.MemFreeAsync(device, stream); }},
      {"free_managed", [&] { return cu.MemFreeAsync(managed, stream); }},
      {"free_pinned", [&] { return cu.MemFreeAsync(reinterpret_cast<CUdeviceptr>(pinned), stream); }},
      {"free_pooled", [&] { return cu.MemFreeAsync(pooled, stream); }},
      {"free_unknown", [&] { return cu.MemFreeAsync(1 << 20, stream); }},
      {"allocate_nothing", [&] { return cu.MemAllocAsync(&allocated, 0, stream); }},
      {"allocate_nowhere", [&] { return cu.MemAllocAsync(nullptr, 64, stream); }},
      {"allocate_too_much", [&] { return cu.MemAllocAsync(&allocated, std::size_t{1} << 50, stream); }},
      {"without_pool", [&] { return cu.MemAllocFromPoolAsync(&allocated, 64, nullptr, stream); }},
      {"free_outside", [&] {
         CUdeviceptr own = 0;
         lab.must(cu.MemAlloc(&own, 64), "cuMemAlloc");
         return cu.MemFreeAsync(own, nullptr);
       }}};
  for (const auto& [name, call] : captured) {
    lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    const CUresult result = call();
    CUgraph graph = nullptr;
    cu.StreamEndCapture(stream, &graph);
    if (graph == nullptr) {
      lab.is(std::string("captured.") + name, result);
      continue;
    }
    show(std::string("captured.") + name, result, graph);
    cu.GraphDestroy(graph);
  }
  for (const auto& [name, address] :
       {std::pair{"null", CUdeviceptr{0}}, {"device", device}, {"managed", managed}, {"pooled", pooled}}) {
    Graph graph(lab);
    CUgraphNode node = nullptr;
    const CUresult result = cu.GraphAddMemFreeNode(&node, graph, nullptr, 0, address);
    show(std::string("free_node.") + name, result, graph);
  }
  Graph graph(lab);
  Parameters parameters = plain(lab, 0);
  CUgraphNode node = nullptr;
  const CUresult result = cu.GraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters);
  show("allocation_node.nothing", result, graph);
}

} // namespace

std::vector<Scenario> graph_memory_scenarios() {
  return {{"graph_memory.arguments", arguments, Place::alone},
          {"graph_memory.no_access", no_access, Place::alone},
          {"graph_memory.more_arguments", more_arguments, Place::alone},
          {"graph_memory.freed_elsewhere", freed_elsewhere, Place::alone},
          {"graph_memory.fixed", fixed, Place::alone},
          {"graph_memory.kept", kept, Place::alone},
          {"graph_memory.captures", captures, Place::alone},
          {"graph_memory.refused", refused, Place::alone}};
}

} // namespace transcript
