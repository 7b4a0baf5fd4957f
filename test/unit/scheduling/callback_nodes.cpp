// SPDX-License-Identifier: MIT
#include "scheduling/callback_nodes.hpp"

#include "allocations.hpp"
#include "on_threads.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <pthread.h>
#include <set>
#include <thread>
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

/// Takes a node and gives it back, again and again. Returns how often none was found.
std::size_t misses_of(CallbackNodes& nodes) {
  std::size_t missed = 0;
  for (unsigned long long stream = 0; stream < 200'000; ++stream) {
    CallbackNode* const node = nodes.take(stream);
    if (node == nullptr) ++missed;
    if (node != nullptr) nodes.give_back(*node);
  }
  return missed;
}

} // namespace

TEST_CASE("nodes come in blocks, each twice as large as the one before") {
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

TEST_CASE("a set of nodes frees all its blocks") {
  const long before = test::live_allocations_of_this_thread();
  long with_nodes = 0;
  {
    CallbackNodes nodes;
    for (int i = 0; i < 64 + 128 + 1; ++i)
      nodes.take_new();
    with_nodes = test::live_allocations_of_this_thread();
  }
  const long after = test::live_allocations_of_this_thread(); // a CHECK in between could allocate
  CHECK(with_nodes == before + 3);
  CHECK(after == before);
}

TEST_CASE("a node takes two cache lines", "[queue]") { CHECK(sizeof(CallbackNode) == 128); }

TEST_CASE("a node that has an event is taken before a new one") {
  CallbackNodes nodes;
  CHECK(nodes.take(0) == nullptr);
  const std::vector<CallbackNode*> taken = take_new(nodes, 2);
  nodes.give_back(*taken[0]);
  nodes.give_back_new(*taken[1]);
  CHECK(nodes.take(0) == taken[0]);
  CHECK(nodes.take(0) == nullptr);
  CHECK(nodes.take_new() == taken[1]);
  CHECK(count_of(nodes) == 64);
}

TEST_CASE("each node has one owner and its own index, and the first come first") {
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

TEST_CASE("the node that was given back last is taken first") {
  CallbackNodes nodes;
  const std::vector<CallbackNode*> taken = take_new(nodes, 200); // of two blocks
  for (CallbackNode* const node : taken)
    nodes.give_back(*node);
  for (std::size_t i = taken.size(); i-- > 0;)
    CHECK(nodes.take(0) == taken[i]);
  CHECK(count_of(nodes) == 64 + 128 + 256);
}

TEST_CASE("a node stays with the stream that used it, while that stream needs it") {
  CallbackNodes nodes;
  const std::vector<CallbackNode*> taken = take_new(nodes, 3);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    taken[i]->stream = i + 1;
    nodes.give_back(*taken[i]);
  }
  CHECK(nodes.take(2) == taken[1]);
  CHECK(nodes.take(1) == taken[0]);
  CHECK(nodes.take(1) == taken[2]); // of another stream, because a free node is never missed
  CHECK(nodes.take(1) == nullptr);
  taken[2]->stream = 1;
  nodes.give_back(*taken[2]);
  CHECK(nodes.take(1) == taken[2]);
}

TEST_CASE("a free node is found even if nodes move from stream to stream", "[threads]") {
  CallbackNodes nodes;
  for (CallbackNode* const node : take_new(nodes, 2))
    nodes.give_back(*node);
  std::atomic<bool> stop{false};
  std::thread mover([&] { // has one of the two nodes at a time
    for (unsigned long long stream = 1; !stop; ++stream) {
      CallbackNode* const node = nodes.take(stream - 1);
      if (node == nullptr) continue;
      node->stream = stream;
      nodes.give_back(*node);
    }
  });
  const std::size_t missed = misses_of(nodes);
  stop = true;
  mover.join();
  CHECK(missed == 0);
}

TEST_CASE("a free node is found even if all nodes move while it is looked for") {
  CallbackNodes nodes;
  for (CallbackNode* const node : take_new(nodes, 2))
    nodes.give_back(*node);
  // A signal handler stands for other threads, at any point of the search.
  static CallbackNodes* moved = nullptr;
  static unsigned long long from = 0, to = 1;
  moved = &nodes;
  from = 0, to = 1;
  struct sigaction moving {};
  moving.sa_handler = [](int) {
    for (int i = 0; i < 2; ++i)
      if (CallbackNode* const node = moved->take(from)) { // the search may hold the other one
        node->stream = to;
        moved->give_back(*node);
      }
    from = to, to = 16 - to; // from one side of most places to the other
  };
  struct sigaction before {};
  REQUIRE(sigaction(SIGUSR1, &moving, &before) == 0);
  std::atomic<bool> stop{false};
  std::thread interrupting([&stop, searching = pthread_self()] {
    while (!stop) {
      pthread_kill(searching, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  });
  const std::size_t missed = misses_of(nodes);
  stop = true;
  interrupting.join();
  sigaction(SIGUSR1, &before, nullptr);
  CHECK(missed == 0);
}

TEST_CASE("threads that take and give back nodes never share a node", "[threads]") {
  constexpr std::size_t threads = 4;
  CallbackNodes nodes;
  std::atomic<std::size_t> shared{0};
  const auto take_own = [&] {
    CallbackNode* node = nodes.take(0);
    if (node == nullptr) node = nodes.take_new();
    if (node->life.exchange(1) != 0) ++shared;
    return node;
  };
  const auto give_back_own = [&](CallbackNode& node) {
    node.life = 0;
    nodes.give_back(node);
  };
  test::on_threads(threads, [&](std::size_t) {
    for (int i = 0; i < 300'000; ++i) {
      CallbackNode *const first = take_own(), *const second = take_own();
      // The first one is often the newest again, but the node below it is another one.
      give_back_own(*first);
      for (int again = 0; again < 4; ++again)
        give_back_own(*take_own());
      give_back_own(*second);
    }
  });
  CHECK(shared == 0);
  CHECK(count_of(nodes) == 64); // no node was lost
  std::set<CallbackNode*> taken;
  while (CallbackNode* const node = nodes.take(0))
    taken.insert(node);
  for (std::size_t left = 64 - taken.size(); left > 0; --left)
    taken.insert(nodes.take_new());
  CHECK(taken.size() == 64);
  CHECK(count_of(nodes) == 64);
}
