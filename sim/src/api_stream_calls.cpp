// SPDX-License-Identifier: MIT
// Callbacks, attributes and lists of memory operations of streams.

#include "api.hpp"

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

CUresult Api::cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  const auto asked = stream(handle);
  if (value == nullptr) crash("there is no place for the attribute of the stream");
  switch (attribute) {
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    value->accessPolicyWindow = {};
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    std::memcpy(&value->syncPolicy, &asked->policy, sizeof asked->policy);
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    value->priority = asked->priority;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    value->memSyncDomainMap = {0, 1};
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    value->memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
    return CUDA_SUCCESS;
  default:
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

/// A device refuses CU_SYNC_POLICY_AUTO. Changes: not measured: streams.changed_attributes
CUresult Api::cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute,
                                   const CUstreamAttrValue* value) {
  const auto changed = stream(handle);
  refuse_if(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  if (attribute == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) {
    refuse_if(value->syncPolicy <= CU_SYNC_POLICY_AUTO || value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC,
              CUDA_ERROR_INVALID_VALUE);
    if (value->syncPolicy != CU_SYNC_POLICY_YIELD || changed->capture)
      not_modelled("another policy of a stream than to yield, or in a capture");
    changed->policy = value->syncPolicy;
    return CUDA_SUCCESS;
  }
  CUstreamAttrValue now{};
  cuStreamGetAttribute(handle, attribute, &now); // refuses unknown attributes
  const auto& map = value->memSyncDomainMap;
  const bool same =
      attribute == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ? value->accessPolicyWindow.num_bytes == 0
      : attribute == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
          ? map.default_ == now.memSyncDomainMap.default_ && map.remote == now.memSyncDomainMap.remote
      : attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY ? value->priority == now.priority
                                                  : value->memSyncDomain == now.memSyncDomain;
  if (!same || changed->capture)
    not_modelled("a new value of attribute " + std::to_string(static_cast<int>(attribute)) + " of a stream");
  return CUDA_SUCCESS;
}

CUresult Api::cuStreamCopyAttributes(CUstream to, CUstream from) {
  const auto target = stream(to), source = stream(from);
  target->policy = source->policy;
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
