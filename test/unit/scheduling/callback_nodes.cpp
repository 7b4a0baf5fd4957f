// SPDX-License-Identifier: MIT
#include "scheduling/callback_nodes.hpp"

#include <catch2/catch_test_macros.hpp>

#include <set>
#include <vector>

using cuevent::CallbackNode;
using cuevent::CallbackNodes;

namespace {

std::vector<CallbackNode*> take_new(CallbackNodes& nodes, std::size_t count) {
  std::vector<CallbackNode*> taken;
  for (std::size_t i = 0; i < count; ++i)
    taken.push_back(nodes.take_new());
  return taken;
}

std::size_t count_of(CallbackNodes& nodes) {
  std::size_t count = 0;
  nodes.for_each([&](CallbackNode&) { ++count; });
  return count;
}

} // namespace

TEST_CASE("nodes come in blocks, each twice as large as the one before", "[queue]") {
  CallbackNodes nodes;
  CHECK(count_of(nodes) == 0);
  take_new(nodes, 1);
  CHECK(count_of(nodes) == 64);
  take_new(nodes, 63);
  CHECK(count_of(nodes) == 64);
  take_new(nodes, 1);
  CHECK(count_of(nodes) == 64 + 128);
  take_new(nodes, 128 + 256);
  CHECK(count_of(nodes) == 64 + 128 + 256 + 512);
  CHECK(CallbackNodes::most() == 0x7fff'ffc0); // 2^31 - 64, as CompletionQueue::reserve() says
}

TEST_CASE("a node takes two cache lines", "[queue]") { CHECK(sizeof(CallbackNode) == 128); }

TEST_CASE("a node that has an event is taken before a new one", "[queue]") {
  CallbackNodes nodes;
  CHECK(nodes.take() == nullptr);
  const std::vector<CallbackNode*> taken = take_new(nodes, 2);
  nodes.give_back(*taken[0]);
  nodes.give_back_new(*taken[1]);
  CHECK(nodes.take() == taken[0]);
  CHECK(nodes.take() == nullptr);
  CHECK(nodes.take_new() == taken[1]);
  CHECK(count_of(nodes) == 64);
}

TEST_CASE("each node has one owner and its own index, and the first come first", "[queue]") {
  CallbackNodes nodes;
  const std::vector<CallbackNode*> taken = take_new(nodes, 64 + 128 + 256);
  CHECK(std::set<CallbackNode*>(taken.begin(), taken.end()).size() == taken.size());
  for (std::size_t i = 0; i < taken.size(); ++i) {
    CHECK(taken[i]->index == i);
    CHECK(&nodes.at(static_cast<std::uint32_t>(i)) == taken[i]);
  }
  std::vector<CallbackNode*> all;
  nodes.for_each([&](CallbackNode& node) { all.push_back(&node); });
  CHECK(all == taken);
}

TEST_CASE("the node that was given back last is taken first", "[queue]") {
  CallbackNodes nodes;
  const std::vector<CallbackNode*> taken = take_new(nodes, 200); // of two blocks
  for (CallbackNode* const node : taken)
    nodes.give_back(*node);
  for (std::size_t i = taken.size(); i-- > 0;)
    CHECK(nodes.take() == taken[i]);
  CHECK(count_of(nodes) == 64 + 128 + 256);
}
