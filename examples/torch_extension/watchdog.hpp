// SPDX-License-Identifier: MIT
// Watchdog: says when a stream makes no progress, even while a thread blocks with the GIL.
#pragma once

#include "stream.hpp"

#include <cuevent/completion_queue.hpp>

#include <atomic>
#include <chrono>
#include <thread>

/// Watches the beats of a program: call beat() after each step. If no beat completes for `limit`
/// although one is submitted, a thread writes to stderr.
///
/// The thread makes no Python calls, so it runs on while another thread blocks with the GIL. It
/// polls in relaxed mode, so it harms no capture, and creates no events.
class Watchdog {
public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  Watchdog(const cuevent::Context& context, Seconds limit);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Marks the end of a step on `stream`. Waits while the launch queue of `stream` is full.
  void beat(Stream stream);

  long completed() const noexcept { return completed_; } ///< beats
  /// True if no beat has completed for longer than the limit.
  bool stuck() const noexcept;
  /// The error of the first beat that failed, or CUDA_SUCCESS.
  CUresult error() const noexcept { return error_; }

private:
  void complete(CUresult result) noexcept;
  void watch() noexcept;

  const Clock::duration limit_;
  std::atomic<long> submitted_{0}, completed_{0};
  std::atomic<CUresult> error_{CUDA_SUCCESS};
  std::atomic<Clock::time_point> moved_; // when a beat last completed, or began to wait alone
  std::atomic<bool> ended_{false};
  cuevent::CompletionQueue queue_;
  std::thread thread_;
};
