// SPDX-License-Identifier: MIT
#include "auditor/launch_numbers.hpp"

#include "auditor/state.hpp"

#include <iterator>

namespace watch {

namespace {

using Place = LaunchNumbers::Place;

constexpr std::uint64_t places_tried = 16;

Place& place(std::uint64_t exec, std::uint64_t index) {
  auto& places = cleared_by_fork->launch_numbers.places;
  return places[(((exec * 0x9E37'79B9'7F4A'7C15U) >> 40U) + index) % std::size(places)];
}

Place* find(std::uint64_t exec) {
  for (std::uint64_t i = 0; i < places_tried; ++i)
    if (Place& there = place(exec, i); there.exec.load(std::memory_order_relaxed) == exec) return &there;
  return nullptr;
}

Place* take(std::uint64_t exec) {
  for (std::uint64_t i = 0; i < places_tried; ++i) {
    Place& there = place(exec, i);
    std::uint64_t free = 0;
    if (!there.exec.compare_exchange_strong(free, exec, std::memory_order_relaxed)) continue;
    there.launches.store(0, std::memory_order_relaxed);
    return &there;
  }
  return nullptr;
}

} // namespace

std::uint64_t count_launch(std::uint64_t exec) {
  Place* there = find(exec);
  if (there == nullptr) there = take(exec);
  return there == nullptr ? 0 : there->launches.fetch_add(1, std::memory_order_relaxed) + 1;
}

void forget_launches(std::uint64_t exec) {
  if (Place* const there = find(exec)) there->exec.store(0, std::memory_order_relaxed);
}

} // namespace watch
