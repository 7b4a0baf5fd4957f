// SPDX-License-Identifier: MIT
// What is known and set about devices, and the functions of the driver that a program looks up.
#include "runtime.hpp"

#include <cstddef>

// As in cudaProfiler.h, which not every installation has.
extern "C" CUresult CUDAAPI cuProfilerStart();
extern "C" CUresult CUDAAPI cuProfilerStop();

namespace cuevent::sim::runtime {

RUNTIME Error cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return with_driver([=] { return cuDeviceCanAccessPeer(can, device, peer); });
}

namespace {

/// The peer is named by its number, and the driver wants its primary context.
template <class Call>
Error with_peer(int peer, Call call) {
  return with_context([=] {
    CUdevice device = 0;
    CUcontext context = nullptr;
    CUresult result = cuDeviceGet(&device, peer);
    if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context, device);
    if (result != CUDA_SUCCESS) return result;
    result = call(context);
    cuDevicePrimaryCtxRelease(device);
    return result;
  });
}

} // namespace

RUNTIME Error cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return with_peer(peer, [=](CUcontext context) { return cuCtxEnablePeerAccess(context, flags); });
}

RUNTIME Error cudaDeviceDisablePeerAccess(int peer) {
  return with_peer(peer, [](CUcontext context) { return cuCtxDisablePeerAccess(context); });
}

RUNTIME Error cudaDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, int from, int to) {
  return with_driver([=] { return cuDeviceGetP2PAttribute(value, attribute, from, to); });
}

RUNTIME Error cudaDeviceGetPCIBusId(char* text, int room, int device) {
  return with_driver([=] { return cuDeviceGetPCIBusId(text, room, device); });
}

RUNTIME Error cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return with_driver([=] { return cuDeviceGetByPCIBusId(device, text); });
}

RUNTIME Error cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return with_context([=] { return cuCtxGetStreamPriorityRange(least, greatest); });
}

RUNTIME Error cudaDeviceGetLimit(std::size_t* value, CUlimit limit) {
  return with_context([=] { return cuCtxGetLimit(value, limit); });
}

RUNTIME Error cudaDeviceSetLimit(CUlimit limit, std::size_t value) {
  return with_context([=] { return cuCtxSetLimit(limit, value); });
}

RUNTIME Error cudaDeviceGetCacheConfig(CUfunc_cache* config) {
  return with_context([=] { return cuCtxGetCacheConfig(config); });
}

RUNTIME Error cudaDeviceSetCacheConfig(CUfunc_cache config) {
  return with_context([=] { return cuCtxSetCacheConfig(config); });
}

RUNTIME Error cudaProfilerStart() {
  return with_context([] { return cuProfilerStart(); });
}

RUNTIME Error cudaProfilerStop() {
  return with_context([] { return cuProfilerStop(); });
}

// The driver's functions

/// A name that is not found is a success, with a null pointer.
RUNTIME Error cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                               unsigned long long flags,
                                               CUdriverProcAddressQueryResult* status) {
  constexpr unsigned long long per_thread_stream = 2, both_streams = 3;
  return with_driver([=] {
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (*name == '\0') { // the driver has an answer
      *function = nullptr;
      if (status != nullptr) *status = found;
      return CUDA_SUCCESS;
    }
    const CUresult result = cuGetProcAddress(name, function, static_cast<int>(version),
                                             flags == both_streams ? per_thread_stream : flags, &found);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_FOUND) return result;
    if (result == CUDA_ERROR_NOT_FOUND) *function = nullptr;
    if (status != nullptr) *status = found;
    return CUDA_SUCCESS;
  });
}

RUNTIME Error cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                      CUdriverProcAddressQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(name, function, RUNTIME_VERSION, flags, status);
}

} // namespace cuevent::sim::runtime
