// SPDX-License-Identifier: MIT
#include "timing/escape.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace cuevent;

TEST_CASE("what ends with the measured stream is not beyond it") {
  CHECK(beyond_own(DeviceTime(900), DeviceTime(1300)) == DeviceTime(-400));
  CHECK(beyond_own(DeviceTime(11'200), DeviceTime(11'500)) == DeviceTime(-300)); // a late engine
}

TEST_CASE("work that outlasts the measured stream is beyond it by the rest") {
  CHECK(beyond_own(DeviceTime(2'000'000), DeviceTime(1300)) == DeviceTime(1'998'700));
}

TEST_CASE("a later record does not excuse long work that another thread submits to the measured stream") {
  CHECK(beyond_own(DeviceTime(2'000'000), DeviceTime(2'000'500)) == DeviceTime(2'000'000) - most_own_delay);
}

TEST_CASE("a record that seems to come first excuses nothing") {
  CHECK(beyond_own(DeviceTime(500), DeviceTime(-32)) == DeviceTime(500));
}
