// SPDX-License-Identifier: MIT
#include "timing/sample_statistics.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

using namespace cuevent;
using Catch::Matchers::WithinAbs;

namespace {

std::vector<double> counted(int last) {
  std::vector<double> values;
  for (int i = 1; i <= last; ++i)
    values.push_back(i);
  return values;
}

} // namespace

TEST_CASE("a quantile lies between two values") {
  CHECK(quantile({7}, 0.5) == 7);
  CHECK(quantile({1, 2}, 0.5) == 1.5);
  CHECK(quantile(counted(5), 0.25) == 2);
  CHECK(quantile(counted(5), 0) == 1);
  CHECK(quantile(counted(5), 1) == 5);
}

TEST_CASE("the interval of a median holds the true median in 95 of 100 cases") {
  std::minstd_rand random(7);
  std::lognormal_distribution<double> skewed(0, 1); // with the median 1
  for (const int count : {10, 40, 200, 1500}) {
    constexpr int rounds = 1000;
    int held = 0;
    for (int i = 0; i < rounds; ++i) {
      std::vector<double> values;
      std::generate_n(std::back_inserter(values), count, [&] { return skewed(random); });
      const MedianInterval interval = median_interval(values);
      held += interval.low <= 1 && 1 <= interval.high;
    }
    INFO(count);
    CHECK(held >= rounds * 94 / 100);
    CHECK(held <= rounds * 985 / 1000);
  }
}

TEST_CASE("the interval of few values is all of them") {
  const MedianInterval one = median_interval({3});
  CHECK((one.low == 3 && one.median == 3 && one.high == 3));
  const MedianInterval few = median_interval({5, 1, 4});
  CHECK((few.low == 1 && few.median == 4 && few.high == 5));
}

TEST_CASE("outliers are far outside of the quartiles") {
  CHECK(outliers(counted(9)) == 0);
  std::vector<double> values = counted(9);
  values.push_back(100);
  CHECK(outliers(values) == 1);
  CHECK(outliers({1, 1, 1, 1, 1, 1, 1, 2}) == 1);
}

TEST_CASE("a drift needs thirds that lie apart") {
  CHECK_FALSE(drift(counted(17)).clear); // the thirds are too small
  const Drift rising = drift(counted(60));
  CHECK(rising.clear);
  CHECK_THAT(rising.trend, WithinAbs(40 / 30.5, 1e-9));
  std::vector<double> same(60, 5.0);
  CHECK_FALSE(drift(same).clear);
  CHECK(drift(same).trend == 0);
  std::vector<double> falling = counted(60);
  std::reverse(falling.begin(), falling.end());
  CHECK(drift(falling).clear);
  CHECK(drift(falling).trend < 0);
}
