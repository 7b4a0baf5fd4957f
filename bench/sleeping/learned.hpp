// SPDX-License-Identifier: MIT
// A prototype of the wait that learns.
#pragma once

#include "testbed.hpp"

namespace sleeping {

/// The second smallest of the last eight times: few times are smaller, and one outlier does no harm.
class LowQuantile {
public:
  void add(Nanoseconds time) { times_[count_++ % times_.size()] = time; }
  void forget() { count_ = 0; }
  /// 0 if too few times are known.
  Nanoseconds value() const {
    const std::size_t size = std::min(count_, times_.size());
    if (size < 3) return 0;
    Nanoseconds least = times_[0], second = times_[1];
    if (second < least) std::swap(least, second);
    for (std::size_t i = 2; i < size; ++i) {
      if (times_[i] < least) {
        second = least;
        least = times_[i];
      } else if (times_[i] < second) {
        second = times_[i];
      }
    }
    return second;
  }

private:
  std::array<Nanoseconds, 8> times_{};
  std::size_t count_ = 0;
};

/// A margin that a given small part of all sleeps overshoots.
class Margin {
public:
  Nanoseconds value() const { return margin_; }
  void overshot(Nanoseconds by) {
    if (by > margin_)
      margin_ = std::min(by + by / 8, most_);
    else
      margin_ -= margin_ / 2048;
  }

private:
  static constexpr Nanoseconds most_ = 2'000'000;
  Nanoseconds margin_ = 150'000;
};

/// Expects the end of a wait from earlier ones: from how long they took, and from the time between ends.
class Learned {
public:
  static constexpr Nanoseconds longest_sleep = 1'000'000, spin = 50'000;

  Nanoseconds expected(Nanoseconds start) const {
    const Nanoseconds length = lengths_.value(), period = periods_.value();
    Nanoseconds end = length == 0 ? 0 : start + length;
    if (period != 0) end = std::max(end, last_end_ + period);
    return end;
  }

  /// The work has ended by `end`. `exact`: a spinning wait saw it.
  void ended(Nanoseconds start, Nanoseconds end, bool exact) {
    if (exact)
      misses_ = 0;
    else if (++misses_ == 2)
      forget();
    lengths_.add(end - start);
    if (last_end_ != 0) periods_.add(end - last_end_);
    last_end_ = end;
  }
  void forget() {
    lengths_.forget();
    periods_.forget();
    misses_ = 0;
  }

  Margin margin;

private:
  LowQuantile lengths_, periods_;
  Nanoseconds last_end_ = 0;
  int misses_ = 0;
};

/// Waits until `ready()`: sleeps by `sleep(until)` to shortly before the expected end, then spins, then
/// backs off.
template <class Ready, class Sleep>
void wait_learned(Learned& learned, const Ready& ready, const Sleep& sleep) {
  const Nanoseconds start = now();
  const Nanoseconds expected = learned.expected(start);
  const Nanoseconds target = expected - learned.margin.value();
  Nanoseconds time = start;
  bool slept = false, late = false;
  while (time < target) {
    const Nanoseconds until = std::min(target, time + Learned::longest_sleep);
    sleep(until);
    slept = true;
    time = now();
    if (until == target) learned.margin.overshot(time - until);
    if (time < target && ready()) return learned.ended(start, time, false);
    late = time > expected;
  }
  const Nanoseconds patient = std::max(start, expected) + Learned::spin;
  for (bool first = true;; first = false) {
    if (ready()) {
      time = now();
      if (!(slept && first && late)) learned.ended(start, time, !(slept && first));
      return;
    }
    time = now();
    if (time < patient) continue;
    if (time - start < 1'000'000)
      sched_yield();
    else
      sleep(time + std::min((time - start) / 10, Learned::longest_sleep));
  }
}

} // namespace sleeping
