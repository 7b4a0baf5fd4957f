// SPDX-License-Identifier: MIT
// What only wide programs use: a green context, and kernels.
#include "interpreter.hpp"

#include <kernels.hpp>

namespace conformance {

void Interpreter::prepare_wide_programs() {
  if (kernels_[primary_context] != nullptr) return;
  for (const int context : {primary_context, created_context}) {
    CUcontext popped = nullptr;
    CUmodule module = nullptr;
    cu_.CtxPushCurrent(contexts_[context]);
    if (cu_.ModuleLoadData(&module, kernels) != CUDA_SUCCESS ||
        cu_.ModuleGetFunction(&kernels_[context], module, "step") != CUDA_SUCCESS)
      throw transcript::LoadFailure("the kernel of random programs cannot be loaded");
    cu_.CtxPopCurrent(&popped);
  }
  kernels_[green_context] = kernels_[primary_context];
#if CUDA_VERSION >= 12050
  if (cu_.GreenCtxCreate == nullptr || cu_.CtxFromGreenCtx == nullptr) return;
  CUdevResource resource{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  if (cu_.DeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
      cu_.DevResourceGenerateDesc(&description, &resource, 1) != CUDA_SUCCESS ||
      cu_.GreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM) != CUDA_SUCCESS ||
      cu_.CtxFromGreenCtx(&contexts_[green_context], green) != CUDA_SUCCESS)
    throw transcript::LoadFailure("the green context of random programs cannot be created");
#endif
}

/// The kernel of the stream's context, or of the primary one if a default stream has none.
std::string Interpreter::launch_kernel(const Call& call) {
  const auto& [stream, slot, attribute_number] = call.arguments;
  const Lane* const lane = lane_of(call, stream);
  const CUfunction kernel =
      call.op == Op::nullKernelLaunch ? nullptr : kernels_[lane != nullptr ? lane->context : primary_context];
  const bool records = call.op == Op::kernelLaunchWithEvent;
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
  attribute.value.programmaticEvent.flags = static_cast<int>(call.flags);
  if (records) attribute.value.programmaticEvent.event = event_handle(slot);
#if CUDA_VERSION >= 12030
  if (attribute_number == 1) {
    attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
    attribute.value.launchCompletionEvent.flags = static_cast<int>(call.flags);
    if (records) attribute.value.launchCompletionEvent.event = event_handle(slot);
  }
#endif
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream_handle(stream);
  config.attrs = records ? &attribute : nullptr;
  config.numAttrs = records ? 1 : 0;
  const CUresult result = cu_.LaunchKernelEx(&config, kernel, nullptr, nullptr);
  if (result != CUDA_SUCCESS) return short_form(result);
  if (capturing(stream)) {
    note_captured_node(stream, {});
    if (records) events_[slot]->captured = true;
    return short_form(result);
  }
  if (records) events_[slot]->recorded(lane != nullptr ? held_.next(*lane) : 0);
  submit(call, stream, 0);
  return short_form(result);
}

} // namespace conformance
