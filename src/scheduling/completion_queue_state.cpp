// SPDX-License-Identifier: MIT
#include "scheduling/completion_queue_state.hpp"

#include "core/capture_state.hpp"
#include "core/on_stream.hpp"
#include "core/refusal.hpp"

#include <cuevent/driver_event.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

CUresult CompletionQueueState::reserve(std::size_t callbacks) noexcept {
  if (forked()) return CUDA_ERROR_NOT_INITIALIZED; // a thread of the parent may hold the lock
  if (callbacks > CallbackNodes::most()) return CUDA_ERROR_INVALID_VALUE;
  while (events_.load(std::memory_order_relaxed) < callbacks) {
    CallbackNode* node = nullptr;
    if (const CUresult result = make_node(node); result != CUDA_SUCCESS) return result;
    nodes_.give_back(*node);
  }
  return CUDA_SUCCESS;
}

CUresult CompletionQueueState::make_node(CallbackNode*& out) noexcept {
  CallbackNode* const node = nodes_.take_new();
  if (node == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  DriverEvent event;
  const CUresult result = DriverEvent::try_create(event, context_);
  if (result != CUDA_SUCCESS) {
    nodes_.give_back_new(*node);
    return result;
  }
  node->event = event.release();
  events_.fetch_add(1, std::memory_order_relaxed);
  out = node;
  return CUDA_SUCCESS;
}

Status CompletionQueueState::id_of(CUstream stream, unsigned long long& id) const noexcept {
  if (ended()) return {CUDA_ERROR_ILLEGAL_STATE, "CompletionQueue::when_complete"};
  return on_stream(context_, stream, [&] {
    // Checked first, because a query of a stream's id invalidates the stream's capture.
    const Status status = check_capture(stream);
    return status ? query_id(stream, id) : status;
  });
}

Status CompletionQueueState::check_capture(CUstream stream) const noexcept {
  const CaptureState capture = capture_state(context_.driver().table(), stream);
  const char* const call = "cuStreamIsCapturing";
  if (capture.result != CUDA_SUCCESS) return {capture.result, call};
  if (capture.invalidated()) return {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, call};
  if (capture.capturing()) return {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, call};
  return {};
}

Status CompletionQueueState::query_id(CUstream stream, unsigned long long& id) const noexcept {
  // The stream may belong to a later context with the same handle. The queue's events are then gone, and
  // the driver crashes on a record of one.
  if (const CUresult lost = context_.status(); lost != CUDA_SUCCESS) return {lost, "cuCtxGetId"};
  return {context_.driver().table().cuStreamGetId_v12000(stream, &id), "cuStreamGetId"};
}

/// Notes the refusal here, because a look at the result of each submission would cost every one of them.
Status CompletionQueueState::refused(const Status& status) const noexcept {
  static_cast<void>(noted(this, status));
  return status;
}

Status CompletionQueueState::submit(const CompletionLane& lane, const CompletionLane::Source& source,
                                    CompletionToken* token) noexcept {
  if (ended()) return refused({CUDA_ERROR_ILLEGAL_STATE, "CompletionQueue::when_complete"});
  if (!is_default_stream(lane.stream_)) [[likely]]
    return submit_in_context(lane, source, token);
  const Status status =
      on_stream(context_, lane.stream_, [&] { return submit_in_context(lane, source, token); });
  return status ? status : refused(status);
}

Status CompletionQueueState::submit_in_context(const CompletionLane& lane,
                                               const CompletionLane::Source& source,
                                               CompletionToken* token) noexcept {
  if (const Status status = check_capture(lane.stream_); !status) [[unlikely]]
    return refused(status);
  unsigned long long id = lane.id_; // at poll time, the handle may belong to a later stream
  if (id == 0)
    if (const Status status = query_id(lane.stream_, id); !status) return refused(status);

  CallbackNode* node = nodes_.take(id);
  if (node == nullptr) [[unlikely]]
    if (const CUresult result = make_node(node); result != CUDA_SUCCESS)
      return refused({result, "cuEventCreate"});
  const CUresult result = context_.driver().table().cuEventRecord_v2000(node->event, lane.stream_);
  if (result != CUDA_SUCCESS) [[unlikely]] {
    nodes_.give_back(*node);
    return refused({result, "cuEventRecord"});
  }
  node->stream = id;
  node->run = source.run;
  source.move(node->callback, source.from);
  node->begin(submissions_.fetch_add(1, std::memory_order_relaxed) + 1);
  if (token != nullptr) *token = this->token(*node); // after the push, the callback may destroy `token`
  push(*node);
  return {};
}

void CompletionQueueState::push(CallbackNode& node) noexcept {
  std::uint64_t newest = inbox_.load(std::memory_order_relaxed);
  bool held = false;
  do {
    if (is_asleep(newest) && !held) [[unlikely]] { // the callback may destroy the queue before the ring
      hold();
      held = true;
    }
    node.below.store(is_empty(newest) ? none : index_of(newest), std::memory_order_relaxed);
  } while (!inbox_.compare_exchange_weak(newest, changed(newest, node.index), std::memory_order_release,
                                         std::memory_order_relaxed));
  if (is_asleep(newest)) [[unlikely]]
    timer_.ring();
  if (held) [[unlikely]]
    drop();
}

void CompletionQueueState::end() noexcept {
  ended_.store(true, std::memory_order_relaxed);
  if (!forked()) timer_.ring();
  if (turns_.end(process())) finish();
}

void CompletionQueueState::destroy_events() noexcept {
  if (kind_of(context_.status()) == ErrorKind::context_lost) return; // they are gone: no error to report
  nodes_.for_each([&](const CallbackNode& node) {
    if (node.event == nullptr) return;
    const DriverEvent ended = DriverEvent::from_native_handle(context_, node.event, EventFlags::none);
  });
}

}} // namespace cuevent::CUEVENT_ABI
