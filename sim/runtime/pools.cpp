// SPDX-License-Identifier: MIT
// Memory pools, what is known about addresses, memory and events of other processes, and copies of rows.
#include "runtime.hpp"

#include <cstddef>

namespace cuevent::sim::runtime {
namespace {

CUdeviceptr address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }
CUdeviceptr* address(void** memory) { return reinterpret_cast<CUdeviceptr*>(memory); }

} // namespace

// Memory pools

RUNTIME Error cudaDeviceGetDefaultMemPool(CUmemoryPool* pool, int device) {
  return with_driver([=] { return cuDeviceGetDefaultMemPool(pool, device); });
}

RUNTIME Error cudaDeviceGetMemPool(CUmemoryPool* pool, int device) {
  return with_driver([=] { return cuDeviceGetMemPool(pool, device); });
}

RUNTIME Error cudaDeviceSetMemPool(int device, CUmemoryPool pool) {
  return with_driver([=] { return cuDeviceSetMemPool(device, pool); });
}

RUNTIME Error cudaMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  return with_context([=] { return cuMemPoolCreate(pool, properties); });
}

RUNTIME Error cudaMemPoolDestroy(CUmemoryPool pool) {
  return with_context([=] { return cuMemPoolDestroy(pool); });
}

RUNTIME Error cudaMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return with_context([=] { return cuMemPoolGetAttribute(pool, attribute, value); });
}

RUNTIME Error cudaMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return with_context([=] { return cuMemPoolSetAttribute(pool, attribute, value); });
}

RUNTIME Error cudaMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* list, std::size_t count) {
  return with_context([=] { return cuMemPoolSetAccess(pool, list, count); });
}

RUNTIME Error cudaMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool pool, CUmemLocation* place) {
  return with_context([=] { return cuMemPoolGetAccess(flags, pool, place); });
}

RUNTIME Error cudaMemPoolTrimTo(CUmemoryPool pool, std::size_t bytes) {
  return with_context([=] { return cuMemPoolTrimTo(pool, bytes); });
}

RUNTIME Error cudaMallocFromPoolAsync(void** memory, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
  return with_context([=] { return cuMemAllocFromPoolAsync(address(memory), bytes, pool, stream); });
}

RUNTIME Error cudaDeviceGetGraphMemAttribute(int device, CUgraphMem_attribute attribute, void* value) {
  return with_driver([=] { return cuDeviceGetGraphMemAttribute(device, attribute, value); });
}

RUNTIME Error cudaDeviceSetGraphMemAttribute(int device, CUgraphMem_attribute attribute, void* value) {
  return with_driver([=] { return cuDeviceSetGraphMemAttribute(device, attribute, value); });
}

RUNTIME Error cudaDeviceGraphMemTrim(int device) {
  return with_driver([=] { return cuDeviceGraphMemTrim(device); });
}

// Addresses

namespace {

struct PointerAttributes { // cudaPointerAttributes
  int type, device;
  void *on_device, *on_host;
#if RUNTIME_VERSION >= 13000
  long reserved[8];
#endif
};

constexpr int on_host = 1, on_device = 2, managed = 3; // cudaMemoryType. 0: unregistered
constexpr int no_device = -2;

} // namespace

RUNTIME Error cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  if (attributes == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_context([=] {
    unsigned type = 0, is_managed = 0;
    int device = no_device;
    CUdeviceptr there = 0;
    void* here = nullptr;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                    CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* values[] = {&type, &is_managed, &device, &there, &here};
    const CUresult result = cuPointerGetAttributes(5, wanted, values, address(pointer));
    if (result != CUDA_SUCCESS) return result;
    *attributes = {};
    attributes->device = no_device;
    attributes->on_host = const_cast<void*>(pointer);
    if (type == 0) return CUDA_SUCCESS;
    attributes->type = is_managed != 0 ? managed : type == CU_MEMORYTYPE_HOST ? on_host : on_device;
    attributes->device = device;
    attributes->on_device = reinterpret_cast<void*>(there);
    attributes->on_host = here;
    return CUDA_SUCCESS;
  });
}

// Other processes

RUNTIME Error cudaIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  return with_context([=] { return cuIpcGetEventHandle(handle, event); });
}

RUNTIME Error cudaIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  return with_context([=] { return cuIpcOpenEventHandle(event, handle); });
}

RUNTIME Error cudaIpcGetMemHandle(CUipcMemHandle* handle, void* memory) {
  return with_context([=] { return cuIpcGetMemHandle(handle, address(memory)); });
}

RUNTIME Error cudaIpcOpenMemHandle(void** memory, CUipcMemHandle handle, unsigned flags) {
  return with_context([=] { return cuIpcOpenMemHandle(address(memory), handle, flags); });
}

RUNTIME Error cudaIpcCloseMemHandle(void* memory) {
  return with_context([=] { return cuIpcCloseMemHandle(address(memory)); });
}

} // namespace cuevent::sim::runtime
