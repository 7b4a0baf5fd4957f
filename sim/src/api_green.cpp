// SPDX-License-Identifier: MIT
#include "api.hpp"

#include <cstring>

// Green contexts, as far as events can tell. The division of the multiprocessors is stored and has
// no effect.

#if CUDA_VERSION >= 12040
namespace cuevent::sim {

namespace {

constexpr unsigned multiprocessors = 132;

void describe_all(CUdevResource* resource, CUdevResourceType type) {
  refuse_if(resource == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_if(type != CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
  std::memset(resource, 0, sizeof *resource);
  resource->type = type;
  resource->sm.smCount = multiprocessors;
}

} // namespace

CUresult Api::cuDeviceGetDevResource(CUdevice which, CUdevResource* resource, CUdevResourceType type) {
  device(which);
  describe_all(resource, type);
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxGetDevResource(CUcontext handle, CUdevResource* resource, CUdevResourceType type) {
  context(handle);
  describe_all(resource, type);
  return CUDA_SUCCESS;
}

CUresult Api::cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource* resource, CUdevResourceType type) {
  green(handle);
  describe_all(resource, type);
  return CUDA_SUCCESS;
}

CUresult Api::cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* groups,
                                          const CUdevResource* input, CUdevResource* remaining,
                                          unsigned int flags, unsigned int minimum) {
  refuse_if(groups == nullptr || input == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_if(input->type != CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
  if (flags != 0) not_modelled("flags for splitting a resource");
  constexpr unsigned granularity = 8;
  const unsigned each = (std::max(minimum, 1u) + granularity - 1) / granularity * granularity;
  const unsigned possible = input->sm.smCount / each;
  if (result == nullptr) {
    *groups = possible;
    return CUDA_SUCCESS;
  }
  *groups = std::min(*groups, possible);
  refuse_if(*groups == 0, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  for (unsigned i = 0; i < *groups; ++i) {
    result[i] = *input;
    result[i].sm.smCount = each;
  }
  if (remaining != nullptr) {
    *remaining = *input;
    remaining->sm.smCount = input->sm.smCount - *groups * each;
  }
  return CUDA_SUCCESS;
}

CUresult Api::cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources,
                                        unsigned int count) {
  refuse_if(description == nullptr || resources == nullptr || count == 0, CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < count; ++i)
    refuse_if(resources[i].type != CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
  *description = as<CUdevResourceDesc>(*make<ResourceDescription>(Kind::description, nullptr));
  return CUDA_SUCCESS;
}

std::shared_ptr<Context> Api::green(CUgreenCtx handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  return computer_.handles.find<GreenContext>(handle, Kind::green_context, process_)->context;
}

CUresult Api::cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc description, CUdevice which,
                               unsigned int flags) {
  refuse_if(out == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM, CUDA_ERROR_INVALID_VALUE);
  refuse_if(description == nullptr, CUDA_ERROR_INVALID_VALUE);
  find<ResourceDescription>(description, Kind::description);
  const int ordinal = device(which);
  auto created = make<GreenContext>(Kind::green_context, nullptr);
  auto primary = retain_primary(ordinal);
  created->context = new_context(Context::Type::green, ordinal);
  created->context->primary = primary;
  *out = as<CUgreenCtx>(*created);
  return CUDA_SUCCESS;
}

CUresult Api::cuGreenCtxDestroy(CUgreenCtx handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  auto gone = find<GreenContext>(handle, Kind::green_context);
  computer_.handles.remove(*gone, ending());
  kill(*gone->context);
  gone->context->history += ", " + ending();
  release_primary(*gone->context->primary);
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx handle) {
  refuse_if(context == nullptr, CUDA_ERROR_INVALID_VALUE);
  *context = as<CUcontext>(*green(handle));
  return CUDA_SUCCESS;
}

CUresult Api::cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent event) {
  return record_in_context(green(handle), event);
}

CUresult Api::cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent event) {
  return wait_in_context(green(handle), event);
}

namespace {

CUgreenCtx handle_of_green(const Handles& handles, const Process& process, const Context& context) {
  CUgreenCtx found = nullptr;
  handles.for_each([&](const Object& object) {
    if (object.kind == Kind::green_context && object.process == &process &&
        static_cast<const GreenContext&>(object).context.get() == &context)
      found = as<CUgreenCtx>(object);
  });
  return found;
}

} // namespace

CUresult Api::cuStreamGetGreenCtx(CUstream handle, CUgreenCtx* out) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = handle_of_green(computer_.handles, process_, *stream(handle)->home.context);
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12050
CUresult Api::cuGreenCtxStreamCreate(CUstream* out, CUgreenCtx handle, unsigned int flags, int priority) {
  refuse_if((flags & CU_STREAM_NON_BLOCKING) == 0, CUDA_ERROR_INVALID_VALUE);
  return create_stream(out, green(handle), flags, priority);
}

CUresult Api::cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  refuse_if(context == nullptr || green == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto home = stream(handle)->home.context;
  *green = home->primary ? handle_of_green(computer_.handles, process_, *home) : nullptr;
  *context = as<CUcontext>(home->primary ? *home->primary : *home);
  return CUDA_SUCCESS;
}
#endif

} // namespace cuevent::sim
#endif
