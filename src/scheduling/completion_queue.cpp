// SPDX-License-Identifier: MIT
#include <cuevent/completion_queue.hpp>

#include "core/require_context.hpp"
#include "core/stream_context.hpp"
#include "scheduling/completion_queue_state.hpp"

#include <new>
#include <utility>

namespace cuevent {

CompletionQueue::CompletionQueue(const Context& context) {
  const CUresult result = try_create(*this, context);
  if (result == CUDA_SUCCESS) return;
  const char* const call = "CompletionQueue::CompletionQueue";
  require_context(context, call);
  context.driver().fail(result, call);
}

CUresult CompletionQueue::try_create(CompletionQueue& out, const Context& context) noexcept {
  if (!State::watch_forks()) return CUDA_ERROR_OUT_OF_MEMORY;
  EventPool pool; // max_idle covers every node, because destroying an event can block forever
  const CUresult result = EventPool::try_create(pool, context, EventFlags::none, CallbackNodes::most());
  if (result != CUDA_SUCCESS) return result;
  auto* const state = new (std::nothrow) State(context, std::move(pool));
  if (state == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  out = CompletionQueue(state);
  return CUDA_SUCCESS;
}

void CompletionQueue::end() noexcept { state_->end(); }

void CompletionQueue::reserve(std::size_t callbacks) {
  const CUresult result = try_reserve(callbacks);
  if (result != CUDA_SUCCESS) fail(result, "cuEventCreate", nullptr);
}

CUresult CompletionQueue::try_reserve(std::size_t callbacks) noexcept {
  return state_ != nullptr ? state_->reserve(callbacks) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CompletionQueue::check(const Context& context) const noexcept {
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE : check_context(state_->context(), context);
}

CUresult CompletionQueue::submit(CUstream stream, const Source& source, const char*& call) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Status status = state_->submit(stream, source);
  call = status.call;
  return status.result;
}

std::size_t CompletionQueue::poll() noexcept { return poll(PollLimit()); }

std::size_t CompletionQueue::poll(const PollLimit& limit) noexcept {
  return state_ != nullptr ? state_->poll(limit) : 0;
}

std::size_t CompletionQueue::pending() const noexcept { return state_ != nullptr ? state_->pending() : 0; }

void CompletionQueue::fail_context(CUresult result) const {
  const char* const call = "CompletionQueue::when_complete";
  if (state_ == nullptr) fail(result, call, nullptr);
  if (result == CUDA_ERROR_INVALID_CONTEXT) require_context(Context(), call);
  throw ContextMismatch(
      call, "the stream belongs to a different context than the queue: make a queue for each context");
}

void CompletionQueue::fail(CUresult result, const char* call, CUstream stream) const {
  if (state_ == nullptr)
    throw InvalidHandle(
        "CompletionQueue",
        "the queue is empty, because it was default-constructed or moved from: make it with a Context");
  const Driver& driver = state_->context().driver();
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    throw StreamCaptureUnsupported(
        call, "the stream is being captured, so its work completes with each launch of the graph; the "
              "capture is still valid: submit after each launch, for the stream of the launch");
  if (result == CUDA_ERROR_ILLEGAL_STATE && state_->ended())
    throw IllegalState(call,
                       "the queue is being destroyed and accepts no more callbacks: submit before its end");
  if (result == CUDA_ERROR_INVALID_HANDLE && !is_default_stream(stream)) {
    CUcontext const other = context_of(driver.table(), stream);
    if (other != nullptr && other != state_->context().native_handle())
      throw ContextMismatch(
          call, "the stream belongs to a different context than the queue: make a queue for each context");
  }
  driver.fail(result, call);
}

} // namespace cuevent
