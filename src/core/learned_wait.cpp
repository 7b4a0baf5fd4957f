// SPDX-License-Identifier: MIT
#include "core/learned_wait.hpp"

#include "core/between_polls.hpp"
#include "core/wait_history.hpp"

#include <algorithm>
#include <cstdint>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr long long shortest_sleep = 50'000;  // a shorter one would save little
constexpr long long longest_part = 1'000'000; // of a sleep

constinit WaitHistories histories;

/// One multiplication would put addresses at some regular distances into few sets.
std::uint64_t spread(std::uint64_t key) noexcept {
  for (int i = 0; i < 2; ++i) {
    key *= 0x9e3779b97f4a7c15U;
    key ^= key >> 32;
  }
  return key;
}

} // namespace

WaitHistory& WaitHistories::of(const void* driver, const void* key) noexcept {
  // Handles of two drivers can be equal.
  const std::uint64_t both =
      reinterpret_cast<std::uintptr_t>(key) + 31 * std::uint64_t{reinterpret_cast<std::uintptr_t>(driver)};
  const auto mine = static_cast<long long>(both);
  auto& [places, next] = sets_[spread(both) % sets_.size()];
  for (WaitHistory& each : places)
    if (each.key_ == mine) return each;
  WaitHistory& taken = places[static_cast<std::size_t>(next) % places.size()];
  next = next + 1;
  taken.forget();
  taken.key_ = mine;
  return taken;
}

LearnedWait::LearnedWait(const DriverTable& table, const void* key, long long start) noexcept
    : table_(table), history_(histories.of(&table, key)), start_(start),
      expected_(history_.expected_end(start)), wake_(expected_ - history_.margin()) {
  if (expected_ == start || wake_ - start >= shortest_sleep) return;
  wake_ = start; // no sleep
  history_.lower_margin();
}

long long LearnedWait::time_to_sleep(long long now) noexcept {
  overslept_ = false;
  pending_ = now;
  slept_ = now < wake_;
  return slept_ ? std::min(wake_ - now, longest_part) : 0;
}

void LearnedWait::woke(long long now) noexcept {
  if (!slept_ || now < wake_) return;
  history_.woke(now - wake_);
  overslept_ = now > expected_;
}

void LearnedWait::pass(long long now, long long left) noexcept {
  const long long sleep = time_to_sleep(now);
  if (sleep == 0) return between_polls(table_, since_expected(now), left);
  table_.pause(std::min(sleep, left));
  if (wake_ - now <= std::min(sleep, left)) woke(table_.clock_now());
}

void LearnedWait::ended(long long now) noexcept {
  if (overslept_)
    history_.ended_unseen(expected_);
  else if (slept_)
    history_.ended_early(start_, now);
  else
    history_.ended(start_, pending_); // `now` may be late by a sleep of the backoff
}

}} // namespace cuevent::CUEVENT_ABI
