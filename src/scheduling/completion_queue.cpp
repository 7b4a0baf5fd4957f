// SPDX-License-Identifier: MIT
#include <cuevent/completion_queue.hpp>

#include "core/failure.hpp"
#include "core/refusal.hpp"
#include "core/require_context.hpp"
#include "core/stream_context.hpp"
#include "scheduling/completion_queue_state.hpp"

#include <new>

namespace cuevent { inline namespace CUEVENT_ABI {

CompletionQueue::CompletionQueue(const Context& context) {
  const CUresult result = try_create(*this, context);
  if (result != CUDA_SUCCESS) fail_create(result, context);
}

void CompletionQueue::fail_create(CUresult result, const Context& context) {
  const char* const call = "CompletionQueue::CompletionQueue";
  require_context(context, call);
  context.driver().fail(result, call);
}

CUresult CompletionQueue::try_create(CompletionQueue& out, const Context& context) noexcept {
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!State::watches_forks()) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* const state = new (std::nothrow) State(context);
  if (state == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  out = CompletionQueue(state);
  return CUDA_SUCCESS;
}

void CompletionQueue::end() noexcept { state_->end(); }

void CompletionQueue::reserve(std::size_t callbacks) {
  const CUresult result = try_reserve(callbacks);
  if (result != CUDA_SUCCESS) fail_reserve(result);
}

void CompletionQueue::fail_reserve(CUresult result) const {
  if (state_ != nullptr && result == CUDA_ERROR_INVALID_VALUE)
    throw_error(CUDA_ERROR_INVALID_VALUE, "CompletionQueue::reserve",
                "a queue has room for at most 2^31 - 64 pending callbacks: reserve fewer");
  on(nullptr).fail(result, "cuEventCreate");
}

CUresult CompletionQueue::try_reserve(std::size_t callbacks) noexcept {
  return state_ != nullptr ? state_->reserve(callbacks) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CompletionQueue::check(const Context& context) const noexcept {
  return state_ == nullptr ? CUDA_ERROR_INVALID_HANDLE : check_context(state_->context(), context);
}

CUresult CompletionLane::submit(const Source& source, CompletionToken* token,
                                const char*& call) const noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Status status = state_->submit(*this, source, token); // notes its refusals
  call = status.call;
  return status.result;
}

CUresult CompletionQueue::make_lane(Lane& lane, bool named, const char*& call) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Status status = state_->id_of(lane.stream_, lane.id_);
  if (status && named) status = check_home(state_->context(), lane.stream_);
  call = status.call;
  if (lane.stream_ == CU_STREAM_PER_THREAD) lane.id_ = 0; // a different stream on each thread
  return noted(state_, status);
}

CompletionQueue::Lane CompletionQueue::lane(StreamRef stream) {
  if (const CUresult result = check(stream); result != CUDA_SUCCESS) fail_context(result);
  Lane lane = on(stream);
  const char* call = nullptr;
  if (const CUresult result = make_lane(lane, stream.context() != nullptr, call); result != CUDA_SUCCESS)
    lane.fail(result, call);
  return lane;
}

CUresult CompletionQueue::try_lane(Lane& out, StreamRef stream) noexcept {
  CUresult result = check(stream);
  if (result != CUDA_SUCCESS) return result;
  Lane lane = on(stream);
  const char* call = nullptr;
  result = make_lane(lane, stream.context() != nullptr, call);
  if (result == CUDA_SUCCESS) out = lane;
  return result;
}

std::size_t CompletionQueue::poll() noexcept { return poll(PollLimit()); }

std::size_t CompletionQueue::poll(const PollLimit& limit) noexcept {
  return state_ != nullptr ? state_->poll(limit) : 0;
}

std::size_t CompletionQueue::wait_for(TimeLimit timeout) noexcept {
  return state_ != nullptr ? state_->wait_for(timeout) : 0;
}

int CompletionQueue::native_handle() {
  int descriptor = -1;
  if (const CUresult result = try_native_handle(descriptor); result != CUDA_SUCCESS) fail_timer(result);
  return descriptor;
}

CUresult CompletionQueue::try_native_handle(int& out) noexcept {
  return state_ != nullptr ? state_->native_handle(out) : CUDA_ERROR_INVALID_HANDLE;
}

bool CompletionQueue::arm(TimeLimit most_late) {
  const CUresult result = try_arm(most_late);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) fail_timer(result);
  return result == CUDA_SUCCESS;
}

CUresult CompletionQueue::try_arm(TimeLimit most_late) noexcept {
  return state_ != nullptr ? state_->arm(most_late) : CUDA_ERROR_INVALID_HANDLE;
}

std::size_t CompletionQueue::pending() const noexcept { return state_ != nullptr ? state_->pending() : 0; }

bool CompletionToken::cancel() const noexcept {
  return storage_ != nullptr && storage_->cancel(node_, life_);
}

void CompletionToken::drop() noexcept { storage_->drop(); }

void CompletionQueue::fail_context(CUresult result) const {
  const char* const call = "CompletionQueue::when_complete";
  if (state_ == nullptr) Lane().fail(result, call);
  if (result == CUDA_ERROR_INVALID_CONTEXT) require_context(Context(), call);
  throw_error(ErrorCause::context_mismatch, call,
              "the stream belongs to a different context than the queue: make a queue for each context");
}

void CompletionQueue::fail_when_complete(CUresult result, StreamRef stream) const {
  if (const CUresult refused = check(stream); refused != CUDA_SUCCESS) fail_context(refused);
  on(stream).fail_when_complete(result);
}

void CompletionLane::fail_when_complete(CUresult result) const {
  fail(result, refused_call(state_, result, "CompletionQueue::when_complete"));
}

void CompletionQueue::fail_timer(CUresult result) const {
  const char* const call = "timerfd_create";
  if (state_ == nullptr) Lane().fail(result, call);
  if (result == CUDA_ERROR_NOT_INITIALIZED)
    throw_error(CUDA_ERROR_NOT_INITIALIZED, "CompletionQueue::native_handle",
                "the process is a forked child, and the timer belongs to its parent: poll until no "
                "callback is pending, and make a queue in a child that was started with exec");
  throw_error(CUDA_ERROR_OPERATING_SYSTEM, call,
              "the kernel made no timer, usually because the process has too many open files: "
              "close some, or raise the limit (ulimit -n)");
}

void CompletionLane::fail(CUresult result, const char* call) const {
  if (state_ == nullptr)
    throw_error(CUDA_ERROR_INVALID_HANDLE, "CompletionQueue",
                "the queue or the lane is empty, because it was "
                "default-constructed or moved from: make a queue with a Context, "
                "and a lane with CompletionQueue::lane()");
  const Context& own = state_->context();
  const Driver& driver = own.driver();
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    throw_error(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, call,
                "the stream is being captured, so its work completes with each launch of the graph; the "
                "capture is still valid: submit after each launch, for the stream of the launch");
  if (result == CUDA_ERROR_ILLEGAL_STATE && state_->ended())
    throw_error(CUDA_ERROR_ILLEGAL_STATE, call,
                "the queue is being destroyed and accepts no more callbacks: submit before its end");
  if (result == CUDA_ERROR_INVALID_HANDLE && !is_default_stream(stream_)) {
    CUcontext const other = context_of(driver.table(), stream_);
    if (other != nullptr && other != own.native_handle())
      throw_error(ErrorCause::context_mismatch, call,
                  "the stream belongs to a different context than the queue: make a queue for each context");
  }
  driver.fail(result, call);
}

}} // namespace cuevent::CUEVENT_ABI
