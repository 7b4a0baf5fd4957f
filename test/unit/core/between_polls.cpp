// SPDX-License-Identifier: MIT
#include "core/between_polls.hpp"

#include "yields.hpp"

#include <catch2/catch_test_macros.hpp>

#include <vector>

namespace {

std::vector<long long> pauses;

/// What one call between two polls did.
struct Backoff {
  int yields = 0;
  std::vector<long long> pauses;
  friend bool operator==(const Backoff&, const Backoff&) = default;
};

Backoff backoff_after(long long waited, long long left) {
  cuevent::DriverTable table{};
  table.pause = [](long long nanoseconds) { pauses.push_back(nanoseconds); };
  test::yields_of_this_thread() = 0;
  pauses.clear();
  cuevent::between_polls(table, waited, left);
  return {test::yields_of_this_thread(), pauses};
}

constexpr long long us = 1'000, ms = 1'000'000, much = 1'000'000'000'000;

} // namespace

TEST_CASE("a short wait spins, a longer one yields, and a long one sleeps") {
  CHECK(backoff_after(0, much) == Backoff{0, {}});
  CHECK(backoff_after(50 * us - 1, much) == Backoff{0, {}});
  CHECK(backoff_after(50 * us, much) == Backoff{1, {}});
  CHECK(backoff_after(ms - 1, much) == Backoff{1, {}});
  CHECK(backoff_after(ms, much) == Backoff{0, {100 * us}});
}

TEST_CASE("a sleep takes a tenth of the time waited so far, but never more than 1 ms or the time left") {
  CHECK(backoff_after(5 * ms, much) == Backoff{0, {500 * us}});
  CHECK(backoff_after(9'999'999, much) == Backoff{0, {999'999}});
  CHECK(backoff_after(10 * ms, much) == Backoff{0, {ms}});
  CHECK(backoff_after(1000 * ms, much) == Backoff{0, {ms}});
  CHECK(backoff_after(5 * ms, 20) == Backoff{0, {20}});
  CHECK(backoff_after(1000 * ms, ms - 1) == Backoff{0, {ms - 1}});
}
