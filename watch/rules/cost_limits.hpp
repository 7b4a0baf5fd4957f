// SPDX-License-Identifier: MIT
// From when on a place of the program counts as costly.
#pragma once

#include "rules/call.hpp"

#include <chrono>
#include <cstdint>
#include <utility>

namespace watch {

constexpr unsigned long often = 100;               // below that, a place is no loop
constexpr unsigned long few_waits = 30;            // that are a loop too, if they take long
constexpr unsigned long reuse = 10;                // how often a pool would give each object away, at least
constexpr std::chrono::milliseconds long_wait{50}; // of all calls of a place
constexpr std::chrono::microseconds shortest_wait{10}; // a call that has nothing to wait for takes less

/// A stack and its function. Calls without a stack have one place for each function.
using CostPlace = std::pair<std::uint32_t, std::uint16_t>;

inline CostPlace place_of(const Call& call) { return {call.stack, call.entry}; }

/// Whether it matters that the calls of a place have waited that long in all.
inline bool matters(unsigned long count, std::chrono::nanoseconds waited) {
  return (count >= often && waited > shortest_wait * count) || (count >= few_waits && waited > long_wait);
}

} // namespace watch
