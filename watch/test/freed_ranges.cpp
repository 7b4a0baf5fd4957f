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

using Places = std::vector<std::uint64_t>;

} // namespace

TEST_CASE("an allocation comes after the frees of each part of its range, once", "[order]") {
  watch::FreedRanges freed;
  freed.add(0x1000, 0x1000, free_at(0, 1));
  freed.add(0x2000, 0x1000, free_at(0, 2));
  CHECK(places(freed.take(0x1800, 0x1000)) == Places{1, 2});
  CHECK(places(freed.take(0x1800, 0x1000)).empty()); // in use since then
  CHECK(places(freed.take(0x1000, 0x800)) == Places{1});
  CHECK(places(freed.take(0x2800, 0x10'0000)) == Places{2});
  CHECK(places(freed.take(0, 0x10'0000)).empty());
}

TEST_CASE("frees that find no room order every later allocation", "[order]") {
  watch::FreedRanges freed;
  for (std::uint64_t i = 1; i <= 10'000; ++i)
    freed.add(i * 0x1000, 0x1000, free_at(i % 2, i));
  CHECK(places(freed.take(0x10'0000'0000, 0x1000)) == Places{10'000, 9'999}); // the last of each stream
}
