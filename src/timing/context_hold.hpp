// SPDX-License-Identifier: MIT
// Holds a context while work is submitted to it. Inside the library only.
#pragma once

#include "core/status.hpp"
#include "timing/timer_stream.hpp"

#include <cuevent/driver_event.hpp>

#include <atomic>
#include <chrono>
#include <thread>

namespace cuevent { inline namespace CUEVENT_ABI {

/// All streams of the context wait on the device for one event, and the event waits for a value in memory of
/// the host. A thread stores the value if the host does not do it in time: the program may wait for the
/// device meanwhile, or a launch queue may be full.
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

  /// The stream that the value holds. It does not synchronize with the legacy default stream.
  CUstream stream() const noexcept { return stream_.handle(); }

private:
  struct alignas(4096) Page { // pages are what is registered
    unsigned passed = 0;
  };

  Status make_page() noexcept;
  void run() noexcept;
  bool let_go(unsigned held) noexcept;

  Context context_;
  CUstream measured_ = nullptr;
  bool whole_ = false;
  TimerStream stream_;
  DriverEvent let_go_;
  Page* page_ = nullptr;
  CUdeviceptr address_ = 0;

  std::chrono::nanoseconds limit_{};
  /// Odd while a hold lasts. Each hold has a number of its own, so the watchdog never ends a later one. The
  /// page has the number after that of the newest hold that has ended.
  std::atomic<unsigned> number_{0};
  std::atomic<std::chrono::steady_clock::time_point> begun_{};
  std::atomic<bool> stop_{false};
  std::thread watchdog_;
};

}} // namespace cuevent::CUEVENT_ABI
