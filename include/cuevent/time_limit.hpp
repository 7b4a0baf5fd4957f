// TimeLimit and Deadline: how long a timed wait may last, from any duration and any clock.
#pragma once

#include <chrono>
#include <ratio>
#include <type_traits>

#pragma GCC visibility push(default)
namespace cuevent {

/// How long a wait may last. Converts from every std::chrono::duration, also from 1.5s and hours::max():
/// what has no room in 64 bits of nanoseconds (292 years) means forever. Zero for a negative duration, for
/// NaN and by default.
/// Thread-safety: a value. Context, and during capture: harmless; calls no driver function.
class TimeLimit {
public:
  constexpr TimeLimit() noexcept = default;
  template <class Rep, class Period>
  constexpr TimeLimit(const std::chrono::duration<Rep, Period>& duration) noexcept
      : count_(saturated(duration)) {
    if (count_ < 0) count_ = 0;
  }

  /// Never negative; nanoseconds::max() means forever.
  constexpr std::chrono::nanoseconds nanoseconds() const noexcept { return std::chrono::nanoseconds(count_); }

private:
  friend class Deadline;
  static constexpr long long most_ = std::chrono::nanoseconds::max().count();

  /// In nanoseconds, from -most_ to most_.
  template <class Rep, class Period>
  static constexpr long long saturated(const std::chrono::duration<Rep, Period>& duration) noexcept {
    using Unit = std::ratio_divide<Period, std::nano>;
    constexpr auto multiple = static_cast<double>(Unit::num), part = static_cast<double>(Unit::den);
    constexpr double limit = 9.2e18; // a little below most_, so that rounding does not matter
    const double about = static_cast<double>(duration.count()) * multiple / part;
    if (!(about > -limit)) return -most_; // NaN too
    if (about > limit) return most_;
    if constexpr (std::chrono::treat_as_floating_point<Rep>::value) {
      return static_cast<long long>(about);
    } else {
      const auto whole = static_cast<long long>(duration.count() / Unit::den);
      const auto rest = static_cast<double>(duration.count() % Unit::den);
      return whole * Unit::num + static_cast<long long>(rest * multiple / part);
    }
  }

  static constexpr long long sum(long long a, long long b) noexcept {
    if (b > 0 && a > most_ - b) return most_;
    if (b < 0 && a < -most_ - b) return -most_;
    return a + b;
  }

  long long count_ = 0;
};

/// When a wait ends at the latest. Converts from every std::chrono::time_point. One of steady_clock is taken
/// as it is. One of another clock is converted when the Deadline is made, by how far it then is from that
/// clock's now(): what that clock is set to afterwards changes nothing. One that is too far away for 64 bits of
/// nanoseconds never comes; one that is NaN has passed, as by default.
/// Thread-safety: a value. Context, and during capture: harmless; calls no driver function.
class Deadline {
public:
  constexpr Deadline() noexcept = default;
  explicit constexpr Deadline(TimeLimit timeout) noexcept : count_(timeout.count_), from_(From::the_call) {}
  template <class Duration>
  constexpr Deadline(const std::chrono::time_point<std::chrono::steady_clock, Duration>& time) noexcept
      : count_(TimeLimit::saturated(time.time_since_epoch())) {}
  template <class Clock, class Duration,
            std::enable_if_t<!std::is_same<Clock, std::chrono::steady_clock>::value, int> = 0>
  Deadline(const std::chrono::time_point<Clock, Duration>& time) noexcept
      : count_(left(TimeLimit::saturated(time.time_since_epoch()),
                    TimeLimit::saturated(Clock::now().time_since_epoch()))),
        from_(From::the_call) {}

  /// The deadline in nanoseconds of steady_clock, which is at `now`, or of what stands for it in a simulated
  /// driver. nanoseconds::max() never comes.
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

} // namespace cuevent
#pragma GCC visibility pop
