// SPDX-License-Identifier: MIT
// When a thread that sleeps on a timer polls next: a prototype for CompletionQueue::arm().
#pragma once

#include "testbed.hpp"

#include "core/wait_history.hpp"

namespace sleeping {

/// How long after an end the next poll may come. It is less for short waits, and 0.1 % of long ones.
struct Lateness {
  Nanoseconds most;
  Nanoseconds after(Nanoseconds waited) const {
    return std::max(std::clamp(waited / 8, std::min(most, 35'000LL), most), waited / 1000);
  }
};

/// The next poll of one stream.
class PollTimes {
public:
  /// A wait begins.
  void begin(Nanoseconds start) {
    start_ = start;
    expected_ = history_.expected_end(start);
  }
  /// The time of the next poll. Not after `now` if the end is near.
  Nanoseconds next(Nanoseconds now, Lateness lateness) const {
    const Nanoseconds wake = expected_ - history_.margin();
    if (expected_ > start_ && now < wake) return wake;
    if (expected_ > start_ && now < expected_ + 50'000) return now;
    return now + lateness.after(now - std::max(start_, expected_));
  }
  /// Whether the time of the end is expected, and not long past.
  bool expected(Nanoseconds now) const { return expected_ > start_ && now < expected_ + 1'000'000; }
  /// A sleep until `wanted` has ended.
  void woke(Nanoseconds now, Nanoseconds wanted) {
    if (expected_ > start_ && wanted == expected_ - history_.margin()) history_.woke(now - wanted);
  }
  void ended(Nanoseconds end) { history_.ended(start_, end); }
  Nanoseconds margin() const { return history_.margin(); }

private:
  cuevent::WaitHistory history_;
  Nanoseconds start_ = 0, expected_ = 0;
};

} // namespace sleeping
