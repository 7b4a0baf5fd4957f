// SPDX-License-Identifier: MIT
// The times of a watched process, from the ticks of its clock.
#pragma once

#include "protocol/ticks.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace watch {

/// The time of CLOCK_MONOTONIC.
inline std::chrono::nanoseconds time_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

/// Both processes read the same clock. Its rate is the number of ticks since the process told the first one.
class TickClock {
public:
  TickClock(std::uint64_t first_tick, std::int64_t first_time)
      : first_tick_(first_tick), first_time_(std::clamp<std::int64_t>(
                                     first_time, 0, time_now().count())) { // a process may show any time
    update();
    last_ = (watch::ticks() - first_tick_) >> watch::coarse_shift;
  }

  /// Measures the rate again. The longer ago the first tick, the better.
  void update() {
    const auto ticks = static_cast<double>(watch::ticks() - first_tick_);
    if (first_tick_ != 0 && ticks > 0)
      rate_ = static_cast<double>((time_now() - first_time_).count()) / ticks;
  }

  std::chrono::nanoseconds duration(std::uint64_t ticks) const {
    constexpr double longest = 1e18; // ns, of which a process may show more
    return std::chrono::nanoseconds(
        static_cast<std::int64_t>(std::clamp(static_cast<double>(ticks) * rate_, 0.0, longest)));
  }

  std::chrono::nanoseconds time_of(std::uint64_t tick) const {
    return first_time_ + duration(tick - first_tick_);
  }

  /// The time of a record. Records come nearly in the order of their times, and hold only the lower bits.
  std::chrono::nanoseconds time_of_record(std::uint32_t steps) {
    last_ += static_cast<std::uint64_t>(
        static_cast<std::int64_t>(static_cast<std::int32_t>(steps - static_cast<std::uint32_t>(last_))));
    return first_time_ + duration(last_ << watch::coarse_shift);
  }

private:
  std::uint64_t first_tick_;
  std::chrono::nanoseconds first_time_;
  double rate_ = 1; // ns of a tick
  std::uint64_t last_ = 0;
};

} // namespace watch
