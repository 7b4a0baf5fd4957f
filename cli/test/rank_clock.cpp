// SPDX-License-Identifier: MIT
#include "merge/rank_clock.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <cstdlib>

namespace {

using cli::RankClock;
using cli::RankLineError;

constexpr long long second = 1'000'000'000;

/// A host's clock that is ahead of rank 0's, and runs faster by `ppm`.
struct HostClock {
  long long ahead;
  double ppm;
  long long here(long long reference) const {
    return reference + ahead + std::llround(static_cast<double>(reference) * ppm / 1e6);
  }
};

} // namespace

TEST_CASE("without samples, a time stays as it is") {
  const RankClock clock;
  CHECK(clock.empty());
  CHECK(clock.reference(123) == 123);
  CHECK(clock.uncertainty(0, 10 * second) == 0);
}

TEST_CASE("a clock with an offset and a drift is aligned within the uncertainty of its samples") {
  const double ppm = GENERATE(-80.0, 0.0, 37.5);
  const long long ahead = GENERATE(-7'000'000'000LL, 0LL, 3'600'000'000'000LL);
  const int samples = GENERATE(2, 3, 9);
  const long long uncertainty = 4000, length = 600 * second, start = 10'000 * second;
  const HostClock host{ahead, ppm};
  RankClock clock;
  for (int i = 0; i < samples; ++i) {
    const long long at = start + length * i / (samples - 1);
    const long long error = i % 2 == 0 ? uncertainty : -uncertainty; // the worst that the samples allow
    clock.add({host.here(at), at + error, uncertainty});
  }
  long long last = 0;
  for (long long at = start; at <= start + length; at += length / 97) {
    const long long aligned = clock.reference(host.here(at));
    CHECK(std::abs(aligned - at) <= uncertainty + 2); // and two roundings
    CHECK(aligned >= last);
    last = aligned;
  }
  CHECK(clock.uncertainty(host.here(start), host.here(start + length)) == uncertainty);
  CHECK(std::abs(clock.drift_ppm() + ppm) < 0.05);
  CHECK(clock.offset() == start + uncertainty - host.here(start));
}

TEST_CASE("outside the samples the offset stays, and the uncertainty covers the drift") {
  const HostClock host{5000, 90};
  RankClock clock;
  clock.add({host.here(second), second, 100});
  for (const long long at : {0LL, second, 3 * second, 100 * second}) {
    const long long uncertainty = clock.uncertainty(host.here(at), host.here(at));
    CHECK(std::abs(clock.reference(host.here(at)) - at) <= uncertainty);
  }
  CHECK(clock.uncertainty(host.here(second), host.here(second)) == 100);
  CHECK(clock.drift_ppm() == 0);
  CHECK(clock.offset() == second - host.here(second));
  clock.add({host.here(2 * second), 2 * second, 100});
  CHECK(clock.uncertainty(host.here(second), host.here(2 * second)) == 100);
  CHECK(clock.uncertainty(host.here(0), host.here(2 * second)) > 100'000);
}

TEST_CASE("samples that are not in order are refused") {
  RankClock clock;
  clock.add({1000, 500, 10});
  CHECK_THROWS_AS(clock.add({1000, 500, 10}), RankLineError);
  CHECK_THROWS_AS(clock.add({999, 499, 10}), RankLineError);
  CHECK(clock.size() == 1);
}

TEST_CASE("a clock that was set in between is refused, and a coarse sample is not") {
  RankClock clock;
  clock.add({second, second, 100});
  CHECK_THROWS_AS(clock.add({2 * second, 3 * second, 100}), RankLineError);
  CHECK_THROWS_AS(clock.add({2 * second, second, 100}), RankLineError);
  clock.add({second + 50, second - 100, 100}); // says nothing more, so it is left out
  CHECK(clock.size() == 1);
  clock.add({second + 60, second + 150, 100});
  CHECK(clock.size() == 2);
  CHECK(clock.reference(second) <= clock.reference(second + 10));
}

TEST_CASE("many samples are thinned, and still align the clock") {
  const HostClock host{-300, 20};
  RankClock clock;
  constexpr int samples = 5000;
  for (int i = 0; i < samples; ++i)
    clock.add({host.here(second * (i + 1)), second * (i + 1), 50});
  CHECK(clock.size() <= RankClock::most_samples);
  for (int i = 0; i < samples; i += 7)
    CHECK(std::abs(clock.reference(host.here(second * (i + 1))) - second * (i + 1)) <= 2);
}
