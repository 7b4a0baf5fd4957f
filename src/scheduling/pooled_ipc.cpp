// SPDX-License-Identifier: MIT
#include "scheduling/event_pool_state.hpp"

#include <cuevent/ipc.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

IpcHandle PooledEvent::ipc_handle() {
  const IpcHandle handle = borrowed().ipc_handle(); // event() refuses it
  leased_event().exported = true;
  return handle;
}

CUresult PooledEvent::try_ipc_handle(IpcHandle& out) noexcept {
  const CUresult result = borrowed().try_ipc_handle(out);
  if (result == CUDA_SUCCESS) leased_event().exported = true;
  return result;
}

}} // namespace cuevent::CUEVENT_ABI
