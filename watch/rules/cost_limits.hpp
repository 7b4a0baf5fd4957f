// SPDX-License-Identifier: MIT
// Places of the program that do something costly, and from when on they count.
#pragma once

#include "rules/call.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
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

/// The calls of a place that cost something.
struct Repeated {
  Call call; // the first one
  unsigned long count = 0;
  std::chrono::nanoseconds waited{};
  std::optional<Call> other; // what the calls wait for
};
using CostPlaces = std::map<CostPlace, Repeated>;

/// The place of the call, which counts there.
inline Repeated& repeated(CostPlaces& places, const Call& call) {
  Repeated& place = places[place_of(call)];
  if (place.count++ == 0) place.call = call;
  return place;
}

/// Whether it matters how long the calls have waited in all.
inline bool matters(const Repeated& place) {
  return (place.count >= often && place.waited > shortest_wait * place.count) ||
         (place.count >= few_waits && place.waited > long_wait);
}

} // namespace watch
