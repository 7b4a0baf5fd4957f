// SPDX-License-Identifier: MIT
// The slot of a TimelineFence that changes its owner. Models take_of() in
// src/scheduling/fence_slots.cpp, and the functions of src/scheduling/timeline_fence.cpp.
#include "models.hpp"

#include <algorithm>

using namespace model;

namespace {

struct Orders {
  std::memory_order give_back = release, take = acquire;
};

/// One fence signals and ends. The device may not have reached the ticket when another thread wants
/// the slot.
struct SlotChangesOwner {
  Execution& execution;
  const Orders orders;
  Atomic in_use{execution, "in_use", 1}, signalled{execution, "signalled", 0},
      stream_id{execution, "stream_id", 7}, counter{execution, "counter", 0};
  Atomic submitted{execution, "submitted", 0}; // what the driver has told the device

  SlotChangesOwner(Execution& its, const Orders& used) : execution(its), orders(used) {
    its.spawn("first fence", first_fence());
    its.spawn("device", device());
    its.spawn("second fence", second_fence());
  }
  Task<> first_fence() {
    co_await submitted.store(1, release); // submit_signal()
    co_await stream_id.store(8, relaxed);
    co_await signalled.store(1, release);
    co_await in_use.store(0, orders.give_back); // ~TimelineFence()
  }
  Task<> device() {
    co_await submitted.await(acquire, [](std::int64_t value) { return value == 1; });
    co_await counter.store(1, release);
  }
  Task<> second_fence() {
    const std::int64_t taken = co_await in_use.load(orders.take); // take_of()
    if (taken != 0) co_return;
    const std::int64_t completed = co_await counter.load(acquire);
    const std::int64_t newest = co_await signalled.load(relaxed);
    if (completed < newest) co_return;
    execution.check(completed == 1, "the slot is taken before its last ticket is reached");
    co_await signalled.store(completed, relaxed);
    co_await stream_id.store(0, relaxed);
    co_await in_use.store(1, relaxed);
  }
  void finish() {
    const bool taken = in_use.last() == 1;
    execution.check(!taken || stream_id.last() == 0, "the second fence has the first one's stream");
  }
};

/// A thread signals, and the device may reach the ticket before the thread has stored it. Another thread asks
/// which tickets are reached, and waits for the newest.
struct WaitForReached {
  Execution& execution;
  const bool asks_counter; // signalled() looks at the counter too
  Atomic signalled{execution, "signalled", 0}, counter{execution, "counter", 0},
      submitted{execution, "submitted", 0};

  WaitForReached(Execution& its, bool asks) : execution(its), asks_counter(asks) {
    its.spawn("signals", signals());
    its.spawn("device", device());
    its.spawn("waits", waits());
  }
  Task<> signals() { // submit_signal()
    co_await submitted.store(1, release);
    co_await signalled.store(1, release);
  }
  Task<> device() {
    co_await submitted.await(acquire, [](std::int64_t value) { return value == 1; });
    co_await counter.store(1, release);
  }
  Task<> waits() {
    const std::int64_t ticket = co_await counter.load(acquire); // completed()
    std::int64_t newest = co_await signalled.load(acquire);     // signalled(), in try_wait()
    if (asks_counter) newest = std::max(newest, co_await counter.load(acquire));
    execution.check(ticket <= newest, "a ticket that is reached is refused");
  }
  void finish() {}
};

} // namespace

TEST_CASE("a wait for a ticket that is reached is not refused while its signal returns") {
  CHECK(explore<WaitForReached>(true).violation == "");
  CHECK_THAT(explore<WaitForReached>(false).violation, StartsWith("a ticket that is reached is refused"));
}

TEST_CASE("a fence takes a slot only after the last ticket of the slot is reached") {
  CHECK(explore<SlotChangesOwner>(Orders{}).violation == "");
}

TEST_CASE("the checker finds each weak memory order of the fence's slot") {
  const std::string early = "the slot is taken before its last ticket";
  CHECK_THAT(explore<SlotChangesOwner>(Orders{.give_back = relaxed}).violation, StartsWith(early));
  CHECK_THAT(explore<SlotChangesOwner>(Orders{.take = relaxed}).violation, StartsWith(early));
}
