// SPDX-License-Identifier: MIT
// Which frees an allocation of a pool comes after.
#include "rules/freed_ranges.hpp"

#include <catch2/catch_test_macros.hpp>

namespace {

std::vector<std::uint64_t> places(const std::vector<watch::OrderMark>& frees) {
  std::vector<std::uint64_t> of;
  for (const watch::OrderMark& free : frees)
    of.push_back(free.last.place);
  return of;
}

watch::OrderMark free_at(std::uint32_t stream, std::uint64_t place) { return {{stream, place}, nullptr}; }

/// A page that was allocated.
watch::Allocation range(std::uint64_t begin, watch::Identity identity = 1) {
  watch::Allocation made;
  made.begin = begin;
  made.size = 0x1000;
  made.identity = identity;
  return made;
}

using Places = std::vector<std::uint64_t>;

} // namespace

TEST_CASE("an allocation comes after the frees of each part of its range, once", "[order]") {
  watch::FreedRanges freed;
  freed.add(range(0x1000), free_at(0, 1));
  freed.add(range(0x2000), free_at(0, 2));
  CHECK(places(freed.take(0x1800, 0x1000)) == Places{1, 2});
  CHECK(places(freed.take(0x1800, 0x1000)).empty()); // in use since then
  CHECK(places(freed.take(0x1000, 0x800)) == Places{1});
  CHECK(places(freed.take(0x2800, 0x10'0000)) == Places{2});
  CHECK(places(freed.take(0, 0x10'0000)).empty());
}

TEST_CASE("frees that find no room order every later allocation", "[order]") {
  watch::FreedRanges freed;
  for (std::uint64_t i = 1; i <= 10'000; ++i)
    freed.add(range(i * 0x1000), free_at(i % 2, i));
  CHECK(places(freed.take(0x10'0000'0000, 0x1000)) == Places{10'000, 9'999}); // the last of each stream
}

TEST_CASE("freed ranges are remembered until they are used again", "[order]") {
  watch::FreedRanges freed;
  freed.add(range(0x1000, 5), std::nullopt);
  freed.add(range(0x3000, 6), free_at(0, 1));
  REQUIRE(freed.holding(0x1FFF) != nullptr);
  CHECK(freed.holding(0x1FFF)->memory == 5);
  CHECK(freed.holding(0x2000) == nullptr);
  CHECK(freed.beginning_at(0x1800) == nullptr);
  CHECK(freed.beginning_at(0x3000)->memory == 6);
  CHECK(freed.take(0x1800, 8).empty()); // no stream
  CHECK(freed.holding(0x1000) == nullptr);
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    freed.add(range(0x10'0000), std::nullopt);
    freed.add(range(0x10'0000), std::nullopt);
    freed.take(0x10'0000, 1);
  }
  freed.add(range(0x10'0000, 7), std::nullopt);
  CHECK(freed.holding(0x10'0000)->memory == 7);
}
