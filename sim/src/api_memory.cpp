// SPDX-License-Identifier: MIT
#include "api.hpp"
#include "array.hpp"
#include "device_attributes.hpp"
#include "graph_memory.hpp"
#include "memory_pool.hpp"

#include <algorithm>
#include <cstring>

namespace cuevent::sim {

namespace {

/// Larger memory goes back to the C library at once.
constexpr std::size_t most_reused = std::size_t{4} << 20;

std::uintptr_t number(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

} // namespace

/// The one that begins at or before the address, and perhaps ends before it. Null if there is none.
const Allocation* Api::allocation_before(std::uintptr_t address) const {
  if (builds_node_)
    if (const auto memory = graph_memory_at(address)) return &memory->named; // its node keeps it
  const auto next = process_.allocations.upper_bound(address);
  return next == process_.allocations.begin() ? nullptr : &std::prev(next)->second;
}

const Allocation* Api::allocation_of(std::uintptr_t address) const {
  const Allocation* const found = allocation_before(address);
  return found != nullptr && address - found->address < found->bytes ? found : nullptr;
}

std::uintptr_t Api::allocation_start(CUdeviceptr pointer) const {
  const Allocation* const of = allocation_of(static_cast<std::uintptr_t>(pointer));
  return of == nullptr ? 0 : of->address;
}

const Context* Api::home_of(const void* pointer) const {
  const Allocation* const of = allocation_of(number(pointer));
  return of == nullptr || of->pool || of->mapping ? nullptr : of->home.context->family();
}

bool Api::pooled(const void* pointer) const {
  const Allocation* const of = allocation_of(number(pointer));
  return of != nullptr && of->pool;
}

bool is_allocated(const Process& process, std::uintptr_t address, std::size_t bytes, unsigned access,
                  std::optional<int> device) {
  auto next = process.allocations.upper_bound(address);
  if (next == process.allocations.begin()) return false;
  for (const Allocation* of = &std::prev(next)->second;; of = &next++->second) {
    if (address - of->address > of->bytes) return false;
    const std::size_t here = of->bytes - (address - of->address);
    if (!of->mapping || bytes == 0) return bytes <= here;
    if (!of->mapping->allows(access, device)) return false;
    if (bytes <= here) return true;
    address += here;
    bytes -= here;
    if (next == process.allocations.end() || next->first != address || !next->second.mapping) return false;
  }
}

bool Api::has_bytes(std::uintptr_t address, std::size_t bytes, unsigned access) const {
  const auto memory = builds_node_ ? graph_memory_at(address) : nullptr;
  if (!memory) {
    const auto& stack = thread().contexts;
    const auto device = stack.empty() ? std::nullopt : std::optional(stack.back()->device);
    return is_allocated(process_, address, bytes, access, device);
  }
  const std::size_t offset = address - memory->named.address;
  return offset <= memory->named.bytes && bytes <= memory->named.bytes - offset;
}

/// Whether the current device may use memory of a pool of the host.
bool Api::may_access(const Allocation& of_host_pool) const {
  const auto& stack = thread().contexts;
  const unsigned devices = stack.empty() ? ~0u : 1u << stack.back()->device;
  return (of_host_pool.pool->devices_with_access & devices) != 0;
}

std::byte* Api::reachable(std::uintptr_t address, std::size_t bytes, unsigned access) {
  const Allocation* const of = allocation_of(address);
  const bool may = of == nullptr || !of->of_host_pool() || may_access(*of);
  refuse_if(!may || !has_bytes(address, bytes, access), CUDA_ERROR_INVALID_VALUE);
  return reinterpret_cast<std::byte*>(address);
}

std::function<bool()> Api::unmapped_later(std::uintptr_t address, std::size_t bytes) const {
  const Allocation* const of = allocation_of(address);
  if (of == nullptr || !(of->mapping || of->imported)) return nullptr;
  return [&process = process_, address, bytes] { return !is_allocated(process, address, bytes); };
}

std::function<bool()> Api::released_later(std::uintptr_t address) const {
  const Allocation* const of = allocation_of(address);
  if (of == nullptr || !of->pool || of->of_graph) return nullptr;
  return [&process = process_, number = of->number] { return process.released.contains(number); };
}

bool Api::pinned(const void* pointer, std::size_t bytes) const {
  return has_bytes(number(pointer), bytes, CU_MEM_ACCESS_FLAGS_PROT_READ);
}

bool Api::last_freed(std::uintptr_t address) const {
  const std::uintptr_t start = rounded(number(process_.last_freed.memory.get()), whole_pages(1));
  return process_.last_freed.memory && address >= start && address - start < process_.last_freed.bytes;
}

std::uintptr_t Api::add(Allocation allocation) {
  if (allocation.address == 0) allocation.address = number(allocation.memory.get());
  allocation.number = ++process_.allocations_made;
  const std::uintptr_t address = allocation.address;
  process_.allocations.emplace(address, std::move(allocation));
  return address;
}

CUresult Api::allocate(std::uintptr_t* address, std::size_t bytes, bool host, unsigned flags) {
  auto home = context_to_create_in();
  unsafe_call();
  refuse_if(address == nullptr || bytes == 0, CUDA_ERROR_INVALID_VALUE);
  refuse_if(bytes > all_memory, CUDA_ERROR_OUT_OF_MEMORY);
  wait_while_queue_is_full(*home);
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.host = host;
  allocation.flags = flags;
  allocation.home = {home, home->generation};
  // Pages that show a file belong to nothing else.
  const std::size_t unit = host ? granule : whole_pages(1);
  if (!host && process_.last_freed.bytes == bytes && process_.last_freed.memory)
    allocation.memory = std::move(process_.last_freed.memory);
  else
    allocation.memory = std::make_unique_for_overwrite<std::byte[]>(rounded(bytes, unit) + unit);
  allocation.address = rounded(number(allocation.memory.get()), unit);
  std::memset(reinterpret_cast<void*>(allocation.address), fresh, bytes);
  *address = add(std::move(allocation));
  return CUDA_SUCCESS;
}

CUresult Api::deallocate(std::uintptr_t address, bool host) {
  unsafe_call();
  if (address == 0) return CUDA_SUCCESS;
  auto found = process_.allocations.find(address);
  refuse_if(found == process_.allocations.end() || (found->second.host && !found->second.pool) != host ||
                (!found->second.made_here() && !found->second.of_graph) || found->second.variable,
            CUDA_ERROR_INVALID_VALUE);
  if (found->second.of_graph) { // pending work may use it, which is an error that no device reports
    process_.dropped.push_back(found->second.of_graph);
  } else if (found->second.pool) { // waits for nothing
    give_back(process_, found->second);
  } else {
    end_of_allocation(found->second);
    if (!host && !found->second.managed && found->second.bytes <= most_reused)
      process_.last_freed = {found->second.bytes, std::move(found->second.memory)};
  }
  process_.allocations.erase(address);
  return CUDA_SUCCESS;
}

/// Both free functions wait for all work of the context.
void Api::end_of_allocation(const Allocation& allocation) {
  const Birthplace home = allocation.home;
  if (!home.alive()) return;
  wait_for_all_work_of(*home.context, "memory is freed");
}

/// Without a place for the address, this call and cuMemHostAlloc look at the context and at captures first.
/// cuMemAllocManaged looks at neither, and cuMemAllocPitch at the context.
CUresult Api::cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  if (pointer == nullptr) {
    context_to_create_in();
    unsafe_call();
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  *pointer = 0; // whatever the answer
  std::uintptr_t address = 0;
  allocate(&address, bytes, false, 0);
  *pointer = address;
  return CUDA_SUCCESS;
}

CUresult Api::cuMemFree_v2(CUdeviceptr pointer) {
  return deallocate(static_cast<std::uintptr_t>(pointer), false);
}

CUresult Api::cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (total != nullptr) *total = 0; // also without a context
  if (free != nullptr) *free = 0;
  const int device = current_context()->device;
  if (total != nullptr) *total = all_memory;
  if (free != nullptr) *free = free_memory(device);
  return CUDA_SUCCESS;
}

std::size_t Api::free_memory(int device) const {
  std::size_t used = 0;
  for (const auto& [address, allocation] : process_.allocations)
    if (!allocation.host && !allocation.mapping && !allocation.imported && allocation.device() == device)
      used += allocation.bytes;
  for (const auto& memory : process_.physical_memory)
    if (memory->properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        memory->properties.location.id == device)
      used += memory->bytes;
  computer_.handles.for_each([&](const Object& object) {
    if (object.kind != Kind::array || object.process != &process_) return;
    const auto& array = static_cast<const Array&>(object);
    if (array.memory && array.home.alive() && array.home.context->device == device)
      used += array.memory->bytes();
  });
  return all_memory - std::min(used, all_memory);
}

CUresult Api::cuMemAllocHost_v2(void** pointer, size_t bytes) { return cuMemHostAlloc(pointer, bytes, 0); }

CUresult Api::cuMemHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  constexpr unsigned known =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (pointer != nullptr) *pointer = nullptr; // whatever the answer
  if (pointer == nullptr || (flags & ~known) != 0 || bytes == 0) {
    context_to_create_in();
    unsafe_call();
    refuse_if(pointer == nullptr || (flags & ~known) != 0, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS; // unlike cuMemAlloc, of nothing
  }
  std::uintptr_t address = 0;
  allocate(&address, bytes, true, flags);
  *pointer = reinterpret_cast<void*>(address);
  return CUDA_SUCCESS;
}

/// Another process may share the memory. Its stores are seen, because effects and conditions use the
/// program's own address.
CUresult Api::cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
  // Memory of devices on the bus is refused, because an address of the program is not such memory.
  constexpr unsigned known =
      CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
  auto home = context_to_create_in();
  unsafe_call();
  refuse_if(pointer == nullptr || bytes == 0 || (flags & ~known) != 0, CUDA_ERROR_INVALID_VALUE);
  const Allocation* const of = allocation_of(number(pointer));
  refuse_if(of != nullptr && of->of_driver(), CUDA_ERROR_INVALID_VALUE);
  refuse_if(bytes > all_memory, CUDA_ERROR_OUT_OF_MEMORY);
  wait_while_queue_is_full(*home);
  const auto next = process_.allocations.lower_bound(number(pointer));
  const bool overlaps_next = next != process_.allocations.end() && next->first - number(pointer) < bytes;
  refuse_if(overlaps_next || of != nullptr, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.host = true;
  allocation.flags = flags;
  allocation.home = {home, home->generation};
  allocation.address = number(pointer);
  add(std::move(allocation));
  return CUDA_SUCCESS;
}

CUresult Api::cuMemHostUnregister(void* pointer) {
  unsafe_call();
  refuse_if(pointer == nullptr, CUDA_ERROR_INVALID_VALUE);
  const Allocation* const allocation = allocation_of(number(pointer));
  refuse_if(allocation == nullptr, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  const bool at_the_start = process_.allocations.count(number(pointer)) != 0;
  refuse_if(!at_the_start || allocation->of_driver(), CUDA_ERROR_INVALID_VALUE);
  end_of_allocation(*allocation);
  process_.allocations.erase(number(pointer));
  return CUDA_SUCCESS;
}

CUresult Api::cuMemFreeHost(void* pointer) { return deallocate(number(pointer), true); }

CUresult Api::cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned int flags) {
  if (device != nullptr) *device = 0; // whatever the answer
  current_context();
  const Allocation* const of = allocation_of(number(host));
  refuse_if(device == nullptr || flags != 0 || of == nullptr || !of->host || of->pool,
            CUDA_ERROR_INVALID_VALUE);
  *device = number(host); // one address space
  return CUDA_SUCCESS;
}

/// Memory of a created context is portable. Memory of a primary or green one is not.
CUresult Api::cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  refuse_if(flags == nullptr, CUDA_ERROR_INVALID_VALUE);
  current_context();
  const Allocation* const of = allocation_of(number(pointer));
  refuse_if(of == nullptr || !(of->host || of->managed) || of->pool, CUDA_ERROR_INVALID_VALUE);
  const bool portable = of->host && of->memory && of->home.context->type == Context::Type::created;
  *flags =
      (of->managed ? 0 : of->flags) | CU_MEMHOSTALLOC_DEVICEMAP | (portable ? CU_MEMHOSTALLOC_PORTABLE : 0);
  return CUDA_SUCCESS;
}

CUresult Api::cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                                 unsigned element) {
  if (out != nullptr) *out = 0; // whatever the answer
  if (pitch != nullptr) *pitch = 0;
  context_to_create_in();
  refuse_if(out == nullptr || pitch == nullptr || width == 0 || height == 0 ||
                (element != 4 && element != 8 && element != 16),
            CUDA_ERROR_INVALID_VALUE);
  const std::size_t wanted = rounded(width, granule); // a device notices no overflow before it allocates
  *pitch = wanted;
  std::uintptr_t address = 0;
  allocate(&address, wanted * height, false, 0);
  *out = address;
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
