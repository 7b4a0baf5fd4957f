// SPDX-License-Identifier: MIT
#include "api.hpp"
#include "timing.hpp"

#include <algorithm>
#include <cstring>

namespace cuevent::sim {

namespace {

/// Fresh memory is not zero, so that no program depends on zeros.
constexpr int fresh = 0xa5;

std::uintptr_t number(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

} // namespace

const Allocation* Api::allocation_of(std::uintptr_t address) const {
  const auto next = process_.allocations.upper_bound(address);
  if (next == process_.allocations.begin()) return nullptr;
  const auto& [begin, allocation] = *std::prev(next);
  return address - begin < allocation.bytes ? &allocation : nullptr;
}

std::byte* Api::reachable(std::uintptr_t address, std::size_t bytes) {
  auto next = process_.allocations.upper_bound(address);
  refuse_if(next == process_.allocations.begin(), CUDA_ERROR_INVALID_VALUE);
  auto& [begin, allocation] = *std::prev(next);
  refuse_if(address - begin > allocation.bytes || bytes > allocation.bytes - (address - begin),
            CUDA_ERROR_INVALID_VALUE);
  return reinterpret_cast<std::byte*>(address);
}

bool Api::pinned(const void* pointer, std::size_t bytes) const {
  auto next = process_.allocations.upper_bound(number(pointer));
  if (next == process_.allocations.begin()) return false;
  auto& [begin, allocation] = *std::prev(next);
  return number(pointer) - begin + bytes <= allocation.bytes;
}

CUresult Api::allocate(std::uintptr_t* address, std::size_t bytes, bool host, unsigned flags) {
  refuse_if(address == nullptr || bytes == 0, CUDA_ERROR_INVALID_VALUE);
  auto home = context_to_create_in();
  unsafe_call();
  refuse_if(bytes > (std::size_t{16} << 30), CUDA_ERROR_OUT_OF_MEMORY);
  wait_while_queue_is_full(*home);
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.host = host;
  allocation.flags = flags;
  allocation.home = {home, home->generation};
  allocation.memory = std::make_unique<std::byte[]>(bytes);
  std::memset(allocation.memory.get(), fresh, bytes);
  *address = number(allocation.memory.get());
  process_.allocations.emplace(*address, std::move(allocation));
  return CUDA_SUCCESS;
}

CUresult Api::deallocate(std::uintptr_t address, bool host) {
  auto found = process_.allocations.find(address);
  refuse_if(found == process_.allocations.end() || found->second.host != host || !found->second.memory,
            CUDA_ERROR_INVALID_VALUE);
  unsafe_call();
  end_of_allocation(found->second);
  process_.allocations.erase(address);
  return CUDA_SUCCESS;
}

/// Both free functions wait for all work of the context.
void Api::end_of_allocation(const Allocation& allocation) {
  const Birthplace home = allocation.home;
  if (!home.alive()) return;
  for (auto& tail : tails(*home.context, false))
    wait_for(tail, "all work of context #" + std::to_string(home.context->number) +
                       " must end before memory is freed");
}

CUresult Api::cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  refuse_if(pointer == nullptr, CUDA_ERROR_INVALID_VALUE);
  std::uintptr_t address = 0;
  allocate(&address, bytes, false, 0);
  *pointer = address;
  return CUDA_SUCCESS;
}

CUresult Api::cuMemFree_v2(CUdeviceptr pointer) {
  if (pointer == 0) return CUDA_SUCCESS;
  return deallocate(static_cast<std::uintptr_t>(pointer), false);
}

CUresult Api::cuMemGetInfo_v2(size_t* free, size_t* total) {
  refuse_if(free == nullptr || total == nullptr, CUDA_ERROR_INVALID_VALUE);
  const int device = current_context()->device;
  *total = std::size_t{16} << 30;
  *free = *total;
  for (auto& [address, allocation] : process_.allocations)
    if (!allocation.host && allocation.home.context->device == device) *free -= allocation.bytes;
  return CUDA_SUCCESS;
}

CUresult Api::cuMemAllocHost_v2(void** pointer, size_t bytes) { return cuMemHostAlloc(pointer, bytes, 0); }

CUresult Api::cuMemHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  constexpr unsigned known =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  refuse_if(pointer == nullptr || (flags & ~known) != 0, CUDA_ERROR_INVALID_VALUE);
  std::uintptr_t address = 0;
  allocate(&address, bytes, true, flags);
  *pointer = reinterpret_cast<void*>(address);
  return CUDA_SUCCESS;
}

/// Another process may share the memory. Its stores are seen, because effects and conditions use the
/// program's own address.
CUresult Api::cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
  constexpr unsigned modelled = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
  auto home = context_to_create_in();
  unsafe_call();
  refuse_if(pointer == nullptr || bytes == 0, CUDA_ERROR_INVALID_VALUE);
  if ((flags & ~modelled) != 0) not_modelled("flags of cuMemHostRegister other than PORTABLE and DEVICEMAP");
  wait_while_queue_is_full(*home);
  const auto next = process_.allocations.lower_bound(number(pointer));
  const bool overlaps_next = next != process_.allocations.end() && next->first - number(pointer) < bytes;
  refuse_if(overlaps_next || allocation_of(number(pointer)) != nullptr,
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.host = true;
  allocation.flags = flags;
  allocation.home = {home, home->generation};
  process_.allocations.emplace(number(pointer), std::move(allocation));
  return CUDA_SUCCESS;
}

CUresult Api::cuMemHostUnregister(void* pointer) {
  unsafe_call();
  refuse_if(pointer == nullptr, CUDA_ERROR_INVALID_VALUE);
  const Allocation* const allocation = allocation_of(number(pointer));
  refuse_if(allocation == nullptr, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  const bool at_the_start = process_.allocations.count(number(pointer)) != 0;
  refuse_if(!at_the_start || allocation->memory != nullptr, CUDA_ERROR_INVALID_VALUE);
  end_of_allocation(*allocation);
  process_.allocations.erase(number(pointer));
  return CUDA_SUCCESS;
}

CUresult Api::cuMemFreeHost(void* pointer) { return deallocate(number(pointer), true); }

CUresult Api::cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned int flags) {
  current_context();
  refuse_if(device == nullptr || flags != 0 || !pinned(host, 1), CUDA_ERROR_INVALID_VALUE);
  *device = number(host); // one address space
  return CUDA_SUCCESS;
}

CUresult Api::cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  auto found = process_.allocations.find(number(pointer));
  refuse_if(flags == nullptr || found == process_.allocations.end() || !found->second.host,
            CUDA_ERROR_INVALID_VALUE);
  *flags = found->second.flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

// Copies

Work Api::copy_work(void* to, const void* from, std::size_t bytes) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  work.text = "copy " + std::to_string(bytes) + " bytes";
  work.duration = timing::copy(bytes);
  work.effect = [=] { std::memmove(to, from, bytes); };
  return work;
}

CUresult Api::submit_and_wait(Work work) {
  auto where = stream(nullptr);
  if (where->capture) { // the per-thread default stream
    where->capture->invalidated = true;
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  implicit_check(*where);
  unsafe_call();
  wait_for(enqueue(where, std::move(work), {}), "its own work");
  return CUDA_SUCCESS;
}

/// Without a stream, waits for the copy. A device copies pageable memory to a staging buffer during the call,
/// and a copy to pageable memory returns only when it is done.
CUresult Api::copy(void* to, const void* from, std::size_t bytes, const std::shared_ptr<Stream>& where) {
  Work work = copy_work(to, from, bytes);
  if (where == nullptr) return submit_and_wait(std::move(work));
  if (!where->capture && !pinned(from, bytes)) {
    auto staged = std::make_shared<std::vector<std::byte>>(bytes);
    std::memcpy(staged->data(), from, bytes);
    work.effect = [staged, to] { std::memcpy(to, staged->data(), staged->size()); };
  }
  auto operation = submit(where, std::move(work));
  if (operation && !pinned(to, bytes)) wait_for(operation, "its own copy to pageable memory");
  return CUDA_SUCCESS;
}

std::byte* Api::device_memory(CUdeviceptr address, std::size_t bytes) {
  return reachable(static_cast<std::uintptr_t>(address), bytes);
}

template <class Pointer>
Pointer Api::host_memory(Pointer pointer, std::size_t bytes) {
  refuse_if(pointer == nullptr && bytes != 0, CUDA_ERROR_INVALID_VALUE);
  return pointer;
}

/// cuMemcpy tells by the address which memory is allocated. The rest is pageable.
std::byte* Api::any_memory(CUdeviceptr address, std::size_t bytes) {
  auto* const pointer = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
  return pinned(pointer, 0) ? device_memory(address, bytes) : host_memory(pointer, bytes);
}

CUresult Api::cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  const void* const source = host_memory(from, bytes);
  return copy(device_memory(to, bytes), source, bytes, nullptr);
}

CUresult Api::cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  void* const target = host_memory(to, bytes);
  return copy(target, device_memory(from, bytes), bytes, nullptr);
}

CUresult Api::cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy(device_memory(to, bytes), device_memory(from, bytes), bytes, nullptr);
}

CUresult Api::cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy(any_memory(to, bytes), any_memory(from, bytes), bytes, nullptr);
}

CUresult Api::cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream where) {
  auto on = stream(where);
  const void* const source = host_memory(from, bytes);
  return copy(device_memory(to, bytes), source, bytes, on);
}

CUresult Api::cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream where) {
  auto on = stream(where);
  void* const target = host_memory(to, bytes);
  return copy(target, device_memory(from, bytes), bytes, on);
}

CUresult Api::cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream where) {
  auto on = stream(where);
  return copy(device_memory(to, bytes), device_memory(from, bytes), bytes, on);
}

CUresult Api::cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream where) {
  auto on = stream(where);
  return copy(any_memory(to, bytes), any_memory(from, bytes), bytes, on);
}

// Fills

template <class Value>
Work Api::fill_work(CUdeviceptr to, Value value, std::size_t count) {
  const auto address = static_cast<std::uintptr_t>(to);
  refuse_if(address % sizeof(Value) != 0, CUDA_ERROR_INVALID_VALUE);
  auto* const target = reinterpret_cast<Value*>(reachable(address, count * sizeof(Value)));
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMSET;
  work.text = "fill " + std::to_string(count * sizeof(Value)) + " bytes";
  work.duration = timing::fill(count * sizeof(Value));
  work.effect = [=] { std::fill_n(target, count, value); };
  return work;
}

template Work Api::fill_work(CUdeviceptr, unsigned char, std::size_t);
template Work Api::fill_work(CUdeviceptr, unsigned short, std::size_t);
template Work Api::fill_work(CUdeviceptr, unsigned int, std::size_t);

/// A fill of device memory is asynchronous to the host, even in the call without a stream.
template <class Value>
CUresult Api::fill(CUdeviceptr to, Value value, std::size_t count) {
  auto where = stream(nullptr);
  if (where->capture) {
    where->capture->invalidated = true;
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  implicit_check(*where);
  enqueue(where, fill_work(to, value, count), {});
  return CUDA_SUCCESS;
}

CUresult Api::cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return fill(to, value, count);
}
CUresult Api::cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return fill(to, value, count);
}
CUresult Api::cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return fill(to, value, count);
}

CUresult Api::cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream where) {
  submit(stream(where), fill_work(to, value, count));
  return CUDA_SUCCESS;
}

CUresult Api::cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream where) {
  submit(stream(where), fill_work(to, value, count));
  return CUDA_SUCCESS;
}

CUresult Api::cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream where) {
  submit(stream(where), fill_work(to, value, count));
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
