// SPDX-License-Identifier: MIT
// The signals that a flight recorder remembers.
#include "recording/flight_arrows.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace cuevent;

TEST_CASE("signals are found by value, the lowest first") {
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

TEST_CASE("a forgotten signal may have ended a wait") {
  NotedSignals signals;
  const int object = 0, other = 0;
  signals.add(&object, 7, {0, 0});
  for (Position i = 0; i < 1023; ++i)
    signals.add(&other, 2, {1, i});
  CHECK(signals.find(&object, 7).size() == 1);
  CHECK_FALSE(signals.may_have_forgotten(&object, 7));
  signals.add(&other, 3, {1, 1023});
  CHECK(signals.find(&object, 7).empty());
  CHECK(signals.may_have_forgotten(&object, 7));
  CHECK_FALSE(signals.may_have_forgotten(&object, 8));
  CHECK_FALSE(signals.may_have_forgotten(&other, 1));
}

TEST_CASE("signals of many objects can be forgotten") {
  NotedSignals signals;
  const std::vector<int> objects(3000);
  for (const int& each : objects)
    signals.add(&each, 5, {0, 0});
  for (const int* const forgotten : {&objects[0], &objects[100], &objects[1900]}) {
    CHECK(signals.may_have_forgotten(forgotten, 5));
    CHECK_FALSE(signals.may_have_forgotten(forgotten, 6));
  }
}
