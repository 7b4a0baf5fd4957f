// SPDX-License-Identifier: MIT
// The stacks of free nodes of a CompletionQueue. Models src/scheduling/callback_nodes.hpp; each
// function has the name of the one that it models. Nodes have the numbers 1 and 2, and 0 is none.
#include "models.hpp"

#include <deque>

using namespace model;

namespace {

/// As in the library. A test that breaks the stack changes one member.
struct Protocol {
  bool counts_changes = true;
  bool looks_again = true; // at all stacks
  std::memory_order take_load = acquire, take = acq_rel, take_again = acquire, give_back = acq_rel;
};

std::size_t index_of(std::int64_t head) { return static_cast<std::size_t>(head & 0xff); }
std::int64_t changed(const Protocol& protocol, std::int64_t head, std::size_t index) {
  const std::int64_t count = protocol.counts_changes ? (head >> 8) + 1 : 0;
  return count << 8 | static_cast<std::int64_t>(index);
}

/// The nodes, each with the one below it, and the operations on a stack of them.
struct Stacked {
  Execution& execution;
  const Protocol protocol;
  std::deque<Atomic> below;

  Stacked(Execution& its, const Protocol& used) : execution(its), protocol(used) {
    below.emplace_back(its, "no node", 0);
    below.emplace_back(its, "below of node 1", 2);
    below.emplace_back(its, "below of node 2", 0);
  }

  /// 0 if the stack is empty, in the state `seen`.
  Task<std::size_t> take_from(Atomic& free, std::int64_t& seen) {
    std::int64_t head = co_await free.load(protocol.take_load);
    while (index_of(head) != 0) {
      const std::size_t node = index_of(head);
      const std::int64_t next = co_await below[node].load(relaxed);
      const std::int64_t after = changed(protocol, head, static_cast<std::size_t>(next));
      const bool taken = co_await free.compare_exchange(head, after, protocol.take, protocol.take_again);
      if (taken) co_return node;
    }
    seen = head;
    co_return 0;
  }
  Task<> give_back(Atomic& free, std::size_t node) {
    std::int64_t head = co_await free.load(relaxed);
    for (bool done = false; !done;) {
      co_await below[node].store(static_cast<std::int64_t>(index_of(head)), relaxed);
      done = co_await free.compare_exchange(head, changed(protocol, head, node), protocol.give_back, relaxed);
    }
  }
};

/// One thread takes both nodes and gives one back, while another thread takes a node.
struct Nodes : Stacked {
  Atomic free{execution, "free_", 1};
  std::deque<Plain> content;

  Nodes(Execution& its, const Protocol& used) : Stacked(its, used) {
    for (const char* name : {"no content", "node 1", "node 2"})
      content.emplace_back(its, name, 0);
    its.spawn("takes one", takes_one());
    its.spawn("takes two", takes_two());
  }

  Task<> takes_one() {
    std::int64_t seen = 0;
    const std::size_t node = co_await take_from(free, seen);
    if (node != 0) content[node].write(1);
    if (node != 0) co_await give_back(free, node);
  }
  Task<> takes_two() {
    std::int64_t seen = 0;
    const std::size_t first = co_await take_from(free, seen);
    const std::size_t second = co_await take_from(free, seen);
    if (first != 0) content[first].write(2);
    if (first != 0) co_await give_back(free, first);
    if (second != 0) content[second].write(2); // still its own
    if (second != 0) co_await give_back(free, second);
  }
  void finish() {
    const std::size_t first = index_of(free.last());
    execution.check(first != 0 && index_of(below[first].last()) != 0, "a node is lost");
  }
};

/// One thread moves both nodes from the second stack to the first, one after another. So one node is free
/// at any time, and another thread that looks for a node must find one.
struct Stacks : Stacked {
  std::deque<Atomic> free;

  Stacks(Execution& its, const Protocol& used) : Stacked(its, used) {
    free.emplace_back(its, "first stack", 0);
    free.emplace_back(its, "second stack", 1);
    its.spawn("moves", moves());
    its.spawn("looks", take_any());
  }

  Task<> moves() {
    for (int i = 0; i < 2; ++i) {
      std::int64_t seen = 0;
      const std::size_t node = co_await take_from(free[1], seen);
      if (node != 0) co_await give_back(free[0], node);
    }
  }
  Task<> take_any() {
    std::int64_t seen[2] = {};
    for (bool changes = true; changes;) {
      for (std::size_t i = 0; i < 2; ++i) {
        const std::size_t node = co_await take_from(free[i], seen[i]);
        if (node != 0) co_return;
      }
      changes = false;
      for (std::size_t i = 0; i < 2 && protocol.looks_again; ++i) {
        const std::int64_t now = co_await free[i].load(relaxed);
        changes = changes || now != seen[i];
      }
    }
    execution.check(false, "a free node is missed");
  }
  void finish() {}
};

template <class Model = Nodes>
std::string violation_with(const Protocol& protocol) {
  return explore<Model>(protocol).violation;
}

} // namespace

TEST_CASE("a node of the queue has one owner at a time, and none is lost") {
  const Result result = explore<Nodes>(Protocol{});
  CHECK(result.violation == "");
  CHECK(result.states > 100);
}

TEST_CASE("a free node of the queue is found, whatever stack it is in") {
  const Result result = explore<Stacks>(Protocol{});
  CHECK(result.violation == "");
  CHECK(result.states > 100);
}

TEST_CASE("the checker finds each weakness of the search for a free node") {
  const auto missed = StartsWith("a free node is missed");
  CHECK_THAT(violation_with<Stacks>({.looks_again = false}), missed);
  CHECK_THAT(violation_with<Stacks>({.take_load = relaxed}), missed);
  CHECK_THAT(violation_with<Stacks>({.take = relaxed}), missed);
}

TEST_CASE("the checker finds each weakness of the stack of nodes") {
  CHECK_THAT(violation_with({.counts_changes = false}), StartsWith("a node is lost"));
  CHECK_THAT(violation_with({.take_load = relaxed}), StartsWith("a node is lost"));
  CHECK_THAT(violation_with({.take_again = relaxed}), StartsWith("a node is lost"));
  CHECK_THAT(violation_with({.give_back = relaxed}), StartsWith("data race on node"));
}
