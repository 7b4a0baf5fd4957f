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
    block.add({{0x1000 + i, 1}, true, watch::Use::copied, order.submit(stream)}, order);
  CHECK(block.accesses.size() == 64);
  block.add({{0x1000 + 9'999, 1}, true, watch::Use::copied, order.submit(stream)}, order);
  CHECK(block.accesses.size() == 64); // the same bytes, by the same stream
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
