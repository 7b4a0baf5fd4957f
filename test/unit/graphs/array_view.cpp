// SPDX-License-Identifier: MIT
#include <cuevent/array_view.hpp>

#include "recording_fixture.hpp"

#include <cuevent/graph.hpp>

#include <array>
#include <list>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

using namespace cuevent;
using namespace test;

namespace {

struct Base {
  int number = 0;
};
struct Derived : Base {
  int more = 0;
};
struct Counted {
  const int* data() const { return nullptr; }
  int size() const { return 0; }
};

using View = ArrayView<int>;

template <class From>
constexpr bool converts = std::is_convertible_v<From, View>;

static_assert(std::is_trivially_copyable_v<View> && sizeof(View) == sizeof(std::span<const int>));
static_assert(converts<std::span<int>> && converts<std::span<const int>> && converts<std::span<int, 2>>);
static_assert(converts<std::vector<int>&> && converts<const std::vector<int>&> && converts<std::vector<int>>);
static_assert(converts<std::array<int, 2>&> && converts<std::array<const int, 2>> &&
              converts<std::array<int, 0>>);
static_assert(converts<int (&)[2]> && converts<const int (&)[2]> && converts<std::initializer_list<int>>);
static_assert(converts<Counted> && converts<View&>);
static_assert(!converts<std::vector<long>> && !converts<std::vector<unsigned>> && !converts<std::list<int>>);
static_assert(!converts<int> && !converts<int*> && !converts<std::vector<int>*> && !converts<std::string>);
static_assert(!std::is_convertible_v<std::vector<Derived>, ArrayView<Base>>);
static_assert(!std::is_convertible_v<Derived (&)[2], ArrayView<Base>>);

constexpr int sum(View numbers) {
  int total = 0;
  for (const int number : numbers)
    total += number;
  return total;
}
constexpr std::array<int, 3> three{1, 2, 4};
static_assert(sum({}) == 0 && sum(three) == 7 && sum({three.data(), 2}) == 3 && sum({8, 16}) == 24);
static_assert(View(three).data() == three.data() && View(three).size() == 3 && View().data() == nullptr);

} // namespace

TEST_CASE_METHOD(RecordingFixture, "a graph takes the nodes before a new one from every kind of array") {
  Graph graph(context);
  const DriverEvent event(context);
  CUgraphNode const node = node_handle(0);
  std::vector<CUgraphNode> vector{node, node};
  const std::array<CUgraphNode, 2> array{node, node};
  const CUgraphNode plain[]{node, node};

  const auto before = [&](auto) { return recording.nodes_before(); };
  CHECK(before(graph.add_record(event, vector)) == 2);
  CHECK(before(graph.add_record(event)) == 0);
  CHECK(before(graph.add_record(event, std::vector<CUgraphNode>{node})) == 1);
  CHECK(before(graph.add_record(event, array)) == 2);
  CHECK(before(graph.add_record(event, {})) == 0);
  CHECK(before(graph.add_record(event, plain)) == 2);
  CHECK(before(graph.add_record(event, {node})) == 1);
  CHECK(before(graph.add_record(event, std::span<CUgraphNode>(vector))) == 2);
  CHECK(before(graph.add_record(event, std::span<const CUgraphNode>(vector).first(1))) == 1);
  CHECK(before(graph.add_record(event, {vector})) == 2);
  CHECK(before(graph.add_record(event, {vector.data(), 1})) == 1);
  CHECK(before(graph.add_wait(event, vector)) == 2);
  CHECK(before(graph.add_wait(event)) == 0);
  CHECK(before(graph.add_wait(event, std::span<const CUgraphNode>(vector))) == 2);
  CHECK(before(graph.add_wait(event, {node})) == 1);
}
