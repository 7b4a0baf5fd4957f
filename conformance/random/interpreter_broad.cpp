// SPDX-License-Identifier: MIT
// What only broad programs use: memory pools, managed memory, copies of boxes, questions about memory,
// libraries, and nodes of graphs. An answer has the value that a call returned if every run returns the same.
#include "interpreter.hpp"

#include <algorithm>

namespace conformance {
namespace {

constexpr char code[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .entry step() { ret; }
)";
const char* const names[] = {"step", "counter", "missing", "", nullptr};
constexpr std::size_t room = Interpreter::memory_bytes;

/// The pointer, unless the call goes without it.
template <class Value>
Value* given(const Call& call, int bit, Value& value) {
  return (call.flags >> bit & 1) != 0 ? nullptr : &value;
}

template <class Enum>
Enum number(int value) {
  return static_cast<Enum>(value);
}

/// 8 bytes of each of two rows; the other forms are larger, empty or refused.
template <class Copy>
Copy box(CUdeviceptr to, CUdeviceptr from, unsigned form) {
  Copy copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = 16;
  copy.WidthInBytes = form == 2 ? 0 : form == 3 ? 32 : 8;
  copy.Height = form == 4 ? 0 : form == 5 ? room : 2;
  if (form == 6) copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  if (form == 7) copy.dstMemoryType = number<CUmemorytype>(9);
  if constexpr (requires { copy.Depth; }) copy.Depth = 1;
  return copy;
}
constexpr unsigned null_box = 1;

CUDA_MEMCPY3D line(CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.WidthInBytes = 8;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUmemPoolProps pool_of_device() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}

} // namespace

void Interpreter::prepare_broad_programs() {
  if (modules_[primary_context] != nullptr) return;
  for (const int context : {primary_context, created_context}) {
    CUcontext popped = nullptr;
    cu_.CtxPushCurrent(contexts_[context]);
    if (cu_.ModuleLoadData(&modules_[context], code) != CUDA_SUCCESS)
      throw transcript::LoadFailure("the module of broad programs cannot be loaded");
    cu_.CtxPopCurrent(&popped);
  }
}

bool Interpreter::anything_held() const {
  for (int context = 0; context < context_slots; ++context)
    if (held_.all(context) != 0) return true;
  return false;
}

/// Whether a call without a stream would wait.
bool Interpreter::held_here(const Call& call) const {
  const int context = current(call);
  if (context == no_object) return false;
  return held_.all(context) != 0 || (context == green_context && held_.all(primary_context) != 0);
}

/// Notes who uses the memory, because memory may be freed in the order of one stream.
void Interpreter::used(int slot, int stream) {
  if (slot == no_object) return;
  Memory& memory = memory_[slot];
  if (stream < 0 || (memory.stream != no_stream && memory.stream != stream)) stream = many_streams;
  memory.stream = stream;
}

std::string Interpreter::broad_call(const Call& call) {
  if (call.op <= Op::streamAttachMemAsync) return broad_memory_call(call);
  if (call.op <= Op::memsetD2D8Async) return box_call(call);
  if (call.op <= Op::memGetInfo) return question(call);
  if (call.op <= Op::deviceSetMemPool) return pool_call(call);
  if (call.op <= Op::occupancy) return code_call(call);
  if (call.op <= Op::graphMemsetNodeSetParams) return node_call(call);
  return step_call(call);
}

/// Left out if it would become a node that allocates, which the simulated driver does not have.
std::string Interpreter::allocate_broadly(const Call& call) {
  const auto& [slot, second, third] = call.arguments;
  if (slot != no_object && memory_[slot].address != 0) return not_made;
  CUdeviceptr address = 0;
  std::size_t pitch = 0;
  CUdeviceptr* const out = slot == no_object ? nullptr : &address;
  const bool from_pool = call.op == Op::memAllocFromPoolAsync;
  const bool ordered = from_pool || call.op == Op::memAllocAsync;
  const int stream = from_pool ? third : second;
  if (ordered && capturing(stream)) return not_made;
  const CUmemoryPool pool = from_pool && second != no_object ? pools_[second] : nullptr;
  const CUresult result = from_pool ? cu_.MemAllocFromPoolAsync(out, room, pool, stream_handle(stream))
                          : ordered ? cu_.MemAllocAsync(out, room, stream_handle(stream))
                          : call.op == Op::memAllocManaged
                              ? cu_.MemAllocManaged(out, room, call.flags)
                              : cu_.MemAllocPitch(out, given(call, 0, pitch), room / 2, 1, 4);
  if (result != CUDA_SUCCESS || slot == no_object) return short_form(result);
  memory_[slot] = {.address = address,
                   .context = current(call) == no_object ? primary_context : current(call),
                   .managed = call.op == Op::memAllocManaged};
  if (ordered) {
    submit(call, stream, 0);
    used(slot, stream);
  }
  return short_form(result);
}

std::string Interpreter::broad_memory_call(const Call& call) {
  const auto& [first, second, third] = call.arguments;
  const auto address = [this](int slot) { return slot == no_object ? 0 : memory_[slot].address; };
  CUresult result = CUDA_SUCCESS;
  switch (call.op) {
  case Op::memFreeAsync: {
    const bool known = first != no_object;
    const bool ordered = known && second >= 0 && memory_[first].stream == second;
    if (known && (memory_[first].in_a_graph || (!ordered && anything_held()))) return not_made;
    result = cu_.MemFreeAsync(address(first), stream_handle(second));
    if (result == CUDA_SUCCESS && known) {
      submit(call, second, 0);
      memory_[first] = {};
    }
    return short_form(result);
  }
  case Op::memPrefetchAsync: {
    const CUdevice place = second == 2 ? CU_DEVICE_CPU : second == 1 ? 99 : 0;
    result = cu_.MemPrefetchAsync(address(first), room, place, stream_handle(third));
    if (result == CUDA_SUCCESS) {
      submit(call, third, 0);
      used(first, third);
    }
    return short_form(result);
  }
  case Op::memAdvise: {
    const CUdevice place = third == 2 ? CU_DEVICE_CPU : third == 1 ? 99 : 0;
    return short_form(cu_.MemAdvise(address(first), room, number<CUmem_advise>(second), place));
  }
  case Op::streamAttachMemAsync: // of other memory, and in captures, the answers are not known
    if (second == no_object || !memory_[second].managed || capturing(first)) return not_made;
    result = cu_.StreamAttachMemAsync(stream_handle(first), address(second), 0, call.flags);
    if (result == CUDA_SUCCESS) {
      if (Lane* const lane = lane_of(call, first); lane != nullptr) lane->dirty = true;
      used(second, first);
    }
    return short_form(result);
  default:
    return allocate_broadly(call);
  }
}

std::string Interpreter::box_call(const Call& call) {
  const auto& [first, second, third] = call.arguments;
  const auto address = [this](int slot) { return slot == no_object ? 0 : memory_[slot].address; };
  const auto host = [&](int slot) { return reinterpret_cast<void*>(address(slot)); };
  const bool held = held_here(call);
  const auto rows =
      box<CUDA_MEMCPY2D>(address(first), call.op == Op::memsetD2D8Async ? 0 : address(second), call.flags);
  const auto boxes = box<CUDA_MEMCPY3D>(rows.dstDevice, rows.srcDevice, call.flags);
  const auto* const given_rows = call.flags == null_box ? nullptr : &rows;
  const auto* const given_box = call.flags == null_box ? nullptr : &boxes;
  const auto context = [&](unsigned number) {
    return number == 3 ? nullptr : contexts_[number == 2 ? created_context : primary_context];
  };
  CUresult result = CUDA_SUCCESS;
  switch (call.op) {
  case Op::memcpy2D:
    return held ? not_made : short_form(cu_.Memcpy2D(given_rows));
  case Op::memcpy3D:
    return held ? not_made : short_form(cu_.Memcpy3D(given_box));
  case Op::memcpyPeer:
    return held ? not_made
                : short_form(cu_.MemcpyPeer(address(first), context(call.flags & 3), address(second),
                                            context(call.flags >> 2 & 3), 8));
  case Op::memsetD2D8Async:
    result =
        cu_.MemsetD2D8Async(rows.dstDevice, 16, 1, rows.WidthInBytes, rows.Height, stream_handle(second));
    if (result == CUDA_SUCCESS) submit_transfer(call, second, {first});
    return short_form(result);
  case Op::memcpyHtoDAsync:
    result = cu_.MemcpyHtoDAsync(address(first), host(second), 8, stream_handle(third));
    break;
  case Op::memcpyDtoHAsync:
    result = cu_.MemcpyDtoHAsync(host(first), address(second), 8, stream_handle(third));
    break;
  case Op::memcpyDtoDAsync:
    result = cu_.MemcpyDtoDAsync(address(first), address(second), 8, stream_handle(third));
    break;
  case Op::memcpy2DAsync:
    result = cu_.Memcpy2DAsync(given_rows, stream_handle(third));
    break;
  case Op::memcpy3DAsync:
    result = cu_.Memcpy3DAsync(given_box, stream_handle(third));
    break;
  default:
    result = cu_.MemcpyPeerAsync(address(first), context(call.flags & 3), address(second),
                                 context(call.flags >> 2 & 3), 8, stream_handle(third));
  }
  if (result == CUDA_SUCCESS) submit_transfer(call, third, {first, second});
  return short_form(result);
}

std::string Interpreter::question(const Call& call) {
  const auto& [slot, attribute, unused] = call.arguments;
  const CUdeviceptr address = slot == no_object ? 0 : memory_[slot].address;
  switch (call.op) {
  case Op::pointerGetAttribute: {
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS) return not_made;
    std::uint64_t value[2] = {};
    const CUresult result =
        cu_.PointerGetAttribute(place(call, value), number<CUpointer_attribute>(attribute), address);
    const bool small =
        attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE || attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
        attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED || attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ||
        attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE || attribute == CU_POINTER_ATTRIBUTE_MAPPED;
    return small ? short_form(result, value[0]) : short_form(result);
  }
  case Op::pointerGetAttributes: {
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    int type = 0, managed = 0;
    void* values[] = {&type, &managed};
    const CUresult result =
        cu_.PointerGetAttributes(2, given(call, 0, asked[0]), given(call, 1, values[0]), address);
    return short_form(result, static_cast<unsigned>(10 * managed + type));
  }
  case Op::pointerSetAttribute: {
    const int on = 1;
    return short_form(cu_.PointerSetAttribute(given(call, 0, on), CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
  }
  case Op::memGetAddressRange: {
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    const CUresult result = cu_.MemGetAddressRange(given(call, 0, base), given(call, 1, bytes), address);
    return short_form(result, bytes);
  }
  case Op::memHostGetFlags: {
    unsigned flags = 0;
    const CUresult result = cu_.MemHostGetFlags(place(call, flags), reinterpret_cast<void*>(address));
    return short_form(result, flags);
  }
  case Op::memHostGetDevicePointer: {
    CUdeviceptr there = 0;
    return short_form(cu_.MemHostGetDevicePointer(place(call, there), reinterpret_cast<void*>(address), 0));
  }
  default: {
    std::size_t free = 0, total = 0;
    return short_form(cu_.MemGetInfo(given(call, 0, free), given(call, 1, total)));
  }
  }
}

std::string Interpreter::pool_call(const Call& call) {
  const auto& [first, second, unused] = call.arguments;
  const auto pool = [this](int slot) { return slot == no_object ? nullptr : pools_[slot]; };
  const CUmemoryPool named = call.op == Op::deviceSetMemPool ? pool(second) : pool(first % pool_slots);
  switch (call.op) {
  case Op::memPoolCreate: {
    if (first != no_object && pools_[first] != nullptr) return not_made;
    CUmemoryPool made = nullptr;
    const CUmemPoolProps properties = pool_of_device();
    const CUresult result =
        cu_.MemPoolCreate(first == no_object ? nullptr : &made, given(call, 0, properties));
    if (result == CUDA_SUCCESS && first != no_object) pools_[first] = made;
    return short_form(result);
  }
  case Op::memPoolDestroy: {
    const CUresult result = cu_.MemPoolDestroy(named);
    if (result == CUDA_SUCCESS && first != no_object) pools_[first] = nullptr;
    return short_form(result);
  }
  case Op::memPoolTrimTo:
    return short_form(cu_.MemPoolTrimTo(named, 0));
  case Op::memPoolGetAttribute: {
    std::uint64_t value = 0;
    const CUresult result =
        cu_.MemPoolGetAttribute(named, number<CUmemPool_attribute>(second), place(call, value));
    const bool same = second >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
                      second <= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    return same ? short_form(result, value) : short_form(result);
  }
  case Op::memPoolSetAttribute: {
    std::uint64_t value = 0, *const place = given(call, 0, value);
    if (place == nullptr && named != nullptr) return not_made; // crashes
    return short_form(cu_.MemPoolSetAttribute(named, number<CUmemPool_attribute>(second), place));
  }
  case Op::memPoolGetAccess: {
    CUmemAccess_flags flags{};
    CUmemLocation where{CU_MEM_LOCATION_TYPE_DEVICE, 0};
    const CUresult result = cu_.MemPoolGetAccess(given(call, 0, flags), named, given(call, 1, where));
    return short_form(result, static_cast<unsigned>(flags));
  }
  case Op::memPoolSetAccess: {
    const CUmemAccessDesc wish{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return short_form(cu_.MemPoolSetAccess(named, given(call, 0, wish), 1));
  }
  case Op::deviceSetMemPool:
    return short_form(cu_.DeviceSetMemPool(first, named));
  default: {
    CUmemoryPool found = nullptr;
    const auto get = call.op == Op::deviceGetMemPool ? cu_.DeviceGetMemPool : cu_.DeviceGetDefaultMemPool;
    return short_form(get(place(call, found), first));
  }
  }
}

std::string Interpreter::code_call(const Call& call) {
  const auto& [first, second, unused] = call.arguments;
  const Library none;
  const bool has_library = call.op < Op::moduleGetFunction && first != no_object;
  const Library& library = has_library ? libraries_[first] : none;
  const int context = current(call) == created_context ? created_context : primary_context;
  const CUmodule whole = modules_[context];
  CUfunction function = nullptr;
  CUdeviceptr variable = 0;
  std::size_t bytes = 0;
  int value = 0;
  switch (call.op) {
  case Op::libraryLoadData: {
    if (has_library && library.handle != nullptr) return not_made;
    Library made;
    const CUresult result = cu_.LibraryLoadData(has_library ? &made.handle : nullptr, given(call, 0, code[0]),
                                                nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (result != CUDA_SUCCESS || !has_library) return short_form(result);
    if (cu_.LibraryGetKernel(&made.kernel, made.handle, "step") != CUDA_SUCCESS) made.kernel = nullptr;
    libraries_[first] = made;
    return short_form(result);
  }
  case Op::libraryUnload: {
    if (has_library && (library.in_a_graph || anything_held())) return not_made;
    const CUresult result = cu_.LibraryUnload(library.handle);
    if (result == CUDA_SUCCESS && has_library) libraries_[first] = {};
    return short_form(result);
  }
  case Op::libraryGetKernel: {
    CUkernel found = nullptr;
    return short_form(cu_.LibraryGetKernel(place(call, found), library.handle, names[second]));
  }
  case Op::libraryGetModule: {
    CUmodule module = nullptr;
    return short_form(cu_.LibraryGetModule(place(call, module), library.handle));
  }
  case Op::libraryGetGlobal: {
    const CUresult result =
        cu_.LibraryGetGlobal(given(call, 0, variable), given(call, 1, bytes), library.handle, names[second]);
    return short_form(result, bytes);
  }
  case Op::kernelGetFunction:
    return short_form(cu_.KernelGetFunction(place(call, function), library.kernel));
  case Op::kernelGetAttribute:
    return short_form(
        cu_.KernelGetAttribute(place(call, value), number<CUfunction_attribute>(second), library.kernel, 0));
  case Op::libraryKernelLaunch: {
    const CUresult result = cu_.LaunchKernel(reinterpret_cast<CUfunction>(library.kernel), 1, 1, 1, 1, 1, 1,
                                             0, stream_handle(second), nullptr, nullptr);
    if (result != CUDA_SUCCESS) return short_form(result);
    if (capturing(second)) libraries_[first].in_a_graph = true;
    submit_transfer(call, second, {});
    return short_form(result);
  }
  case Op::moduleGetFunction:
    return short_form(cu_.ModuleGetFunction(given(call, 0, function), (call.flags & 2) != 0 ? nullptr : whole,
                                            names[first]));
  case Op::moduleGetGlobal: {
    const CUresult result = cu_.ModuleGetGlobal(given(call, 0, variable), given(call, 1, bytes),
                                                (call.flags & 4) != 0 ? nullptr : whole, names[first]);
    return short_form(result, bytes);
  }
  case Op::funcGetAttribute:
    return short_form(cu_.FuncGetAttribute(given(call, 0, value), number<CUfunction_attribute>(first),
                                           (call.flags & 2) != 0 ? nullptr : kernels_[context]));
  default: {
    const CUresult result = cu_.OccupancyMaxActiveBlocksPerMultiprocessor(
        given(call, 0, value), (call.flags & 2) != 0 ? nullptr : kernels_[context], first, 0);
    return short_form(result, static_cast<unsigned>(value));
  }
  }
}

std::string Interpreter::clone(const Call& call) {
  const auto& [slot, original_slot, unused] = call.arguments;
  if (slot >= 0 && graphs_[slot].handle != nullptr) return not_made;
  const Graph& original = graph(original_slot);
  CUgraph made = nullptr;
  const CUresult result = cu_.GraphClone(slot < 0 ? nullptr : &made, original.handle);
  if (result != CUDA_SUCCESS || slot < 0) return short_form(result);
  Graph copy{made, ++graph_numbers_, {}};
  for (const CUgraphNode node : original.nodes) {
    CUgraphNode there = nullptr;
    if (cu_.GraphNodeFindInClone(&there, node, made) != CUDA_SUCCESS) continue;
    copy.nodes.push_back(there);
    nodes_[there] = nodes_[node];
  }
  graphs_[slot] = std::move(copy);
  return short_form(result);
}

/// Adds a child graph, a copy or a fill.
std::string Interpreter::add_broad_node(const Call& call) {
  const auto& [slot, second, third] = call.arguments;
  const auto address = [this](int number) { return number == no_object ? 0 : memory_[number].address; };
  Graph& into = graph(slot);
  const bool copies = call.op == Op::graphAddMemcpyNode;
  const CUgraphNode no_node = nullptr;
  const CUgraphNode* const before = !copies && second == no_object                  ? &no_node
                                    : !copies && second != 0 && !into.nodes.empty() ? &into.nodes.back()
                                                                                    : nullptr;
  const std::size_t count = before != nullptr ? 1 : 0;
  CUgraphNode added = nullptr;
  Node node;
  CUresult result = CUDA_SUCCESS;
  if (call.op == Op::graphAddChildGraphNode) {
    const Graph child = graph(third);
    const bool checked_first = before == &no_node;
    if (into.handle != nullptr && into.handle == child.handle && !checked_first) return not_made; // crashes
    node.kind = Node::Kind::child;
    node.child = std::make_shared<std::vector<Node>>(steps_of(child.nodes));
    result = cu_.GraphAddChildGraphNode(place(call, added), into.handle, before, count, child.handle);
  } else {
    const CUcontext context = (call.flags & 4) != 0 ? nullptr : contexts_[primary_context];
    const CUDA_MEMCPY3D copy = line(address(second), address(third));
    const CUDA_MEMSET_NODE_PARAMS fill{address(third), 0, 7, 4, 2, 1};
    CUgraphNode* const out = given(call, 1, added);
    node.kind = copies ? Node::Kind::copy : Node::Kind::fill;
    result = copies ? cu_.GraphAddMemcpyNode(out, into.handle, before, count, given(call, 0, copy), context)
                    : cu_.GraphAddMemsetNode(out, into.handle, before, count, given(call, 0, fill), context);
    if (result == CUDA_SUCCESS)
      for (const int used_slot : {copies ? second : third, third})
        if (used_slot != no_object) memory_[used_slot].in_a_graph = true;
  }
  if (result == CUDA_SUCCESS && added != nullptr) {
    into.nodes.push_back(added);
    nodes_[added] = std::move(node);
  }
  return short_form(result);
}

std::string Interpreter::node_call(const Call& call) {
  const auto& [slot, index, third] = call.arguments;
  switch (call.op) {
  case Op::graphClone:
    return clone(call);
  case Op::graphAddChildGraphNode:
  case Op::graphAddMemcpyNode:
  case Op::graphAddMemsetNode:
    return add_broad_node(call);
  default:
    break;
  }
  Graph& named = graph(slot);
  if (call.op == Op::graphGetNodes) {
    std::size_t count = 0;
    const CUresult result = cu_.GraphGetNodes(named.handle, nullptr, place(call, count));
    return short_form(result, count);
  }
  const bool no_node = slot < 0 || index == no_object;
  if (!no_node && named.nodes.empty()) return not_made;
  const CUgraphNode node =
      no_node ? nullptr : named.nodes[static_cast<std::size_t>(index) % named.nodes.size()];
  if (call.op == Op::graphNodeGetType) {
    CUgraphNodeType type{};
    const CUresult result = cu_.GraphNodeGetType(node, place(call, type));
    return short_form(result, static_cast<unsigned>(type));
  }
  if (call.op == Op::graphChildGraphNodeGetGraph) {
    CUgraph inside = nullptr;
    return short_form(cu_.GraphChildGraphNodeGetGraph(node, place(call, inside)));
  }
  if (node != nullptr && nodes_[node].kind == Node::Kind::captured) return not_made;
  const CUdeviceptr address = third == no_object ? 0 : memory_[third].address;
  CUDA_MEMCPY3D copy = line(address, address);
  CUDA_MEMSET_NODE_PARAMS fill{address, 0, 8, 4, 2, 1};
  CUresult result = CUDA_SUCCESS;
  switch (call.op) {
  case Op::graphMemcpyNodeGetParams:
    return short_form(cu_.GraphMemcpyNodeGetParams(node, place(call, copy)));
  case Op::graphMemsetNodeGetParams:
    return short_form(cu_.GraphMemsetNodeGetParams(node, place(call, fill)));
  case Op::graphMemcpyNodeSetParams:
    result = cu_.GraphMemcpyNodeSetParams(node, given(call, 0, copy));
    break;
  default:
    result = cu_.GraphMemsetNodeSetParams(node, given(call, 0, fill));
  }
  if (result == CUDA_SUCCESS && third != no_object) memory_[third].in_a_graph = true;
  return short_form(result);
}

/// Asks about an executable graph, or changes it.
std::string Interpreter::step_call(const Call& call) {
  const auto& [slot, index, third] = call.arguments;
  Exec& changed = exec(slot);
  if (call.op == Op::graphExecGetFlags) {
    cuuint64_t flags = 0;
    const CUresult result = cu_.GraphExecGetFlags(changed.handle, place(call, flags));
    return short_form(result, flags);
  }
  const bool graph_lives = std::any_of(std::begin(graphs_), std::end(graphs_), [&](const Graph& graph) {
    return graph.handle != nullptr && graph.number == changed.graph;
  });
  const bool no_node = slot < 0 || index == no_object;
  if (!no_node && (!graph_lives || changed.nodes.empty())) return not_made;
  const std::size_t number = no_node ? 0 : static_cast<std::size_t>(index) % changed.nodes.size();
  const CUgraphNode node = no_node ? nullptr : changed.nodes[number];
  const bool captured = !no_node && nodes_[node].kind == Node::Kind::captured;
  unsigned enabled = 0;
  CUresult result = CUDA_SUCCESS;
  switch (call.op) {
  case Op::graphNodeGetEnabled:
    result = cu_.GraphNodeGetEnabled(changed.handle, node, place(call, enabled));
    return short_form(result, enabled);
  case Op::graphNodeSetEnabled:
    return short_form(cu_.GraphNodeSetEnabled(changed.handle, node, static_cast<unsigned>(third)));
  case Op::graphExecChildGraphNodeSetParams: {
    const Graph& child = graph(third);
    result = cu_.GraphExecChildGraphNodeSetParams(changed.handle, node, child.handle);
    if (result == CUDA_SUCCESS && !no_node)
      changed.steps[number].child = std::make_shared<std::vector<Node>>(steps_of(child.nodes));
    return short_form(result);
  }
  default:
    break;
  }
  if (captured) return not_made;
  const CUdeviceptr address = third == no_object ? 0 : memory_[third].address;
  const CUDA_MEMCPY3D copy = line(address, address);
  const CUDA_MEMSET_NODE_PARAMS fill{address, 0, 8, 4, 2, 1};
  const CUcontext context = (call.flags & 2) != 0 ? nullptr : contexts_[primary_context];
  result = call.op == Op::graphExecMemcpyNodeSetParams
               ? cu_.GraphExecMemcpyNodeSetParams(changed.handle, node, given(call, 0, copy), context)
               : cu_.GraphExecMemsetNodeSetParams(changed.handle, node, given(call, 0, fill), context);
  if (result == CUDA_SUCCESS && third != no_object) memory_[third].in_a_graph = true;
  return short_form(result);
}

void Interpreter::free_pools_and_libraries() {
  CUmemoryPool standard = nullptr;
  for (CUmemoryPool& pool : pools_) {
    if (pool == nullptr) continue;
    if (cu_.DeviceGetDefaultMemPool(&standard, 0) == CUDA_SUCCESS) cu_.DeviceSetMemPool(0, standard);
    cu_.MemPoolDestroy(pool);
    pool = nullptr;
  }
  for (Library& library : libraries_) {
    if (library.handle != nullptr) cu_.LibraryUnload(library.handle);
    library = {};
  }
}

} // namespace conformance
