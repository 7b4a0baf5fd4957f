// SPDX-License-Identifier: MIT
// The list of pools that readers search without a lock. Models EventPools::State in
// src/scheduling/event_pools.cpp: find(), and pool_of() under its mutex.
#include "models.hpp"

using namespace model;

namespace {

struct Orders {
  std::memory_order first = release, find_first = acquire, id = release, find_id = acquire;
};

/// A thread makes the pool of context 1, in a new place. The context ends, and the thread makes the pool
/// of context 2 in the same place. Another thread looks for each of them.
struct FindAndMake {
  Execution& execution;
  const Orders orders;
  Atomic first{execution, "first_", 0}, id{execution, "id", 0}, pool{execution, "pool", 0};
  Plain next{execution, "next", 0}, pool_1{execution, "pool 1", 0}, pool_2{execution, "pool 2", 0};

  FindAndMake(Execution& its, const Orders& used) : execution(its), orders(used) {
    its.spawn("makes", make());
    its.spawn("finds 2", find());
  }
  Task<> make() {
    next.write(0);
    co_await first.store(1, orders.first);
    pool_1.write(1);
    co_await pool.store(1, relaxed);
    co_await id.store(1, orders.id);
    co_await id.store(0, relaxed); // end_pools_of_lost_contexts()
    pool_2.write(1);
    co_await pool.store(2, relaxed);
    co_await id.store(2, orders.id);
  }
  Task<> find() {
    const std::int64_t place = co_await first.load(orders.find_first);
    if (place == 0) co_return;
    const std::int64_t context = co_await id.load(orders.find_id);
    if (context == 2) {
      const std::int64_t pool_found = co_await pool.load(relaxed);
      const bool found = pool_found == 2;
      execution.check(found, "the pool of another context");
      if (found) pool_2.read();
    } else {
      next.read();
    }
  }
  void finish() {}
};

} // namespace

TEST_CASE("a reader of the list of pools finds the pool of its context") {
  CHECK(explore<FindAndMake>(Orders{}).violation == "");
}

TEST_CASE("the checker finds each weak memory order of the list of pools") {
  CHECK_THAT(explore<FindAndMake>(Orders{.first = relaxed}).violation, StartsWith("data race on next"));
  CHECK_THAT(explore<FindAndMake>(Orders{.find_first = relaxed}).violation, StartsWith("data race on next"));
  CHECK(explore<FindAndMake>(Orders{.id = relaxed}).violation != "");
  CHECK(explore<FindAndMake>(Orders{.find_id = relaxed}).violation != "");
}
