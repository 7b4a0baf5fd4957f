// SPDX-License-Identifier: MIT
// Launches, and what is known and set about kernels.
#include "in_driver.hpp"
#include "kernels.hpp"
#include "unmodelled.hpp"

#include <cstddef>
#include <cstdint>

namespace cuevent::sim::runtime {
namespace {

struct Size { // dim3
  unsigned x, y, z;
};

/// Calls act with the driver's handle.
template <class Act>
Error with_function(const void* kernel, Act act) {
  return with_context([=] {
    CUfunction function = nullptr;
    const Error found = function_of(kernel, function);
    return found != CUDA_SUCCESS ? found : static_cast<Error>(act(function));
  });
}

struct LaunchConfiguration { // cudaLaunchConfig_t
  Size grid, block;
  std::size_t shared;
  CUstream stream;
  CUlaunchAttribute* attributes;
  unsigned count;
};

CUlaunchConfig for_driver(const LaunchConfiguration& how) {
  CUlaunchConfig config{};
  config.gridDimX = how.grid.x;
  config.gridDimY = how.grid.y;
  config.gridDimZ = how.grid.z;
  config.blockDimX = how.block.x;
  config.blockDimY = how.block.y;
  config.blockDimZ = how.block.z;
  config.sharedMemBytes = static_cast<unsigned>(how.shared);
  config.hStream = how.stream;
  config.attrs = how.attributes;
  config.numAttrs = how.count;
  return config;
}

} // namespace

// Launches

RUNTIME Error cudaLaunchKernel(const void* kernel, Size grid, Size block, void** arguments,
                               std::size_t shared, CUstream stream) {
  return with_context([=] {
    CUfunction function = nullptr;
    if (const Error found = launchable(kernel, function); found != CUDA_SUCCESS) return found;
    return static_cast<Error>(cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                             static_cast<unsigned>(shared), stream, arguments, nullptr));
  });
}

RUNTIME Error cudaLaunchKernelExC(const LaunchConfiguration* how, const void* kernel, void** arguments) {
  if (how == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_context([=] {
    CUfunction function = nullptr;
    if (const Error found = launchable(kernel, function); found != CUDA_SUCCESS) return found;
    const CUlaunchConfig config = for_driver(*how);
    return static_cast<Error>(cuLaunchKernelEx(&config, function, arguments, nullptr));
  });
}

RUNTIME Error cudaLaunchCooperativeKernel(const void* kernel, Size grid, Size block, void** arguments,
                                          std::size_t shared, CUstream stream) {
  return with_context([=] {
    CUfunction function = nullptr;
    if (const Error found = launchable(kernel, function); found != CUDA_SUCCESS) return found;
    return static_cast<Error>(cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x, block.y,
                                                        block.z, static_cast<unsigned>(shared), stream,
                                                        arguments));
  });
}

/// A kernel's handle for the launches that nvcc writes is the address of its host function.
RUNTIME Error __cudaGetKernel(const void** handle, const void* kernel) {
  CUfunction function = nullptr;
  if (const Error found = launchable(kernel, function); found != CUDA_SUCCESS) return told(found);
  *handle = kernel;
  return CUDA_SUCCESS;
}

RUNTIME Error __cudaLaunchKernel(const void* kernel, Size grid, Size block, void** arguments,
                                 std::size_t shared, CUstream stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

// Kernels

namespace {

/// What the calls that only ask for a handle say.
Error found_handle(Error error) { return error == unknown_kernel ? invalid_device_function : error; }

} // namespace

/// A null pointer for the result is no error.
RUNTIME Error cudaGetFuncBySymbol(CUfunction* function, const void* kernel) {
  return with_context([=] {
    CUfunction found = nullptr;
    if (const Error error = function_of(kernel, found); error != CUDA_SUCCESS) return found_handle(error);
    handle_is_known(found, Handle::function);
    if (function != nullptr) *function = found;
    return static_cast<Error>(CUDA_SUCCESS);
  });
}

RUNTIME Error cudaGetKernel(CUkernel* handle, const void* kernel) {
  if (handle == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_context([=] {
    CUfunction found = nullptr;
    const Error error = launchable(kernel, found);
    if (error == CUDA_SUCCESS) *handle = reinterpret_cast<CUkernel>(found);
    return found_handle(error);
  });
}

namespace {

struct FunctionAttributes { // cudaFuncAttributes
  std::size_t shared, constant, local;
  int most_threads, registers, ptx_version, binary_version, cache_mode, most_dynamic_shared, carveout;
  int cluster_is_required, cluster[3], cluster_policy, cluster_beyond;
  int reserved[16];
};

} // namespace

RUNTIME Error cudaFuncGetAttributes(FunctionAttributes* attributes, const void* kernel) {
  if (attributes == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_function(kernel, [=](CUfunction function) {
    CUresult result = CUDA_SUCCESS;
    const auto get = [&](int attribute) {
      int value = 0;
      if (result == CUDA_SUCCESS)
        result = cuFuncGetAttribute(&value, static_cast<CUfunction_attribute>(attribute), function);
      return value;
    };
    FunctionAttributes all{};
    all.most_threads = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    all.shared = static_cast<std::size_t>(get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    all.constant = static_cast<std::size_t>(get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
    all.local = static_cast<std::size_t>(get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
    all.registers = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
    all.ptx_version = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
    all.binary_version = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
    all.cache_mode = get(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
    all.most_dynamic_shared = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    all.carveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
    all.cluster_is_required = get(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET);
    for (int i = 0; i < 3; ++i)
      all.cluster[i] = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i);
    all.cluster_beyond = get(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
    all.cluster_policy = get(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
    if (result == CUDA_SUCCESS) *attributes = all;
    return result;
  });
}

RUNTIME Error cudaFuncSetAttribute(const void* kernel, CUfunction_attribute attribute, int value) {
  return with_function(kernel,
                       [=](CUfunction function) { return cuFuncSetAttribute(function, attribute, value); });
}

RUNTIME Error cudaFuncSetCacheConfig(const void* kernel, CUfunc_cache config) {
  return with_function(kernel, [=](CUfunction function) { return cuFuncSetCacheConfig(function, config); });
}

RUNTIME Error cudaKernelSetAttributeForDevice(CUkernel kernel, CUfunction_attribute attribute, int value,
                                              int device) {
  return with_context([=] { return cuKernelSetAttribute(attribute, value, kernel, device); });
}

RUNTIME Error cudaFuncGetName(const char** name, const void* kernel) {
  return with_function(kernel, [=](CUfunction function) {
    return in_driver<CUresult(const char**, CUfunction)>("cuFuncGetName", 12030, name, function);
  });
}

RUNTIME Error cudaFuncGetParamInfo(const void* kernel, std::size_t index, std::size_t* offset,
                                   std::size_t* bytes) {
  return with_function(kernel, [=](CUfunction function) {
    return in_driver<CUresult(CUfunction, std::size_t, std::size_t*, std::size_t*)>(
        "cuFuncGetParamInfo", 12040, function, index, offset, bytes);
  });
}

// Occupancy

RUNTIME Error cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* kernel,
                                                                     int threads, std::size_t shared,
                                                                     unsigned flags) {
  return with_function(kernel, [=](CUfunction function) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, flags);
  });
}

RUNTIME Error cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads,
                                                            std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, shared, 0);
}

RUNTIME Error cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* shared, const void* kernel, int blocks,
                                                        int threads) {
  return with_function(kernel, [=](CUfunction function) {
    return cuOccupancyAvailableDynamicSMemPerBlock(shared, function, blocks, threads);
  });
}

RUNTIME Error cudaOccupancyMaxActiveClusters(int* clusters, const void* kernel,
                                             const LaunchConfiguration* how) {
  if (how == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_function(kernel, [=](CUfunction function) {
    const CUlaunchConfig config = for_driver(*how);
    return cuOccupancyMaxActiveClusters(clusters, function, &config);
  });
}

RUNTIME Error cudaOccupancyMaxPotentialClusterSize(int* size, const void* kernel,
                                                   const LaunchConfiguration* how) {
  if (how == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_function(kernel, [=](CUfunction function) {
    const CUlaunchConfig config = for_driver(*how);
    return cuOccupancyMaxPotentialClusterSize(size, function, &config);
  });
}

} // namespace cuevent::sim::runtime
