// SPDX-License-Identifier: MIT
#include "timing/duration_histogram.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <random>
#include <vector>

using cuevent::DurationHistogram;

namespace {

std::unique_ptr<DurationHistogram> histogram_of(std::initializer_list<double> durations) {
  auto histogram = std::make_unique<DurationHistogram>();
  for (const double duration : durations)
    histogram->add(duration);
  return histogram;
}

/// What the histogram reports for a duration in the middle of others.
double reported(double duration) { return histogram_of({0, duration, 1e17})->percentile(50); }

} // namespace

TEST_CASE("a histogram without durations reports zero") {
  const auto histogram = histogram_of({});
  CHECK(histogram->count() == 0);
  CHECK(histogram->total() == 0);
  CHECK(histogram->min() == 0);
  CHECK(histogram->max() == 0);
  CHECK(histogram->percentile(0) == 0);
  CHECK(histogram->percentile(100) == 0);
}

TEST_CASE("count, total, minimum and maximum are exact") {
  const auto histogram = histogram_of({700.25, 3, 90'000.5});
  CHECK(histogram->count() == 3);
  CHECK(histogram->total() == 90'703.75);
  CHECK(histogram->min() == 3);
  CHECK(histogram->max() == 90'000.5);
}

TEST_CASE("durations below 256 ns have a bucket each") {
  for (int duration = 1; duration < 256; ++duration)
    CHECK(reported(duration) == duration + 0.5);
}

TEST_CASE("a longer duration has a bucket of at most 1/128 of it, and is reported as the middle") {
  CHECK(reported(256) == 257);
  CHECK(reported(257.9) == 257);
  CHECK(reported(258) == 259);
  CHECK(reported(511) == 511);
  CHECK(reported(512) == 514);
  CHECK(reported(515.9) == 514);
  CHECK(reported(1'000'000) == 1'001'472);
  for (double duration = 300; duration < 8.9e15; duration *= 1.37)
    CHECK(std::abs(reported(duration) - duration) <= 0.004 * duration);
}

TEST_CASE("a percentile is the least duration that so many do not exceed") {
  const auto histogram = histogram_of({10, 20, 30, 40});
  CHECK(histogram->percentile(0) == 10.5);
  CHECK(histogram->percentile(25) == 10.5);
  CHECK(histogram->percentile(25.1) == 20.5);
  CHECK(histogram->percentile(50) == 20.5);
  CHECK(histogram->percentile(75) == 30.5);
  CHECK(histogram->percentile(76) == 40);
  CHECK(histogram->percentile(100) == 40);
}

TEST_CASE("no percentile is outside of the minimum and the maximum") {
  const auto histogram = histogram_of({100.75, 100.8});
  CHECK(histogram->percentile(50) == 100.75);
  CHECK(histogram->percentile(100) == 100.75);
  const auto one = histogram_of({100.25});
  CHECK(one->percentile(50) == 100.25);
}

TEST_CASE("the first bucket takes negative durations, and the last one those that are too long") {
  CHECK(histogram_of({-5, -4, 1000})->percentile(50) == 0.5);
  const auto histogram = histogram_of({5, 9.1e15, 1e18});
  CHECK(histogram->percentile(60) == histogram->percentile(100));
  CHECK(histogram->percentile(60) > 8.9e15);
  CHECK(histogram->percentile(60) < 9.1e15);
}

TEST_CASE("the percentiles of a histogram are within 0.4 % of the exact ones") {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> times(std::log(50'000.0), 2);
  DurationHistogram histogram;
  std::vector<double> all;
  for (int i = 0; i < 10'000; ++i) {
    all.push_back(times(random));
    histogram.add(all.back());
  }
  std::sort(all.begin(), all.end());
  for (const double percent : {1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    CAPTURE(percent);
    const double exact = all[static_cast<std::size_t>(std::ceil(percent * 100)) - 1];
    CHECK(std::abs(histogram.percentile(percent) - exact) <= 0.004 * exact + 0.5);
  }
  CHECK(histogram.count() == all.size());
  CHECK(histogram.min() == all.front());
  CHECK(histogram.max() == all.back());
}

TEST_CASE("a single duration of any size is reported exactly") {
  for (const double duration : {0.0, 0.4, 255.0, 256.0, 257.9, 1e18})
    CHECK(histogram_of({duration})->percentile(50) == duration);
}
