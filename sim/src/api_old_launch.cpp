// SPDX-License-Identifier: MIT
// Launches as before CUDA 4.0. Kernels compute nothing, so only the size of the parameters is kept.

#include "api.hpp"
#include "launch_attributes.hpp"

namespace cuevent::sim {

std::shared_ptr<Function> Api::function_here(CUfunction handle) {
  const auto home = current_context();
  auto found = only_function(handle);
  refuse_if(found->module->home.context != home, CUDA_ERROR_INVALID_HANDLE);
  return found;
}

CUresult Api::cuFuncSetBlockShape(CUfunction handle, int x, int y, int z) {
  constexpr long long most = 1024, most_z = 64;
  const auto function = function_here(handle);
  refuse_if(x <= 0 || y <= 0 || z <= 0 || x > most || y > most || z > most_z ||
                static_cast<long long>(x) * y * z > most,
            CUDA_ERROR_INVALID_VALUE);
  function->old.block[0] = static_cast<unsigned>(x);
  function->old.block[1] = static_cast<unsigned>(y);
  function->old.block[2] = static_cast<unsigned>(z);
  return CUDA_SUCCESS;
}

CUresult Api::cuFuncSetSharedSize(CUfunction handle, unsigned int bytes) {
  const auto function = function_here(handle);
  const int most = most_dynamic_shared(code_of(*function), *function->settings);
  refuse_if(bytes > static_cast<unsigned>(most), CUDA_ERROR_INVALID_VALUE);
  function->old.shared = bytes;
  return CUDA_SUCCESS;
}

CUresult Api::cuParamSetSize(CUfunction handle, unsigned int bytes) {
  constexpr unsigned word = 4, most = 32'764;
  const auto function = function_here(handle);
  const unsigned rounded = (bytes + word - 1) / word * word; // a device does not notice the overflow
  refuse_if(rounded > most, CUDA_ERROR_INVALID_VALUE);
  function->old.parameters = rounded;
  return CUDA_SUCCESS;
}

CUresult Api::set_parameter(CUfunction handle, int offset) {
  constexpr int largest_asked = 4096, most = 32'764;
  function_here(handle);
  refuse_if(offset > most, CUDA_ERROR_INVALID_VALUE);
  if (offset < 0) crash("a parameter has a negative offset");
  if (offset > largest_asked) not_modelled("a parameter this far behind the first");
  return CUDA_SUCCESS;
}

CUresult Api::cuParamSeti(CUfunction handle, int offset, unsigned int) {
  return set_parameter(handle, offset);
}

CUresult Api::cuParamSetf(CUfunction handle, int offset, float) { return set_parameter(handle, offset); }

/// Any length is accepted.
CUresult Api::cuParamSetv(CUfunction handle, int offset, void* bytes, unsigned int) {
  function_here(handle);
  refuse_if(bytes == nullptr, CUDA_ERROR_INVALID_VALUE);
  const Allocation* const of = allocation_of(reinterpret_cast<std::uintptr_t>(bytes));
  if (of != nullptr && !of->host && !of->managed) crash("the parameter is read from memory of the device");
  return set_parameter(handle, offset);
}

/// No capture takes such a launch, even on its own streams.
CUresult Api::old_launch(CUfunction handle, int width, int height, CUstream where) {
  current_context();
  unsafe_call();
  const auto function = function_here(handle);
  const auto on = stream(where);
  const OldLaunch& old = function->old;
  launchable(handle,
             {{static_cast<unsigned>(width), static_cast<unsigned>(height), 1},
              {old.block[0], old.block[1], old.block[2]},
              old.shared},
             on->home.context);
  std::size_t taken = 0;
  for (const auto& one : code_of(*function).parameters)
    taken = one.offset + one.size;
  refuse_if(old.parameters > taken, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  enqueue(on, kernel_work(*function), {});
  return CUDA_SUCCESS;
}

CUresult Api::cuLaunch(CUfunction handle) { return old_launch(handle, 1, 1, CU_STREAM_LEGACY); }

CUresult Api::cuLaunchGrid(CUfunction handle, int width, int height) {
  return old_launch(handle, width, height, CU_STREAM_LEGACY);
}

CUresult Api::cuLaunchGridAsync(CUfunction handle, int width, int height, CUstream where) {
  return old_launch(handle, width, height, where);
}

} // namespace cuevent::sim
