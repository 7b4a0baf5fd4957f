// SPDX-License-Identifier: MIT
// When repeating waits are expected to end. Internal to the library.
#pragma once

#include "core/cache_line.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <limits>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A number that threads may write at the same time. The numbers of a history are guesses: if
/// threads mix them up, predictions are worse, and nothing else happens.
class Guess {
public:
  constexpr Guess(long long value = 0) noexcept : guess_(value) {}
  Guess(const Guess&) = delete;
  Guess& operator=(const Guess&) = delete;
  operator long long() const noexcept { return guess_.load(std::memory_order_relaxed); }
  Guess& operator=(long long value) noexcept {
    guess_.store(value, std::memory_order_relaxed);
    return *this;
  }

private:
  std::atomic<long long> guess_;
};

/// The last eight times of something that may repeat.
class LastTimes {
public:
  void add(long long time) noexcept {
    const long long count = count_;
    times_[static_cast<std::size_t>(count) % times_.size()] = time;
    count_ = count + 1;
  }
  void forget() noexcept { count_ = 0; }

  /// The shortest time, if the times are regular: apart from the shortest and the longest one, they
  /// differ by at most an eighth, or by 20 us. Otherwise zero, and if fewer than four are known.
  long long shortest_if_regular() const noexcept {
    const std::size_t known = std::min(static_cast<std::size_t>(count_), times_.size());
    if (known < 4) return 0;
    std::array<long long, 8> sorted; // the unknown times at its end
    sorted.fill(std::numeric_limits<long long>::max());
    std::copy_n(times_.begin(), known, sorted.begin());
    std::sort(sorted.begin(), sorted.end());
    const bool regular = sorted[known - 2] - sorted[1] <= std::max(sorted[1] / 8, 20'000LL);
    return regular ? sorted[0] : 0;
  }

private:
  std::array<Guess, 8> times_;
  Guess count_;
};

/// What is known from earlier waits with one key, all in ns. An end is expected at the later of two
/// times:
/// - the start, and the shortest of the last waits. This fits a thread that submits work and then
///   waits for it.
/// - the newest end, and the shortest time between the last ends. This fits a device that is never
///   idle, however long the thread does something else before it waits.
///
/// A time counts only if it was regular.
///
/// The margin is the time that a sleep ends before the expected end. Of all sleeps, about one in 240
/// wakes later than its margin allows.
class alignas(cache_line) WaitHistory {
public:
  static constexpr long long first_margin = 150'000, least_margin = 50'000, most_margin = 1'000'000;

  /// The expected end of a wait that begins at `start`. `start` if no end is expected.
  long long expected_end(long long start) noexcept {
    if (newest_end_ > start) forget(); // another clock
    const long long length = lengths_.shortest_if_regular(), period = periods_.shortest_if_regular();
    return std::max(start + length, period == 0 ? start : newest_end_ + period);
  }

  long long margin() const noexcept { return first_margin + margin_change_; }

  /// A sleep ended this much late. If that is more than the margin, the margin rises, but by at most
  /// an eighth, so that one very late wake-up changes little.
  void woke(long long late) noexcept {
    if (late > margin())
      set_margin(std::min({late + late / 8, margin() + margin() / 8, most_margin}));
    else
      lower_margin();
  }
  void lower_margin() noexcept { set_margin(std::max(margin() - margin() / 2048, least_margin)); }

  /// A wait ended while the thread polled. `end` is when the work was last pending. A later time would
  /// make the next sleep end after the work, and its end would then be unknown again.
  void ended(long long start, long long end) noexcept {
    early_ = 0;
    remember(start, end);
  }
  /// A wait ended at some time of a sleep that lasted until `end`, and earlier than expected. After
  /// two in succession the work is not what it was.
  void ended_early(long long start, long long end) noexcept {
    early_ = early_ + 1;
    if (early_ == 2) forget();
    remember(start, end);
  }
  /// A wait probably ended at `expected`, but the sleep lasted longer.
  void ended_unseen(long long expected) noexcept { newest_end_ = expected; }

private:
  friend class WaitHistories;

  void set_margin(long long margin) noexcept { margin_change_ = margin - first_margin; }
  void remember(long long start, long long end) noexcept {
    lengths_.add(end - start);
    if (newest_end_ != 0) periods_.add(end - newest_end_);
    newest_end_ = end;
  }
  /// Forgets all but the margin, which depends on the machine more than on the key.
  void forget() noexcept {
    lengths_.forget();
    periods_.forget();
    newest_end_ = 0;
    early_ = 0;
  }

  // All begin as 0, so that the histories of a program take no place in its file.
  Guess key_, newest_end_, early_, margin_change_;
  LastTimes lengths_, periods_;
};

/// The histories of up to 256 keys. A key has four places, which new keys take over in turn.
/// Fork-safe, because there is no lock.
class WaitHistories {
public:
  WaitHistory& of(const void* driver, const void* key) noexcept;

private:
  struct Set {
    std::array<WaitHistory, 4> places;
    Guess next; // the place for the next new key
  };
  std::array<Set, 64> sets_;
};

}} // namespace cuevent::CUEVENT_ABI
