// SPDX-License-Identifier: MIT
// Callbacks, attributes and lists of memory operations of streams.

#include "api.hpp"
#include "device_attributes.hpp"

#include <cstring>

namespace cuevent::sim {

CUresult Api::cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data, unsigned flags) {
  auto where = stream(handle);
  refuse_if(callback == nullptr || flags != 0, CUDA_ERROR_INVALID_VALUE);
  refuse_in_capture(*where);
  struct Told {
    CUstreamCallback callback;
    CUstream stream;
    void* data;
  };
  auto told = std::make_shared<Told>(Told{callback, handle, data});
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_HOST;
  work.text = "callback";
  work.places = 0;
  work.function = [](void* one) {
    const Told& call = *static_cast<Told*>(one);
    call.callback(call.stream, CUDA_SUCCESS, call.data);
  };
  work.data = told.get();
  work.owner = std::move(told);
  submit(where, std::move(work));
  return CUDA_SUCCESS;
}

namespace {

bool is_stream_attribute(CUstreamAttrID attribute) {
  return attribute == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
         attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY ||
         attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY || attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
         attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

} // namespace

CUresult Api::cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  const auto asked = stream(handle);
  refuse_if(!is_stream_attribute(attribute), CUDA_ERROR_INVALID_VALUE);
  if (value == nullptr) crash("there is no place for the attribute of the stream");
  const StreamAttributes& all = asked->attributes;
  switch (attribute) {
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    value->accessPolicyWindow = all.window;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    std::memcpy(&value->syncPolicy, &all.policy, sizeof all.policy);
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    value->priority = asked->priority;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    value->memSyncDomainMap = all.domains;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    value->memSyncDomain = all.domain;
    return CUDA_SUCCESS;
  default:
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

/// A device refuses CU_SYNC_POLICY_AUTO, and takes a priority out of range for the next one in it.
CUresult Api::cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute,
                                   const CUstreamAttrValue* value) {
  constexpr unsigned domains = 4;
  const auto changed = stream(handle);
  refuse_if(!is_stream_attribute(attribute), CUDA_ERROR_INVALID_VALUE);
  if (value == nullptr) crash("there is no value for the attribute of the stream");
  StreamAttributes& all = changed->attributes;
  switch (attribute) {
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: {
    const CUaccessPolicyWindow& window = value->accessPolicyWindow;
    constexpr std::size_t most = device_attributes[CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE - 1];
    refuse_if(!(window.hitRatio >= 0 && window.hitRatio <= 1) || window.num_bytes > most ||
                  window.missProp == CU_ACCESS_PROPERTY_PERSISTING,
              CUDA_ERROR_INVALID_VALUE);
    all.window = window;
    return CUDA_SUCCESS;
  }
  case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    refuse_if(value->syncPolicy <= CU_SYNC_POLICY_AUTO || value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC,
              CUDA_ERROR_INVALID_VALUE);
    all.policy = value->syncPolicy;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    changed->priority = possible_priority(value->priority);
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: {
    const CUlaunchMemSyncDomainMap& map = value->memSyncDomainMap;
    refuse_if(map.default_ >= domains || map.remote >= domains, CUDA_ERROR_INVALID_VALUE);
    all.domains = map;
    return CUDA_SUCCESS;
  }
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    refuse_if(value->memSyncDomain > CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE, CUDA_ERROR_INVALID_VALUE);
    all.domain = value->memSyncDomain;
    return CUDA_SUCCESS;
  default:
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

CUresult Api::cuStreamCopyAttributes(CUstream to, CUstream from) {
  const auto target = stream(to), source = stream(from);
  refuse_if(target->home.context != source->home.context, CUDA_ERROR_INVALID_VALUE);
  target->attributes = source->attributes;
  target->priority = source->priority;
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
