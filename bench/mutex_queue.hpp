// SPDX-License-Identifier: MIT
// What a program would write without a CompletionQueue.
#pragma once

#include <cuevent/driver_event.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

/// The callbacks in submission order, each with a new event.
class MutexQueue {
public:
  explicit MutexQueue(const cuevent::Context& context) : context_(context) {}

  void when_complete(CUstream stream, std::function<void(CUresult)> callback) {
    cuevent::DriverEvent event(context_);
    event.record(stream);
    const std::lock_guard lock(mutex_);
    pending_.push_back({std::move(event), std::move(callback)});
  }

  std::size_t poll() {
    std::size_t count = 0;
    for (;; ++count) {
      std::unique_lock lock(mutex_);
      if (pending_.empty()) return count;
      const CUresult result = pending_.front().event.try_query_relaxed();
      if (result == CUDA_ERROR_NOT_READY) return count;
      const Pending done = std::move(pending_.front());
      pending_.pop_front();
      lock.unlock();
      done.callback(result);
    }
  }

  /// A queue that does not distinguish streams queries every event.
  std::size_t query_each() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(pending_.begin(), pending_.end(), [](const Pending& each) {
      return each.event.try_query_relaxed() != CUDA_ERROR_NOT_READY;
    }));
  }

private:
  struct Pending {
    cuevent::DriverEvent event;
    std::function<void(CUresult)> callback;
  };
  cuevent::Context context_;
  std::mutex mutex_;
  std::deque<Pending> pending_;
};
