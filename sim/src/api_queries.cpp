// SPDX-License-Identifier: MIT
// Limits, places of devices, and what an address belongs to.

#include "api.hpp"
#include "device_identity.hpp"
#include "memory_pool.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

namespace cuevent::sim {

// Limits

namespace {

/// What a device makes of a wish for a limit.
struct Limit {
  std::size_t initial;
  std::size_t least;
  std::size_t most;
  std::size_t granule;
  CUresult refusal = CUDA_SUCCESS;      ///< of every wish
  std::size_t capped = ~std::size_t{0}; ///< larger wishes get this
};

constexpr std::size_t mebibyte = 1 << 20, much = std::size_t{1} << 40;

const Limit* limit_of(int number) {
  static constexpr Limit limits[] = {
      {1024, 0, much - 1, 16},                       // stack
      {8650752, mebibyte / 2, much - 1, 256},        // printf
      {8 * mebibyte, 4 * mebibyte, much - 1, 65536}, // heap
      {0, 0, 0, 1, CUDA_ERROR_UNSUPPORTED_LIMIT},    // depth of synchronisation
      {2048, 32, much - 1, 1, CUDA_SUCCESS, 599186}, // pending launches
      {64, 0, 128, 1},                               // fetch of the second-level cache
      {9830400, 0, 32768000, 3276800},               // persisting second-level cache
      {232448, 0, 0, 1, CUDA_ERROR_NOT_PERMITTED},   // shared memory
      {0, 0, 0, 1, CUDA_ERROR_NOT_PERMITTED},        // graphics
      {0, 0, 0, 1, CUDA_ERROR_UNSUPPORTED_LIMIT},    // graphics
  };
  refuse_if(number < 0 || number >= static_cast<int>(std::size(limits)), CUDA_ERROR_INVALID_VALUE);
  const Limit& found = limits[number];
  refuse_if(found.refusal == CUDA_ERROR_UNSUPPORTED_LIMIT, found.refusal);
  return &found;
}

} // namespace

CUresult Api::cuCtxGetLimit(size_t* value, CUlimit limit) {
  auto home = current_context();
  refuse_if(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  const Limit* const known = limit_of(limit);
  const auto wish = home->limits.find(limit);
  *value = wish == home->limits.end() ? known->initial : wish->second;
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxSetLimit(CUlimit limit, size_t value) {
  auto home = current_context();
  unsafe_call();
  const Limit* const known = limit_of(limit);
  refuse_if(known->refusal != CUDA_SUCCESS, known->refusal);
  refuse_if(value > known->most, CUDA_ERROR_INVALID_VALUE);
  const std::size_t whole = rounded(value, known->granule);
  std::size_t& now = home->limits.try_emplace(limit, known->initial).first->second;
  // A device keeps a wish for the stack as it is if it rounds to the present size.
  now = limit == CU_LIMIT_STACK_SIZE && whole == now ? value : std::clamp(whole, known->least, known->capped);
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxGetCacheConfig(CUfunc_cache* config) {
  auto home = current_context();
  refuse_if(config == nullptr, CUDA_ERROR_INVALID_VALUE);
  *config = home->cache;
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxSetCacheConfig(CUfunc_cache config) {
  auto home = current_context();
  unsafe_call();
  refuse_if(config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL,
            CUDA_ERROR_INVALID_VALUE);
  home->cache = config;
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxResetPersistingL2Cache() {
  current_context();
  return CUDA_SUCCESS;
}

// Places of devices

CUresult Api::cuDeviceGetPCIBusId(char* id, int room, CUdevice which) {
  refuse_if(id == nullptr, CUDA_ERROR_INVALID_VALUE);
  const int ordinal = device(which);
  if (room < 0) *id = '\0';
  refuse_if(room <= 0, CUDA_ERROR_INVALID_VALUE);
  const std::string full = bus_id_of(computer_.number_of(ordinal));
  std::snprintf(id, static_cast<std::size_t>(room), "%s", full.c_str()); // also if it has no room
  refuse_if(static_cast<std::size_t>(room) <= full.size(), CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

CUresult Api::cuDeviceGetByPCIBusId(CUdevice* out, const char* id) {
  refuse_if(out == nullptr || id == nullptr, CUDA_ERROR_INVALID_VALUE);
  const std::optional<BusPlace> asked = place_of(id);
  refuse_if(!asked, CUDA_ERROR_INVALID_VALUE);
  for (int ordinal = 0; ordinal < computer_.devices(); ++ordinal) {
    if (asked != place_of(bus_id_of(computer_.number_of(ordinal)).c_str())) continue;
    *out = ordinal;
    return CUDA_SUCCESS;
  }
  refuse(CUDA_ERROR_INVALID_DEVICE);
}

CUresult Api::cuDeviceComputeCapability(int* major, int* minor, CUdevice which) {
  refuse_if(major == nullptr || minor == nullptr, CUDA_ERROR_INVALID_VALUE);
  cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, which);
  return cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, which);
}

CUresult Api::cuDeviceCanAccessPeer(int* can, CUdevice from, CUdevice to) {
  refuse_if(can == nullptr, CUDA_ERROR_INVALID_VALUE);
  *can = device(from) != device(to);
  return CUDA_SUCCESS;
}

CUresult Api::cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType, CUdevice which) {
  refuse_if(supported == nullptr, CUDA_ERROR_INVALID_VALUE);
  device(which);
  *supported = 0;
  return CUDA_SUCCESS;
}

CUresult Api::cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute, CUdevice from, CUdevice to) {
  refuse_if(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_if(device(from) == device(to), CUDA_ERROR_INVALID_DEVICE);
  not_modelled("attributes of two devices");
}

// Pointers

namespace {

template <class Value>
void put(void* data, Value value) {
  std::memcpy(data, &value, sizeof value);
}

} // namespace

/// Of memory that is mapped. It has no context, and its range is the reserved one. Attributes that depend on
/// how the memory can be shared were not measured for memory that can be.
bool Api::mapped_attribute(void* data, CUpointer_attribute attribute, const Allocation& of, CUdeviceptr at) {
  const Mapping& mapping = *of.mapping;
  const AddressRange& range = *range_of(of.address);
  const auto& stack = thread().contexts;
  switch (static_cast<int>(attribute)) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    put(data, static_cast<void*>(nullptr));
    return true;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    put(data, int{CU_MEMORYTYPE_DEVICE});
    return true;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    refuse_if(stack.empty(), CUDA_ERROR_INVALID_CONTEXT);
    put(data, at);
    return mapping.allows(CU_MEM_ACCESS_FLAGS_PROT_READ);
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    put(data, CUdeviceptr{0});
    return false;
  case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
    return true;
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
  case CU_POINTER_ATTRIBUTE_MAPPED:
    put(data, 1);
    return true;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    put(data, of.number);
    return true;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    put(data, of.device());
    return true;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    put(data, CUdeviceptr{range.address()});
    return true;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    put(data, range.bytes());
    return true;
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    if (mapping.memory->properties.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
      not_modelled("the types of handles of memory that is mapped");
    put(data, 0ull);
    return true;
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    if (mapping.memory->properties.allocFlags.gpuDirectRDMACapable != 0)
      not_modelled("whether mapped memory can be used by GPUDirect RDMA");
    put(data, 0);
    return true;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
  case 21: // CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE
    put(data, 0);
    return true;
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    put(data, stack.empty() ? 0u : mapping.access_of(stack.back()->device));
    return true;
  case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    put(data, of.bytes);
    return true;
  case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    put(data, CUdeviceptr{of.address});
    return true;
  case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    put(data, mapping.memory->number);
    return true;
  default:
    return false;
  }
}

/// Writes the attribute. If the memory has no such value, writes what the list form gives and returns false.
bool Api::pointer_attribute(void* data, CUpointer_attribute attribute, const Allocation* of, CUdeviceptr at) {
  const bool known = of != nullptr;
  if (known && of->mapping) return mapped_attribute(data, attribute, *of, at);
  const bool plain_device = known && !of->host && !of->managed && !of->pool && !of->imported;
  constexpr std::size_t page = 2 << 20;
  switch (static_cast<int>(attribute)) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    put(data, !known || of->pool ? nullptr : as<CUcontext>(*of->home.context));
    return known;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    put(data, !known ? 0 : of->host ? int{CU_MEMORYTYPE_HOST} : int{CU_MEMORYTYPE_DEVICE});
    return known;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    refuse_if(known && thread().contexts.empty(), CUDA_ERROR_INVALID_CONTEXT);
    put(data, known ? at : CUdeviceptr{0});
    return known;
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    put(data, !known || of->host || of->managed ? at : CUdeviceptr{0});
    return known && (of->host || of->managed);
  case CU_POINTER_ATTRIBUTE_P2P_TOKENS: // for the driver of another device; the simulator has none
    return plain_device;
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    put(data, known ? of->synchronous || of->managed : 0);
    return known;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    put(data, known ? of->number : 0ull);
    return known;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    put(data, known && of->managed ? 1 : 0);
    return known;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    put(data, known ? of->device() : -2);
    return known;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    put(data, known && !of->of_host_pool() ? CUdeviceptr{of->address} : CUdeviceptr{0});
    return known;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    if (known) {
      put(data, of->bytes);
    } else if (const AddressRange* const range = range_of(static_cast<std::uintptr_t>(at));
               range != nullptr) {
      put(data, range->bytes());
    }
    return known;
  case CU_POINTER_ATTRIBUTE_MAPPED:
    put(data, known ? 1 : 0);
    return known;
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    put(data, 0ull);
    return known;
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
  case 21: // CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, since CUDA 12.8
    put(data, plain_device ? 1 : 0);
    return known;
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    put(data, 3);
    return known;
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    put(data, !known || !of->pool ? nullptr : as<CUmemoryPool>(*of->pool));
    return known;
  case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: {
    const bool in_pages = known && (of->made_here() || of->imported);
    const std::size_t piece = !in_pages ? 1 : of->pool ? 16 * page : page;
    if (known) put(data, rounded(of->bytes, piece));
    return known;
  }
  case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: // of pinned memory, somewhere before it
    if (known)
      put(data, CUdeviceptr{of->host && of->memory && !of->pool ? of->address & ~(page - 1) : of->address});
    return known;
  case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    put(data, known ? of->number : 0ull);
    return known;
  default:
    return false;
  }
}

CUresult Api::cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr at) {
  refuse_if(data == nullptr, CUDA_ERROR_INVALID_VALUE);
  alignas(16) std::byte found[16];
  const Allocation* const of = allocation_of(static_cast<std::uintptr_t>(at));
  refuse_if(!pointer_attribute(found, attribute, of, at), CUDA_ERROR_INVALID_VALUE);
  pointer_attribute(data, attribute, of, at);
  return CUDA_SUCCESS;
}

CUresult Api::cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                     CUdeviceptr at) {
  refuse_if(count == 0 || attributes == nullptr || data == nullptr, CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < count; ++i)
    refuse_if(attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT || attributes[i] > 21 || data[i] == nullptr,
              CUDA_ERROR_INVALID_VALUE);
  const Allocation* const of = allocation_of(static_cast<std::uintptr_t>(at));
  for (unsigned i = 0; i < count; ++i)
    pointer_attribute(data[i], attributes[i], of, at);
  return CUDA_SUCCESS;
}

CUresult Api::cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr at) {
  if (base != nullptr) *base = 0;
  if (bytes != nullptr) *bytes = 0;
  current_context();
  const Allocation* of = allocation_of(static_cast<std::uintptr_t>(at));
  if (of != nullptr && of->mapping && !of->mapping->allows(CU_MEM_ACCESS_FLAGS_PROT_READ)) of = nullptr;
  if (base != nullptr) *base = of == nullptr ? 0 : of->address;
  if (bytes != nullptr) *bytes = of == nullptr ? 0 : of->bytes;
  refuse_if(of == nullptr && (base != nullptr || bytes != nullptr), CUDA_ERROR_NOT_FOUND);
  return CUDA_SUCCESS;
}

CUresult Api::cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr at) {
  refuse_if(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  unsafe_call();
  refuse_if(attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CUDA_ERROR_INVALID_VALUE);
  const auto* const of = allocation_of(static_cast<std::uintptr_t>(at));
  refuse_if(of == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_if(of->mapping.has_value(), CUDA_ERROR_NOT_SUPPORTED);
  std::memcpy(&process_.allocations.at(of->address).synchronous, value, sizeof(int));
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
