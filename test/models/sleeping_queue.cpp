// SPDX-License-Identifier: MIT
// Threads that arm a CompletionQueue and sleep, while others submit and poll. Models the inbox as in
// completion_queue_state.cpp, take_inbox(), and completion_queue_sleep.cpp; each function has the name of
// the one that it models. All work is complete when it is submitted, so the timer is always off unless a
// submission rings: a lost wake-up is a deadlock. Left out: how polls take turns, which completion_queue.cpp
// models (a mutex has the lists here), forks, and the driver's calls.
#include "models.hpp"

#include <string>
#include <vector>

using namespace model;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The protocol of the library. A test that breaks the protocol changes one member.
struct Protocol {
  std::memory_order push = release;
  bool rings = true;            // a submission that finds the inbox asleep
  bool sets_timer_first = true; // before the inbox is asleep
  bool rings_if_late = true;    // an arm() whose exchange fails
  bool stays_asleep = true;     // an empty inbox that a poll looks at
  bool exchanges = true;        // arm() compares the inbox with what it has seen
};

/// The thread that polls while another one sleeps.
enum class Second { polls, polls_and_arms };

struct Sleeping {
  Execution& execution;
  const Protocol protocol;

  Atomic inbox{execution, "inbox_", 0}, returned{execution, "returned_", 0};
  /// 1: readable. The kernel has a lock for each timer, so settings are updates. They order nothing else.
  Atomic timer{execution, "timer_", 0};
  Atomic done{execution, "done", 0};
  Mutex lists{execution};
  struct Node {
    Plain callback;
    Atomic below;
  };
  std::vector<Node> nodes;
  bool stop = false; // node 2 has run

  Sleeping(Execution& its, const Protocol& used, Second second) : execution(its), protocol(used) {
    for (const std::string node : {"no node", "node 1", "node 2"})
      nodes.push_back({{its, node + "->callback", 0}, {its, node + "->below", 0}});
    its.spawn("sleeps", sleeps());
    its.spawn("polls too", polls_too(second));
    its.spawn("submits", submits());
  }
  Node& node_of(std::int64_t number) { return nodes[static_cast<std::size_t>(number)]; }

  /// Stops after node 2.
  Task<> sleeps() {
    while (!stop) {
      co_await poll();
      if (stop) break;
      const bool armed = co_await arm();
      if (armed) co_await timer.await_newest(relaxed, [](std::int64_t value) { return value == 1; });
    }
  }
  Task<> polls_too(Second second) {
    co_await poll();
    if (second == Second::polls_and_arms) co_await arm(); // and does not come back
    co_await done.fetch_add(1, release);
  }
  /// Node 2 follows when node 1 has run, and when only the sleeping thread is left.
  Task<> submits() {
    co_await push(1);
    co_await returned.await(acquire, [](std::int64_t value) { return value == 1; });
    co_await done.await(acquire, [](std::int64_t value) { return value == 1; });
    co_await push(2);
  }

  static constexpr std::int64_t none = 0, none_asleep = 0xff;
  static std::int64_t index_of(std::int64_t word) { return word & 0xff; }
  static std::int64_t count_of(std::int64_t word) { return word >> 8; }
  static bool is_empty(std::int64_t word) { return index_of(word) == none || is_asleep(word); }
  static bool is_asleep(std::int64_t word) { return index_of(word) == none_asleep; }

  Task<> push(std::int64_t node) {
    node_of(node).callback.write(node);
    std::int64_t newest = co_await inbox.load(relaxed);
    for (bool pushed = false; !pushed;) {
      co_await node_of(node).below.store(is_empty(newest) ? none : index_of(newest), relaxed);
      pushed =
          co_await inbox.compare_exchange(newest, (count_of(newest) + 1) << 8 | node, protocol.push, relaxed);
    }
    if (!is_asleep(newest) || !protocol.rings) co_return;
    co_await timer.exchange(1, relaxed);
  }

  Task<> poll() {
    const std::int64_t before = co_await returned.load(acquire);
    const std::int64_t word = co_await inbox.load(acquire);
    if (count_of(word) == before) co_return;
    co_await lists.lock();
    co_await take_inbox();
    lists.unlock();
  }
  /// Runs the callbacks at once.
  Task<> take_inbox() {
    std::int64_t word = co_await inbox.load(relaxed);
    if (is_empty(word) && protocol.stays_asleep) co_return;
    word = co_await inbox.fetch_and(~std::int64_t{0xff}, acquire);
    for (std::int64_t node = is_empty(word) ? none : index_of(word); node != none;) {
      execution.check(node_of(node).callback.read() == node, "a callback runs twice, or too early");
      node_of(node).callback.write(0);
      if (node == 2) stop = true;
      node = co_await node_of(node).below.load(relaxed);
      co_await returned.fetch_add(1, release);
    }
  }

  Task<bool> arm() {
    co_await lists.lock();
    const bool armed = co_await sleep_begins();
    lists.unlock();
    co_return armed;
  }
  Task<bool> sleep_begins() {
    std::int64_t word = co_await inbox.load(relaxed);
    if (!is_empty(word)) co_return false;
    if (protocol.sets_timer_first) co_await timer.exchange(0, relaxed);
    const std::int64_t sleeping = (word & ~std::int64_t{0xff}) | none_asleep;
    bool armed = true;
    if (protocol.exchanges)
      armed = co_await inbox.compare_exchange(word, sleeping, release, relaxed);
    else
      co_await inbox.fetch_or(none_asleep, release);
    if (!protocol.sets_timer_first) co_await timer.exchange(0, relaxed);
    if (!armed && protocol.rings_if_late) co_await timer.exchange(1, relaxed);
    co_return armed;
  }

  void finish() { execution.check(stop, "the last callback has not run"); }
};

std::string violation_with(const Protocol& protocol, Second second = Second::polls_and_arms) {
  return explore<Sleeping>(protocol, second).violation;
}

} // namespace

TEST_CASE("no submission to a sleeping queue gets lost") {
  for (const Second second : {Second::polls, Second::polls_and_arms}) {
    const Result result = explore<Sleeping>(Protocol{}, second);
    CHECK(result.violation == "");
    CHECK(result.states > 3'000);
  }
}

TEST_CASE("the checker finds each weakness of a sleeping queue") {
  const auto lost = ContainsSubstring("sleeps waits forever");
  CHECK_THAT(violation_with({.rings = false}), lost);
  CHECK_THAT(violation_with({.sets_timer_first = false}), lost);
  CHECK_THAT(violation_with({.rings_if_late = false}), lost);
  CHECK_THAT(violation_with({.stays_asleep = false}, Second::polls), lost);
  CHECK_THAT(violation_with({.exchanges = false}), lost);
  CHECK_THAT(violation_with({.push = relaxed}), ContainsSubstring("data race"));
}
