// SPDX-License-Identifier: MIT
#include "runtime.hpp"
#include "in_driver.hpp"

#include <cctype>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

namespace cuevent::sim::runtime {
namespace {

thread_local Error last_error = CUDA_SUCCESS;

/// The primary contexts that this runtime has retained, by device. The process keeps them until a reset.
class Primaries {
public:
  CUresult make_current(int ordinal) {
    const std::lock_guard lock(mutex_);
    return retain(ordinal);
  }

  CUresult reset(CUdevice device) {
    const CUresult result = cuDevicePrimaryCtxReset(device);
    const std::lock_guard lock(mutex_);
    CUcontext const gone = std::exchange(contexts_[device], nullptr);
    if (gone != nullptr) were_reset_.insert(gone);
    return result;
  }

  /// A reset context is current to the threads that had it. Retains it again, with the same handle.
  CUresult revive(CUcontext current) {
    const std::lock_guard lock(mutex_);
    if (were_reset_.empty() || were_reset_.count(current) == 0) return CUDA_SUCCESS;
    CUdevice device = 0;
    CUresult result = cuCtxGetDevice(&device);
    if (result == CUDA_SUCCESS) result = retain(device);
    if (result == CUDA_SUCCESS) were_reset_.erase(current);
    return result;
  }

private:
  CUresult retain(int ordinal) {
    CUcontext& context = contexts_[ordinal];
    if (context == nullptr) {
      CUdevice device = 0;
      CUresult result = cuDeviceGet(&device, ordinal);
      if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context, device);
      if (result != CUDA_SUCCESS) return result;
    }
    return cuCtxSetCurrent(context);
  }

  std::mutex mutex_;
  std::map<int, CUcontext> contexts_;
  std::set<CUcontext> were_reset_;
};

Primaries& primaries() {
  static auto& all = *new Primaries; // destructors of the program may still call the runtime
  return all;
}

/// The names that do not follow from the driver's.
constexpr std::pair<Error, const char*> names[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, "cudaErrorMemoryAllocation"},
    {CUDA_ERROR_NOT_INITIALIZED, "cudaErrorInitializationError"},
    {CUDA_ERROR_DEINITIALIZED, "cudaErrorCudartUnloading"},
    {invalid_configuration, "cudaErrorInvalidConfiguration"},
    {invalid_pitch, "cudaErrorInvalidPitchValue"},
    {invalid_symbol, "cudaErrorInvalidSymbol"},
    {invalid_copy_direction, "cudaErrorInvalidMemcpyDirection"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "cudaErrorDevicesUnavailable"},
    {missing_configuration, "cudaErrorMissingConfiguration"},
    {invalid_device_function, "cudaErrorInvalidDeviceFunction"},
    {CUDA_ERROR_INVALID_IMAGE, "cudaErrorInvalidKernelImage"},
    {CUDA_ERROR_INVALID_CONTEXT, "cudaErrorDeviceUninitialized"},
    {CUDA_ERROR_MAP_FAILED, "cudaErrorMapBufferObjectFailed"},
    {CUDA_ERROR_UNMAP_FAILED, "cudaErrorUnmapBufferObjectFailed"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "cudaErrorNoKernelImageForDevice"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, "cudaErrorECCUncorrectable"},
    {CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "cudaErrorDeviceAlreadyInUse"},
    {CUDA_ERROR_INVALID_HANDLE, "cudaErrorInvalidResourceHandle"},
    {CUDA_ERROR_NOT_FOUND, "cudaErrorSymbolNotFound"},
    {CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cudaErrorSetOnActiveProcess"},
    {CUDA_ERROR_LAUNCH_FAILED, "cudaErrorLaunchFailure"},
};
constexpr const char* unknown = "unrecognized error code";

/// CUDA_ERROR_NOT_READY becomes cudaErrorNotReady.
std::string name_from_driver(std::string_view name) {
  std::string text = "cuda";
  bool begins = false; // a word
  for (const char letter : name.substr(name.find('_'))) {
    if (letter == '_')
      begins = true;
    else
      text += begins ? letter : static_cast<char>(std::tolower(letter));
    if (letter != '_') begins = false;
  }
  return text;
}

} // namespace

Error told(Error error) {
  if (error != CUDA_SUCCESS && error != CUDA_ERROR_NOT_READY) last_error = error; // as on a device
  return error;
}

CUresult start() {
  static const CUresult started = cuInit(0);
  return started;
}

CUresult ready_for_events() {
  CUcontext current = nullptr;
  if (const CUresult started = start(); started != CUDA_SUCCESS) return started;
  if (cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) return CUDA_SUCCESS;
  return primaries().make_current(0);
}

CUresult ready() {
  CUcontext current = nullptr;
  if (const CUresult some = ready_for_events(); some != CUDA_SUCCESS) return some;
  return cuCtxGetCurrent(&current) == CUDA_SUCCESS ? primaries().revive(current) : CUDA_SUCCESS;
}

// Errors

RUNTIME Error cudaGetLastError() { return std::exchange(last_error, CUDA_SUCCESS); }
RUNTIME Error cudaPeekAtLastError() { return last_error; }

RUNTIME const char* cudaGetErrorName(Error error) {
  static std::mutex mutex;
  static std::map<Error, std::string> known(std::begin(names), std::end(names));
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(error); found != known.end()) return found->second.c_str();
  const char* name = nullptr;
  if (cuGetErrorName(static_cast<CUresult>(error), &name) != CUDA_SUCCESS) return unknown;
  return (known[error] = name_from_driver(name)).c_str();
}

RUNTIME const char* cudaGetErrorString(Error error) {
  const char* text = nullptr;
  if (error == invalid_configuration) return "invalid configuration argument";
  if (error == invalid_pitch) return "invalid pitch argument";
  if (error == invalid_symbol) return "invalid device symbol";
  if (error == invalid_copy_direction) return "invalid copy direction for memcpy";
  if (error == missing_configuration) return "__global__ function call is not configured";
  if (error == invalid_device_function) return "invalid device function";
  return cuGetErrorString(static_cast<CUresult>(error), &text) == CUDA_SUCCESS ? text : unknown;
}

// Devices

RUNTIME Error cudaDriverGetVersion(int* version) { return told(cuDriverGetVersion(version)); }

RUNTIME Error cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  *version = RUNTIME_VERSION;
  return CUDA_SUCCESS;
}

RUNTIME Error cudaGetDeviceCount(int* count) {
  return with_driver([=] { return cuDeviceGetCount(count); });
}

RUNTIME Error cudaSetDevice(int device) {
  return with_driver([=] { return primaries().make_current(device); });
}

RUNTIME Error cudaGetDevice(int* device) {
  if (device == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_context([=] { return cuCtxGetDevice(device); });
}

RUNTIME Error cudaDeviceSynchronize() {
  return with_context([] { return cuCtxSynchronize(); });
}

/// Of the current context's device, or of the first one.
RUNTIME Error cudaDeviceReset() {
  return with_driver([] {
    CUdevice device = 0;
    const CUresult found = cuCtxGetDevice(&device);
    return found == CUDA_SUCCESS || found == CUDA_ERROR_INVALID_CONTEXT ? primaries().reset(device) : found;
  });
}

RUNTIME Error cudaDeviceGetAttribute(int* value, CUdevice_attribute attribute, int device) {
  return with_driver([=] { return cuDeviceGetAttribute(value, attribute, device); });
}

// Memory

RUNTIME Error cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return with_context([=] { return cuMemGetInfo(free, total); });
}

RUNTIME Error cudaMalloc(void** memory, std::size_t bytes) {
  if (memory == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  *memory = nullptr;
  if (bytes == 0) return told(ready());
  return with_context([=] { return cuMemAlloc(reinterpret_cast<CUdeviceptr*>(memory), bytes); });
}

RUNTIME Error cudaMallocManaged(void** memory, std::size_t bytes, unsigned flags) {
  return with_context(
      [=] { return cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(memory), bytes, flags); });
}

RUNTIME Error cudaMallocPitch(void** memory, std::size_t* pitch, std::size_t width, std::size_t height) {
  return with_context(
      [=] { return cuMemAllocPitch(reinterpret_cast<CUdeviceptr*>(memory), pitch, width, height, 4); });
}

RUNTIME Error cudaMallocAsync(void** memory, std::size_t bytes, CUstream stream) {
  return with_context([=] { return cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(memory), bytes, stream); });
}

RUNTIME Error cudaFree(void* memory) {
  return with_context(
      [=] { return memory == nullptr ? CUDA_SUCCESS : cuMemFree(reinterpret_cast<CUdeviceptr>(memory)); });
}

RUNTIME Error cudaFreeAsync(void* memory, CUstream stream) {
  return with_context([=] { return cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(memory), stream); });
}

RUNTIME Error cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  if (memory != nullptr && bytes == 0) return told(ready());
  return with_context([=] { return cuMemHostAlloc(memory, bytes, flags); });
}

RUNTIME Error cudaMallocHost(void** memory, std::size_t bytes) { return cudaHostAlloc(memory, bytes, 0); }

RUNTIME Error cudaFreeHost(void* memory) {
  return with_context([=] { return memory == nullptr ? CUDA_SUCCESS : cuMemFreeHost(memory); });
}

RUNTIME Error cudaHostRegister(void* memory, std::size_t bytes, unsigned flags) {
  return with_context([=] { return cuMemHostRegister(memory, bytes, flags); });
}

RUNTIME Error cudaHostUnregister(void* memory) {
  return with_context([=] { return cuMemHostUnregister(memory); });
}

RUNTIME Error cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return with_context(
      [=] { return cuMemHostGetDevicePointer(reinterpret_cast<CUdeviceptr*>(device), host, flags); });
}

namespace {

/// Addresses are unified, so the direction is only checked.
template <class Copy>
Error copied(std::size_t bytes, int direction, Copy copy) {
  if (bytes != 0 && (direction < 0 || direction > 4)) return told(invalid_copy_direction);
  return with_context([=] { return bytes == 0 ? CUDA_SUCCESS : copy(); });
}

CUdeviceptr address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

/// The answer of a copy of a line. The driver must know the memory that the direction says is of a device.
template <class Copy>
Error copied_line(const void* to, const void* from, std::size_t bytes, int direction, Copy copy) {
  const auto is_known = [](const void* memory) {
    unsigned type = 0;
    return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(memory)) == CUDA_SUCCESS;
  };
  const bool to_device = direction == 1 || direction == 3, from_device = direction == 2 || direction == 3;
  return copied(bytes, direction, [=] {
    if ((to_device && !is_known(to)) || (from_device && !is_known(from))) return CUDA_ERROR_INVALID_VALUE;
    return copy();
  });
}

} // namespace

RUNTIME Error cudaMemcpy(void* to, const void* from, std::size_t bytes, int direction) {
  return copied_line(to, from, bytes, direction, [=] { return cuMemcpy(address(to), address(from), bytes); });
}

RUNTIME Error cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int direction, CUstream stream) {
  return copied_line(to, from, bytes, direction,
                     [=] { return cuMemcpyAsync(address(to), address(from), bytes, stream); });
}

namespace {

CUDA_MEMCPY2D rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                   std::size_t width, std::size_t height) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = address(from);
  copy.srcPitch = from_pitch;
  copy.dstDevice = address(to);
  copy.dstPitch = to_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

CUresult primary_of(CUcontext& context, int ordinal) {
  CUdevice device = 0;
  CUresult result = cuDeviceGet(&device, ordinal);
  if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context, device);
  if (result == CUDA_SUCCESS) cuDevicePrimaryCtxRelease(device); // as long as the process uses the device
  return result;
}

} // namespace

RUNTIME Error cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                           std::size_t width, std::size_t height, int direction) {
  if (width > to_pitch || width > from_pitch) return told(invalid_pitch);
  return copied(width * height, direction, [=] {
    const CUDA_MEMCPY2D copy = rows(to, to_pitch, from, from_pitch, width, height);
    return cuMemcpy2DUnaligned(&copy);
  });
}

RUNTIME Error cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                std::size_t width, std::size_t height, int direction, CUstream stream) {
  if (width > to_pitch || width > from_pitch) return told(invalid_pitch);
  return copied(width * height, direction, [=] {
    const CUDA_MEMCPY2D copy = rows(to, to_pitch, from, from_pitch, width, height);
    return cuMemcpy2DAsync(&copy, stream);
  });
}

RUNTIME Error cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, std::size_t bytes) {
  return with_context([=] {
    CUcontext target = nullptr, source = nullptr;
    CUresult result = primary_of(target, to_device);
    if (result == CUDA_SUCCESS) result = primary_of(source, from_device);
    return result != CUDA_SUCCESS ? result : cuMemcpyPeer(address(to), target, address(from), source, bytes);
  });
}

RUNTIME Error cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                  std::size_t bytes, CUstream stream) {
  return with_context([=] {
    CUcontext target = nullptr, source = nullptr;
    CUresult result = primary_of(target, to_device);
    if (result == CUDA_SUCCESS) result = primary_of(source, from_device);
    return result != CUDA_SUCCESS
               ? result
               : cuMemcpyPeerAsync(address(to), target, address(from), source, bytes, stream);
  });
}

RUNTIME Error cudaMemset(void* memory, int value, std::size_t bytes) {
  return with_context([=] {
    return bytes == 0 ? CUDA_SUCCESS : cuMemsetD8(address(memory), static_cast<unsigned char>(value), bytes);
  });
}

RUNTIME Error cudaMemsetAsync(void* memory, int value, std::size_t bytes, CUstream stream) {
  return with_context(
      [=] { return cuMemsetD8Async(address(memory), static_cast<unsigned char>(value), bytes, stream); });
}

// Streams

RUNTIME Error cudaStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return with_context([=] { return cuStreamCreateWithPriority(stream, flags, priority); });
}

RUNTIME Error cudaStreamCreateWithFlags(CUstream* stream, unsigned flags) {
  return with_context([=] { return cuStreamCreate(stream, flags); });
}

RUNTIME Error cudaStreamCreate(CUstream* stream) { return cudaStreamCreateWithFlags(stream, 0); }

RUNTIME Error cudaStreamDestroy(CUstream stream) {
  return with_context([=] { return cuStreamDestroy(stream); });
}

RUNTIME Error cudaStreamQuery(CUstream stream) {
  return with_context([=] { return cuStreamQuery(stream); });
}

RUNTIME Error cudaStreamSynchronize(CUstream stream) {
  return with_context([=] { return cuStreamSynchronize(stream); });
}

RUNTIME Error cudaStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return with_context([=] { return cuStreamWaitEvent(stream, event, flags); });
}

RUNTIME Error cudaLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return with_context([=] { return cuLaunchHostFunc(stream, function, data); });
}

RUNTIME Error cudaStreamAddCallback(CUstream stream, CUstreamCallback function, void* data, unsigned flags) {
  return with_context([=] { return cuStreamAddCallback(stream, function, data, flags); });
}

RUNTIME Error cudaStreamGetPriority(CUstream stream, int* priority) {
  return with_context([=] { return cuStreamGetPriority(stream, priority); });
}

RUNTIME Error cudaStreamGetFlags(CUstream stream, unsigned* flags) {
  return with_context([=] { return cuStreamGetFlags(stream, flags); });
}

RUNTIME Error cudaStreamGetId(CUstream stream, unsigned long long* id) {
  return with_context([=] { return cuStreamGetId(stream, id); });
}

RUNTIME Error cudaStreamGetDevice(CUstream stream, int* device) {
  return with_context(
      [=] { return in_driver<CUresult(CUstream, CUdevice*)>("cuStreamGetDevice", 12080, stream, device); });
}

RUNTIME Error cudaStreamCopyAttributes(CUstream to, CUstream from) {
  return with_context([=] { return cuStreamCopyAttributes(to, from); });
}

RUNTIME Error cudaStreamGetAttribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  return with_context([=] { return cuStreamGetAttribute(stream, attribute, value); });
}

RUNTIME Error cudaStreamSetAttribute(CUstream stream, CUstreamAttrID attribute,
                                     const CUstreamAttrValue* value) {
  return with_context([=] { return cuStreamSetAttribute(stream, attribute, value); });
}

RUNTIME Error cudaStreamAttachMemAsync(CUstream stream, void* memory, std::size_t bytes, unsigned flags) {
  return with_context([=] { return cuStreamAttachMemAsync(stream, address(memory), bytes, flags); });
}

// Events

RUNTIME Error cudaEventCreateWithFlags(CUevent* event, unsigned flags) {
  return with_context([=] { return cuEventCreate(event, flags); });
}

RUNTIME Error cudaEventCreate(CUevent* event) { return cudaEventCreateWithFlags(event, 0); }

RUNTIME Error cudaEventDestroy(CUevent event) {
  return with_event([=] { return cuEventDestroy(event); });
}

RUNTIME Error cudaEventRecord(CUevent event, CUstream stream) {
  return with_event([=] { return cuEventRecord(event, stream); });
}

RUNTIME Error cudaEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return with_event([=] { return cuEventRecordWithFlags(event, stream, flags); });
}

RUNTIME Error cudaEventQuery(CUevent event) {
  return with_event([=] { return cuEventQuery(event); });
}

RUNTIME Error cudaEventSynchronize(CUevent event) {
  return with_event([=] { return cuEventSynchronize(event); });
}

RUNTIME Error cudaEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return with_event([=] { return cuEventElapsedTime(milliseconds, start, end); });
}

// Programs that were compiled with CUDA 12.8 or a later 12 use this name.
RUNTIME Error cudaEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return cudaEventElapsedTime(milliseconds, start, end);
}

} // namespace cuevent::sim::runtime
