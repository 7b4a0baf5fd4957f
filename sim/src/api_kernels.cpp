// SPDX-License-Identifier: MIT
// What kernels need, and how many of them fit on a multiprocessor. There is no compiler, so registers are not
// known.

#include "api.hpp"
#include "launch_attributes.hpp"

#include <algorithm>
#include <limits>

namespace cuevent::sim {

namespace {

// Of one multiprocessor and one block, as the attributes of the device say.
constexpr int most_blocks = 32, most_threads_of_processor = 2048, most_threads_of_block = 1024, warp = 32;
constexpr std::size_t shared_of_processor = 233'472, shared_of_block = 232'448, plain_shared = 49'152;
constexpr std::size_t shared_granule = 128;

} // namespace

const KernelCode& Api::code_of(const Code& code, const std::string& name) {
  static const KernelCode unknown;
  const auto found = code.image.kernels.find(name);
  return found == code.image.kernels.end() ? unknown : found->second;
}

/// What was set counts more than what the code says. Zeros: none is required.
std::array<int, 3> Api::required_cluster(const KernelCode& code, const KernelSettings& settings) {
  const int* const found = settings.cluster[0] != 0 ? settings.cluster : code.cluster;
  return {found[0], found[1], found[2]};
}

int Api::most_dynamic_shared(const KernelCode& code, const KernelSettings& settings) {
  return settings.dynamic_shared >= 0 ? settings.dynamic_shared
                                      : static_cast<int>(plain_shared - code.shared);
}

/// The bound of a kernel on its threads plays no part.
int Api::blocks_that_fit(const Function& function, int threads, std::size_t dynamic) {
  const KernelCode& code = code_of(function);
  const int warps = (threads + warp - 1) / warp;
  if (threads > most_threads_of_block ||
      dynamic > static_cast<std::size_t>(most_dynamic_shared(code, *function.settings)))
    return 0;
  const std::size_t granules = (dynamic + code.shared + shared_granule - 1) / shared_granule;
  const std::size_t shared = granules * shared_granule + reserved_shared;
  return std::min({most_blocks, most_threads_of_processor / (warps * warp),
                   static_cast<int>(shared_of_processor / shared)});
}

/// For a cooperative launch. A device rounds the shared memory up with 32 bits, and finds room for the
/// overflow.
bool Api::runs_at_once(const Function& function, const LaunchShape& shape) {
  constexpr unsigned last_to_round = std::numeric_limits<unsigned>::max() - (shared_granule - 1);
  const unsigned shared = shape.shared > last_to_round ? 0 : shape.shared;
  const unsigned threads = shape.block[0] * shape.block[1] * shape.block[2];
  const int fit = blocks_that_fit(function, static_cast<int>(threads), shared);
  return 1ULL * shape.grid[0] * shape.grid[1] * shape.grid[2] <=
         static_cast<unsigned long long>(fit) * multiprocessors;
}

CUresult Api::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction handle,
                                                                   int threads, size_t dynamic,
                                                                   unsigned flags) {
  current_context();
  refuse_if(blocks == nullptr || flags > 1, CUDA_ERROR_INVALID_VALUE);
  const auto function = callable(handle);
  refuse_if(threads <= 0, CUDA_ERROR_INVALID_VALUE);
  *blocks = blocks_that_fit(*function, threads, dynamic);
  return CUDA_SUCCESS;
}

CUresult Api::cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle, int threads,
                                                          size_t dynamic) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, threads, dynamic, 0);
}

/// The largest block with the most threads on a multiprocessor.
CUresult Api::cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* threads, CUfunction handle,
                                                        CUoccupancyB2DSize shared_of, size_t dynamic,
                                                        int limit, unsigned flags) {
  current_context();
  refuse_if(grid == nullptr || threads == nullptr || flags > 1, CUDA_ERROR_INVALID_VALUE);
  const auto function = callable(handle);
  refuse_if(limit < 0, CUDA_ERROR_INVALID_VALUE);
  const int bound = code_of(*function).most_threads;
  const int largest = limit > 0 ? std::min(limit, bound) : bound;
  *grid = *threads = 0;
  int best = 0;
  for (int size = (largest + warp - 1) / warp * warp; size > 0; size -= warp) {
    const int tried = std::min(size, largest);
    const int fit = blocks_that_fit(*function, tried, shared_of != nullptr ? shared_of(tried) : dynamic);
    if (fit * tried <= best) continue;
    best = fit * tried;
    *threads = tried;
    *grid = fit * multiprocessors;
  }
  return CUDA_SUCCESS;
}

CUresult Api::cuOccupancyMaxPotentialBlockSize(int* grid, int* threads, CUfunction handle,
                                               CUoccupancyB2DSize shared_of, size_t dynamic, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, threads, handle, shared_of, dynamic, limit, 0);
}

CUresult Api::cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamic, CUfunction handle, int blocks,
                                                      int threads) {
  current_context();
  refuse_if(blocks <= 0, CUDA_ERROR_INVALID_VALUE);
  const auto function = callable(handle);
  refuse_if(threads <= 0, CUDA_ERROR_INVALID_VALUE);
  const KernelCode& code = code_of(*function);
  refuse_if(blocks > blocks_that_fit(*function, threads, 0), CUDA_ERROR_INVALID_VALUE);
  const std::size_t each =
      shared_of_processor / static_cast<std::size_t>(blocks) / shared_granule * shared_granule;
  if (dynamic == nullptr) crash("there is no place for the size of the shared memory");
  *dynamic = std::min(each > code.shared ? each - code.shared : 0,
                      static_cast<std::size_t>(most_dynamic_shared(code, *function->settings)));
  return CUDA_SUCCESS;
}

/// There is no compiler, so the number of registers is one for all kernels, and none has local memory.
CUresult Api::kernel_attribute(int* value, CUfunction_attribute attribute, const Code& image,
                               const std::string& name, const KernelSettings& settings) {
  constexpr int architecture = 90;
  const KernelCode& code = code_of(image, name);
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = code.most_threads;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    *value = static_cast<int>(code.shared);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    *value = 0;
    for (const auto& [variable, one] : image.image.variables)
      if (one.constant) *value += static_cast<int>(one.bytes);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    *value = code.registers;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    *value = image.image.target;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    *value = architecture;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *value = most_dynamic_shared(code, settings);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    *value = settings.carveout;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    *value = settings.cluster_beyond;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    *value = settings.cluster_policy;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    *value = required_cluster(code, settings)[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    *value = code.explicit_cluster;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    *value = static_cast<int>(code.local);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    *value = 0;
    return CUDA_SUCCESS;
  default:
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

CUresult Api::set_kernel_attribute(CUfunction_attribute attribute, int value, const KernelCode& code,
                                   KernelSettings& settings) {
  switch (attribute) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    refuse_if(value < 0 || static_cast<std::size_t>(value) + code.shared > shared_of_block,
              CUDA_ERROR_INVALID_VALUE);
    settings.dynamic_shared = value;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    refuse_if(value < -1 || value > 100, CUDA_ERROR_INVALID_VALUE);
    settings.carveout = value;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    settings.cluster_beyond = value;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    refuse_if(value < 0 || value > 2, CUDA_ERROR_INVALID_VALUE);
    settings.cluster_policy = value;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    refuse_if(value < 0, CUDA_ERROR_INVALID_VALUE);
    if (value > 1) not_modelled("launches in clusters of blocks");
    settings.cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = value;
    return CUDA_SUCCESS;
  default:
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

CUresult Api::cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  refuse_if(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto of = only_function(handle);
#if CUDA_VERSION >= 12040
  refuse_if(!of->loaded && (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ||
                            attribute == CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES ||
                            attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
            CUDA_ERROR_FUNCTION_NOT_LOADED);
#endif
  return kernel_attribute(value, attribute, *of->module->code, of->name, *of->settings);
}

CUresult Api::cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  const auto of = only_function(handle);
  const int number = attribute;
  if (number < 0) crash("there is no function attribute " + std::to_string(number));
  return set_kernel_attribute(attribute, value, code_of(*of), *of->settings);
}

CUresult Api::cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config) {
  only_function(handle);
  refuse_if(config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL,
            CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

KernelSettings& Api::settings_of(const LibraryKernel& kernel) {
  auto& settings = kernel.library->settings[kernel.name];
  if (!settings) settings = std::make_shared<KernelSettings>();
  return *settings;
}

CUresult Api::cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel handle,
                                   CUdevice which) {
  const auto of = kernel(handle);
  refuse_if(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  device(which);
  return kernel_attribute(value, attribute, *of->library->code, of->name, settings_of(*of));
}

CUresult Api::cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                                   CUdevice which) {
  const auto of = kernel(handle);
  device(which);
  return set_kernel_attribute(attribute, value, code_of(*of->library->code, of->name), settings_of(*of));
}

CUresult Api::cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice which) {
  kernel(handle);
  device(which);
  refuse_if(config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL,
            CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
