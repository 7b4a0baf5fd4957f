// SPDX-License-Identifier: MIT
#include "api.hpp"

#include <cstring>

// Green contexts, as far as events can tell. The division of the multiprocessors is stored and has
// no effect on the work.

#if CUDA_VERSION >= 12040
namespace cuevent::sim {

namespace {

/// CUdevSmResource as the headers of CUDA 13.0 have it. The older ones lack the last two members.
struct Multiprocessors {
  unsigned count;
  unsigned least, alignment; ///< of a part
};
constexpr Multiprocessors whole_device = {132, 8, 8};

void describe(CUdevResource& resource, const Multiprocessors& multiprocessors) {
  std::memset(&resource, 0, sizeof resource);
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  static_assert(sizeof multiprocessors <= sizeof resource._oversize);
  std::memcpy(resource._oversize, &multiprocessors, sizeof multiprocessors);
  std::memcpy(resource._internal_padding, &multiprocessors.count, sizeof multiprocessors.count);
}

/// What a split returns is marked: a device does not split it again.
enum class Origin : unsigned char { device, part, rest };
void mark(CUdevResource& resource, Origin origin) {
  resource._internal_padding[sizeof(unsigned)] = static_cast<unsigned char>(origin);
}
Origin origin_of(const CUdevResource& resource) {
  return static_cast<Origin>(resource._internal_padding[sizeof(unsigned)]);
}

/// Nobody but the driver can make a resource, or change its number of multiprocessors.
bool is_genuine(const CUdevResource& resource) {
  return std::memcmp(resource._internal_padding, &resource.sm.smCount, sizeof resource.sm.smCount) == 0;
}

Multiprocessors part_of(unsigned count) { return {count, 0, 0}; }

void refuse_wrong_query(const CUdevResource* resource, CUdevResourceType type) {
  refuse_if(resource == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_if(type != CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
}

/// Of a context that is not green, the resource of its device.
void describe(CUdevResource& resource, const Context& context) {
  if (!context.primary) return describe(resource, whole_device);
  const unsigned alignment = context.has_rest ? 2 : whole_device.alignment;
  describe(resource, {context.multiprocessors, alignment, alignment});
}

} // namespace

CUresult Api::cuDeviceGetDevResource(CUdevice which, CUdevResource* resource, CUdevResourceType type) {
  device(which);
  refuse_wrong_query(resource, type);
  describe(*resource, whole_device);
  return CUDA_SUCCESS;
}

CUresult Api::cuCtxGetDevResource(CUcontext handle, CUdevResource* resource, CUdevResourceType type) {
  refuse_wrong_query(resource, type);
  const auto asked = context(handle);
  describe(*resource, *asked);
  return CUDA_SUCCESS;
}

CUresult Api::cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource* resource, CUdevResourceType type) {
  refuse_wrong_query(resource, type);
  const auto asked = green(handle);
  describe(*resource, *asked);
  return CUDA_SUCCESS;
}

CUresult Api::cuDevSmResourceSplitByCount(CUdevResource* result, unsigned int* groups,
                                          const CUdevResource* input, CUdevResource* remaining,
                                          unsigned int flags, unsigned int minimum) {
  refuse_if(groups == nullptr || input == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_if(input->type != CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
  constexpr unsigned ignore_coscheduling = 1, for_large_clusters = 2; // other flags have no effect
  constexpr unsigned both = ignore_coscheduling | for_large_clusters;
  refuse_if((flags & both) == both || (result != nullptr && *groups == 0), CUDA_ERROR_INVALID_VALUE);
  refuse_if(!is_genuine(*input) || origin_of(*input) != Origin::device,
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  if ((flags & both) != 0) not_modelled("flags for splitting a resource");
  constexpr unsigned granularity = whole_device.alignment;
  const unsigned rounded = (std::max(minimum, 1u) + granularity - 1) / granularity * granularity;
  const unsigned each = minimum <= input->sm.smCount ? std::min(rounded, input->sm.smCount) : rounded;
  constexpr unsigned least_parts = 15; // not all groups of multiprocessors on the device are whole
  const unsigned possible = each == whole_device.least ? least_parts : input->sm.smCount / each;
  refuse_if(possible == 0, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  if (result == nullptr) {
    *groups = possible;
    return CUDA_SUCCESS;
  }
  *groups = std::min(*groups, possible);
  const unsigned rest = input->sm.smCount - *groups * each; // `input` may be one of the results
  for (unsigned i = 0; i < *groups; ++i) {
    describe(result[i], part_of(each));
    mark(result[i], Origin::part);
  }
  if (remaining == nullptr) return CUDA_SUCCESS;
  describe(*remaining, part_of(rest));
  mark(*remaining, Origin::rest);
  return CUDA_SUCCESS;
}

CUresult Api::cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources,
                                        unsigned int count) {
  refuse_if(description == nullptr || resources == nullptr, CUDA_ERROR_INVALID_VALUE);
  if (count == 0) crash("the description is to have no resource");
  for (unsigned i = 0; i < count; ++i) {
    refuse_if(resources[i].type != CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
    refuse_if(!is_genuine(resources[i]), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  }
  const auto made = make<ResourceDescription>(Kind::description, nullptr);
  for (unsigned i = 0; i < count; ++i) {
    made->multiprocessors += resources[i].sm.smCount;
    made->has_rest = made->has_rest || origin_of(resources[i]) == Origin::rest;
  }
  *description = as<CUdevResourceDesc>(*made);
  return CUDA_SUCCESS;
}

std::shared_ptr<Context> Api::green(CUgreenCtx handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  return computer_.handles.find<GreenContext>(handle, Kind::green_context, process_)->context;
}

CUresult Api::cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc description, CUdevice which,
                               unsigned int flags) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  const int ordinal = device(which);
  refuse_if(flags != CU_GREEN_CTX_DEFAULT_STREAM, CUDA_ERROR_INVALID_VALUE);
  unsigned count = whole_device.count; // without a description
  bool has_rest = false;
  if (description != nullptr) {
    const auto described = find<ResourceDescription>(description, Kind::description);
    count = described->multiprocessors;
    has_rest = described->has_rest;
  }
  auto created = make<GreenContext>(Kind::green_context, nullptr);
  auto primary = retain_primary(ordinal);
  created->context = new_context(Context::Type::green, ordinal);
  created->context->primary = primary;
  created->context->multiprocessors = count;
  created->context->has_rest = has_rest;
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
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  spoil(out);
  const auto home = green(handle);
  refuse_if((flags & CU_STREAM_NON_BLOCKING) == 0, CUDA_ERROR_INVALID_VALUE);
  return create_stream(out, home, flags, priority);
}

CUresult Api::cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  refuse_if(context == nullptr && green == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto home = stream(handle)->home.context;
  if (green != nullptr)
    *green = home->primary ? handle_of_green(computer_.handles, process_, *home) : nullptr;
  if (context != nullptr) *context = as<CUcontext>(home->primary ? *home->primary : *home);
  return CUDA_SUCCESS;
}
#endif

} // namespace cuevent::sim
#endif
