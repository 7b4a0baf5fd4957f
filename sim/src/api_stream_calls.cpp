// SPDX-License-Identifier: MIT
// Callbacks, attributes and lists of memory operations of streams.

#include "api.hpp"

namespace cuevent::sim {

CUresult Api::cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data, unsigned flags) {
  auto where = stream(handle);
  refuse_if(callback == nullptr || flags != 0, CUDA_ERROR_INVALID_VALUE);
  if (where->capture) {
    where->capture->invalidated = true;
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
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

} // namespace cuevent::sim
