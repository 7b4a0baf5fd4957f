// SPDX-License-Identifier: MIT
// A lease that two threads share. Models SharedEvent in include/cuevent/shared_event.hpp, and
// EventRef::note_record() and unrecorded().
#include "models.hpp"

using namespace model;

namespace {

struct Orders {
  std::memory_order note = release, look = acquire, drop = acq_rel;
};

/// One holder writes data, records and drops. The other holder looks whether the event was recorded,
/// reads the data if so, and drops. The last one gives the event to the next user.
struct TwoHolders {
  Execution& execution;
  const Orders orders;
  Atomic recorded{execution, "checks_", 0}, holders{execution, "holders", 2};
  Plain data{execution, "data", 0}, event{execution, "event", 0};
  int returned = 0;

  TwoHolders(Execution& its, const Orders& used) : execution(its), orders(used) {
    its.spawn("records", record());
    its.spawn("waits", wait());
  }
  Task<> record() {
    data.write(1);
    event.read();
    co_await recorded.store(1, orders.note);
    co_await drop();
  }
  Task<> wait() {
    const std::int64_t seen = co_await recorded.load(orders.look);
    if (seen == 1) data.read();
    event.read();
    co_await drop();
  }
  Task<> drop() {
    const std::int64_t before = co_await holders.fetch_add(-1, orders.drop);
    if (before != 1) co_return;
    event.write(2); // the next user of the event
    ++returned;
  }
  void finish() { execution.check(returned == 1, "the event is not returned once"); }
};

} // namespace

TEST_CASE("the last of two holders returns a shared lease, after the other's last use") {
  CHECK(explore<TwoHolders>(Orders{}).violation == "");
}

TEST_CASE("the checker finds each weak memory order of a shared lease") {
  CHECK_THAT(explore<TwoHolders>(Orders{.note = relaxed}).violation, StartsWith("data race on data"));
  CHECK_THAT(explore<TwoHolders>(Orders{.look = relaxed}).violation, StartsWith("data race on data"));
  for (const std::memory_order weak : {relaxed, acquire, release})
    CHECK_THAT(explore<TwoHolders>(Orders{.drop = weak}).violation, StartsWith("data race on event"));
}
