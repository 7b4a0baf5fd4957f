// SPDX-License-Identifier: MIT
// Allocations and ranges, as `cuevent watch --order` compares them.
#include "rules/memory.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using watch::Access;
using watch::Memory;
using watch::Rows;

TEST_CASE("rows overlap if they share a byte", "[order]") {
  const Rows left{0, 8, 16, 4}, right{8, 8, 16, 4}, wide{4, 8, 16, 4};
  CHECK_FALSE(left.overlaps(right));
  CHECK(left.overlaps(wide));
  CHECK(wide.overlaps(right));
  CHECK(left.overlaps({0, 64}));
  CHECK_FALSE(left.overlaps({8, 8}));
  CHECK(left.overlaps({24, 9}));
  CHECK_FALSE(left.overlaps({24, 8}));
  CHECK_FALSE(left.overlaps({56, 100}));       // behind the last row
  CHECK_FALSE(left.overlaps({0, 8, 24, 4}));   // another pitch: not known
  CHECK_FALSE(Rows{0, 64}.overlaps({64, 64})); // neighbours
  CHECK(Rows{0, 65}.overlaps({64, 64}));
}

TEST_CASE("a million allocations live at a time", "[order]") {
  Memory memory;
  constexpr std::uint64_t count = 1'000'000;
  for (std::uint64_t i = 1; i <= count; ++i)
    memory.allocate(i * 512, 512);
  CHECK(memory.size() == count);
  CHECK(memory.at(512 * 777 + 511)->begin == 512 * 777);
  CHECK(memory.at(511) == nullptr);
  for (std::uint64_t i = 1; i <= count; ++i)
    memory.free(i * 512);
  CHECK(memory.size() == 0);
}

TEST_CASE("an allocation keeps a bounded number of uses, and none that the host has waited for", "[order]") {
  watch::Order order;
  const auto stream = order.add_stream(watch::Order::Kind::independent, 1);
  Memory memory;
  watch::Allocation& block = memory.allocate(0x1000, 1 << 20);
  for (std::uint64_t i = 0; i < 10'000; ++i)
    block.add({{0x1000 + 2 * i, 1}, true, watch::Use::copied, order.submit(stream)}, order); // no neighbours
  const std::size_t kept = block.accesses.size();
  CHECK((kept > 64 && kept <= 256));
  block.add({{0x1000 + 2 * 9'999, 1}, true, watch::Use::copied, order.submit(stream)}, order);
  CHECK(block.accesses.size() == kept); // the same bytes, by the same stream
  order.host_wait(order.record(stream));
  block.add({{0x1000, 1}, false, watch::Use::copied, order.submit(stream)}, order);
  CHECK(block.accesses.size() == 1);
}

TEST_CASE("an allocation ends what was at its address", "[order]") {
  Memory memory;
  memory.allocate(0x1000, 0x1000);
  memory.allocate(0x2000, 0x1000);
  memory.allocate(0x1800, 0x1000);
  CHECK(memory.size() == 1);
  CHECK(memory.at(0x1000) == nullptr);
  CHECK(memory.at(0x27FF) != nullptr);
  CHECK(memory.free(0x1000).size == 0);
}

TEST_CASE("streams that nobody removes have a bounded number of numbers", "[order]") {
  using watch::Order;
  Order order;
  const auto legacy = order.add_stream(Order::Kind::legacy, 1);
  std::uint32_t largest = 0;
  for (int i = 0; i < 20'000; ++i) { // a thread for each request, with its own default stream
    const auto stream = order.add_stream(Order::Kind::blocking, 1);
    largest = std::max(largest, stream);
    order.submit(stream);
    order.host_wait(order.record(stream));
  }
  CHECK(largest < 2048);
  const auto work = order.submit(order.add_stream(Order::Kind::independent, 2));
  order.submit(legacy);
  CHECK_FALSE(order.is_before(work, legacy));
}

TEST_CASE("the number of a removed stream goes to one of its kind and group", "[order]") {
  using watch::Order;
  Order order;
  const auto legacy = order.add_stream(Order::Kind::legacy, 1);
  const auto removed = order.add_stream(Order::Kind::blocking, 1);
  const auto work = order.submit(removed);
  order.remove_stream(removed);
  for (int i = 0; i < 1000; ++i)
    CHECK(order.add_stream(Order::Kind::independent, 1) != removed);
  order.submit(legacy);
  CHECK(order.is_before(work, legacy));
  CHECK(order.add_stream(Order::Kind::blocking, 1) == removed);
}

TEST_CASE("neighbouring uses of an allocation are merged, and none is lost", "[order]") {
  watch::Memory memory;
  watch::Order order;
  const auto stream = order.add_stream(watch::Order::Kind::independent, 1);
  const auto other = order.add_stream(watch::Order::Kind::independent, 1);
  watch::Allocation& arena = memory.allocate(0x10'0000, 1 << 20);
  for (std::uint64_t i = 0; i < 5000; ++i)
    arena.add({{0x10'0000 + i * 64, 64}, true, watch::Use::copied, order.submit(stream), {}}, order);
  CHECK(arena.accesses.size() <= 256);
  order.submit(other);
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const Rows rows{0x10'0000 + i * 64, 64};
    CHECK(std::ranges::any_of(arena.accesses, [&](const Access& each) {
      return each.rows.overlaps(rows) && !order.is_before(each.point, other);
    }));
  }
}

TEST_CASE("a copy replaces what the stream has used before in its rows", "[order]") {
  watch::Memory memory;
  watch::Order order;
  const auto stream = order.add_stream(watch::Order::Kind::independent, 1);
  watch::Allocation& all = memory.allocate(0x1000, 0x1000);
  const auto use = [&](Rows rows, bool writes) {
    all.add({rows, writes, watch::Use::copied, order.submit(stream), {}}, order);
  };
  use({0x1000, 64}, false);
  use({0x1040, 64}, true);
  use({0x1000, 256}, false); // a read does not stand for a write
  CHECK(all.accesses.size() == 2);
  use({0x1000, 128}, true);
  CHECK(all.accesses.size() == 2);
  use({0x1000, 256}, true);
  CHECK(all.accesses.size() == 1);
}
