// The device's clock, as events tell it. Inside the library only.
#pragma once

#include "core/status.hpp"
#include "timing/timer_stream.hpp"

#include <cuevent/stage_timer.hpp>

#include <array>

namespace cuevent {

/// When events happened, in nanoseconds of double precision since the clock was made.
///
/// The driver gives times between two events as a float of milliseconds, which after 4 s is rounded by 0.12
/// us, and after a minute by 2. So there are anchors: events of known time, one every 100 ms, on a stream of
/// the clock's own, where nothing holds them up. An event is measured from the nearest of the last few, which
/// rounds by 3 ns, and each anchor from the one before.
class DeviceClock {
public:
  /// Makes the stream and the events, and calibrates.
  Status create(const Context& context) noexcept;

  DeviceClock() noexcept = default;
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;

  /// The time of an event, CUDA_ERROR_NOT_READY while there is none.
  Status time_of(const DriverEvent& event, double& time) noexcept;

  /// Whether a new anchor is due at this time of the host.
  bool due(long long now) const noexcept { return now - anchored_ >= anchor_distance; }
  /// Sees to the anchors. Waits for nothing.
  Status keep_up() noexcept;

  /// Finds the host's time at the device's time zero, the resolution, and what an empty stage reads. It waits
  /// for the clock's own events.
  Status calibrate() noexcept;

  const StageClock& reading() const noexcept { return reading_; }

  long long host_now() const noexcept { return table().clock_now(); }

private:
  static constexpr long long anchor_distance = 100'000'000;

  struct Anchor {
    DriverEvent event;
    double time = 0;
  };

  const DriverTable& table() const noexcept { return context_.driver().table(); }
  Status record(DriverEvent& event) noexcept;
  Status wait_for(const DriverEvent& event) noexcept;
  Status elapsed(const DriverEvent& from, const DriverEvent& to, double& nanoseconds) noexcept;
  void rounded(double nanoseconds) noexcept; // a time that was measured over this distance
  std::size_t next_anchor() const noexcept { return (newest_ + 1) % anchors_.size(); }
  const Anchor& nearest_to(double time) const noexcept;
  Status drop_anchor() noexcept;
  Status take_anchor() noexcept;
  Status align(long long& resolution) noexcept;
  Status probe(long long& resolution) noexcept;

  Context context_;
  TimerStream stream_;
  std::array<Anchor, 64> anchors_;
  std::size_t newest_ = 0;  // whose time is known
  std::size_t known_ = 0;   // how many of them, up to the newest
  bool on_its_way_ = false; // the one after the newest is recorded
  long long anchored_ = 0;  // when the last was recorded, on the host's clock
  std::array<DriverEvent, 9> probes_;
  StageClock reading_;
};

} // namespace cuevent
