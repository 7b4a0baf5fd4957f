// SPDX-License-Identifier: MIT
// Memory that graphs allocate: the nodes, what a launch does with them, and what a device keeps for them.

#include "api.hpp"
#include "device_attributes.hpp"
#include "graph_memory.hpp"
#include "memory_places.hpp"
#include "memory_pool.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace cuevent::sim {

bool is_of_memory(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

const std::shared_ptr<GraphMemory>& graph_memory_of(const Work& work) { return work.parameters->memory; }

/// The memory of a graph that this address lies in, or null.
std::shared_ptr<GraphMemory> Api::graph_memory_at(std::uintptr_t address) const {
  const auto next = process_.graph_memory.upper_bound(address);
  if (next == process_.graph_memory.begin()) return nullptr;
  auto found = std::prev(next)->second.lock();
  return found && address - found->named.address <= found->named.bytes ? found : nullptr;
}

// Nodes

/// A device reserves the address, and allocates when it launches. The graph counts as one with memory even if
/// there is not enough.
Work Api::allocation_node_work(const CUDA_MEM_ALLOC_NODE_PARAMS& wanted, Graph& graph,
                               const Birthplace& home) {
  refuse_if(wanted.bytesize == 0, CUDA_ERROR_INVALID_VALUE);
  graph.names_memory = true;
  refuse_if(wanted.bytesize > all_memory, CUDA_ERROR_OUT_OF_MEMORY);
  auto memory = std::make_shared<GraphMemory>();
  memory->block.reset(new std::byte[wanted.bytesize + granule]); // the system gives pages when they are used
  memory->home = graph.number;
  Allocation& named = memory->named;
  named.address = rounded(reinterpret_cast<std::uintptr_t>(memory->block.get()), granule);
  named.bytes = wanted.bytesize;
  named.home = home;
  named.pool = pool_of_graphs(wanted.poolProps.location.id);
  memory->parameters = wanted;
  memory->parameters.dptr = named.address;
  std::erase_if(process_.graph_memory, [](const auto& each) { return each.second.expired(); });
  process_.graph_memory.emplace(named.address, memory);
  auto kept = std::make_shared<NodeParameters>();
  kept->memory = std::move(memory);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  work.text = "allocate " + std::to_string(wanted.bytesize) + " bytes";
  work.parameters = std::move(kept);
  return work;
}

/// The graph that allocates memory can free it once, and then no other graph can. Memory that another graph
/// frees cannot be freed by its own graph any more. No edge need order the free behind the allocation. The
/// graph counts as one with memory even if the free is refused.
Work Api::free_node_work(CUdeviceptr address, Graph& graph) {
  graph.names_memory = true;
  const auto memory = graph_memory_at(static_cast<std::uintptr_t>(address));
  refuse_if(!memory || memory->named.address != address, CUDA_ERROR_INVALID_VALUE);
  const bool at_home = memory->home == graph.number;
  refuse_if(memory->freed_in.contains(graph.number) || memory->freed_in.contains(memory->home) ||
                (at_home && !memory->freed_in.empty()),
            CUDA_ERROR_INVALID_VALUE);
  auto kept = std::make_shared<NodeParameters>();
  kept->memory = memory;
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  work.text = "free " + std::to_string(memory->named.bytes) + " bytes";
  work.parameters = std::move(kept);
  return work;
}

void Api::check_place_of_node(const CUmemPoolProps& wanted) {
  const CUmemLocationType type = wanted.location.type;
  const int id = wanted.location.id;
  refuse_if(wanted.allocType != CU_MEM_ALLOCATION_TYPE_PINNED && wanted.allocType != place::managed,
            CUDA_ERROR_INVALID_VALUE);
  refuse_if(place::is_of_host(wanted.location), CUDA_ERROR_NOT_SUPPORTED);
  refuse_if(type != CU_MEM_LOCATION_TYPE_DEVICE || id < 0 || id >= computer_.devices(),
            CUDA_ERROR_INVALID_VALUE);
  refuse_if((wanted.handleTypes & ~place::shareable) != 0 || has_reserved_bytes(wanted),
            CUDA_ERROR_INVALID_VALUE);
  refuse_if(wanted.handleTypes != CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
}

/// A place can be named once. The host may be named, too.
void Api::check_access_of_node(const CUDA_MEM_ALLOC_NODE_PARAMS& wanted) {
  const auto is_same = [](const CUmemLocation& a, const CUmemLocation& b) {
    return a.type == b.type && a.id == b.id;
  };
  for (std::size_t i = 0; i < wanted.accessDescCount; ++i) {
    const CUmemLocation& where = wanted.accessDescs[i].location;
    const auto flags = wanted.accessDescs[i].flags;
    refuse_if(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ,
              CUDA_ERROR_NOT_SUPPORTED);
    refuse_if(flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CUDA_ERROR_INVALID_VALUE);
    const bool of_device = where.type == CU_MEM_LOCATION_TYPE_DEVICE;
    refuse_if(!of_device && !place::is_of_host(where), CUDA_ERROR_INVALID_VALUE);
    refuse_if(of_device && (where.id < 0 || where.id >= computer_.devices()), CUDA_ERROR_INVALID_DEVICE);
    if (of_device && where.id != wanted.poolProps.location.id)
      not_modelled("an allocation node with access of other devices");
    for (std::size_t before = 0; before < i; ++before)
      refuse_if(is_same(wanted.accessDescs[before].location, where), CUDA_ERROR_INVALID_VALUE);
  }
}

CUresult Api::cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph into, const CUgraphNode* after, size_t count,
                                     CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  Birthplace home; // none if no context is current, which this call does not need
  if (!thread().contexts.empty()) {
    home.context = current_context();
    home.generation = home.context->generation;
  }
  const CUmemPoolProps& wanted = parameters->poolProps;
  if (parameters->accessDescs == nullptr && parameters->accessDescCount != 0)
    crash("an allocation node with a list of accesses that is null");
  check_place_of_node(wanted);
  if (home.context != nullptr && wanted.location.id != home.context->device)
    not_modelled("an allocation node of another device");
  check_access_of_node(*parameters);
  const auto owner = graph(into);
  refuse_if(owner->child, CUDA_ERROR_NOT_SUPPORTED);
  Work work = allocation_node_work(*parameters, *owner, home);
  const CUdeviceptr address = graph_memory_of(work)->named.address;
  add_node(out, into, after, count, std::move(work));
  parameters->dptr = address;
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* after, size_t count,
                                    CUdeviceptr address) {
  refuse_if(after == nullptr && count != 0, CUDA_ERROR_INVALID_VALUE);
  const auto into = graph(handle);
  refuse_if(into->child, CUDA_ERROR_NOT_SUPPORTED);
  Work work = free_node_work(address, *into);
  const auto memory = graph_memory_of(work);
  add_node(out, handle, after, count, std::move(work));
  memory->freed_in.insert(into->number);
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  *parameters = graph_memory_of(node(handle, CU_GRAPH_NODE_TYPE_MEM_ALLOC)->work)->parameters;
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr* address) {
  refuse_if(address == nullptr, CUDA_ERROR_INVALID_VALUE);
  *address = graph_memory_of(node(handle, CU_GRAPH_NODE_TYPE_MEM_FREE)->work)->named.address;
  return CUDA_SUCCESS;
}

// Captures

CUdeviceptr Api::capture_allocation(Stream& where, std::size_t bytes, const MemoryPool& from) {
  if (from.handle_types != 0) not_modelled("an allocation in a capture from a pool of several processes");
  CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
  const bool of_device = from.device >= 0;
  wanted.poolProps.allocType = of_device ? CU_MEM_ALLOCATION_TYPE_PINNED : from.kind.type;
  wanted.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.poolProps.location.id = of_device ? from.device : from.kind.number;
  wanted.bytesize = bytes;
  if (wanted.poolProps.location.id != where.home.context->device)
    not_modelled("an allocation in a capture on another device");
  Work work = allocation_node_work(wanted, *where.capture->graph, where.home);
  const CUdeviceptr address = graph_memory_of(work)->named.address;
  add_captured_node(where, std::move(work));
  return address;
}

void Api::capture_free(Stream& where, CUdeviceptr address) {
  Work work = free_node_work(address, *where.capture->graph);
  const auto memory = graph_memory_of(work);
  add_captured_node(where, std::move(work));
  memory->freed_in.insert(where.capture->graph->number);
}

// Launches

bool Api::has_allocated(const GraphMemory& memory) const {
  const auto found = process_.allocations.find(memory.named.address);
  return found != process_.allocations.end() && found->second.of_graph.get() == &memory;
}

/// What a launch allocates counts as allocated from the call on, and what it frees is gone. A launch is
/// refused while memory of an earlier one is not freed, unless the exec frees it by itself.
void Api::launch_memory(const Exec& launched) {
  std::map<std::shared_ptr<GraphMemory>, bool> after; ///< whether it is allocated when the launch is over
  for (const Exec::Step& step : launched.body->steps) {
    if (!is_of_memory(step.work.type)) continue;
    const auto& memory = graph_memory_of(step.work);
    const bool allocates = step.work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    const bool is_there = after.contains(memory) ? after.at(memory) : has_allocated(*memory);
    const bool frees_itself = (launched.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
    refuse_if(allocates && is_there && !frees_itself, CUDA_ERROR_INVALID_VALUE);
    refuse_if(!allocates && !is_there, CUDA_ERROR_INVALID_VALUE);
    after[memory] = allocates;
  }
  for (const auto& [memory, allocated] : after) {
    process_.mapped_graph_memory.insert(memory);
    if (allocated == has_allocated(*memory)) continue;
    if (!allocated) {
      process_.allocations.erase(memory->named.address);
      continue;
    }
    Allocation now;
    now.address = memory->named.address;
    now.bytes = memory->named.bytes;
    now.home = memory->named.home;
    now.pool = memory->named.pool;
    now.of_graph = memory;
    add(std::move(now));
  }
}

// What a device keeps

/// It has no handle: no call names it.
std::shared_ptr<MemoryPool> Api::pool_of_graphs(int device) {
  auto& pool = process_.pools[device].of_graphs;
  if (!pool) {
    pool = std::make_shared<MemoryPool>();
    pool->device = device;
  }
  return pool;
}

/// What launches have allocated stays until it is trimmed, also when it is freed.
MemoryPool& Api::counted_pool_of_graphs(int device) {
  std::size_t bytes = 0;
  for (const auto& memory : process_.mapped_graph_memory)
    if (memory->named.pool->device == device) bytes += rounded(memory->named.bytes, granule);
  MemoryPool& pool = *pool_of_graphs(device);
  pool.used = rounded(bytes, chunk);
  pool.used_high = std::max(pool.used_high, pool.used);
  pool.reserved = std::max(pool.reserved, pool.used);
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  return pool;
}

CUresult Api::cuDeviceGetGraphMemAttribute(CUdevice which, CUgraphMem_attribute attribute, void* value) {
  const MemoryPool& pool = counted_pool_of_graphs(device(which));
  refuse_if(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  cuuint64_t found = 0;
  switch (attribute) {
  case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
    found = pool.used;
    break;
  case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
    found = pool.used_high;
    break;
  case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
    found = pool.reserved;
    break;
  case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
    found = pool.reserved_high;
    break;
  default:
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  std::memcpy(value, &found, sizeof found);
  return CUDA_SUCCESS;
}

CUresult Api::cuDeviceSetGraphMemAttribute(CUdevice which, CUgraphMem_attribute attribute, void* value) {
  MemoryPool& pool = counted_pool_of_graphs(device(which));
  const bool used = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
  refuse_if(value == nullptr || (!used && attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH),
            CUDA_ERROR_INVALID_VALUE);
  cuuint64_t wanted = 0;
  std::memcpy(&wanted, value, sizeof wanted);
  refuse_if(wanted != 0, CUDA_ERROR_INVALID_VALUE);
  (used ? pool.used_high : pool.reserved_high) = used ? pool.used : pool.reserved;
  return CUDA_SUCCESS;
}

CUresult Api::cuDeviceGraphMemTrim(CUdevice which) {
  std::erase_if(process_.mapped_graph_memory, [&](const auto& memory) {
    return memory->named.pool->device == device(which) && !has_allocated(*memory);
  });
  MemoryPool& pool = counted_pool_of_graphs(device(which));
  pool.reserved = pool.used;
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
