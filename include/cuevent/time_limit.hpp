// SPDX-License-Identifier: MIT
// TimeLimit and Deadline: the end of a timed wait, from any duration and any clock.
#pragma once

#include <cuevent/version.hpp>

#include <chrono>
#include <ratio>
#include <type_traits>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// How long a wait may last. Converts from every std::chrono::duration.
///
///     assert(event.synchronize_for(std::chrono::milliseconds(5)));
///     assert(event.synchronize_for(1.5s));                      // fractions are fine
///     assert(event.synchronize_for(std::chrono::hours::max())); // forever
///
/// Thread-safety: a plain value.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
class TimeLimit {
public:
  /// A limit of zero.
  constexpr TimeLimit() noexcept = default;
  /// A duration that does not fit 64 bits of nanoseconds (292 years) means forever. A negative
  /// duration and NaN mean zero.
  template <class Rep, class Period>
  constexpr TimeLimit(const std::chrono::duration<Rep, Period>& duration) noexcept
      : count_(saturated(duration)) {
    if (count_ < 0) count_ = 0;
  }

  /// The limit in nanoseconds. Never negative; nanoseconds::max() means forever.
  constexpr std::chrono::nanoseconds nanoseconds() const noexcept { return std::chrono::nanoseconds(count_); }

private:
  friend class Deadline;
  static constexpr long long most_ = std::chrono::nanoseconds::max().count();

  /// In nanoseconds, from -most_ to most_.
  template <class Rep, class Period>
  static constexpr long long saturated(const std::chrono::duration<Rep, Period>& duration) noexcept {
    // A tick is Period::num * PerSecond::num / PerSecond::den nanoseconds. The product can overflow.
    using PerSecond = std::ratio<std::nano::den, Period::den>;
    constexpr long long den = PerSecond::den;
    constexpr auto part = static_cast<double>(den);
    constexpr auto multiple = static_cast<double>(Period::num) * static_cast<double>(PerSecond::num);
    constexpr double limit = 9.2e18; // slightly below most_, so that rounding does not matter
    const double about = static_cast<double>(duration.count()) * multiple / part;
    if (!(about > -limit)) return -most_; // NaN too
    if (about > limit) return most_;
    if constexpr (std::chrono::treat_as_floating_point<Rep>::value || Period::num > most_ / PerSecond::num) {
      return static_cast<long long>(about);
    } else {
      const auto whole = static_cast<long long>(duration.count() / den);
      const auto rest = static_cast<double>(duration.count() % den);
      return whole * (Period::num * PerSecond::num) + static_cast<long long>(rest * multiple / part);
    }
  }

  static constexpr long long sum(long long a, long long b) noexcept {
    if (b > 0 && a > most_ - b) return most_;
    if (b < 0 && a < -most_ - b) return -most_;
    return a + b;
  }

  long long count_ = 0;
};

/// When a wait ends at the latest. Converts from every std::chrono::time_point.
///
///     using Clock = std::chrono::system_clock;
///     const Deadline deadline = Clock::now() + std::chrono::seconds(1);
///     if (!event.synchronize_until(deadline)) std::puts("timed out");
///
/// Thread-safety: a plain value.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
class Deadline {
public:
  /// A deadline that has already passed.
  constexpr Deadline() noexcept = default;
  /// `timeout` after the start of the wait.
  explicit constexpr Deadline(TimeLimit timeout) noexcept : count_(timeout.count_), from_(From::the_call) {}
  /// A time of steady_clock is used as it is. A time that does not fit 64 bits of nanoseconds
  /// never comes, and NaN has already passed.
  template <class Duration>
  constexpr Deadline(const std::chrono::time_point<std::chrono::steady_clock, Duration>& time) noexcept
      : count_(TimeLimit::saturated(time.time_since_epoch())) {}
  /// A time of another clock is converted now, by its distance from that clock's now(). Later
  /// changes to that clock have no effect.
  template <class Clock, class Duration,
            std::enable_if_t<!std::is_same<Clock, std::chrono::steady_clock>::value, int> = 0>
  Deadline(const std::chrono::time_point<Clock, Duration>& time) noexcept
      : count_(left(TimeLimit::saturated(time.time_since_epoch()),
                    TimeLimit::saturated(Clock::now().time_since_epoch()))),
        from_(From::the_call) {}

  /// The deadline in nanoseconds of the clock that reads `now`: steady_clock, or the clock of a
  /// simulated driver. nanoseconds::max() never comes.
  constexpr std::chrono::nanoseconds at(std::chrono::nanoseconds now) const noexcept {
    return std::chrono::nanoseconds(from_ == From::epoch ? count_ : TimeLimit::sum(now.count(), count_));
  }

private:
  enum class From : unsigned char { epoch, the_call };
  static constexpr long long left(long long end, long long now) noexcept {
    const bool never = end == TimeLimit::most_, passed = end == -TimeLimit::most_;
    return never || passed ? end : TimeLimit::sum(end, -now);
  }

  long long count_ = -TimeLimit::most_;
  From from_ = From::epoch;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
