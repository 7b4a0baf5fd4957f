// SPDX-License-Identifier: MIT
// What typical programs ask a driver at their start, in one program that links libcuda.

#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

int line_of_failure = 0;
#define DO(call)                                                                                             \
  if ((call) != CUDA_SUCCESS && line_of_failure == 0) line_of_failure = __LINE__
#define EXPECT(condition)                                                                                    \
  if (!(condition) && line_of_failure == 0) line_of_failure = __LINE__

constexpr char code[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .entry work(.param .u32 a, .param .u64 b) { ret; }
)";

void places_and_limits(CUdevice device) {
  char id[16] = {};
  CUdevice found = -1;
  DO(cuDeviceGetPCIBusId(id, sizeof id, device));
  DO(cuDeviceGetByPCIBusId(&found, id));
  EXPECT(found == device);
  std::size_t stack = 0;
  DO(cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE));
  EXPECT(stack == 1024);
}

// An allocator: a pool that keeps its memory, and where a pointer belongs.
void memory(CUdevice device, CUstream stream) {
  CUmemoryPool pool = nullptr;
  DO(cuDeviceGetDefaultMemPool(&pool, device));
  std::uint64_t keep = ~std::uint64_t{0}, used = 0;
  DO(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  CUdeviceptr first = 0, second = 0;
  DO(cuMemAllocAsync(&first, 1 << 20, stream));
  DO(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  EXPECT(used == 1 << 20);
  DO(cuMemFreeAsync(first, stream));
  DO(cuStreamSynchronize(stream));
  DO(cuMemAllocAsync(&second, 1 << 20, stream));
  EXPECT(first == second);
  CUmemorytype type{};
  DO(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, second + 100));
  EXPECT(type == CU_MEMORYTYPE_DEVICE);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  DO(cuMemGetAddressRange(&base, &bytes, second + 100));
  EXPECT(base == second);
  int pageable = 0;
  EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                               reinterpret_cast<CUdeviceptr>(&pageable)) == CUDA_ERROR_INVALID_VALUE);
  DO(cuMemFreeAsync(second, stream));
}

// Rows go to the device and come back transposed in place.
void copies(CUstream stream) {
  CUdeviceptr device = 0;
  std::size_t pitch = 0;
  DO(cuMemAllocPitch(&device, &pitch, 12, 4, 4));
  EXPECT(pitch == 512);
  std::vector<std::uint32_t> host(12), back(12);
  for (std::uint32_t i = 0; i < 12; ++i)
    host[i] = i;
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = CU_MEMORYTYPE_HOST;
  rows.srcHost = host.data();
  rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.dstDevice = device;
  rows.dstPitch = pitch;
  rows.WidthInBytes = 12;
  rows.Height = 4;
  DO(cuMemcpy2DAsync(&rows, stream));
  rows = {};
  rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = device;
  rows.srcPitch = pitch;
  rows.dstMemoryType = CU_MEMORYTYPE_HOST;
  rows.dstHost = back.data();
  rows.WidthInBytes = 12;
  rows.Height = 4;
  DO(cuMemcpy2DAsync(&rows, stream));
  DO(cuStreamSynchronize(stream));
  EXPECT(host == back);
  DO(cuMemFree(device));
}

void kernels(CUdevice device, CUstream stream) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  DO(cuLibraryLoadData(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0));
  DO(cuLibraryGetKernel(&kernel, library, "work"));
  DO(cuKernelGetFunction(&function, kernel));
  int threads = 0, blocks = 0;
  DO(cuKernelGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, device));
  EXPECT(threads == 1024);
  DO(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 128, 0));
  EXPECT(blocks == 16);
  CUdeviceptr counter = 0;
  std::size_t bytes = 0;
  std::uint32_t value = 0;
  DO(cuLibraryGetGlobal(&counter, &bytes, library, "counter"));
  DO(cuMemcpyDtoH(&value, counter, 4));
  EXPECT(bytes == 4 && value == 7);
  unsigned a = 1;
  CUdeviceptr b = 0;
  void* arguments[] = {&a, &b};
  DO(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr));
  DO(cuStreamSynchronize(stream));
  DO(cuLibraryUnload(library));
}

} // namespace

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  DO(cuInit(0));
  DO(cuDeviceGet(&device, 0));
  DO(cuDevicePrimaryCtxRetain(&context, device));
  DO(cuCtxSetCurrent(context));
  DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  places_and_limits(device);
  memory(device, stream);
  copies(stream);
  kernels(device, stream);
  DO(cuStreamDestroy(stream));
  DO(cuDevicePrimaryCtxRelease(device));
  if (line_of_failure != 0)
    std::fprintf(stderr, "the call or comparison at line %d failed\n", line_of_failure);
  return line_of_failure == 0 ? 0 : 1;
}
