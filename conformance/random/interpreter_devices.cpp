// SPDX-License-Identifier: MIT
// What only programs of two devices use: contexts of the second device, and peer access.
#include "interpreter.hpp"

#include <algorithm>

namespace conformance {

void Interpreter::prepare_two_devices() {
  if (contexts_[far_created_context] != nullptr) return;
  CUdevice device = 0;
  CUcontext popped = nullptr;
  if (cu_.DeviceGet(&device, 1) != CUDA_SUCCESS ||
      cu_.DevicePrimaryCtxRetain(&contexts_[far_primary_context], device) != CUDA_SUCCESS ||
      cu_.CtxCreate(&contexts_[far_created_context], 0, device) != CUDA_SUCCESS ||
      cu_.CtxPopCurrent(&popped) != CUDA_SUCCESS)
    throw transcript::LoadFailure("the contexts of a second device cannot be created");
}

/// Left out while work is held, because the call may wait for the work of both contexts.
std::string Interpreter::enable_peer_access(const Call& call) {
  const int peer = call.arguments[0];
  for (int context = 0; context < context_slots; ++context)
    if (held_.all(context) != 0) return not_made;
  const CUresult result = cu_.CtxEnablePeerAccess(contexts_[peer], 0);
  if (result == CUDA_SUCCESS) peers_.emplace_back(current(call), peer);
  return short_form(result);
}

void Interpreter::disable_peer_access() {
  for (const auto& [context, peer] : peers_) {
    cu_.CtxSetCurrent(contexts_[context]);
    cu_.CtxDisablePeerAccess(contexts_[peer]);
  }
  cu_.CtxSetCurrent(nullptr);
  peers_.clear();
}

} // namespace conformance
