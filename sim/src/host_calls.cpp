// SPDX-License-Identifier: MIT
// The answers are recorded as host_calls.host_function, host_calls.callback and host_calls.destructor.
#include "host_calls.hpp"

#include <algorithm>
#include <iterator>

namespace cuevent::sim {

namespace {

// Without the suffix of variants for per-thread default streams.
constexpr std::string_view made_calls[] = {
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventElapsedTime",
    "cuEventElapsedTime_v2",
    "cuEventSynchronize",
    "cuEventDestroy_v2",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamGetCtx",
    "cuStreamGetFlags",
    "cuStreamGetId",
    "cuStreamIsCapturing",
    "cuStreamWriteValue32_v2",
    "cuStreamDestroy_v2",
    "cuLaunchHostFunc",
    "cuMemsetD8Async",
    "cuGraphAddEmptyNode",
    "cuGraphLaunch",
    "cuUserObjectCreate",
    "cuUserObjectRetain",
    "cuUserObjectRelease",
};
constexpr std::string_view refused_calls[] = {
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetDefaultMemPool",
    "cuDevicePrimaryCtxGetState",
    "cuDevicePrimaryCtxRetain",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuCtxGetDevice",
    "cuCtxGetId",
    "cuEventCreate",
    "cuStreamCreate",
    "cuLaunchKernelEx",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyAsync",
    "cuMemAlloc_v2",
    "cuMemAllocAsync",
    "cuMemHostAlloc",
    "cuMemGetInfo_v2",
    "cuMemGetAddressRange_v2",
    "cuMemFree_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuPointerGetAttribute",
    "cuFuncGetAttribute",
    "cuFuncGetModule",
    "cuGraphCreate",
    "cuGraphInstantiateWithFlags",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
};

} // namespace

HostCall host_call(std::string_view name) {
  for (const std::string_view suffix : {"_ptsz", "_ptds"})
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  const auto among = [name](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return among(made_calls) ? HostCall::made : among(refused_calls) ? HostCall::refused : HostCall::unknown;
}

} // namespace cuevent::sim
