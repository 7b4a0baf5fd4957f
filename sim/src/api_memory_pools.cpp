// SPDX-License-Identifier: MIT
// Memory that streams allocate and free, and the pools that it comes from.

#include "api.hpp"
#include "device_attributes.hpp"
#include "graph_memory.hpp"
#include "memory_places.hpp"
#include "memory_pool.hpp"

#include <algorithm>
#include <cstring>

namespace cuevent::sim {

void trim(Process& process, MemoryPool& pool, std::uint64_t bytes) {
  const std::uint64_t needed = rounded(pool.used, chunk);
  while (pool.reserved > needed && pool.reserved - chunk >= bytes)
    pool.reserved -= chunk;
  if (pool.reserved > needed) return;
  // Work that is pending may still use the memory, which is an error that no device reports.
  for (auto& [size, block] : pool.idle)
    process.dropped.push_back(std::move(block));
  pool.idle.clear();
}

void trim_pools(Process& process) {
  for (auto& pool : process.memory_pools)
    trim(process, *pool, pool->threshold);
}

void give_back(Process&, Allocation& allocation) {
  MemoryPool& pool = *allocation.pool;
  pool.used -= allocation.bytes;
  pool.idle.emplace(rounded(allocation.bytes, granule), std::move(allocation.memory));
}

std::shared_ptr<MemoryPool> Api::pool(CUmemoryPool handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  return computer_.handles.find<MemoryPool>(handle, Kind::memory_pool, process_);
}

std::shared_ptr<MemoryPool> Api::new_pool(int device) {
  auto made = make<MemoryPool>(Kind::memory_pool, nullptr);
  made->device = device;
  process_.memory_pools.push_back(made);
  return made;
}

Process::Pools& Api::pools_of(int device) {
  Process::Pools& pools = process_.pools[device];
  if (!pools.standard) {
    pools.standard = new_pool(device);
    pools.standard->is_default = true;
    pools.current = pools.standard;
  }
  return pools;
}

CUresult Api::cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice which) {
  const int of = device(which);
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = as<CUmemoryPool>(*pools_of(of).standard);
  return CUDA_SUCCESS;
}

CUresult Api::cuDeviceGetMemPool(CUmemoryPool* out, CUdevice which) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_if(which < 0 || which >= computer_.options.devices, CUDA_ERROR_INVALID_VALUE);
  *out = as<CUmemoryPool>(*pools_of(which).current);
  return CUDA_SUCCESS;
}

CUresult Api::cuDeviceSetMemPool(CUdevice which, CUmemoryPool handle) {
  unsafe_call();
  refuse_if(which < 0 || which >= computer_.options.devices, CUDA_ERROR_INVALID_VALUE);
  pools_of(which).current = pool(handle);
  return CUDA_SUCCESS;
}

namespace {

/// The simulated computer has one NUMA node. The place of the host needs no number.
bool is_place(const CUmemLocation& where, int devices) {
  if (where.type == CU_MEM_LOCATION_TYPE_DEVICE) return where.id >= 0 && where.id < devices;
  return where.type == place::host || (where.type == place::host_numa && where.id == 0);
}

/// Whether other processes can be given the pool.
bool is_exportable(const CUmemPoolProps& properties) {
  const int handles = properties.handleTypes;
  refuse_if((handles & ~place::shareable) != 0 || (handles != 0 && properties.location.type == place::host),
            CUDA_ERROR_INVALID_VALUE);
  return handles != CU_MEM_HANDLE_TYPE_NONE;
}

void check_managed_pool(const CUmemPoolProps& properties, int devices) {
  const CUmemLocation& where = properties.location;
  refuse_if(properties.handleTypes != CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_INVALID_VALUE);
  refuse_if(where.type < place::none || where.type > place::host_numa_current, CUDA_ERROR_NOT_SUPPORTED);
  refuse_if(where.type != place::none && where.type != place::host_numa_current && !is_place(where, devices),
            CUDA_ERROR_INVALID_VALUE);
}

} // namespace

CUresult Api::cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  unsafe_call();
  refuse_if(out == nullptr || properties == nullptr || properties->reserved[0] != 0,
            CUDA_ERROR_INVALID_VALUE);
  const CUmemLocation& where = properties->location;
  int device = MemoryPool::managed;
  bool exportable = false;
  if (properties->allocType == place::managed) {
    check_managed_pool(*properties, computer_.options.devices);
  } else {
    refuse_if(properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
                  !is_place(where, computer_.options.devices),
              CUDA_ERROR_INVALID_VALUE);
    exportable = is_exportable(*properties);
    device = where.type == CU_MEM_LOCATION_TYPE_DEVICE ? where.id : MemoryPool::of_the_host;
  }
  const auto made = new_pool(device);
  made->exportable = exportable;
  *out = as<CUmemoryPool>(*made);
  return CUDA_SUCCESS;
}

CUresult Api::cuMemPoolDestroy(CUmemoryPool handle) {
  unsafe_call();
  auto gone = pool(handle);
  refuse_if(gone->is_default, CUDA_ERROR_INVALID_VALUE);
  for (auto& [device, pools] : process_.pools)
    if (pools.current == gone) pools.current = pools.standard;
  std::erase(process_.memory_pools, gone); // its allocations live on
  computer_.handles.remove(*gone, ending());
  return CUDA_SUCCESS;
}

CUresult Api::cuMemPoolTrimTo(CUmemoryPool handle, size_t bytes) {
  unsafe_call();
  trim(process_, *pool(handle), bytes);
  return CUDA_SUCCESS;
}

CUresult Api::cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  unsafe_call();
  refuse_if(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto asked = pool(handle);
  const auto put = [value](auto number) {
    std::memcpy(value, &number, sizeof number);
    return CUDA_SUCCESS;
  };
  switch (attribute) {
  case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    return put(asked->follow_events);
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    return put(asked->opportunistic);
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
    return put(asked->internal_dependencies);
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
    return put(asked->threshold);
  case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    return put(asked->reserved);
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    return put(asked->reserved_high);
  case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    return put(asked->used);
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    return put(asked->used_high);
  default:
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

CUresult Api::cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  unsafe_call();
  auto changed = pool(handle);
  if (value == nullptr) crash("the new value of an attribute of a memory pool is a null pointer");
  int flag = 0;
  std::uint64_t number = 0;
  std::memcpy(&flag, value, sizeof flag);
  switch (attribute) {
  case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    changed->follow_events = flag != 0;
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    changed->opportunistic = flag != 0;
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
    changed->internal_dependencies = flag != 0;
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    std::memcpy(&number, value, sizeof number);
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
      changed->threshold = number;
      return CUDA_SUCCESS;
    }
    refuse_if(number != 0, CUDA_ERROR_INVALID_VALUE);
    if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
      changed->used_high = changed->used;
    } else {
      changed->reserved_high = changed->reserved;
    }
    return CUDA_SUCCESS;
  default:
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

CUresult Api::allocate_on(CUdeviceptr* out, std::size_t bytes, CUmemoryPool handle, CUstream stream_handle,
                          bool from_current) {
  auto where = stream(stream_handle);
  const bool captured = capturing(*where);
  implicit_check(*where);
  if (!captured) unsafe_call();
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto from = from_current ? pools_of(where->home.context->device).current : pool(handle);
  if (bytes == 0) {
    *out = 0;
    return CUDA_SUCCESS;
  }
  if (from->device < 0) not_modelled("an allocation from a pool of the host or of managed memory");
  if (captured) {
    *out = capture_allocation(*where, bytes, *from);
    return CUDA_SUCCESS;
  }
  refuse_if(bytes > all_memory, CUDA_ERROR_OUT_OF_MEMORY);
  if (computer_.scheduler.unfinished().empty()) process_.dropped.clear();
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.home = where->home;
  allocation.pool = from;
  const std::size_t size = rounded(bytes, granule);
  if (const auto idle = from->idle.find(size); idle != from->idle.end()) {
    allocation.memory = std::move(idle->second);
    from->idle.erase(idle);
  } else {
    allocation.memory = std::make_unique<std::byte[]>(size + granule);
  }
  allocation.address = rounded(reinterpret_cast<std::uintptr_t>(allocation.memory.get()), granule);
  from->used += bytes;
  from->used_high = std::max(from->used_high, from->used);
  from->reserved = std::max(from->reserved, std::uint64_t{rounded(from->used, chunk)});
  from->reserved_high = std::max(from->reserved_high, from->reserved);
  *out = add(std::move(allocation));
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  work.text = "allocate " + std::to_string(bytes) + " bytes";
  enqueue(where, std::move(work), {});
  return CUDA_SUCCESS;
}

CUresult Api::cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream where) {
  return allocate_on(out, bytes, nullptr, where, true);
}

CUresult Api::cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool from, CUstream where) {
  return allocate_on(out, bytes, from, where, false);
}

/// From now on the address is unknown to other calls. The memory itself stays until the stream gets there.
CUresult Api::cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
  auto where = stream(handle);
  const bool captured = capturing(*where);
  implicit_check(*where);
  if (!captured) unsafe_call();
  if (pointer == 0) return CUDA_SUCCESS;
  if (captured) {
    capture_free(*where, pointer);
    return CUDA_SUCCESS;
  }
  const auto found = process_.allocations.find(static_cast<std::uintptr_t>(pointer));
  refuse_if(found == process_.allocations.end() || found->second.host ||
                (!found->second.memory && !found->second.of_graph),
            CUDA_ERROR_INVALID_VALUE);
  refuse_if(found->second.managed, CUDA_ERROR_NOT_SUPPORTED);
  auto freed = std::make_shared<Allocation>(std::move(found->second));
  process_.allocations.erase(found);
  if (freed->pool && !freed->of_graph) freed->pool->used -= freed->bytes;
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  work.text = "free " + std::to_string(freed->bytes) + " bytes";
  work.effect = [freed] {
    if (!freed->pool || !freed->memory) return;
    freed->pool->idle.emplace(rounded(freed->bytes, granule), std::move(freed->memory));
  };
  enqueue(where, std::move(work), {});
  return CUDA_SUCCESS;
}

CUresult Api::cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle, CUmemLocation* place) {
  unsafe_call();
  refuse_if(flags == nullptr || place == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto asked = pool(handle);
  refuse_if(place->type != CU_MEM_LOCATION_TYPE_DEVICE || place->id < 0 ||
                place->id >= computer_.options.devices,
            CUDA_ERROR_INVALID_VALUE);
  *flags = place->id == asked->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

/// A pool of a device is always accessible to it.
CUresult Api::cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* wishes, size_t count) {
  unsafe_call();
  const auto changed = pool(handle);
  refuse_if(wishes == nullptr && count != 0, CUDA_ERROR_INVALID_VALUE);
  for (std::size_t i = 0; i < count; ++i) {
    if (wishes[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      not_modelled("access of the host to a memory pool");
    const bool own = device(wishes[i].location.id) == changed->device;
    refuse_if(own && wishes[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CUDA_ERROR_INVALID_DEVICE);
    if (!own) not_modelled("access of another device to a memory pool");
  }
  return CUDA_SUCCESS;
}

CUresult Api::cuMemPoolExportToShareableHandle(void*, CUmemoryPool handle, CUmemAllocationHandleType,
                                               unsigned long long) {
  refuse_if(!pool(handle)->exportable, CUDA_ERROR_INVALID_VALUE);
  not_modelled("a memory pool of several processes");
}

#if CUDA_VERSION >= 13000
Process::Pools& Api::pools_of(const CUmemLocation* place) {
  refuse_if(place == nullptr, CUDA_ERROR_INVALID_VALUE);
  if (place->type != CU_MEM_LOCATION_TYPE_DEVICE) not_modelled("a memory pool of the host by its place");
  refuse_if(place->id < 0 || place->id >= computer_.options.devices, CUDA_ERROR_INVALID_VALUE);
  return pools_of(place->id);
}

CUresult Api::cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* place, CUmemAllocationType type) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  Process::Pools& pools = pools_of(place);
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED && type != CU_MEM_ALLOCATION_TYPE_MANAGED)
    not_modelled("a memory pool of another type");
  if (!pools.managed) {
    pools.managed = new_pool(MemoryPool::managed);
    pools.managed->is_default = true;
  }
  *out = as<CUmemoryPool>(type == CU_MEM_ALLOCATION_TYPE_PINNED ? *pools.standard : *pools.managed);
  return CUDA_SUCCESS;
}

CUresult Api::cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* place, CUmemAllocationType type) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  Process::Pools& pools = pools_of(place);
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED) not_modelled("the current pool of managed memory");
  *out = as<CUmemoryPool>(*pools.current);
  return CUDA_SUCCESS;
}

CUresult Api::cuMemSetMemPool(CUmemLocation* place, CUmemAllocationType type, CUmemoryPool handle) {
  unsafe_call();
  Process::Pools& pools = pools_of(place);
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED) not_modelled("another pool of managed memory");
  pools.current = pool(handle);
  return CUDA_SUCCESS;
}
#endif

} // namespace cuevent::sim
