// SPDX-License-Identifier: MIT
// The device's clock, read through events. Inside the library only.
#pragma once

#include "core/status.hpp"
#include "timing/timer_stream.hpp"

#include <cuevent/stage_timer.hpp>

#include <array>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The times of events, in nanoseconds since the clock was made.
///
/// The driver gives the time between two events as a float of milliseconds. The float rounds 4 s by
/// 0.12 us and a minute by 2 us. So the clock records anchors: events of known time, one every 100
/// ms, on a stream of the clock's own, where nothing holds them up. Each event is measured from the
/// nearest of the last anchors, which rounds by 3 ns. Each anchor is measured from the anchor
/// before it.
///
/// The class has more members than most, because anchors and calibration share the stream and the
/// way to record, wait for and measure events.
class DeviceClock {
public:
  /// Makes the stream and the events, and calibrates.
  Status create(const Context& context) noexcept;

  DeviceClock() noexcept = default;
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;

  /// The time of an event. CUDA_ERROR_NOT_READY until the event has completed.
  Status time_of(const DriverEvent& event, double& time) noexcept;

  /// Whether a new anchor is due at this time of the host.
  bool due(long long now) const noexcept { return now - anchored_ >= anchor_distance; }
  /// Asks whether the context exists. Call this once before events are read: if the context was reset and
  /// retained again, the driver crashes when one of its events is queried. Driver function: cuCtxGetId.
  Status check_context() const noexcept { return {context_.status(), "cuCtxGetId"}; }
  /// Calls check_context(), and then reads and records anchors when they are due. Does not wait.
  Status keep_up() noexcept;

  /// Measures the host's time at device time zero, the resolution, and an empty stage. Waits for
  /// the clock's own events.
  Status calibrate() noexcept;

  const StageClock& reading() const noexcept { return reading_; }

  long long host_now() const noexcept { return table().clock_now(); }

private:
  static constexpr long long anchor_distance = 100'000'000; // ns

  struct Anchor {
    DriverEvent event;
    double time = 0;
  };

  const DriverTable& table() const noexcept { return context_.driver().table(); }
  Status record(DriverEvent& event) noexcept;
  Status wait_for(const DriverEvent& event) noexcept;
  void rounded(double nanoseconds) noexcept; // notes a measurement over this distance
  std::size_t next_anchor() const noexcept { return (newest_ + 1) % anchors_.size(); }
  const Anchor& nearest_to(double time) const noexcept;
  Status drop_anchor() noexcept;
  Status take_anchor() noexcept;
  Status align(long long& resolution) noexcept;
  Status probe(long long& resolution) noexcept;

  Context context_;
  TimerStream stream_;
  std::array<Anchor, 64> anchors_;
  std::size_t newest_ = 0;  // the newest anchor with a known time
  std::size_t known_ = 0;   // the number of anchors with a known time, up to the newest
  bool on_its_way_ = false; // the anchor after the newest is recorded
  long long anchored_ = 0;  // when the last anchor was recorded, on the host's clock
  std::array<DriverEvent, 9> probes_;
  StageClock reading_;
};

}} // namespace cuevent::CUEVENT_ABI
