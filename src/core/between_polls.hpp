// SPDX-License-Identifier: MIT
// The backoff of a timed wait. Internal to the library.
#pragma once

#include <cuevent/driver.hpp>

#include <algorithm>
#include <sched.h>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Backs off between two polls. All times are in ns.
/// - Below 50 us the wait spins, because most waits are short. Spinning sees the end of a kernel
///   within 1 us.
/// - Between 50 us and 1 ms the wait yields.
/// - Above 1 ms the wait sleeps for a tenth of the time waited so far. This adds at most 10 % to
///   the wait.
///
/// Spins or yields once and returns 0, or returns how long to sleep.
inline long long back_off(long long waited) noexcept {
  constexpr long long spin = 50'000, yield = 1'000'000, longest_sleep = 1'000'000;
  if (waited >= yield) return std::min(waited / 10, longest_sleep);
  if (waited >= spin) sched_yield();
  return 0;
}

inline void between_polls(const DriverTable& table, long long waited, long long left) noexcept {
  if (const long long sleep = back_off(waited); sleep > 0) table.pause(std::min(sleep, left));
}

}} // namespace cuevent::CUEVENT_ABI
