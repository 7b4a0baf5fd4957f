// SPDX-License-Identifier: MIT
// When an armed CompletionQueue is polled next. Internal to the library.
#pragma once

#include "core/learned_wait.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A wait begins with a submission, or after a callback has run. All times are in ns.
/// - If earlier waits suggest when this wait ends, the next poll comes shortly before that end, and
///   then the thread polls without a sleep.
/// - Otherwise polls come at intervals of an eighth of the wait so far: at least 35 us, at most
///   `most_late`. After long waits the interval is a thousandth of the wait, and at most 50 ms.
///
/// Belongs to the thread that has the lists of the queue.
class PollSchedule {
public:
  /// The time until the next poll. 0: the thread should poll again now.
  long long next(const DriverTable& table, long long now, std::uint32_t submissions,
                 long long most_late) noexcept {
    if (!wait_ || submissions != submissions_) wait_.emplace(table, this, now);
    submissions_ = submissions;
    if (const long long sleep = wait_->time_to_sleep(now); sleep != 0) return sleep;
    const long long waited = wait_->since_expected(now);
    if (wait_->expects_end() && waited < spin) return 0;
    const long long interval = std::clamp(waited / 8, std::min(shortest, most_late), most_late);
    return std::clamp(std::max(interval, waited / 1000), 1LL, longest);
  }

  /// A poll began at `now`, and found work complete or did not.
  void polled(long long now, bool found) noexcept {
    if (!wait_) return;
    wait_->woke(now);
    if (!found) return;
    wait_->ended(now);
    wait_.reset();
  }

private:
  static constexpr long long spin = 50'000, shortest = 35'000, longest = 50'000'000;

  std::optional<LearnedWait> wait_;
  std::uint32_t submissions_ = 0; // when the wait began
};

}} // namespace cuevent::CUEVENT_ABI
