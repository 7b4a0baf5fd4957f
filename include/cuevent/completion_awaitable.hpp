// SPDX-License-Identifier: MIT
/// \file
/// \brief CompletionAwaitable: what a coroutine awaits until the work of a stream is complete.
#pragma once

#include <cuevent/completion_lane.hpp>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// The awaitable that CompletionQueue::completion() and CompletionLane::completion() return. The
/// queue may move at any time.
///
/// Thread-safety: as CompletionQueue::when_complete.
/// Context: as CompletionQueue::when_complete.
/// During capture: as CompletionQueue::when_complete.
class CompletionAwaitable {
public:
  /// The submission happens when the coroutine awaits. `token`, if not null, must exist until then.
  explicit CompletionAwaitable(const CompletionLane& lane, CompletionToken* token = nullptr) noexcept
      : lane_(lane), token_(token) {}
  /// A completion that was refused. The coroutine does not wait and receives `refused`.
  explicit CompletionAwaitable(CUresult refused) noexcept : result_(refused), refused_(true) {}

  bool await_ready() const noexcept { return refused_; }
  template <class Handle> // std::coroutine_handle<...>, without including <coroutine>
  bool await_suspend(Handle coroutine) noexcept {
    const auto resume = [this, coroutine](CUresult result) {
      result_ = result;
      coroutine.resume();
    };
    const CUresult refused = lane_.try_when_complete(resume, token_);
    // From here on the coroutine may have resumed elsewhere and destroyed this object.
    if (refused == CUDA_SUCCESS) return true;
    result_ = refused;
    return false;
  }
  CUresult await_resume() const noexcept { return result_; }

private:
  CompletionLane lane_;
  CompletionToken* token_ = nullptr;
  CUresult result_ = CUDA_ERROR_NOT_READY;
  bool refused_ = false;
};

inline CompletionAwaitable CompletionLane::completion(CompletionToken* token) const noexcept {
  return CompletionAwaitable(*this, token);
}

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
