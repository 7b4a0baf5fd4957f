// SPDX-License-Identifier: MIT
// Holds a context while work is submitted to it. Inside the library only.
#pragma once

#include "core/fork_lock.hpp"
#include "core/status.hpp"
#include "timing/timer_stream.hpp"

#include <cuevent/driver_event.hpp>

#include <atomic>
#include <chrono>
#include <pthread.h>

namespace cuevent { inline namespace CUEVENT_ABI {

/// All streams of the context wait on the device for one event, and the event waits for a value in memory of
/// the host. A thread stores the value if the host does not do it in time: the program may wait for the
/// device meanwhile, or a launch queue may be full.
///
/// A forked child has neither the device nor the thread. There, nothing waits and nothing is let go.
class ContextHold {
public:
  ContextHold() noexcept = default;
  ContextHold(const ContextHold&) = delete;
  ContextHold& operator=(const ContextHold&) = delete;
  /// Lets the context go. Waits until the device does not use the memory any more.
  ~ContextHold();

  /// `context` must be current. `whole`: the driver can hold all streams of a context. Otherwise these are
  /// held: `measured`, and the streams that synchronize with the legacy default stream. Driver functions:
  /// cuStreamCreate, cuEventCreate, cuMemHostRegister, cuMemHostGetDevicePointer.
  Status create(const Context& context, CUstream measured, bool whole, std::chrono::nanoseconds limit);

  /// From now on, submitted work waits. Driver functions: cuStreamWaitValue32, cuEventRecord, cuCtxWaitEvent
  /// or cuStreamWaitEvent.
  Status begin() noexcept;
  /// Lets the context go. Returns false if the limit had come first, or if nothing was held.
  bool end() noexcept;
  /// Whether the context is held: begin() came last, and the limit has not come since.
  bool lasts() const noexcept { return number_.load() % 2 != 0; }

  /// The stream that the value holds. It does not synchronize with the legacy default stream.
  CUstream stream() const noexcept { return stream_.handle(); }

private:
  /// What is registered. Shared with forked children: otherwise the first store after a fork could go to a
  /// copy, while the device looks at the original.
  struct alignas(4096) Page {
    unsigned passed = 0;
  };

  Status make_page() noexcept;
  Status start_watchdog() noexcept;
  void stop_watchdog() noexcept;
  void run() noexcept;
  bool let_go(unsigned held) noexcept;

  Context context_;
  CUstream measured_ = nullptr;
  bool whole_ = false;
  TimerStream stream_;
  DriverEvent let_go_;
  Page* page_ = nullptr;
  bool registered_ = false;
  CUdeviceptr address_ = 0;

  std::chrono::nanoseconds limit_{};
  /// Odd while a hold lasts. Each hold has a number of its own, so the watchdog never ends a later one. The
  /// page has the number after that of the newest hold that has ended.
  std::atomic<unsigned> number_{0};
  std::atomic<std::chrono::steady_clock::time_point> begun_{};
  std::atomic<unsigned> stop_{0}; ///< 1: the watchdog ends, and wakes at once
  bool watched_ = false;
  pthread_t watchdog_{};
  HomeProcess home_;
};

}} // namespace cuevent::CUEVENT_ABI
