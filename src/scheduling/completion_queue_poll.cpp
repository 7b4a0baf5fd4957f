// SPDX-License-Identifier: MIT
// The polls of a CompletionQueue, its end, and its child processes.
#include "core/exceptions.hpp"
#include "core/relaxed_mode.hpp"
#include "scheduling/completion_queue_state.hpp"
#include "scheduling/poll_budget.hpp"

#include <cuevent/error.hpp>

#include <algorithm>
#include <pthread.h>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A poll of this thread, in a list with the polls that it runs inside of.
struct CompletionQueueState::Poll {
  Poll(CompletionQueueState& its, const PollLimit& limit) noexcept
      : state(its), outer(polls), relaxed(its.context_.driver().table()),
        budget(limit, its.context_.driver().table()) {
    polls = this;
  }
  Poll(const Poll&) = delete;
  Poll& operator=(const Poll&) = delete;
  ~Poll() { polls = outer; }

  /// Called before each query. Asks first whether the context exists, because the driver crashes on a
  /// query of an event that ended with its context. A callback may end the context, so the first query
  /// after a callback asks again.
  CUresult prepare_query() noexcept {
    if (relaxed.entered()) return CUDA_SUCCESS;
    const CUresult lost = state.context_.status();
    return lost == CUDA_SUCCESS ? relaxed.enter() : lost;
  }

  CompletionQueueState& state;
  Poll* const outer;
  /// The lists, a running callback, or nothing. A child of a fork keeps this. A poll that finishes
  /// the queue needs nothing.
  PollTurns::Word own = 0;
  RelaxedMode relaxed;
  PollBudget budget;
  CUresult result = CUDA_SUCCESS; // of the last query
  std::size_t ran = 0;
  /// A node that arrived in a later visit, or was found pending, is left to the next poll. So the poll
  /// ends even if callbacks submit more.
  std::uint64_t first_visit = 0;
};

thread_local constinit CompletionQueueState::Poll* CompletionQueueState::polls = nullptr;

std::size_t CompletionQueueState::poll(const PollLimit& limit) noexcept {
  const std::size_t left = pending();
  if (left == 0 || left <= turns_.running(process())) return 0;
  if (runs_callback()) return 0;
  Poll poll(*this, limit);
  if (!turns_.take(process())) return 0;
  poll.own = PollTurns::lists;
  visit();
  const long long began = timer_.is_open() ? WakeTimer::now() : 0;
  if (sweep(poll)) {
    if (began != 0) schedule_.polled(began, poll.ran != 0);
    poll.own = 0;
    if (turns_.leave()) finish();
  }
  return poll.ran;
}

/// Whether the caller is a callback of this queue.
bool CompletionQueueState::runs_callback() const noexcept {
  for (const Poll* poll = polls; poll != nullptr; poll = poll->outer)
    if (&poll->state == this) return true;
  return false;
}

/// Called by the thread that has just taken the lists.
void CompletionQueueState::visit() noexcept {
  ++visits_;
  if (recovered_ == process()) [[likely]]
    return;
  recover();
  recovered_ = process();
}

/// Returns false if the poll has left. The queue may then be gone.
bool CompletionQueueState::sweep(Poll& poll) noexcept {
  stopped_ = false;
  take_cancelled();
  take_inbox();
  poll.first_visit = visits_;
  // If cancelled callbacks have used up a limit, they come last in the next poll.
  const bool cancelled_last = std::exchange(cancelled_last_, false);
  if (!cancelled_last) {
    if (!sweep_cancelled(poll)) return false;
    cancelled_last_ = poll.budget.spent();
  }
  if (!sweep_streams(poll)) return false;
  if (cancelled_last && !sweep_cancelled(poll)) return false;
  if (to_cancel_ != none && poll.budget.spent()) stopped_ = true;
  poll.relaxed.leave();
  return true;
}

/// Returns false if the poll has left.
bool CompletionQueueState::sweep_streams(Poll& poll) noexcept {
  for (std::size_t left = CallbackStreams::buckets; left-- > 0; ++first_bucket_) {
    CallbackNode** oldest = &streams_.bucket(first_bucket_);
    while (*oldest != nullptr) {
      CallbackNode* const node = first_to_run(**oldest, poll);
      if (node == nullptr) {
        oldest = &(*oldest)->next_stream;
        continue;
      }
      const bool spent = poll.budget.spent();
      if (spent || turns_.all_in_use()) {
        stopped_ = spent;
        CallbackStreams::move_to_end(*oldest);
        ++first_bucket_;
        return true;
      }
      if (!is_done(*node, poll) || !node->claim()) continue;
      const std::uint64_t visit = visits_;
      streams_.remove(*node);
      if (!run(*node, poll.result, poll)) return false;
      if (visits_ != visit + 1 && poll.own != 0) // other polls have changed the lists
        oldest = &streams_.bucket(first_bucket_);
    }
  }
  return true;
}

/// The callback of a stream that the poll has to query, or null.
CallbackNode* CompletionQueueState::first_to_run(CallbackNode& oldest, const Poll& poll) const noexcept {
  CallbackNode* node = &oldest;
  while (node != nullptr && node->phase() == CallbackNode::Phase::cancelled)
    node = node->next; // a token is about to push it, or it waits in to_cancel_
  const bool may_run = node != nullptr && node->not_before < poll.first_visit && !turns_.busy(node->stream);
  return may_run ? node : nullptr;
}

/// Called before take_inbox(), so that all cancelled nodes are in the lists afterwards.
void CompletionQueueState::take_cancelled() noexcept {
  std::uint32_t newest = none;
  if (cancelled_.load(std::memory_order_relaxed) != none)
    newest = cancelled_.exchange(none, std::memory_order_acquire);
  std::uint32_t oldest = none;
  while (newest != none) {
    CallbackNode& node = nodes_.at(newest);
    newest = node.cancelled_before.load(std::memory_order_relaxed);
    node.cancelled_before.store(oldest, std::memory_order_relaxed);
    oldest = node.index;
  }
  while (oldest != none) {
    CallbackNode& node = nodes_.at(oldest);
    oldest = node.cancelled_before.load(std::memory_order_relaxed);
    append_cancelled(node);
  }
}

/// Behind the others, so that no cancelled callback starves while polls are limited.
void CompletionQueueState::append_cancelled(CallbackNode& node) noexcept {
  node.cancelled_before.store(none, std::memory_order_relaxed);
  if (to_cancel_ == none)
    to_cancel_ = node.index;
  else
    nodes_.at(last_to_cancel_).cancelled_before.store(node.index, std::memory_order_relaxed);
  last_to_cancel_ = node.index;
}

/// Runs the cancelled callbacks whose streams are not busy. Returns false if the poll has left.
bool CompletionQueueState::sweep_cancelled(Poll& poll) noexcept {
  while (to_cancel_ != none && !poll.budget.spent() && !turns_.all_in_use()) {
    CallbackNode& node = nodes_.at(to_cancel_);
    to_cancel_ = node.cancelled_before.load(std::memory_order_relaxed);
    if (turns_.busy(node.stream)) {
      push_cancelled(node); // for a later poll
      continue;
    }
    node.claim_cancelled();
    streams_.remove(node);
    if (!run(node, CompletionToken::cancelled, poll)) return false;
  }
  return true;
}

bool CompletionQueueState::is_done(CallbackNode& node, Poll& poll) const noexcept {
  if (forked()) {
    poll.result = CUDA_ERROR_NOT_INITIALIZED;
  } else if (poll.result == CUDA_SUCCESS || !is_sticky(poll.result)) { // sticky errors apply to all
    poll.result = poll.prepare_query();
    if (poll.result == CUDA_SUCCESS) poll.result = context_.driver().table().cuEventQuery_v2000(node.event);
  }
  if (poll.result == CUDA_ERROR_NOT_READY) node.not_before = visits_;
  return poll.result != CUDA_ERROR_NOT_READY;
}

void CompletionQueueState::take_inbox() noexcept {
  std::uint64_t inbox = inbox_.load(std::memory_order_relaxed);
  if (is_empty(inbox)) return; // and it may stay asleep, because another thread does
  CallbackNode* oldest = nullptr;
  inbox = inbox_.fetch_or(none, std::memory_order_acquire); // empty, with its count
  for (std::uint32_t newest = index_of(inbox); newest != none;) {
    CallbackNode& node = nodes_.at(newest);
    newest = node.below.load(std::memory_order_relaxed);
    node.next = oldest;
    oldest = &node;
  }
  while (oldest != nullptr) {
    CallbackNode& node = *oldest;
    oldest = node.next;
    node.not_before = visits_ - 1; // earlier visits are those of polls that began before
    streams_.append(node);
  }
}

/// Runs the callback while other polls may have the lists. Returns false if the poll has left.
bool CompletionQueueState::run(CallbackNode& node, CUresult result, Poll& poll) noexcept {
  poll.relaxed.leave();
  poll.budget.count();
  ++poll.ran;
  if (poll.own == 0) { // this thread finishes the queue
    call(node, result);
    return true;
  }
  poll.own = turns_.begin_callback(node.stream);
  call(node, result);
  const PollTurns::After after = turns_.end_callback(poll.own);
  poll.own = after == PollTurns::After::has_lists ? PollTurns::lists : 0;
  if (after == PollTurns::After::has_lists) visit();
  if (after == PollTurns::After::has_to_finish) finish();
  return after == PollTurns::After::has_lists;
}

void CompletionQueueState::call(CallbackNode& node, CUresult result) noexcept {
  struct Storage {
    CallbackNodes& nodes;
    CallbackNode& node;
  } storage{nodes_, node};
  const auto moved = [](void* by) { // from here on, submissions by the callback can use the node
    auto& free = *static_cast<Storage*>(by);
    free.nodes.give_back(free.node);
  };
  catching([&] { node.run(node.callback, result, moved, &storage); },
           [](const DriverError* error) {
             report_error(error != nullptr ? error->result() : CUDA_ERROR_UNKNOWN, "CompletionQueue::poll");
           });
  returned_.fetch_add(1, std::memory_order_release);
}

/// Only one thread is left.
void CompletionQueueState::finish() noexcept {
  {
    Poll poll(*this, PollLimit());
    visit();
    sweep(poll);
  }
  for (CallbackNode*& oldest : streams_)
    while (oldest != nullptr) {
      CallbackNode& node = CallbackStreams::pop(oldest);
      const bool pending = node.claim();
      if (!pending) node.claim_cancelled(); // the token may not have pushed it yet
      const CUresult result = forked() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_NOT_READY;
      call(node, pending ? result : CompletionToken::cancelled); // may fork
    }
  destroy_events();
  context_ = Context();
  drop();
}

void CompletionQueueState::watch_forks() noexcept {
  watches_forks_ = pthread_atfork(nullptr, nullptr, [] {
                     forks.fetch_add(1, std::memory_order_relaxed);
                     for (const Poll* poll = polls; poll != nullptr; poll = poll->outer)
                       poll->state.turns_.continue_in_child(process(), poll->own);
                   }) == 0;
}

/// Runs in the child of a fork, where threads in the middle of a submission or a poll do not
/// continue. Looks at all nodes to find the callbacks that have not run.
void CompletionQueueState::recover() noexcept {
  std::vector<CallbackNode*> left;
  nodes_.for_each([&](CallbackNode& node) {
    if (node.phase() != CallbackNode::Phase::free) left.push_back(&node);
  });
  std::sort(left.begin(), left.end(), [](const CallbackNode* a, const CallbackNode* b) {
    return a->life.load(std::memory_order_relaxed) < b->life.load(std::memory_order_relaxed);
  });
  const std::uint64_t inbox = inbox_.fetch_or(none, std::memory_order_relaxed); // empty, with its count
  cancelled_.store(none, std::memory_order_relaxed);
  streams_ = CallbackStreams();
  to_cancel_ = none;
  for (CallbackNode* const node : left) {
    node->not_before = 0; // a poll that continues runs all of them
    streams_.append(*node);
    if (node->phase() == CallbackNode::Phase::cancelled) append_cancelled(*node);
  }
  const auto not_returned = static_cast<std::uint32_t>(left.size()) + turns_.running(process());
  returned_.store(count_of(inbox) - not_returned, std::memory_order_release);
}

}} // namespace cuevent::CUEVENT_ABI
