// SPDX-License-Identifier: MIT
// A driver of empty functions, to count what cuevent itself does.
#pragma once

#include <cuevent/driver.hpp>

#include <cstring>

namespace empty {

/// A driver function that only succeeds.
template <class Function>
struct Empty;
template <class... Arguments>
struct Empty<CUresult (*)(Arguments...)> {
  [[gnu::noinline]] static CUresult call(Arguments...) { return CUDA_SUCCESS; }
};

inline CUresult driver_version(int* version) { return *version = 13000, CUDA_SUCCESS; }
inline CUcontext const context_handle = reinterpret_cast<CUcontext>(0xc0);
/// The handle that cuCtxGetCurrent answers.
inline CUcontext current = context_handle;
inline CUresult current_context(CUcontext* context) { return *context = current, CUDA_SUCCESS; }
inline CUresult pop_context(CUcontext* context) { return *context = context_handle, CUDA_SUCCESS; }
inline CUresult retain_context(CUcontext* context, CUdevice) {
  return *context = context_handle, CUDA_SUCCESS;
}
inline CUresult context_id(CUcontext, unsigned long long* id) { return *id = 1, CUDA_SUCCESS; }
inline CUresult stream_context(CUstream, CUcontext* context) {
  return *context = context_handle, CUDA_SUCCESS;
}
inline CUresult stream_id(CUstream, unsigned long long* id) { return *id = 1, CUDA_SUCCESS; }
inline CUresult create_event(CUevent* event, unsigned) {
  return *event = reinterpret_cast<CUevent>(0xe0), CUDA_SUCCESS;
}

/// For the constructor of Driver.
inline CUresult driver(const char* name, void** function, int, cuuint64_t,
                       CUdriverProcAddressQueryResult* status) {
  const auto is = [name](const char* other) { return std::strcmp(name, other) == 0; };
  *status = CU_GET_PROC_ADDRESS_SUCCESS;
  *function = nullptr;
  if (is("cuDriverGetVersion")) return *function = reinterpret_cast<void*>(driver_version), CUDA_SUCCESS;
  if (is("cuCtxGetCurrent")) return *function = reinterpret_cast<void*>(current_context), CUDA_SUCCESS;
  if (is("cuCtxPopCurrent")) return *function = reinterpret_cast<void*>(pop_context), CUDA_SUCCESS;
  if (is("cuDevicePrimaryCtxRetain"))
    return *function = reinterpret_cast<void*>(retain_context), CUDA_SUCCESS;
  if (is("cuCtxGetId")) return *function = reinterpret_cast<void*>(context_id), CUDA_SUCCESS;
  if (is("cuStreamGetCtx")) return *function = reinterpret_cast<void*>(stream_context), CUDA_SUCCESS;
  if (is("cuStreamGetId")) return *function = reinterpret_cast<void*>(stream_id), CUDA_SUCCESS;
  if (is("cuEventCreate")) return *function = reinterpret_cast<void*>(create_event), CUDA_SUCCESS;
#define CUEVENT_REQUIRED(row, version)                                                                       \
  if (is(#row)) *function = reinterpret_cast<void*>(Empty<PFN_##row##_v##version>::call);
#include <cuevent/driver_symbols.inc>
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

} // namespace empty
