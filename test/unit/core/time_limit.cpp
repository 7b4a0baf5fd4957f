// SPDX-License-Identifier: MIT
#include <cuevent/time_limit.hpp>

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ratio>
#include <type_traits>

using namespace cuevent;
using namespace std::chrono_literals;
using std::chrono::duration;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

static_assert(std::is_convertible_v<std::chrono::hours, TimeLimit>);
static_assert(std::is_convertible_v<duration<float>, TimeLimit>);
static_assert(!std::is_convertible_v<int, TimeLimit>);
static_assert(std::is_convertible_v<steady_clock::time_point, Deadline>);
static_assert(std::is_convertible_v<system_clock::time_point, Deadline>);
static_assert(!std::is_convertible_v<nanoseconds, Deadline>); // a duration is not a deadline
static_assert(!std::is_convertible_v<TimeLimit, Deadline>);

namespace {

constexpr nanoseconds forever = nanoseconds::max();

nanoseconds of(TimeLimit timeout) { return timeout.nanoseconds(); }

/// A clock whose epoch is in the future, as it may be for std::chrono::file_clock.
struct EarlyClock {
  using duration = std::chrono::seconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<EarlyClock>;
  [[maybe_unused]] static constexpr bool is_steady = true;
  static time_point now() noexcept { return time_point(-100s); }
};

} // namespace

TEST_CASE("a timeout converts any duration to nanoseconds") {
  static_assert(TimeLimit().nanoseconds() == 0ns);
  static_assert(TimeLimit(3ms).nanoseconds() == 3'000'000ns);
  CHECK(of(1min) == 60s);
  CHECK(of(1.5s) == 1500ms);
  CHECK(of(duration<float>(0.25F)) == 250ms);
  CHECK(of(duration<std::uint8_t, std::ratio<60>>(200)) == 200min);
  CHECK(of(duration<int, std::ratio<1, 3>>(4)) == 1'333'333'333ns);
  CHECK(of(duration<long long, std::pico>(1'999'999)) == 1999ns);
  CHECK(of(duration<unsigned long long, std::pico>(18'000'000'000'000'000'000ULL)) ==
        18'000'000'000'000'000ns);
  // No double has this value.
  CHECK(of(nanoseconds(9'007'199'254'740'993)) == nanoseconds(9'007'199'254'740'993));
}

TEST_CASE("a timeout that does not fit in nanoseconds means forever") {
  CHECK(of(nanoseconds::max()) == forever);
  CHECK(of(std::chrono::microseconds::max()) == forever);
  CHECK(of(std::chrono::milliseconds::max()) == forever);
  CHECK(of(std::chrono::seconds::max()) == forever);
  CHECK(of(std::chrono::hours::max()) == forever);
  CHECK(of(duration<unsigned long long>::max()) == forever);
  CHECK(of(duration<double>(1e30)) == forever);
  CHECK(of(duration<double>(std::numeric_limits<double>::infinity())) == forever);
  CHECK(of(24h * 365 * 291) < forever);
  CHECK(of(duration<int, std::tera>(1)) == forever);
  CHECK(of(duration<double, std::exa>(1)) == forever);
}

TEST_CASE("a timeout has any period") {
  CHECK(of(duration<int, std::tera>(0)) == 0ns);
  CHECK(of(duration<int, std::tera>(-1)) == 0ns);
  CHECK(of(duration<double, std::tera>(1e-12)) == 1s);
  CHECK(of(duration<int, std::giga>(9)) == 9'000'000'000s);
  CHECK(of(duration<int, std::exa>(0)) == 0ns);
  CHECK(of(duration<int, std::atto>(1'999'999'999)) == 1ns);
  // The nanoseconds of a tick have a numerator that does not fit 64 bits.
  using Odd = std::ratio<1'000'000'000'000'000'000, 999'999'999'999'999'999>;
  CHECK(of(duration<int, Odd>(2)) == 2s);
  CHECK(Deadline(std::chrono::time_point<std::chrono::steady_clock, duration<int, std::tera>>()).at(0ns) ==
        0ns);
}

TEST_CASE("a timeout that is negative or not a number is zero") {
  CHECK(of(-1ns) == 0ns);
  CHECK(of(-1.5s) == 0ns);
  CHECK(of(nanoseconds::min()) == 0ns);
  CHECK(of(std::chrono::hours::min()) == 0ns);
  CHECK(of(duration<double>(std::nan(""))) == 0ns);
  CHECK(of(duration<double>(-std::numeric_limits<double>::infinity())) == 0ns);
}

TEST_CASE("a deadline of steady_clock keeps its time, also on a simulated clock") {
  using Seconds = std::chrono::time_point<steady_clock, std::chrono::seconds>;
  using Precise = std::chrono::time_point<steady_clock, duration<double>>;
  for (const nanoseconds now : {0ns, 77ns}) {
    CHECK(Deadline(steady_clock::time_point(5s)).at(now) == 5s);
    CHECK(Deadline(Seconds(5s)).at(now) == 5s);
    CHECK(Deadline(Precise(1.5s)).at(now) == 1500ms);
    CHECK(Deadline(steady_clock::time_point::max()).at(now) == forever);
    CHECK(Deadline(Seconds::max()).at(now) == forever);
    CHECK(Deadline(steady_clock::time_point::min()).at(now) < 0ns);
    CHECK(Deadline(Seconds::min()).at(now) < 0ns);
    CHECK(Deadline(Precise(duration<double>(std::nan("")))).at(now) < 0ns);
    CHECK(Deadline().at(now) < 0ns);
  }
}

TEST_CASE("a deadline of another clock is as far away as it is on that clock") {
  constexpr nanoseconds now = 1'000s;
  CHECK(Deadline(EarlyClock::time_point(-70s)).at(now) == now + 30s);
  CHECK(Deadline(EarlyClock::time_point(-130s)).at(now) == now - 30s);
  CHECK(Deadline(EarlyClock::time_point::max()).at(now) == forever);
  CHECK(Deadline(EarlyClock::time_point::min()).at(now) < 0ns);

  const nanoseconds soon = Deadline(system_clock::now() + 1h).at(now) - now;
  CHECK(soon > 59min);
  CHECK(soon <= 1h);
  using Days = std::chrono::time_point<system_clock, duration<long long, std::ratio<86'400>>>;
  CHECK(Deadline(system_clock::time_point::max()).at(now) == forever);
  CHECK(Deadline(Days::max()).at(now) == forever);
  CHECK(Deadline(system_clock::time_point::min()).at(now) < now);
  CHECK(Deadline(Days::min()).at(now) < now);
}

TEST_CASE("a deadline after a timeout counts from the call") {
  static_assert(Deadline(TimeLimit(5s)).at(2s) == 7s);
  CHECK(Deadline(TimeLimit(0s)).at(2s) == 2s);
  CHECK(Deadline(TimeLimit(std::chrono::hours::max())).at(2s) == forever);
}
