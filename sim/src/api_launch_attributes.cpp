// SPDX-License-Identifier: MIT
// The attributes of a launch. Questions about a launch check the same attributes.

#include "api.hpp"
#include "launch_attributes.hpp"

#include <algorithm>
#include <string>

namespace cuevent::sim {

namespace {

// Attributes that not all headers have.
constexpr int preferred_cluster = 11, start_event = 12, updatable_node = 13, preferred_carveout = 14,
              nvlink_scheduling = 16;

bool is_launch_attribute(int id) {
  return id >= CU_LAUNCH_ATTRIBUTE_IGNORE && id <= nvlink_scheduling &&
         id != CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY && id != 15;
}

/// Nothing if all extents are zero. So an extent of zero next to another one stays.
std::optional<Cluster> cluster_in(const CUlaunchAttribute& attribute) {
  const auto& wish = attribute.value.clusterDim;
  const auto extent = [](unsigned value) { return static_cast<int>(std::min(value, 65'536U)); };
  const Cluster cluster{extent(wish.x), extent(wish.y), extent(wish.z)};
  return cluster == Cluster{} ? std::nullopt : std::optional(cluster);
}

/// A hint to the device that changes no result, with a value of those that were measured to be accepted.
bool is_measured_hint(const CUlaunchAttribute& attribute) {
  const CUlaunchAttributeValue& value = attribute.value;
  const int number = value.cooperative; // the value, for an attribute with one number
  switch (static_cast<int>(attribute.id)) {
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    return value.accessPolicyWindow.num_bytes == 0;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    return value.memSyncDomainMap.default_ <= 1 && value.memSyncDomainMap.remote == 0;
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
  case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: // a kernel may, but need not start early
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
  case preferred_carveout:
  case nvlink_scheduling:
    return number == 0 || number == 1;
  default:
    return false;
  }
}

} // namespace

LaunchShape shape_of(const CUlaunchConfig& config) {
  LaunchShape shape{{config.gridDimX, config.gridDimY, config.gridDimZ},
                    {config.blockDimX, config.blockDimY, config.blockDimZ},
                    config.sharedMemBytes};
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      shape.cooperative = config.attrs[i].value.cooperative != 0;
  return shape;
}

LaunchAttributes Api::launch_attributes(const CUlaunchConfig& config, const Context& user, bool captured) {
  LaunchAttributes found;
  const auto accepted = [&](CUevent handle, int flags, unsigned refused_kinds) {
    auto asked = event(handle);
    refuse_if((flags & ~CU_EVENT_RECORD_EXTERNAL) != 0, CUDA_ERROR_INVALID_VALUE);
    refuse_if(flags != 0, captured ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_ILLEGAL_STATE);
    refuse_if(asked->home.context->family() != user.family(), CUDA_ERROR_INVALID_HANDLE);
    refuse_if(captured && asked->interprocess(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    refuse_if(asked->timed() || (asked->flags & refused_kinds) != 0, CUDA_ERROR_NOT_SUPPORTED);
    return asked;
  };
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    const std::string name = "launch attribute " + std::to_string(static_cast<int>(attribute.id));
    refuse_if(!is_launch_attribute(attribute.id), CUDA_ERROR_INVALID_VALUE);
    switch (static_cast<int>(attribute.id)) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT: {
      const auto& value = attribute.value.programmaticEvent;
      found.at_end = accepted(value.event, value.flags, CU_EVENT_INTERPROCESS);
      break;
    }
    case start_event: {
      if (computer_.options.driver_version < 12030)
        not_modelled("a launch completion event before CUDA 12.3");
#if CUDA_VERSION >= 12030
      const auto& value = attribute.value.launchCompletionEvent;
      found.at_start = accepted(value.event, value.flags, CU_EVENT_INTERPROCESS | CU_EVENT_BLOCKING_SYNC);
#endif
      break;
    }
    case updatable_node:
      refuse_if(!captured, CUDA_ERROR_NOT_SUPPORTED);
      found.unmodelled = name;
      break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      found.cluster = cluster_in(attribute);
      break;
    case preferred_cluster:
      if (const auto cluster = cluster_in(attribute)) {
        refuse_if(std::count(cluster->begin(), cluster->end(), 0) != 0, CUDA_ERROR_INVALID_CLUSTER_SIZE);
        found.unmodelled = name;
      }
      break;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: // a part of the shape
      if (captured) found.unmodelled = name + " in a capture";
      break;
    default:
      if (captured || !is_measured_hint(attribute)) found.unmodelled = name;
    }
  }
  return found;
}

} // namespace cuevent::sim
