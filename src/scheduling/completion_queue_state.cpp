// SPDX-License-Identifier: MIT
#include "scheduling/completion_queue_state.hpp"

#include "core/capture_state.hpp"
#include "core/on_stream.hpp"
#include "core/relaxed_mode.hpp"
#include "scheduling/poll_budget.hpp"

#include <algorithm>
#include <pthread.h>
#include <vector>

namespace cuevent {

Status CompletionQueue::State::submit(CUstream stream, const Source& source) noexcept {
  if (ended()) return {CUDA_ERROR_ILLEGAL_STATE, "CompletionQueue::when_complete"};
  return on_stream(context_, stream, [&] { return submit_in_context(stream, source); });
}

Status CompletionQueue::State::submit_in_context(CUstream stream, const Source& source) noexcept {
  const DriverTable& table = context_.driver().table();
  // Checked first, because a query of a stream's id invalidates the stream's capture.
  const CaptureState capture = capture_state(table, stream);
  if (capture.result != CUDA_SUCCESS) return {capture.result, "cuStreamIsCapturing"};
  if (capture.invalidated()) return {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuStreamIsCapturing"};
  if (capture.capturing()) return {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuStreamIsCapturing"};

  unsigned long long id = 0; // at poll time, the handle may belong to a later stream
  CUresult result = table.cuStreamGetId_v12000(stream, &id);
  if (result != CUDA_SUCCESS) return {result, "cuStreamGetId"};

  PooledEvent event;
  result = pool_.try_acquire(event);
  if (result != CUDA_SUCCESS) return {result, "cuEventCreate"};

  CallbackNode* const node = nodes_.take();
  if (node == nullptr) return {CUDA_ERROR_OUT_OF_MEMORY, "CompletionQueue::when_complete"};
  result = event.try_record(stream);
  if (result != CUDA_SUCCESS) {
    nodes_.give_back(*node);
    return {result, "cuEventRecord"};
  }
  node->stream = id;
  node->event = std::move(event);
  node->run = source.run;
  source.move(node->callback, source.from);
  push(*node);
  return {};
}

void CompletionQueue::State::push(CallbackNode& node) noexcept {
  const std::uint64_t submission = submitted_.fetch_add(1, std::memory_order_relaxed) + 1;
  node.submission.store(submission, std::memory_order_release); // last, for recover()
  node.next = inbox_.load(std::memory_order_relaxed);
  while (
      !inbox_.compare_exchange_weak(node.next, &node, std::memory_order_release, std::memory_order_relaxed)) {
  }
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
    if (node.submission.load(std::memory_order_relaxed) != 0) left.push_back(&node);
  });
  std::sort(left.begin(), left.end(), [](const CallbackNode* a, const CallbackNode* b) {
    return a->submission.load(std::memory_order_relaxed) < b->submission.load(std::memory_order_relaxed);
  });
  inbox_.store(nullptr, std::memory_order_relaxed);
  streams_ = CallbackStreams();
  for (CallbackNode* const node : left)
    streams_.append(*node);
  returned_.store(submitted_.load(std::memory_order_relaxed) - left.size(), std::memory_order_release);
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
        if (result == CUDA_SUCCESS) result = (*oldest)->event.try_query();
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
  for (CallbackNode* node = inbox_.exchange(nullptr, std::memory_order_acquire); node != nullptr;) {
    CallbackNode* const older = node->next;
    node->next = oldest;
    oldest = node;
    node = older;
  }
  while (oldest != nullptr) {
    CallbackNode& node = *oldest;
    oldest = node.next;
    streams_.append(node);
  }
}

void CompletionQueue::State::run(CallbackNode& node, CUresult result) noexcept {
  node.event = PooledEvent(); // back in the pool, for submissions by the callback
  node.submission.store(0, std::memory_order_relaxed);
  try {
    node.run(node.callback, result);
  } catch (const DriverError& error) {
    report_error(error.result(), "CompletionQueue::poll");
  } catch (...) {
    report_error(CUDA_ERROR_UNKNOWN, "CompletionQueue::poll");
  }
  nodes_.give_back(node);
  returned_.store(returned_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void CompletionQueue::State::finish() noexcept {
  sweep(PollLimit());
  for (CallbackNode*& oldest : streams_)
    while (oldest != nullptr)
      run(CallbackStreams::pop(oldest), CUDA_ERROR_NOT_READY);
  delete this;
}

} // namespace cuevent
