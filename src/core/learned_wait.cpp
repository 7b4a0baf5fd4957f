// SPDX-License-Identifier: MIT
#include "core/learned_wait.hpp"

#include "core/between_polls.hpp"
#include "core/wait_history.hpp"

#include <algorithm>
#include <cstdint>

namespace cuevent {

namespace {

constexpr long long shortest_sleep = 50'000; // a shorter one would save little
constexpr long long longest_sleep = 1'000'000;

constinit WaitHistories histories;

} // namespace

WaitHistory& WaitHistories::of(const void* driver, const void* key) noexcept {
  // Handles of two drivers can be equal. The multiplication spreads addresses over the sets.
  const std::uint64_t both =
      reinterpret_cast<std::uintptr_t>(key) + 31 * std::uint64_t{reinterpret_cast<std::uintptr_t>(driver)};
  const auto mine = static_cast<long long>(both);
  auto& [places, next] = sets_[(both * 0x9e3779b97f4a7c15U >> 32) % sets_.size()];
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

void LearnedWait::pass(long long now, long long left) noexcept {
  overslept_ = false;
  slept_ = now < wake_;
  if (!slept_) return between_polls(table_, now - expected_, left);
  const long long sleep = std::min({wake_ - now, longest_sleep, left});
  table_.pause(sleep);
  if (now + sleep != wake_) return;
  const long long woke = table_.clock_now();
  history_.woke(woke - wake_);
  overslept_ = woke > expected_;
}

void LearnedWait::ended(long long now) noexcept {
  if (overslept_)
    history_.ended_unseen(expected_);
  else if (slept_)
    history_.ended_early(start_, now);
  else
    history_.ended(start_, now);
}

} // namespace cuevent
