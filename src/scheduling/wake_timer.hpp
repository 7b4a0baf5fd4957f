// SPDX-License-Identifier: MIT
// The descriptor that wakes the threads that wait for a CompletionQueue. Internal to the library.
#pragma once

#include <cuevent/version.hpp>

#include <cuda.h>

#include <atomic>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A timer of the kernel (timerfd). The timer alone does everything: it is set to the time of the next
/// poll, or to a time that has passed, which makes the descriptor readable at once. Each setting
/// replaces the one before, and makes the descriptor unreadable until its time. Nobody reads it.
class WakeTimer {
public:
  WakeTimer() = default;
  WakeTimer(const WakeTimer&) = delete;
  WakeTimer& operator=(const WakeTimer&) = delete;
  ~WakeTimer();

  /// The first call makes the timer, readable until set(): an event loop that nobody has armed then polls.
  /// CUDA_ERROR_OPERATING_SYSTEM if that fails; errno says why.
  CUresult open(int& descriptor) noexcept;
  bool is_open() const noexcept { return descriptor_.load(std::memory_order_acquire) >= 0; }

  /// The timer's clock, in ns. The clock of a simulated driver may stand still while a thread sleeps.
  static long long now() noexcept;
  /// Readable after this many ns. Zero: never. The timer is open.
  void set(long long nanoseconds) noexcept;
  /// Readable at once. Does nothing if the timer is not open.
  void ring() noexcept;

private:
  std::atomic<int> descriptor_{-1};
};

}} // namespace cuevent::CUEVENT_ABI
