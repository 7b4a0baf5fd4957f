// SPDX-License-Identifier: MIT
#include "scheduling/completion_queue_state.hpp"

#include "core/capture_state.hpp"
#include "core/on_stream.hpp"
#include "core/relaxed_mode.hpp"
#include "scheduling/poll_budget.hpp"

#include <cuevent/driver_event.hpp>

#include <algorithm>
#include <pthread.h>
#include <vector>

namespace cuevent {

CUresult CompletionQueue::State::reserve(std::size_t callbacks) noexcept {
  if (forked()) return CUDA_ERROR_NOT_INITIALIZED; // a thread of the parent may hold the lock
  if (callbacks > CallbackNodes::most()) return CUDA_ERROR_INVALID_VALUE;
  while (events_.load(std::memory_order_relaxed) < callbacks) {
    CallbackNode* node = nullptr;
    if (const CUresult result = make_node(node); result != CUDA_SUCCESS) return result;
    nodes_.give_back(*node);
  }
  return CUDA_SUCCESS;
}

CUresult CompletionQueue::State::make_node(CallbackNode*& out) noexcept {
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

Status CompletionQueue::State::id_of(CUstream stream, unsigned long long& id) const noexcept {
  if (ended()) return {CUDA_ERROR_ILLEGAL_STATE, "CompletionQueue::when_complete"};
  return on_stream(context_, stream, [&] {
    // Checked first, because a query of a stream's id invalidates the stream's capture.
    const Status status = check_capture(stream);
    return status ? query_id(stream, id) : status;
  });
}

Status CompletionQueue::State::check_capture(CUstream stream) const noexcept {
  const CaptureState capture = capture_state(context_.driver().table(), stream);
  const char* const call = "cuStreamIsCapturing";
  if (capture.result != CUDA_SUCCESS) return {capture.result, call};
  if (capture.invalidated()) return {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, call};
  if (capture.capturing()) return {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, call};
  return {};
}

Status CompletionQueue::State::query_id(CUstream stream, unsigned long long& id) const noexcept {
  return {context_.driver().table().cuStreamGetId_v12000(stream, &id), "cuStreamGetId"};
}

Status CompletionQueue::State::submit(const Target& target, const Source& source) noexcept {
  if (ended()) return {CUDA_ERROR_ILLEGAL_STATE, "CompletionQueue::when_complete"};
  return on_stream(context_, target.stream, [&] { return submit_in_context(target, source); });
}

Status CompletionQueue::State::submit_in_context(const Target& target, const Source& source) noexcept {
  if (const Status status = check_capture(target.stream); !status) return status;
  unsigned long long id = target.id; // at poll time, the handle may belong to a later stream
  if (id == 0)
    if (const Status status = query_id(target.stream, id); !status) return status;

  CallbackNode* node = nodes_.take();
  if (node == nullptr) [[unlikely]]
    if (const CUresult result = make_node(node); result != CUDA_SUCCESS) return {result, "cuEventCreate"};
  const CUresult result = context_.driver().table().cuEventRecord_v2000(node->event, target.stream);
  if (result != CUDA_SUCCESS) [[unlikely]] {
    nodes_.give_back(*node);
    return {result, "cuEventRecord"};
  }
  node->stream = id;
  node->run = source.run;
  source.move(node->callback, source.from);
  push(*node);
  return {};
}

void CompletionQueue::State::push(CallbackNode& node) noexcept {
  node.phase.store(CallbackNode::Phase::pending, std::memory_order_release); // last, for recover()
  std::uint64_t newest = inbox_.load(std::memory_order_relaxed);
  do {
    node.submission = count_of(newest) + 1;
    node.below.store(index_of(newest), std::memory_order_relaxed);
  } while (!inbox_.compare_exchange_weak(newest, changed(newest, node.index), std::memory_order_release,
                                         std::memory_order_relaxed));
}

std::size_t CompletionQueue::State::poll(const PollLimit& limit) noexcept {
  if (pending() == 0) return 0;
  Phase phase = Phase::idle;
  while (!phase_.compare_exchange_strong(phase, polling(), std::memory_order_acquire))
    if (phase == Phase::ended || phase == polling()) return 0;
  std::size_t count = 0;
  {
    const Poll here(*this);
    count = sweep(limit);
  }
  phase = polling();
  if (!phase_.compare_exchange_strong(phase, Phase::idle, std::memory_order_acq_rel)) finish();
  return count;
}

thread_local constinit CompletionQueue::State::Poll* CompletionQueue::State::polls = nullptr;

bool CompletionQueue::State::watch_forks() noexcept {
  static const bool watched = pthread_atfork(nullptr, nullptr, [] {
                                forks.fetch_add(1, std::memory_order_relaxed);
                                for (const Poll* poll = polls; poll != nullptr; poll = poll->outer)
                                  if (!poll->state.ended()) poll->state.phase_ = polling();
                              }) == 0;
  return watched;
}

/// Runs in the child of a fork, where threads in the middle of a submission or a poll do not
/// continue. Looks at all nodes to find the callbacks that have not run.
void CompletionQueue::State::recover() noexcept {
  std::vector<CallbackNode*> left;
  nodes_.for_each([&](CallbackNode& node) {
    if (node.phase.load(std::memory_order_relaxed) == CallbackNode::Phase::pending) left.push_back(&node);
  });
  std::sort(left.begin(), left.end(), [](const CallbackNode* a, const CallbackNode* b) {
    return static_cast<std::int32_t>(a->submission - b->submission) < 0; // the numbers may wrap
  });
  const std::uint64_t inbox = inbox_.fetch_or(none, std::memory_order_relaxed); // empty, with its count
  streams_ = CallbackStreams();
  for (CallbackNode* const node : left)
    streams_.append(*node);
  returned_.store(count_of(inbox) - static_cast<std::uint32_t>(left.size()), std::memory_order_release);
}

std::size_t CompletionQueue::State::sweep(const PollLimit& limit) noexcept {
  if (recovered_ != forks.load(std::memory_order_relaxed)) [[unlikely]] {
    recover();
    recovered_ = forks.load(std::memory_order_relaxed);
  }
  take_inbox();
  const std::size_t before = returned_.load(std::memory_order_relaxed);
  RelaxedMode relaxed(context_.driver().table());
  const bool usable = !forked();
  CUresult result = usable ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  PollBudget budget(limit, context_.driver().table());
  for (std::size_t left = CallbackStreams::buckets; left-- > 0; ++first_bucket_) {
    for (CallbackNode** oldest = &streams_.bucket(first_bucket_); *oldest != nullptr;) {
      if (budget.spent()) {
        CallbackStreams::move_to_end(*oldest);
        ++first_bucket_;
        return returned_.load(std::memory_order_relaxed) - before;
      }
      if (usable && (result == CUDA_SUCCESS || !is_sticky(result))) { // sticky errors apply to all
        result = relaxed.enter();
        if (result == CUDA_SUCCESS) result = context_.driver().table().cuEventQuery_v2000((*oldest)->event);
      }
      if (result == CUDA_ERROR_NOT_READY) {
        oldest = &(*oldest)->next_stream;
      } else {
        relaxed.leave();
        run(CallbackStreams::pop(*oldest), result);
        budget.count();
      }
    }
  }
  return returned_.load(std::memory_order_relaxed) - before;
}

void CompletionQueue::State::take_inbox() noexcept {
  CallbackNode* oldest = nullptr;
  std::uint32_t newest = index_of(inbox_.fetch_or(none, std::memory_order_acquire));
  while (newest != none) {
    CallbackNode& node = nodes_.at(newest);
    newest = node.below.load(std::memory_order_relaxed);
    node.next = oldest;
    oldest = &node;
  }
  while (oldest != nullptr) {
    CallbackNode& node = *oldest;
    oldest = node.next;
    streams_.append(node);
  }
}

void CompletionQueue::State::run(CallbackNode& node, CUresult result) noexcept {
  struct Storage {
    CallbackNodes& nodes;
    CallbackNode& node;
  } storage{nodes_, node};
  node.phase.store(CallbackNode::Phase::free, std::memory_order_relaxed);
  const auto moved = [](void* by) { // from here on, submissions by the callback can use the node
    auto& free = *static_cast<Storage*>(by);
    free.nodes.give_back(free.node);
  };
  try {
    node.run(node.callback, result, moved, &storage);
  } catch (const DriverError& error) {
    report_error(error.result(), "CompletionQueue::poll");
  } catch (...) {
    report_error(CUDA_ERROR_UNKNOWN, "CompletionQueue::poll");
  }
  returned_.store(returned_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void CompletionQueue::State::finish() noexcept {
  sweep(PollLimit());
  for (CallbackNode*& oldest : streams_)
    while (oldest != nullptr)
      run(CallbackStreams::pop(oldest), CUDA_ERROR_NOT_READY);
  destroy_events();
  delete this;
}

void CompletionQueue::State::destroy_events() noexcept {
  if (kind_of(context_.status()) == ErrorKind::context_lost) return; // they are gone: no error to report
  nodes_.for_each([&](const CallbackNode& node) {
    if (node.event != nullptr) DriverEvent::from_native_handle(context_, node.event, EventFlags::none);
  });
}

} // namespace cuevent
