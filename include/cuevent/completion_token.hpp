// SPDX-License-Identifier: MIT
/// \file
/// \brief CompletionToken: cancels a callback of a CompletionQueue.
#pragma once

#include <cuevent/version.hpp>

#include <cuda.h>

#include <cstdint>
#include <utility>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

class [[gnu::visibility("hidden")]] CallbackStorage;

/// Cancels a callback: the next poll runs it with CompletionToken::cancelled, without waiting for
/// its work. The work itself goes on, and may still use its memory.
///
///     CompletionQueue queue(context);
///     CompletionToken token;
///     const auto done = [](CUresult result) { assert(result == CompletionToken::cancelled); };
///     queue.when_complete(stream, done, &token);
///     if (token.cancel()) queue.poll();
///
/// A token may outlive its callback and its queue. A kept token keeps some host memory of the
/// queue, and the queue's descriptor if it has one, but no event and no context.
/// Thread-safety: cancel() from any thread, concurrently with everything except the end of this
/// token and its moves. A callback that destroys its token orders this with cancel() elsewhere.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
class CompletionToken {
public:
  /// The result that a cancelled callback receives. No query of an event returns this code.
  static constexpr CUresult cancelled = CUDA_ERROR_TIMEOUT;

  /// A token for no callback.
  CompletionToken() noexcept = default;
  CompletionToken(CompletionToken&& other) noexcept
      : storage_(std::exchange(other.storage_, nullptr)), life_(other.life_), node_(other.node_) {}
  CompletionToken& operator=(CompletionToken&& other) noexcept {
    CompletionToken taken(std::move(other));
    std::swap(storage_, taken.storage_);
    std::swap(life_, taken.life_);
    std::swap(node_, taken.node_);
    return *this;
  }
  /// Does not cancel.
  ~CompletionToken() {
    if (storage_ != nullptr) drop();
  }

  /// Returns true if this call has cancelled the callback. Returns false in these cases:
  /// - The callback has begun or returned.
  /// - It was cancelled before.
  /// - The token is for no callback.
  /// If a cancellation races with a poll that finds the work complete, exactly one of them wins. A
  /// cancelled callback runs once, in the next poll and before callbacks that were submitted
  /// earlier, but not while another callback of its stream runs. Takes no lock.
  bool cancel() const noexcept;

  /// Whether the token was given to a submission that succeeded.
  explicit operator bool() const noexcept { return storage_ != nullptr; }

private:
  friend class CallbackStorage;
  CompletionToken(CallbackStorage& storage, std::uint64_t life, std::uint32_t node) noexcept
      : storage_(&storage), life_(life), node_(node) {}
  void drop() noexcept;

  CallbackStorage* storage_ = nullptr;
  std::uint64_t life_ = 0;
  std::uint32_t node_ = 0;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
