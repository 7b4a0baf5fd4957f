// SPDX-License-Identifier: MIT
// The list of retired events. Models RetiredList in src/core/retired_events.cpp; each function has
// the name of the one that it models.
#include "models.hpp"

#include <deque>

using namespace model;

namespace {

struct Orders {
  std::memory_order push = release, destroy_all = acquire;
};

/// Two threads retire an event each, and two threads destroy retired events.
struct RetireAndDestroy {
  Execution& execution;
  const Orders orders;
  Atomic newest{execution, "newest_", 0};
  std::deque<Memory> nodes;
  std::deque<Plain> next;

  RetireAndDestroy(Execution& its, const Orders& used) : execution(its), orders(used) {
    for (const std::string node : {"no node", "node 1", "node 2"}) {
      nodes.emplace_back(its, node);
      next.emplace_back(its, node + "->next", 0, &nodes.back());
    }
    its.spawn("retires 1", push(1));
    its.spawn("retires 2", push(2));
    its.spawn("destroys", destroy_all());
    its.spawn("destroys too", destroy_all());
  }
  Task<> push(std::int64_t node) {
    std::int64_t before = co_await newest.load(relaxed);
    for (bool pushed = false; !pushed;) {
      next[static_cast<std::size_t>(node)].write(before);
      pushed = co_await newest.compare_exchange(before, node, orders.push, relaxed);
    }
  }
  Task<> destroy_all() {
    const std::int64_t all = co_await newest.exchange(0, orders.destroy_all);
    for (auto node = static_cast<std::size_t>(all); node != 0;) {
      const std::int64_t after = next[node].read();
      nodes[node].end();
      node = static_cast<std::size_t>(after);
    }
  }
  void finish() {
    const std::int64_t left = newest.last();
    if (left != 0)
      execution.check(!nodes[static_cast<std::size_t>(left)].ended(), "a deleted node is listed");
    if (left == 0) execution.check(nodes[1].ended() && nodes[2].ended(), "a node is lost");
  }
};

} // namespace

TEST_CASE("each retired event is destroyed by one thread") {
  CHECK(explore<RetireAndDestroy>(Orders{}).violation == "");
}

TEST_CASE("the checker finds each weak memory order of the retired list") {
  CHECK_THAT(explore<RetireAndDestroy>(Orders{.push = relaxed}).violation, StartsWith("data race on node"));
  CHECK_THAT(explore<RetireAndDestroy>(Orders{.destroy_all = relaxed}).violation,
             StartsWith("data race on node"));
}
