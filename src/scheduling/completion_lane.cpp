// SPDX-License-Identifier: MIT
#include <cuevent/completion_lane.hpp>

#include "core/stream_context.hpp"
#include "scheduling/completion_queue_state.hpp"

namespace cuevent {

CUresult CompletionLane::submit(const Source& source, CompletionToken* token,
                                const char*& call) const noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Status status = state_->submit(*this, source, token);
  call = status.call;
  return status.result;
}

void CompletionLane::fail(CUresult result, const char* call) const {
  if (state_ == nullptr)
    throw InvalidHandle("CompletionQueue", "the queue or the lane is empty, because it was "
                                           "default-constructed or moved from: make a queue with a Context, "
                                           "and a lane with CompletionQueue::lane()");
  const Context& own = state_->context();
  const Driver& driver = own.driver();
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    throw StreamCaptureUnsupported(
        call, "the stream is being captured, so its work completes with each launch of the graph; the "
              "capture is still valid: submit after each launch, for the stream of the launch");
  if (result == CUDA_ERROR_ILLEGAL_STATE && state_->ended())
    throw IllegalState(call,
                       "the queue is being destroyed and accepts no more callbacks: submit before its end");
  if (result == CUDA_ERROR_INVALID_HANDLE && !is_default_stream(stream_)) {
    CUcontext const other = context_of(driver.table(), stream_);
    if (other != nullptr && other != own.native_handle())
      throw ContextMismatch(
          call, "the stream belongs to a different context than the queue: make a queue for each context");
  }
  driver.fail(result, call);
}

} // namespace cuevent
