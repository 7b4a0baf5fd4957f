// SPDX-License-Identifier: MIT
// What a CompletionQueue shares with its tokens. Internal to the library.
#pragma once

#include "scheduling/callback_nodes.hpp"
#include "scheduling/wake_timer.hpp"

#include <cuevent/completion_token.hpp>

#include <atomic>
#include <cstdint>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The nodes of a queue, and a stack of those that were cancelled. The queue and each token hold a
/// reference, so a token can cancel at any time.
///
/// A poll takes a cancelled node from the stack and runs its callback. Until then, every poll passes
/// over the node. The node is therefore never reused while a token is about to push it. The end of
/// the queue runs the callback without waiting for that, because it reuses no node.
class CallbackStorage : protected CallbackStack {
public:
  CallbackStorage(const CallbackStorage&) = delete;
  CallbackStorage& operator=(const CallbackStorage&) = delete;
  virtual ~CallbackStorage() = default;

  /// A token for the life of a node that begins now.
  CompletionToken token(const CallbackNode& node) noexcept {
    hold();
    return {*this, node.life.load(std::memory_order_relaxed), node.index};
  }

  bool cancel(std::uint32_t index, std::uint64_t life) noexcept {
    CallbackNode& node = nodes_.at(index);
    if (!node.life.compare_exchange_strong(life, CallbackNode::in(life, CallbackNode::Phase::cancelled),
                                           std::memory_order_release, std::memory_order_relaxed))
      return false;
    push_cancelled(node);
    timer_.ring();
    return true;
  }

  void drop() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

protected:
  CallbackStorage() = default;

  void push_cancelled(CallbackNode& node) noexcept {
    std::uint32_t newest = cancelled_.load(std::memory_order_relaxed);
    do {
      node.cancelled_before.store(newest, std::memory_order_relaxed);
    } while (!cancelled_.compare_exchange_weak(newest, node.index, std::memory_order_release,
                                               std::memory_order_relaxed));
  }

  /// Keeps the storage, and with it the timer, until drop().
  void hold() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }

  CallbackNodes nodes_;
  WakeTimer timer_;
  // Tokens write these two, and submissions without a token read what is around them.
  alignas(cache_line) std::atomic<std::uint32_t> cancelled_{none}; // the node that was cancelled last

private:
  std::atomic<std::uint32_t> references_{1};
};

}} // namespace cuevent::CUEVENT_ABI
