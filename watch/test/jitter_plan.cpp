// SPDX-License-Identifier: MIT
#include "protocol/jitter_plan.hpp"

#include <catch2/catch_test_macros.hpp>

#include <iterator>
#include <set>

namespace {

using watch::hold_of_seed;

/// How many of these submissions of a stream are held.
unsigned held(std::uint64_t seed, std::uint32_t stream, std::uint32_t first, std::uint32_t last) {
  unsigned count = 0;
  for (std::uint32_t submission = first; submission <= last; ++submission)
    if (hold_of_seed(seed, stream, submission) != 0) ++count;
  return count;
}

} // namespace

TEST_CASE("an even seed holds one of the first four streams, and each of its first submissions") {
  std::set<std::uint32_t> last_streams;
  for (const std::uint64_t seed : {2u, 4u, 6u, 8u}) {
    unsigned streams = 0;
    for (std::uint32_t stream = 0; stream < 10; ++stream)
      if (const unsigned count = held(seed, stream, 1, 64); count != 0) {
        CHECK(count == 64);
        ++streams;
        last_streams.insert(stream);
      }
    CHECK(streams == 1);
  }
  CHECK(last_streams.size() == 4);
}

TEST_CASE("an odd seed holds about half of the first submissions of every stream") {
  for (std::uint64_t seed = 1; seed < 40; seed += 2)
    for (std::uint32_t stream = 0; stream < 5; ++stream) {
      const unsigned count = held(seed, stream, 1, 64);
      CHECK(count > 15);
      CHECK(count < 50);
    }
}

TEST_CASE("a long program is held for two seconds at most by any seed") {
  for (const std::uint64_t seed : {1u, 2u}) {
    const unsigned count = held(seed, 0, 1, 1'000'000);
    CHECK(count > 64 / 2);
    CHECK(count * watch::longest_hold_us < 2'000'000);
  }
}

TEST_CASE("each hold has its own time, of 2 ms at most") {
  std::set<std::uint32_t> times;
  for (std::uint32_t submission = 1; submission <= 64; ++submission)
    times.insert(hold_of_seed(1, 0, submission));
  CHECK(times.size() > 20);
  CHECK(*times.rbegin() <= watch::longest_hold_us);
  CHECK(*std::next(times.begin()) >= 100);
}
