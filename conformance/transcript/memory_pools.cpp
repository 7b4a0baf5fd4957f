// SPDX-License-Identifier: MIT
// Memory that streams allocate and free, and the pools that it comes from.

#include "everywhere.hpp"

#include <array>

namespace transcript {
namespace {

constexpr std::size_t mega = 1 << 20;

CUmemPoolProps plain_pool(const Lab& lab) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = lab.device;
  return properties;
}

CUmemoryPool new_pool(Lab& lab) {
  CUmemoryPool pool = nullptr;
  const CUmemPoolProps properties = plain_pool(lab);
  lab.must(lab.cu.MemPoolCreate(&pool, &properties), "cuMemPoolCreate");
  return pool;
}

std::string attribute(Lab& lab, CUmemoryPool pool, int which) {
  std::uint64_t value = 0;
  const CUresult result = lab.cu.MemPoolGetAttribute(pool, number<CUmemPool_attribute>(which), &value);
  return result == CUDA_SUCCESS ? std::to_string(value) : lab.name_of(result);
}

// Reserved now, reserved at most, used now, used at most.
std::string sizes(Lab& lab, CUmemoryPool pool) {
  return attribute(lab, pool, 5) + ", " + attribute(lab, pool, 6) + ", " + attribute(lab, pool, 7) + ", " +
         attribute(lab, pool, 8);
}

void pools(Lab& lab) {
  const Api& cu = lab.cu;
  CUmemoryPool pool = nullptr, standard = nullptr, current = nullptr;
  lab.is("default", cu.DeviceGetDefaultMemPool(&standard, lab.device));
  lab.is("default.again", cu.DeviceGetDefaultMemPool(&pool, lab.device));
  lab.shows("default.again.is_the_same", pool == standard);
  lab.is("default.nowhere", cu.DeviceGetDefaultMemPool(nullptr, lab.device));
  lab.is("default.no_device", cu.DeviceGetDefaultMemPool(&pool, 99));
  lab.is("current", cu.DeviceGetMemPool(&current, lab.device));
  lab.shows("current.is_the_default", current == standard);
  lab.is("current.nowhere", cu.DeviceGetMemPool(nullptr, lab.device));
  lab.is("current.no_device", cu.DeviceGetMemPool(&current, 99));
  for (int which = 0; which <= 16; ++which)
    if (which < 5 || which > 8) // how full it is depends on what ran before
      lab.shows("attribute." + std::to_string(which), attribute(lab, standard, which));
  lab.shows("attribute.99", attribute(lab, standard, 99));
  lab.shows("attribute.no_pool", attribute(lab, nullptr, 1));
  lab.is("attribute.nowhere", cu.MemPoolGetAttribute(standard, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, nullptr));

  const auto create = [&](const char* name, const auto& change) {
    CUmemPoolProps properties = plain_pool(lab);
    change(properties);
    CUmemoryPool made = nullptr;
    lab.is(std::string("create.") + name, cu.MemPoolCreate(&made, &properties));
    if (made != nullptr) cu.MemPoolDestroy(made);
  };
  create("plain", [](CUmemPoolProps&) {});
  create("no_type", [](CUmemPoolProps& p) { p.allocType = CU_MEM_ALLOCATION_TYPE_INVALID; });
  create("unknown_type", [](CUmemPoolProps& p) { p.allocType = number<CUmemAllocationType>(9); });
  create("no_place", [](CUmemPoolProps& p) { p.location.type = CU_MEM_LOCATION_TYPE_INVALID; });
  create("unknown_place", [](CUmemPoolProps& p) { p.location.type = number<CUmemLocationType>(9); });
  create("no_device", [](CUmemPoolProps& p) { p.location.id = 99; });
  create("host", [](CUmemPoolProps& p) { p.location = {number<CUmemLocationType>(2), 0}; });
  create("host_numa", [](CUmemPoolProps& p) { p.location = {number<CUmemLocationType>(3), 0}; });
  create("file_descriptor",
         [](CUmemPoolProps& p) { p.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; });
  create("win32", [](CUmemPoolProps& p) { p.handleTypes = CU_MEM_HANDLE_TYPE_WIN32; });
  create("unknown_handle", [](CUmemPoolProps& p) { p.handleTypes = number<CUmemAllocationHandleType>(64); });
  create("security", [&](CUmemPoolProps& p) { p.win32SecurityAttributes = &lab; });
  create("reserved", [](CUmemPoolProps& p) { p.reserved[0] = 1; });
  const CUmemPoolProps properties = plain_pool(lab);
  lab.is("create.nowhere", cu.MemPoolCreate(nullptr, &properties));
  lab.is("create.no_properties", cu.MemPoolCreate(&pool, nullptr));
  lab.is("create.nothing", cu.MemPoolCreate(nullptr, nullptr));

  pool = new_pool(lab);
  for (int which = 1; which <= 8; ++which)
    lab.shows("own.attribute." + std::to_string(which), attribute(lab, pool, which));
  struct Wish {
    int attribute;
    std::uint64_t value;
  };
  constexpr Wish wishes[] = {{1, 0}, {1, 5}, {2, 0}, {3, 0}, {4, 4096}, {4, ~std::uint64_t{0}},
                             {5, 0}, {6, 5}, {6, 0}, {7, 0}, {8, 5},    {8, 0},
                             {0, 1}, {9, 1}, {99, 1}};
  for (const Wish& wish : wishes) {
    std::uint64_t value = wish.value;
    const std::string name = "set." + std::to_string(wish.attribute) + ".to_" + std::to_string(wish.value);
    lab.is(name, cu.MemPoolSetAttribute(pool, number<CUmemPool_attribute>(wish.attribute), &value));
    lab.shows(name + ".then", attribute(lab, pool, wish.attribute));
  }
}

// More about pools. Without the calls that ended the process: an attribute that is set from a null pointer.
void more(Lab& lab) {
  const Api& cu = lab.cu;
  const CUmemPoolProps properties = plain_pool(lab);
  CUmemoryPool pool = new_pool(lab), current = nullptr, standard = nullptr;
  lab.must(cu.DeviceGetDefaultMemPool(&standard, lab.device), "cuDeviceGetDefaultMemPool");
  std::uint64_t value = 0;
  lab.is("set.no_pool", cu.MemPoolSetAttribute(nullptr, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
  lab.is("trim.no_pool", cu.MemPoolTrimTo(nullptr, 0));
  lab.is("trim.empty", cu.MemPoolTrimTo(pool, 0));
  CUmemLocation here = properties.location, nowhere = {CU_MEM_LOCATION_TYPE_DEVICE, 99};
  CUmemAccess_flags flags{};
  lab.is("access", cu.MemPoolGetAccess(&flags, pool, &here));
  lab.shows("access.flags", static_cast<int>(flags));
  lab.is("access.no_device", cu.MemPoolGetAccess(&flags, pool, &nowhere));
  lab.is("access.no_pool", cu.MemPoolGetAccess(&flags, nullptr, &here));
  CUmemAccessDesc wish = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  lab.is("set_access", cu.MemPoolSetAccess(pool, &wish, 1));
  wish.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  lab.is("set_access.none", cu.MemPoolSetAccess(pool, &wish, 1));
  lab.is("set_access.nothing", cu.MemPoolSetAccess(pool, &wish, 0));
  lab.is("set_access.no_list", cu.MemPoolSetAccess(pool, nullptr, 1));
  int file = -1;
  lab.is("export.not_exportable",
         cu.MemPoolExportToShareableHandle(&file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));

  lab.is("choose", cu.DeviceSetMemPool(lab.device, pool));
  cu.DeviceGetMemPool(&current, lab.device);
  lab.shows("choose.then", current == pool);
  lab.is("choose.none", cu.DeviceSetMemPool(lab.device, nullptr));
  lab.is("choose.no_device", cu.DeviceSetMemPool(99, pool));
  lab.is("destroy.current", cu.MemPoolDestroy(pool));
  cu.DeviceGetMemPool(&current, lab.device);
  lab.shows("destroy.current.then_default", current == standard);
  lab.is("destroy.default", cu.MemPoolDestroy(standard));
  lab.is("destroy.null", cu.MemPoolDestroy(nullptr));
#if CUDA_VERSION >= 13000
  if (cu.MemGetDefaultMemPool != nullptr) {
    lab.is("of_place.default", cu.MemGetDefaultMemPool(&pool, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
    lab.shows("of_place.default.is_the_default", pool == standard);
    lab.is("of_place.current", cu.MemGetMemPool(&pool, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
    lab.shows("of_place.current.is_the_default", pool == standard);
    lab.is("of_place.choose", cu.MemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, standard));
    lab.is("of_place.managed", cu.MemGetDefaultMemPool(&pool, &here, CU_MEM_ALLOCATION_TYPE_MANAGED));
    lab.is("of_place.no_device", cu.MemGetDefaultMemPool(&pool, &nowhere, CU_MEM_ALLOCATION_TYPE_PINNED));
    lab.is("of_place.nowhere", cu.MemGetDefaultMemPool(nullptr, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
    lab.is("of_place.no_place", cu.MemGetDefaultMemPool(&pool, nullptr, CU_MEM_ALLOCATION_TYPE_PINNED));
  }
#endif
  pool = new_pool(lab);
  std::array<CUmemoryPool, 5> doomed{};
  for (CUmemoryPool& one : doomed)
    one = new_pool(lab);
  auto next = doomed.begin();
  everywhere(lab, "default", [&](CUstream) { return cu.DeviceGetDefaultMemPool(&current, lab.device); });
  everywhere(lab, "current", [&](CUstream) { return cu.DeviceGetMemPool(&current, lab.device); });
  everywhere(lab, "choose", [&](CUstream) { return cu.DeviceSetMemPool(lab.device, standard); });
  everywhere(lab, "create", [&](CUstream) { return cu.MemPoolCreate(&current, &properties); });
  everywhere(lab, "destroy", [&](CUstream) { return cu.MemPoolDestroy(*next++); });
  everywhere(lab, "destroy_null", [&](CUstream) { return cu.MemPoolDestroy(nullptr); });
  everywhere(lab, "trim", [&](CUstream) { return cu.MemPoolTrimTo(pool, 0); });
  everywhere(lab, "attribute", [&](CUstream) {
    return cu.MemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
  });
  everywhere(lab, "set", [&](CUstream) {
    return cu.MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
  });
  everywhere(lab, "access", [&](CUstream) { return cu.MemPoolGetAccess(&flags, pool, &here); });
}

void allocations(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  CUmemoryPool standard = nullptr;
  lab.must(cu.DeviceGetDefaultMemPool(&standard, lab.device), "cuDeviceGetDefaultMemPool");
  CUmemoryPool const pool = new_pool(lab);
  CUdeviceptr pointer = 0, second = 0;
  const auto from_pool = [&](std::size_t bytes) {
    return cu.MemAllocFromPoolAsync(&pointer, bytes, pool, stream);
  };
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{512}, std::size_t{513}, mega, 40 * mega}) {
    const std::string name = "bytes_" + std::to_string(bytes);
    lab.is(name, from_pool(bytes));
    lab.shows(name + ".alignment_512", pointer % 512 == 0);
    lab.shows(name + ".sizes", sizes(lab, pool));
    CUdeviceptr base = 0;
    std::size_t size = 0;
    cu.MemGetAddressRange(&base, &size, pointer);
    lab.shows(name + ".range",
              std::string(base == pointer ? "base, " : "another base, ") + std::to_string(size));
    lab.is(name + ".free", cu.MemFreeAsync(pointer, stream));
    lab.shows(name + ".freed", sizes(lab, pool));
    lab.is(name + ".synchronize", cu.StreamSynchronize(stream));
    lab.shows(name + ".synchronized", sizes(lab, pool));
  }
  std::uint64_t threshold = ~std::uint64_t{0};
  cu.MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  lab.is("kept", from_pool(mega));
  cu.MemFreeAsync(pointer, stream);
  cu.StreamSynchronize(stream);
  lab.shows("kept.sizes", sizes(lab, pool));
  lab.is("kept.again", cu.MemAllocFromPoolAsync(&second, mega, pool, stream));
  lab.shows("kept.again.is_the_same", pointer == second);
  cu.MemFreeAsync(second, stream);
  lab.is("kept.trim_to_mega", cu.MemPoolTrimTo(pool, mega));
  lab.shows("kept.trim_to_mega.sizes", sizes(lab, pool));
  lab.is("kept.synchronize", cu.StreamSynchronize(stream));
  lab.is("kept.trim", cu.MemPoolTrimTo(pool, 0));
  lab.shows("kept.trim.sizes", sizes(lab, pool));
  std::uint64_t nothing = 0;
  lab.is("kept.reset_high", cu.MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &nothing));
  lab.is("kept.reset_used_high", cu.MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &nothing));
  lab.shows("kept.reset_high.sizes", sizes(lab, pool));

  lab.is("nothing", cu.MemAllocAsync(&pointer, 0, stream));
  lab.is("nowhere", cu.MemAllocAsync(nullptr, 64, stream));
  lab.is("too_much", cu.MemAllocAsync(&pointer, std::size_t{1} << 50, stream));
  lab.is("null_stream", cu.MemAllocAsync(&pointer, 64, nullptr));
  lab.is("null_stream.free", cu.MemFreeAsync(pointer, nullptr));
  lab.is("legacy", cu.MemAllocAsync(&pointer, 64, CU_STREAM_LEGACY));
  lab.is("per_thread.free", cu.MemFreeAsync(pointer, CU_STREAM_PER_THREAD));
  lab.is("no_pool", cu.MemAllocFromPoolAsync(&pointer, 64, nullptr, stream));
  lab.is("from_pool.nothing", from_pool(0));
  lab.is("from_pool.nowhere", cu.MemAllocFromPoolAsync(nullptr, 64, pool, stream));
  int pageable = 0;
  lab.is("free.null", cu.MemFreeAsync(0, stream));
  lab.is("free.pageable", cu.MemFreeAsync(reinterpret_cast<CUdeviceptr>(&pageable), stream));
  lab.is("free.pinned", cu.MemFreeAsync(Lab::address(lab.word()), stream));
  lab.must(cu.MemAlloc(&pointer, 64), "cuMemAlloc");
  lab.is("free.inside_of_plain", cu.MemFreeAsync(pointer + 8, stream));
  lab.is("free.plain", cu.MemFreeAsync(pointer, stream));
  lab.must(from_pool(64), "allocate");
  lab.is("free.inside", cu.MemFreeAsync(pointer + 8, stream));
  lab.is("free.plainly_inside", cu.MemFree(pointer + 8));
  lab.is("free.plainly", cu.MemFree(pointer));
  lab.is("free.plainly.again", cu.MemFree(pointer));
  {
    const Current other(lab, lab.second_context());
    Stream elsewhere(lab);
    lab.is("other_context", cu.MemAllocAsync(&pointer, 64, elsewhere));
    lab.is("other_context.free", cu.MemFreeAsync(pointer, elsewhere));
    lab.is("stream_of_other_context", cu.MemAllocAsync(&pointer, 64, stream));
    lab.is("stream_of_other_context.free", cu.MemFreeAsync(pointer, elsewhere));
  }
  // What happens to the memory of a destroyed pool.
  CUmemoryPool const doomed = new_pool(lab);
  lab.must(cu.MemAllocFromPoolAsync(&pointer, 64, doomed, stream), "allocate");
  lab.is("destroyed_pool", cu.MemPoolDestroy(doomed));
  lab.is("destroyed_pool.fill", cu.MemsetD8Async(pointer, 1, 64, stream));
  lab.is("destroyed_pool.free", cu.MemFreeAsync(pointer, stream));
  lab.is("destroyed_pool.synchronize", cu.StreamSynchronize(stream));
  // Use before the stream has got there.
  {
    Gate gate(lab, stream);
    lab.is("held", cu.MemAllocAsync(&pointer, 64, stream));
    unsigned value = 0;
    lab.is("held.attribute", cu.PointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
    Background free(lab, [&] { return cu.MemFree(pointer); });
    lab.shows("held.free_returns", free.returns_within(std::chrono::milliseconds(300)));
    gate.open();
    lab.is("held.free", free.join());
  }
  cu.StreamSynchronize(stream);
  everywhere(lab, "allocate", [&](CUstream on) { return cu.MemAllocAsync(&pointer, 64, on); });
  everywhere(lab, "from_pool", [&](CUstream on) { return cu.MemAllocFromPoolAsync(&pointer, 64, pool, on); });
  everywhere_and_captured(lab, "no_bytes", [&](CUstream on) { return cu.MemAllocAsync(&pointer, 0, on); });
  everywhere_and_captured(lab, "null_pool",
                          [&](CUstream on) { return cu.MemAllocFromPoolAsync(&pointer, 64, nullptr, on); });
  std::array<CUdeviceptr, 8> pointers{}; // one for each place
  for (CUdeviceptr& one : pointers)
    lab.must(cu.MemAllocAsync(&one, 64, stream), "cuMemAllocAsync");
  cu.StreamSynchronize(stream);
  auto next = pointers.begin();
  everywhere_and_captured(lab, "free", [&](CUstream on) { return cu.MemFreeAsync(*next++, on); });
  everywhere_and_captured(lab, "free_null", [&](CUstream on) { return cu.MemFreeAsync(0, on); });
  everywhere_and_captured(lab, "free_unknown", [&](CUstream on) { return cu.MemFreeAsync(4096, on); });
}

// Memory that a graph allocates.
void captured(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  CUdeviceptr pointer = 0, found = 0;
  CUgraph graph = nullptr, clone = nullptr;
  CUgraphExec exec = nullptr, second = nullptr;
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.is("allocate", cu.MemAllocAsync(&pointer, 64, stream));
  lab.is("fill", cu.MemsetD8Async(pointer, 1, 64, stream));
  lab.is("free", cu.MemFreeAsync(pointer, stream));
  lab.is("end", cu.StreamEndCapture(stream, &graph));
  lab.shows("nodes", node_types(lab, graph));
  std::vector<CUgraphNode> nodes(3);
  std::size_t count = nodes.size();
  lab.must(cu.GraphGetNodes(graph, nodes.data(), &count), "cuGraphGetNodes");
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  lab.is("alloc_node", cu.GraphMemAllocNodeGetParams(nodes[0], &parameters));
  lab.shows("alloc_node.bytes", parameters.bytesize);
  lab.shows("alloc_node.is_the_pointer", parameters.dptr == pointer);
  lab.is("alloc_node.wrong_node", cu.GraphMemAllocNodeGetParams(nodes[1], &parameters));
  lab.is("free_node", cu.GraphMemFreeNodeGetParams(nodes[2], &found));
  lab.shows("free_node.is_the_pointer", found == pointer);
  lab.is("free_node.nowhere", cu.GraphMemFreeNodeGetParams(nodes[2], nullptr));
  unsigned value = 0;
  lab.is("attribute", cu.PointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
  lab.is("clone", cu.GraphClone(&clone, graph));
  lab.is("destroy_node", cu.GraphDestroyNode(nodes[1]));
  lab.is("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
  lab.is("instantiate.second", cu.GraphInstantiateWithFlags(&second, graph, 0));
  lab.is("launch", cu.GraphLaunch(exec, stream));
  lab.is("launch.again", cu.GraphLaunch(exec, stream));
  lab.is("synchronize", cu.StreamSynchronize(stream));
  for (int which = 0; which <= 4; ++which) {
    std::uint64_t size = 0;
    const CUresult result =
        cu.DeviceGetGraphMemAttribute(lab.device, number<CUgraphMem_attribute>(which), &size);
    lab.shows("graph_memory." + std::to_string(which),
              result == CUDA_SUCCESS ? std::to_string(size) : lab.name_of(result));
  }
  cu.GraphExecDestroy(exec);
  cu.GraphDestroy(graph);
  lab.is("graph_memory.trim", cu.DeviceGraphMemTrim(lab.device));
  lab.is("graph_memory.trim.no_device", cu.DeviceGraphMemTrim(99));

  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.is("kept.allocate", cu.MemAllocAsync(&pointer, 64, stream));
  lab.is("kept.end", cu.StreamEndCapture(stream, &graph));
  lab.is("kept.instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
  lab.is("kept.launch", cu.GraphLaunch(exec, stream));
  lab.is("kept.launch.again", cu.GraphLaunch(exec, stream));
  lab.is("kept.fill", cu.MemsetD8Async(pointer, 1, 64, stream));
  lab.is("kept.free", cu.MemFreeAsync(pointer, stream));
  lab.is("kept.launch.freed", cu.GraphLaunch(exec, stream));
  lab.is("kept.free.plainly", cu.MemFree(pointer));
  lab.is("kept.synchronize", cu.StreamSynchronize(stream));
  cu.GraphExecDestroy(exec);
  lab.is("kept.instantiate.auto_free",
         cu.GraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
  lab.is("kept.auto_free.launch", cu.GraphLaunch(exec, stream));
  lab.is("kept.auto_free.launch.again", cu.GraphLaunch(exec, stream));
  lab.is("kept.auto_free.synchronize", cu.StreamSynchronize(stream));
  cu.GraphExecDestroy(exec);
  cu.GraphDestroy(graph);

  CUgraphNode node = nullptr, freeing = nullptr;
  lab.must(cu.GraphCreate(&graph, 0), "cuGraphCreate");
  parameters = {};
  parameters.poolProps = plain_pool(lab);
  parameters.bytesize = 64;
  lab.is("built.allocate", cu.GraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
  lab.shows("built.allocate.address", parameters.dptr != 0);
  lab.is("built.free", cu.GraphAddMemFreeNode(&freeing, graph, &node, 1, parameters.dptr));
  lab.is("built.free.again", cu.GraphAddMemFreeNode(&freeing, graph, &node, 1, parameters.dptr));
  lab.is("built.free.unknown", cu.GraphAddMemFreeNode(&freeing, graph, &node, 1, 4096));
  lab.is("built.allocate.nowhere", cu.GraphAddMemAllocNode(&node, graph, nullptr, 0, nullptr));
  parameters.bytesize = 0;
  lab.is("built.allocate.nothing", cu.GraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
  lab.is("built.destroy", cu.GraphDestroy(graph));
}

// Freed twice: with the pointer known, and unknown, to the driver.
void freed_twice(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  CUdeviceptr pointer = 0;
  lab.must(cu.MemAllocAsync(&pointer, 64, stream), "cuMemAllocAsync");
  lab.is("free", cu.MemFreeAsync(pointer, stream));
  lab.is("again", cu.MemFreeAsync(pointer, stream));
  lab.is("synchronize", cu.StreamSynchronize(stream));
  lab.is("later", cu.MemFreeAsync(pointer, stream));
}

// Pools by the type of their memory, their place and the type of their handles.
struct PoolKind {
  const char* name;
  int type, place, id = 0, handles = 0;
};
constexpr int pinned = 1, managed = 2; // CU_MEM_ALLOCATION_TYPE_..., the second since CUDA 13.0
constexpr int nowhere = 0, on_device = 1, host = 2, host_numa = 3, host_numa_current = 4;

void ask_for(Lab& lab, const PoolKind& kind) {
  CUmemPoolProps properties{};
  properties.allocType = number<CUmemAllocationType>(kind.type);
  properties.location = {number<CUmemLocationType>(kind.place), kind.id};
  properties.handleTypes = number<CUmemAllocationHandleType>(kind.handles);
  CUmemoryPool made = nullptr;
  lab.is(kind.name, lab.cu.MemPoolCreate(&made, &properties));
  if (made != nullptr) lab.cu.MemPoolDestroy(made);
}

void kinds(Lab& lab) {
  for (const PoolKind& kind : {PoolKind{"managed.device", managed, on_device},
                               {"managed.none", managed, nowhere},
                               {"managed.none.id_-1", managed, nowhere, -1},
                               {"managed.host", managed, host},
                               {"managed.host_numa", managed, host_numa},
                               {"managed.device.descriptor", managed, on_device, 0, 1},
                               {"pinned.device", pinned, on_device},
                               {"pinned.host", pinned, host},
                               {"pinned.host.descriptor", pinned, host, 0, 1},
                               {"pinned.host_numa", pinned, host_numa},
                               {"pinned.host_numa.descriptor", pinned, host_numa, 0, 1},
                               {"pinned.host_numa.id_77", pinned, host_numa, 77},
                               {"pinned.host_numa_current", pinned, host_numa_current},
                               {"pinned.none", pinned, nowhere}})
    ask_for(lab, kind);
}

void more_kinds(Lab& lab) {
  const char* const types[] = {"invalid", "pinned", "managed", "unknown"};
  const char* const places[] = {"none", "device", "host", "host_numa", "host_numa_current", "unknown"};
  for (const int type : {0, pinned, managed, 3})
    for (int place = nowhere; place <= 5; ++place)
      for (const int id : {-1, 0, 1, 77})
        for (const int handles : {0, 1, 2, 4, 8, 9}) {
          const std::string name = std::string(types[type]) + "." + places[place] + ".id_" +
                                   std::to_string(id) + ".handles_" + std::to_string(handles);
          ask_for(lab, {name.c_str(), type, place, id, handles});
        }
}

#if CUDA_VERSION >= 13000
CUmemPoolProps properties_of(const PoolKind& kind) {
  CUmemPoolProps properties{};
  properties.allocType = number<CUmemAllocationType>(kind.type);
  properties.location = {number<CUmemLocationType>(kind.place), kind.id};
  return properties;
}

constexpr PoolKind usable_kinds[] = {{"host", pinned, host},
                                     {"host_numa", pinned, host_numa},
                                     {"managed_device", managed, on_device},
                                     {"managed_none", managed, nowhere},
                                     {"managed_host", managed, host},
                                     {"managed_host_numa", managed, host_numa}};

void limits(Lab& lab) {
  const auto ask = [&](const std::string& name, const CUmemPoolProps& properties) {
    CUmemoryPool made = nullptr;
    lab.is(name, lab.cu.MemPoolCreate(&made, &properties));
    if (made != nullptr) lab.cu.MemPoolDestroy(made);
  };
  for (const PoolKind& kind : {PoolKind{"device", pinned, on_device}, usable_kinds[0], usable_kinds[2]}) {
    const std::string name = kind.name;
    for (const std::size_t most : {std::size_t{1}, 33 * mega, std::size_t{1} << 40, ~std::size_t{0}}) {
      CUmemPoolProps properties = properties_of(kind);
      properties.maxSize = most;
      ask(name + ".most_" + std::to_string(most), properties);
    }
    CUmemPoolProps properties = properties_of(kind);
    properties.usage = 2;
    ask(name + ".usage_2", properties);
    properties.usage = 0;
    properties.reserved[5] = 1;
    ask(name + ".reserved", properties);
  }
  // What a pool gives that has a limit.
  CUmemPoolProps properties = properties_of({"", pinned, on_device});
  properties.maxSize = 33 * mega;
  CUmemoryPool pool = nullptr;
  lab.must(lab.cu.MemPoolCreate(&pool, &properties), "cuMemPoolCreate");
  Stream stream(lab);
  for (const std::size_t megabytes : {32u, 33u, 34u, 64u, 65u}) {
    CUdeviceptr pointer = 0;
    const std::string name = "limited.allocate_" + std::to_string(megabytes);
    lab.is(name, lab.cu.MemAllocFromPoolAsync(&pointer, megabytes * mega, pool, stream));
    if (pointer != 0) lab.cu.MemFreeAsync(pointer, stream);
    lab.cu.StreamSynchronize(stream);
    lab.shows(name + ".sizes", sizes(lab, pool));
  }
}

void by_place(Lab& lab) {
  const Api& cu = lab.cu;
  for (const int type : {0, pinned, managed, 3})
    for (int place = -1; place <= 5; ++place)
      for (const int id : {-1, 0, 77}) {
        CUmemLocation where = {number<CUmemLocationType>(place), id};
        CUmemoryPool standard = nullptr, current = nullptr;
        const auto kind = number<CUmemAllocationType>(type);
        const std::string name =
            "type_" + std::to_string(type) + ".place_" + std::to_string(place) + ".id_" + std::to_string(id);
        lab.is(name + ".default", cu.MemGetDefaultMemPool(&standard, &where, kind));
        lab.is(name + ".current", cu.MemGetMemPool(&current, &where, kind));
        lab.is(name + ".set_null", cu.MemSetMemPool(&where, kind, nullptr));
        if (standard != nullptr) lab.shows(name + ".is_default", standard == current);
      }
  for (const PoolKind& kind : usable_kinds) {
    const std::string name = kind.name;
    CUmemPoolProps properties = properties_of(kind);
    CUmemoryPool pool = nullptr, found = nullptr;
    lab.must(cu.MemPoolCreate(&pool, &properties), "cuMemPoolCreate");
    lab.is(name + ".of_device", cu.DeviceSetMemPool(lab.device, pool));
    lab.is(name + ".of_device.get", cu.DeviceGetMemPool(&found, lab.device));
    lab.shows(name + ".of_device.is", found == pool);
    lab.is(name + ".set", cu.MemSetMemPool(&properties.location, properties.allocType, pool));
    lab.is(name + ".get", cu.MemGetMemPool(&found, &properties.location, properties.allocType));
    lab.shows(name + ".get.is", found == pool);
    lab.is(name + ".default", cu.MemGetDefaultMemPool(&found, &properties.location, properties.allocType));
    lab.shows(name + ".default.is", found == pool);
    lab.is(name + ".default.destroy", cu.MemPoolDestroy(found));
    lab.is(name + ".destroy", cu.MemPoolDestroy(pool));
    lab.is(name + ".then", cu.MemGetMemPool(&pool, &properties.location, properties.allocType));
    lab.shows(name + ".then.is_default", pool == found);
  }
}

// Calls with memory of such a pool, which the device may access.
void host_and_managed(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  for (const PoolKind& kind : usable_kinds) {
    const std::string name = kind.name;
    const CUmemPoolProps properties = properties_of(kind);
    CUmemoryPool pool = nullptr;
    lab.must(cu.MemPoolCreate(&pool, &properties), "cuMemPoolCreate");
    for (int place = nowhere; place <= 4; ++place) {
      CUmemLocation where = {number<CUmemLocationType>(place), 0};
      const std::string question = name + ".access_" + std::to_string(place);
      auto flags = number<CUmemAccess_flags>(9);
      lab.is(question, cu.MemPoolGetAccess(&flags, pool, &where));
      lab.shows(question + ".flags", static_cast<int>(flags));
      for (const int wish : {0, 1, 3}) {
        const CUmemAccessDesc access = {where, number<CUmemAccess_flags>(wish)};
        lab.is(question + ".set_" + std::to_string(wish), cu.MemPoolSetAccess(pool, &access, 1));
      }
    }
    CUdeviceptr pointer = 0, base = 0;
    lab.is(name + ".allocate", cu.MemAllocFromPoolAsync(&pointer, 1000, pool, stream));
    lab.is(name + ".synchronize", cu.StreamSynchronize(stream));
    lab.shows(name + ".sizes", sizes(lab, pool));
    std::size_t bytes = 0;
    lab.is(name + ".range", cu.MemGetAddressRange(&base, &bytes, pointer + 5));
    lab.shows(name + ".range.bytes", bytes);
    for (const int attribute : {1, 2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 21}) {
      std::uint64_t value = 0;
      const CUresult result = cu.PointerGetAttribute(&value, number<CUpointer_attribute>(attribute), pointer);
      lab.shows(name + ".attribute_" + std::to_string(attribute), result != CUDA_SUCCESS ? lab.name_of(result)
                                                                  : value == pointer     ? "its address"
                                                                                     : std::to_string(value));
    }
    std::uint32_t word = 0;
    void* const there = reinterpret_cast<void*>(pointer);
    lab.is(name + ".fill", cu.MemsetD8(pointer, 7, 1000));
    lab.is(name + ".fill.too_far", cu.MemsetD8(pointer, 7, 2000));
    lab.is(name + ".to_host", cu.MemcpyDtoH(&word, pointer, 4));
    lab.is(name + ".from_host", cu.MemcpyHtoD(pointer, &word, 4));
    CUdeviceptr mapped = 0;
    unsigned flags = 0;
    lab.is(name + ".device_pointer", cu.MemHostGetDevicePointer(&mapped, there, 0));
    lab.is(name + ".flags", cu.MemHostGetFlags(&flags, there));
    const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    lab.is(name + ".advise", cu.MemAdviseV2(pointer, 1000, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    lab.is(name + ".prefetch", cu.MemPrefetchAsyncV2(pointer, 1000, here, 0, stream));
    lab.is(name + ".range_attribute",
           cu.MemRangeGetAttribute(&word, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, pointer, 1000));
    lab.is(name + ".attach", cu.StreamAttachMemAsync(stream, pointer, 0, CU_MEM_ATTACH_SINGLE));
    lab.is(name + ".free_host", cu.MemFreeHost(there));
    lab.is(name + ".free", cu.MemFreeAsync(pointer, stream));
    lab.is(name + ".free.again", cu.MemFree(pointer));
    everywhere_and_captured(lab, name + ".captured",
                            [&](CUstream on) { return cu.MemAllocFromPoolAsync(&pointer, 64, pool, on); });
    lab.is(name + ".destroy", cu.MemPoolDestroy(pool));
  }
}

// Copies of such memory, and its use by a device without access. The last use may end with a fault.
void access(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  CUdeviceptr device = 0;
  lab.must(cu.MemAlloc(&device, 1000), "cuMemAlloc");
  for (const bool permitted : {true, false})
    for (const PoolKind& kind : usable_kinds) {
      const std::string name = std::string(kind.name) + (permitted ? ".permitted" : ".not_permitted");
      const CUmemPoolProps properties = properties_of(kind);
      CUmemoryPool pool = nullptr;
      CUdeviceptr pointer = 0;
      lab.must(cu.MemPoolCreate(&pool, &properties), "cuMemPoolCreate");
      const CUmemAccessDesc wish = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
      if (permitted) lab.must(cu.MemPoolSetAccess(pool, &wish, 1), "cuMemPoolSetAccess");
      lab.must(cu.MemAllocFromPoolAsync(&pointer, 1000, pool, stream), "cuMemAllocFromPoolAsync");
      lab.must(cu.StreamSynchronize(stream), "cuStreamSynchronize");
      for (const int attribute : {18, 19}) {
        std::uint64_t value = 0;
        lab.is(name + ".attribute_" + std::to_string(attribute),
               cu.PointerGetAttribute(&value, number<CUpointer_attribute>(attribute), pointer));
      }
      for (const int advice : {1, 3, 5})
        lab.is(name + ".advice_" + std::to_string(advice),
               cu.MemAdviseV2(pointer, 1000, number<CUmem_advise>(advice), wish.location));
      CUdeviceptr freed = 0;
      lab.must(cu.MemAllocFromPoolAsync(&freed, 1000, pool, stream), "cuMemAllocFromPoolAsync");
      lab.is(name + ".free", cu.MemFree(freed));
      lab.shows(name + ".free.sizes", sizes(lab, pool));
      lab.is(name + ".copy", cu.MemcpyAsync(device, pointer, 1000, stream));
      lab.is(name + ".copy_back", cu.MemcpyAsync(pointer, device, 1000, stream));
      lab.is(name + ".synchronize", cu.StreamSynchronize(stream));
      lab.is(name + ".value", cu.StreamWriteValue32(stream, pointer, 1, 0));
      lab.is(name + ".value.synchronize", cu.StreamSynchronize(stream));
      lab.is(name + ".fill", cu.MemsetD8Async(pointer, 1, 1000, stream));
      lab.is(name + ".fill.synchronize", cu.StreamSynchronize(stream));
    }
}

// What the answers above leave open.
void unasked(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  for (const PoolKind& kind : usable_kinds) {
    const std::string name = kind.name;
    CUmemPoolProps properties = properties_of(kind);
    CUmemoryPool pool = nullptr, found = nullptr;
    CUdeviceptr pointer = 0, base = 0, freed = 0;
    lab.must(cu.MemPoolCreate(&pool, &properties), "cuMemPoolCreate");
    lab.must(cu.MemAllocFromPoolAsync(&pointer, 1000, pool, stream), "cuMemAllocFromPoolAsync");
    lab.must(cu.MemAllocFromPoolAsync(&freed, 1000, pool, stream), "cuMemAllocFromPoolAsync");
    lab.must(cu.StreamSynchronize(stream), "cuStreamSynchronize");
    std::size_t bytes = 0;
    lab.is(name + ".mapping_size", cu.PointerGetAttribute(&bytes, number<CUpointer_attribute>(18), pointer));
    lab.shows(name + ".mapping_size.is", bytes);
    lab.is(name + ".mapping_base", cu.PointerGetAttribute(&base, number<CUpointer_attribute>(19), pointer));
    lab.shows(name + ".mapping_base.before", pointer - base);
    lab.is(name + ".free", cu.MemFree(freed)); // its bytes count as used for some time
    lab.shows(name + ".free.sizes", sizes(lab, pool));
    lab.is(name + ".free.synchronize", cu.StreamSynchronize(stream));
    lab.shows(name + ".free.synchronized", sizes(lab, pool));
    lab.is(name + ".free.trim", cu.MemPoolTrimTo(pool, 0));
    lab.shows(name + ".free.trimmed", sizes(lab, pool));
    lab.is(name + ".free_rest", cu.MemFreeAsync(pointer, stream));
    lab.is(name + ".context", cu.CtxSynchronize());
    lab.shows(name + ".context.sizes", sizes(lab, pool));
    for (const int advice : {2, 4, 6})
      lab.is(name + ".advice_" + std::to_string(advice),
             cu.MemAdviseV2(pointer, 1000, number<CUmem_advise>(advice), {CU_MEM_LOCATION_TYPE_DEVICE, 0}));
    lab.must(cu.MemSetMemPool(&properties.location, properties.allocType, pool), "cuMemSetMemPool");
    lab.must(cu.MemPoolDestroy(pool), "cuMemPoolDestroy");
    lab.is(name + ".destroyed", cu.MemGetMemPool(&found, &properties.location, properties.allocType));
    lab.shows(name + ".destroyed.is_null", found == nullptr);
    lab.shows(name + ".destroyed.is_it", found == pool);
  }
  // Access of another device than the one that uses the memory.
  if (lab.device_count < 2) return;
  const CUmemPoolProps properties = properties_of(usable_kinds[0]);
  CUmemoryPool pool = nullptr;
  CUdeviceptr pointer = 0;
  lab.must(cu.MemPoolCreate(&pool, &properties), "cuMemPoolCreate");
  const CUmemAccessDesc wish = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  lab.is("second_device", cu.MemPoolSetAccess(pool, &wish, 1));
  lab.must(cu.MemAllocFromPoolAsync(&pointer, 1000, pool, stream), "cuMemAllocFromPoolAsync");
  lab.is("second_device.fill", cu.MemsetD8Async(pointer, 1, 1000, stream));
}
#else
void unasked(Lab&) {}
void limits(Lab&) {}
void by_place(Lab&) {}
void host_and_managed(Lab&) {}
void access(Lab&) {}
#endif

} // namespace

std::vector<Scenario> memory_pools_scenarios() {
  return {{"pools.pools", pools, Place::child},
          {"pools.more", more, Place::child},
          {"pools.allocations", allocations, Place::child},
          {"pools.captured", captured, Place::child},
          {"pools.freed_twice", freed_twice, Place::last},
          {"pools.kinds", kinds, Place::child},
          {"pools.more_kinds", more_kinds, Place::child, 2},
          {"pools.limits", limits, Place::child},
          {"pools.by_place", by_place, Place::last},
          {"pools.host_and_managed", host_and_managed, Place::child},
          {"pools.access", access, Place::child},
          {"pools.unasked", unasked, Place::alone}};
}

} // namespace transcript
