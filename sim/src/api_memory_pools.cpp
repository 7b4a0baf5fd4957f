// SPDX-License-Identifier: MIT
// Memory that streams allocate and free, and the pools that it comes from.

#include "api.hpp"
#include "device_attributes.hpp"
#include "graph_memory.hpp"
#include "memory_places.hpp"
#include "memory_pool.hpp"
#include "os_process.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

namespace cuevent::sim {

void trim(Process& process, MemoryPool& pool, std::uint64_t bytes) {
  const std::uint64_t needed = rounded(pool.in_use(), chunk);
  while (pool.reserved > needed && pool.reserved - chunk >= bytes)
    pool.reserved -= chunk;
  if (pool.reserved > needed) return;
  // Work that is pending may still use the memory, which is an error that no device reports.
  for (auto& [size, block] : pool.idle)
    process.dropped.push_back(std::move(block.memory));
  pool.idle.clear();
}

void trim_pools(Process& process) {
  for (auto& pool : process.memory_pools)
    trim(process, *pool, pool->threshold);
}

namespace {

/// Work that is pending may use the memory also after the end of its pool, which has no other owner then.
void keep_destroyed(Process& process, const std::shared_ptr<MemoryPool>& pool) {
  if (std::ranges::find(process.memory_pools, pool) == process.memory_pools.end())
    process.dropped.push_back(pool);
}

/// What has to be done before work that comes after these operations. Operations that are done are left out.
std::set<const Operation*> unfinished_before(const std::vector<std::shared_ptr<Operation>>& tails) {
  std::set<const Operation*> found;
  std::vector<const Operation*> to_visit;
  const auto visit = [&](const std::shared_ptr<Operation>& operation) {
    if (operation && !operation->done() && found.insert(operation.get()).second)
      to_visit.push_back(operation.get());
  };
  std::ranges::for_each(tails, visit);
  while (!to_visit.empty()) {
    const Operation& next = *to_visit.back();
    to_visit.pop_back();
    std::ranges::for_each(next.after, visit);
  }
  return found;
}

} // namespace

/// Work that uses the memory is not waited for. It ends with a fault if the pool has nothing else, because
/// the pool then gives the memory back to the device.
void give_back(Process& process, Allocation& allocation) {
  MemoryPool& pool = *allocation.pool;
  if (pool.threshold == 0 && pool.in_use() == allocation.bytes) process.released.insert(allocation.number);
  pool.given_back += allocation.bytes;
  pool.idle.emplace(rounded(allocation.bytes, granule), IdleBlock{std::move(allocation.memory)});
  keep_destroyed(process, allocation.pool);
}

bool MemoryPool::has_room_for(std::size_t bytes, std::size_t idle_elsewhere) const {
  return most_bytes == 0 || most_bytes > all_memory ||
         in_use() + idle_elsewhere + bytes <= rounded(most_bytes, chunk);
}

/// Takes a block that the stream can use, or makes one. If the pool has no room, the stream waits for the
/// free of a block, which `after` then gets.
std::unique_ptr<std::byte[]> Api::block_of(MemoryPool& pool, std::size_t size, const Stream& where,
                                           std::vector<std::shared_ptr<Operation>>& after) const {
  std::optional<std::set<const Operation*>> before;
  const auto can_use = [&](const IdleBlock& block) {
    if (!block.freed || block.stream == where.number) return true;
    if (block.freed->done()) return pool.opportunistic != 0;
    if (pool.follow_events == 0) return false;
    if (!before) before = unfinished_before(predecessors(where));
    return before->contains(block.freed.get());
  };
  const auto take = [&](auto block) {
    auto memory = std::move(block->second.memory);
    pool.idle.erase(block);
    return memory;
  };
  const auto [first, last] = pool.idle.equal_range(size);
  const auto usable = std::find_if(first, last, [&](const auto& each) { return can_use(each.second); });
  if (usable != last) return take(usable);
  std::size_t elsewhere = 0;
  for (const auto& [bytes, block] : pool.idle)
    if (!can_use(block)) elsewhere += bytes;
  if (pool.has_room_for(size, elsewhere)) {
    pool.reserved = std::max(pool.reserved, std::uint64_t{rounded(pool.in_use() + elsewhere + size, chunk)});
    return std::make_unique<std::byte[]>(size + granule);
  }
  refuse_if(!pool.has_room_for(size) || pool.internal_dependencies == 0, CUDA_ERROR_OUT_OF_MEMORY);
  if (first == last) not_modelled("an allocation from memory that other streams have freed as other blocks");
  after.push_back(first->second.freed);
  return take(first);
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

std::shared_ptr<MemoryPool> Api::new_pool(const PoolKind& kind) {
  const bool managed = kind.type != CU_MEM_ALLOCATION_TYPE_PINNED;
  auto made = new_pool(managed ? MemoryPool::managed : MemoryPool::of_the_host);
  made->kind = kind;
  return made;
}

namespace {

void set_default(Process::Pools& pools, const std::shared_ptr<MemoryPool>& standard) {
  standard->is_default = true;
  pools.standard = pools.current = standard;
}

} // namespace

Process::Pools& Api::pools_of(int device) {
  Process::Pools& pools = process_.pools[device];
  if (!pools.standard) set_default(pools, new_pool(device));
  return pools;
}

Process::Pools& Api::pools_of(const PoolKind& kind) {
  Process::Pools& pools = process_.other_pools[kind];
  if (!pools.standard) set_default(pools, new_pool(kind));
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
  refuse_if(which < 0 || which >= computer_.devices(), CUDA_ERROR_INVALID_VALUE);
  *out = as<CUmemoryPool>(*pools_of(which).current);
  return CUDA_SUCCESS;
}

CUresult Api::cuDeviceSetMemPool(CUdevice which, CUmemoryPool handle) {
  unsafe_call();
  refuse_if(which < 0 || which >= computer_.devices(), CUDA_ERROR_INVALID_VALUE);
  const auto chosen = pool(handle);
  if (chosen->device >= 0) {
    pools_of(which).current = chosen;
    return CUDA_SUCCESS;
  }
  const PoolKind managed_here = {place::managed, CU_MEM_LOCATION_TYPE_DEVICE, which};
  refuse_if(chosen->kind != managed_here, CUDA_ERROR_INVALID_VALUE);
  pools_of(managed_here).current = chosen; // which changes nothing for cuMemAllocAsync
  return CUDA_SUCCESS;
}

namespace {

/// The end of CUmemPoolProps as the headers of CUDA 13.0 have it. Older ones lack names for the first two.
struct PoolLimits {
  std::uint64_t most_bytes;
  std::uint16_t usage; ///< such as for hardware decompression
  std::array<std::uint8_t, 54> reserved;
};

PoolLimits limits_of(const CUmemPoolProps& properties) {
  PoolLimits limits;
  constexpr auto before = offsetof(CUmemPoolProps, win32SecurityAttributes) + sizeof(void*);
  static_assert(before + sizeof limits == sizeof properties);
  std::memcpy(&limits, reinterpret_cast<const char*>(&properties) + before, sizeof limits);
  return limits;
}

} // namespace

bool has_reserved_bytes(const CUmemPoolProps& properties) {
  return std::ranges::any_of(limits_of(properties).reserved, [](auto byte) { return byte != 0; });
}

namespace {

/// Whether the place exists.
bool is_place(const CUmemLocation& where, int devices) {
  if (where.type == CU_MEM_LOCATION_TYPE_DEVICE) return where.id >= 0 && where.id < devices;
  return place::is_of_host(where);
}

PoolKind pool_kind(CUmemAllocationType type, const CUmemLocation& where) {
  const bool numbered = where.type == CU_MEM_LOCATION_TYPE_DEVICE || where.type == place::host_numa;
  return {type, where.type, numbered ? where.id : 0};
}

/// Pools of a device or of a NUMA node can be given to other processes, as a descriptor, over the fabric, or
/// as either.
void check_pinned_pool(const CUmemPoolProps& properties, int devices) {
  const CUmemLocation& where = properties.location;
  const int allowed = where.type == place::host ? 0 : place::shareable;
  refuse_if(!is_place(where, devices) || (properties.handleTypes & ~allowed) != 0, CUDA_ERROR_INVALID_VALUE);
}

/// A pool of managed memory may prefer no place, or the NUMA node of its thread.
void check_managed_pool(const CUmemPoolProps& properties, const PoolLimits& limits, int devices) {
  const CUmemLocation& where = properties.location;
  refuse_if(properties.handleTypes != CU_MEM_HANDLE_TYPE_NONE || limits.most_bytes != 0 || limits.usage != 0,
            CUDA_ERROR_INVALID_VALUE);
  refuse_if(where.type < place::none || where.type > place::host_numa_current, CUDA_ERROR_NOT_SUPPORTED);
  refuse_if(where.type != place::none && where.type != place::host_numa_current && !is_place(where, devices),
            CUDA_ERROR_INVALID_VALUE);
}

} // namespace

CUresult Api::cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  unsafe_call();
  refuse_if(out == nullptr || properties == nullptr, CUDA_ERROR_INVALID_VALUE);
  const PoolLimits limits = limits_of(*properties);
  refuse_if(has_reserved_bytes(*properties), CUDA_ERROR_INVALID_VALUE);
  const CUmemLocation& where = properties->location;
  const bool of_device =
      properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED && where.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (properties->allocType == place::managed) {
    check_managed_pool(*properties, limits, computer_.devices());
  } else {
    refuse_if(properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    check_pinned_pool(*properties, computer_.devices());
    refuse_if(of_device && limits.most_bytes == ~std::uint64_t{0}, CUDA_ERROR_OUT_OF_MEMORY);
  }
  const auto made = of_device ? new_pool(where.id) : new_pool(pool_kind(properties->allocType, where));
  made->most_bytes = limits.most_bytes;
  made->handle_types = properties->handleTypes;
  *out = as<CUmemoryPool>(*made);
  return CUDA_SUCCESS;
}

CUresult Api::cuMemPoolDestroy(CUmemoryPool handle) {
  unsafe_call();
  auto gone = pool(handle);
  refuse_if(gone->is_default, CUDA_ERROR_INVALID_VALUE);
  for (auto& [device, pools] : process_.pools)
    if (pools.current == gone) pools.current = pools.standard;
  // Elsewhere a pool that nobody made becomes the current one. What it can do is not known.
  for (auto& [kind, pools] : process_.other_pools) {
    if (pools.current != gone) continue;
    pools.current = new_pool(kind);
    std::erase(process_.memory_pools, pools.current);
    computer_.handles.remove(*pools.current, ending());
  }
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
  if (out != nullptr) *out = 0;
  auto where = stream(stream_handle);
  const bool captured = capturing(*where);
  implicit_check(*where);
  if (!captured) unsafe_call();
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto from = from_current ? pools_of(where->home.context->device).current : pool(handle);
  if (bytes == 0) return CUDA_SUCCESS;
  if (captured) {
    refuse_if(from->device < 0 && from->kind.place == place::none, CUDA_ERROR_INVALID_VALUE);
    refuse_if(from->device < 0 && from->kind.place != CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    if (!from->has_room_for(bytes))
      not_modelled("an allocation in a capture beyond the maximal size of a memory pool");
    *out = capture_allocation(*where, bytes, *from);
    return CUDA_SUCCESS;
  }
  refuse_if(bytes > all_memory, CUDA_ERROR_OUT_OF_MEMORY);
  if (computer_.scheduler.unfinished().empty()) {
    process_.dropped.clear();
    process_.released.clear();
  }
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.home = where->home;
  allocation.pool = from;
  allocation.host = from->device == MemoryPool::of_the_host;
  allocation.managed = from->device == MemoryPool::managed;
  std::vector<std::shared_ptr<Operation>> after;
  allocation.memory = block_of(*from, rounded(bytes, granule), *where, after);
  allocation.address = rounded(reinterpret_cast<std::uintptr_t>(allocation.memory.get()), granule);
  from->used += bytes;
  from->used_high = std::max(from->used_high, from->used);
  from->reserved = std::max(from->reserved, std::uint64_t{rounded(from->in_use(), chunk)});
  from->reserved_high = std::max(from->reserved_high, from->reserved);
  *out = add(std::move(allocation));
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  work.text = "allocate " + std::to_string(bytes) + " bytes";
  const bool waits_for_block = !after.empty();
  const auto operation = enqueue(where, std::move(work), std::move(after));
  if (waits_for_block) where->seen_tail = operation;
  return CUDA_SUCCESS;
}

CUresult Api::cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream where) {
  return allocate_on(out, bytes, nullptr, where, true);
}

CUresult Api::cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool from, CUstream where) {
  return allocate_on(out, bytes, from, where, false);
}

/// From now on the address is unknown to other calls. The memory itself stays until all work is done.
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
  refuse_if(found == process_.allocations.end() || (found->second.host && !found->second.pool) ||
                (!found->second.made_here() && !found->second.of_graph),
            CUDA_ERROR_INVALID_VALUE);
  refuse_if(found->second.managed && !found->second.pool, CUDA_ERROR_NOT_SUPPORTED);
  Allocation freed = std::move(found->second);
  process_.allocations.erase(found);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  work.text = "free " + std::to_string(freed.bytes) + " bytes";
  work.owner = freed.of_graph;
  const auto operation = enqueue(where, std::move(work), {});
  if (freed.exported) {
    freed.exported->withdraw();
    process_.dropped.push_back(std::move(freed.exported));
  }
  if (!freed.pool && !freed.of_graph) where->has_freed = true;
  if (!freed.memory) return CUDA_SUCCESS;
  if (!freed.pool) {
    process_.dropped.push_back(std::move(freed.memory));
    return CUDA_SUCCESS;
  }
  freed.pool->used -= freed.bytes;
  freed.pool->idle.emplace(rounded(freed.bytes, granule),
                           IdleBlock{std::move(freed.memory), operation, where->number});
  keep_destroyed(process_, freed.pool);
  return CUDA_SUCCESS;
}

CUresult Api::cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle, CUmemLocation* place) {
  unsafe_call();
  refuse_if(flags == nullptr || place == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto asked = pool(handle);
  const bool of_device = asked->device >= 0; // whose memory the host cannot use, whatever the node
  if (of_device && (place->type == place::host || place->type == place::host_numa)) {
    *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  }
  const bool by_host = !of_device && place::is_of_host(*place);
  refuse_if(!by_host && (place->type != CU_MEM_LOCATION_TYPE_DEVICE || place->id < 0 ||
                         place->id >= computer_.devices()),
            CUDA_ERROR_INVALID_VALUE);
  const bool access = by_host      ? asked->device == MemoryPool::of_the_host || asked->host_has_access
                      : !of_device ? (asked->devices_with_access >> place->id & 1) != 0
                                   : place->id == asked->device;
  *flags = access ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

/// The host always has access to a pool of its own memory.
void Api::set_access(MemoryPool& changed, const CUmemAccessDesc& wish) {
  refuse_if(wish.flags == CU_MEM_ACCESS_FLAGS_PROT_READ, CUDA_ERROR_NOT_SUPPORTED);
  if (wish.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && wish.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    not_modelled("unknown flags of access to a memory pool");
  const bool access = wish.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (place::is_of_host(wish.location)) {
    refuse_if(changed.device == MemoryPool::of_the_host && !access, CUDA_ERROR_NOT_SUPPORTED);
    changed.host_has_access = access;
    return;
  }
  refuse_if(wish.location.type != CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
  const unsigned bit = 1u << device(wish.location.id);
  changed.devices_with_access =
      access ? changed.devices_with_access | bit : changed.devices_with_access & ~bit;
}

/// A pool of a device is always accessible to it, so nothing changes.
void Api::check_access(const MemoryPool& pool, const CUmemAccessDesc& wish) {
  refuse_if(wish.flags == CU_MEM_ACCESS_FLAGS_PROT_READ, CUDA_ERROR_NOT_SUPPORTED);
  refuse_if(wish.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && wish.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            CUDA_ERROR_INVALID_VALUE);
  if (device(wish.location.id) != pool.device) not_modelled("access of another device to a memory pool");
  refuse_if(wish.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE, CUDA_ERROR_INVALID_DEVICE);
}

/// A device looks at all places first.
CUresult Api::cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* wishes, size_t count) {
  unsafe_call();
  const auto changed = pool(handle);
  refuse_if(wishes == nullptr, CUDA_ERROR_INVALID_VALUE);
  const bool of_device = changed->device >= 0;
  for (std::size_t i = 0; of_device && i < count; ++i) {
    refuse_if(wishes[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    device(wishes[i].location.id);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (of_device) {
      check_access(*changed, wishes[i]);
    } else {
      set_access(*changed, wishes[i]);
    }
  }
  return CUDA_SUCCESS;
}

/// The descriptor is good for nothing but an import, which is not modelled.
CUresult Api::cuMemPoolExportToShareableHandle(void* out, CUmemoryPool handle, CUmemAllocationHandleType type,
                                               unsigned long long flags) {
  unsafe_call();
  refuse_if(out == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0,
            CUDA_ERROR_INVALID_VALUE);
  refuse_if((pool(handle)->handle_types & type) == 0, CUDA_ERROR_INVALID_VALUE);
  const int file = make_offered_file("memory-pool", 0);
  refuse_if(file < 0, CUDA_ERROR_OUT_OF_MEMORY);
  std::memcpy(out, &file, sizeof file);
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 13000
/// Managed pools may have no place, which pinned ones must have.
Process::Pools& Api::pools_of(const CUmemLocation* where, CUmemAllocationType type) {
  refuse_if(where == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_if(where->type < place::none || where->type > place::host_numa, CUDA_ERROR_NOT_SUPPORTED);
  refuse_if(type != CU_MEM_ALLOCATION_TYPE_PINNED && type != place::managed, CUDA_ERROR_INVALID_VALUE);
  const bool nowhere = where->type == place::none && type == place::managed;
  refuse_if(!nowhere && !is_place(*where, computer_.devices()), CUDA_ERROR_INVALID_VALUE);
  if (type == CU_MEM_ALLOCATION_TYPE_PINNED && where->type == CU_MEM_LOCATION_TYPE_DEVICE)
    return pools_of(where->id);
  return pools_of(pool_kind(type, *where));
}

CUresult Api::cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* place, CUmemAllocationType type) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = as<CUmemoryPool>(*pools_of(place, type).standard);
  return CUDA_SUCCESS;
}

CUresult Api::cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* place, CUmemAllocationType type) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = as<CUmemoryPool>(*pools_of(place, type).current);
  return CUDA_SUCCESS;
}

CUresult Api::cuMemSetMemPool(CUmemLocation* place, CUmemAllocationType type, CUmemoryPool handle) {
  unsafe_call();
  refuse_if(place == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto chosen = pool(handle); // a device looks at it before the place
  Process::Pools& pools = pools_of(place, type);
  const bool same = pools.standard->device < 0 ? chosen->kind == pools.standard->kind : chosen->device >= 0;
  refuse_if(!same, CUDA_ERROR_INVALID_VALUE);
  pools.current = chosen;
  return CUDA_SUCCESS;
}
#endif

} // namespace cuevent::sim
