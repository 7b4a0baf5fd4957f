// SPDX-License-Identifier: MIT
// A wait that sleeps until shortly before the end that earlier waits suggest. Internal to the
// library.
#pragma once

#include <cuevent/driver.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

class WaitHistory;

/// One wait of a thread that polls: for an event, or for a fence. All times are in ns of the
/// table's clock. A wait has three parts:
/// - It sleeps until shortly before the expected end, and at most 1 ms between two polls. So an
///   unexpected end is seen at most 1 ms late.
/// - It spins until the expected end.
/// - Then it backs off, counting from the expected end: between_polls.hpp. If no end is expected, it
///   backs off from the start.
///
/// wait_history.hpp says when an end is expected. A wait allocates nothing, takes no lock, and does
/// not change the timer slack of its thread.
class LearnedWait {
public:
  /// `key` is the address of what the wait is for. Waits that repeat have equal keys.
  LearnedWait(const DriverTable& table, const void* key, long long start) noexcept;

  /// Sleeps, yields or spins between two polls. `left` is the time until the wait gives up.
  void pass(long long now, long long left) noexcept;

  /// For a caller that sleeps by itself, after a poll that did not find the end: how long to sleep
  /// before the next poll. 0 if no end is expected, or if the expected end is near or past.
  long long time_to_sleep(long long now) noexcept;
  /// The sleep has ended.
  void woke(long long now) noexcept;
  /// The time from the expected end, or from the start if no end is expected.
  long long since_expected(long long now) const noexcept { return now - expected_; }
  bool expects_end() const noexcept { return expected_ != start_; }

  /// Remembers that the last poll found the end. Waits that give up have nothing to remember.
  void ended(long long now) noexcept;

private:
  const DriverTable& table_;
  WaitHistory& history_;
  const long long start_;
  const long long expected_;   // start_ if no end is expected
  long long wake_;             // when the sleep ends
  long long pending_ = start_; // the last time at which the work was pending
  bool slept_ = false;         // the last pass slept
  bool overslept_ = false;     // the last pass slept past the expected end
};

}} // namespace cuevent::CUEVENT_ABI
