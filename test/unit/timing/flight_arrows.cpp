// SPDX-License-Identifier: MIT
// The signals that a flight recorder remembers.
#include "timing/flight_arrows.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace cuevent;

TEST_CASE("signals are found by value, the lowest first", "[flight]") {
  NotedSignals signals;
  const int object = 0, other = 0;
  signals.add(&object, 6, {0, 0});
  signals.add(&object, 5, {1, 0});
  signals.add(&object, 4, {2, 0});
  signals.add(&other, 5, {3, 0});
  signals.add(&object, 5, {4, 0});
  const std::vector<StreamPlace> found = signals.find(&object, 5);
  REQUIRE(found.size() == 3);
  CHECK(found[0].stream == 1);
  CHECK(found[1].stream == 4);
  CHECK(found[2].stream == 0);
}
