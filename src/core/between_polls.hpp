// SPDX-License-Identifier: MIT
// What a timed wait does between one look and the next. Inside the library only.
#pragma once

#include <cuevent/driver.hpp>

#include <algorithm>
#include <sched.h>

namespace cuevent {

/// Most waits are short: the first 50 us spin, as the end of a kernel is then seen within 1 us. After 1 ms of
/// yielding the work is long, and a sleep of a tenth of the time waited so far is seen as at most 10 % more.
/// All in ns.
inline void between_polls(const DriverTable& table, long long waited, long long left) noexcept {
  constexpr long long spin = 50'000, yield = 1'000'000, longest_sleep = 1'000'000;
  if (waited < spin) return;
  if (waited < yield)
    sched_yield();
  else
    table.pause(std::min({waited / 10, longest_sleep, left}));
}

} // namespace cuevent
