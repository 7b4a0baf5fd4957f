// SPDX-License-Identifier: MIT
#include "scheduling/callback_streams.hpp"

#include <catch2/catch_test_macros.hpp>

#include <array>
#include <vector>

using cuevent::CallbackNode;
using cuevent::CallbackStreams;

namespace {

/// Nodes with the given streams.
struct Nodes {
  std::array<CallbackNode, 8> all;
  CallbackStreams streams;

  void append(std::size_t node, unsigned long long stream) {
    all[node].stream = stream;
    streams.append(all[node]);
  }
  std::size_t number_of(const CallbackNode& node) const {
    return static_cast<std::size_t>(&node - all.data());
  }

  /// The oldest node of each stream.
  std::vector<std::size_t> oldest() {
    std::vector<std::size_t> found;
    for (CallbackNode* first : streams)
      for (; first != nullptr; first = first->next_stream)
        found.push_back(number_of(*first));
    return found;
  }
  /// Removes the oldest node of the stream that is at that place of oldest().
  std::size_t pop(std::size_t place) {
    for (CallbackNode*& bucket : streams)
      for (CallbackNode** link = &bucket; *link != nullptr; link = &(*link)->next_stream)
        if (place-- == 0) return number_of(CallbackStreams::pop(*link));
    FAIL("there is no such stream");
    return 0;
  }
};

using Numbers = std::vector<std::size_t>;

} // namespace

TEST_CASE("a node can be removed from any place in the list of its stream") {
  for (std::size_t removed = 0; removed < 4; ++removed)
    for (const unsigned long long stream : {7ULL, 71ULL, 135ULL}) { // three streams of one bucket
      Nodes nodes;
      nodes.append(6, 71);
      for (std::size_t node = 0; node < 4; ++node)
        nodes.append(node, stream);
      nodes.append(7, 135);
      nodes.streams.remove(nodes.all[removed]);
      nodes.append(4, stream); // behind the newest
      nodes.streams.remove(nodes.all[(removed + 1) % 4]);
      nodes.append(5, stream);
      std::vector<std::size_t> left;
      while (!nodes.oldest().empty())
        if (const std::size_t node = nodes.pop(0); node < 6) left.push_back(node);
      std::vector<std::size_t> expected;
      for (std::size_t node = 0; node < 6; ++node)
        if (node != removed && node != (removed + 1) % 4) expected.push_back(node);
      CHECK(left == expected);
    }
}

TEST_CASE("callbacks of one stream leave in the order in which they came") {
  Nodes nodes;
  CHECK(nodes.oldest().empty());
  for (std::size_t node = 0; node < 4; ++node)
    nodes.append(node, 7);
  CHECK(nodes.oldest() == Numbers{0});
  CHECK(nodes.pop(0) == 0);
  nodes.append(4, 7);
  for (std::size_t node = 1; node < 5; ++node)
    CHECK(nodes.pop(0) == node);
  CHECK(nodes.oldest().empty());
  nodes.append(0, 7); // a node is used again
  CHECK(nodes.pop(0) == 0);
  CHECK(nodes.oldest().empty());
}

TEST_CASE("streams with equal hashes keep their own order") {
  Nodes nodes;
  nodes.append(0, 1);
  nodes.append(1, 65);
  nodes.append(2, 129);
  nodes.append(3, 65);
  nodes.append(4, 1);
  CHECK(nodes.oldest() == Numbers{0, 1, 2});
  CHECK(nodes.pop(1) == 1); // in the middle of the bucket
  CHECK(nodes.oldest() == Numbers{0, 3, 2});
  CHECK(nodes.pop(1) == 3); // the last of its stream
  CHECK(nodes.oldest() == Numbers{0, 2});
  nodes.append(5, 65);
  nodes.append(6, 129);
  CHECK(nodes.oldest() == Numbers{0, 2, 5});
  CHECK(nodes.pop(0) == 0);
  CHECK(nodes.oldest() == Numbers{4, 2, 5});
  CHECK(nodes.pop(0) == 4);
  CHECK(nodes.pop(0) == 2);
  CHECK(nodes.oldest() == Numbers{6, 5});
}

TEST_CASE("streams with different hashes have a bucket each") {
  Nodes nodes;
  for (std::size_t node = 0; node < 4; ++node)
    nodes.append(node, 60 + node);
  CHECK(nodes.oldest().size() == 4);
  std::size_t used = 0;
  for (CallbackNode* const first : nodes.streams)
    used += first != nullptr ? 1 : 0;
  CHECK(used == 4);
  CHECK(nodes.streams.end() - nodes.streams.begin() == 64);
}
