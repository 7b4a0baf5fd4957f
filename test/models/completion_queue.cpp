// SPDX-License-Identifier: MIT
// The inbox of a CompletionQueue, and how polls and the end of the queue take turns. Models
// src/scheduling/completion_queue_state.cpp; each function has the name of the one that it models. Left
// out: forks, the lists of several streams, and the driver's calls.
#include "variables.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>
#include <vector>

using namespace model;
using Catch::Matchers::StartsWith;

namespace {

constexpr auto relaxed = std::memory_order_relaxed, acquire = std::memory_order_acquire,
               release = std::memory_order_release, acq_rel = std::memory_order_acq_rel;

/// The memory orders of the library. A test that breaks the protocol changes one member.
struct Orders {
  std::memory_order push = release, take_inbox = acquire, start_poll = acquire, end_poll = acq_rel,
                    end = acq_rel, returned_store = release, returned_load = acquire;
};

constexpr std::int64_t idle = 0, polling = 1, ended = 2; // Phase

struct Queue {
  Execution& execution;
  const Orders orders;

  Memory state{execution, "State"};
  Atomic inbox{execution, "inbox_", 0, &state}, phase{execution, "phase_", idle, &state},
      returned{execution, "returned_", 0, &state};
  /// Nodes 1 and 2. A callback runs at the second query of its event.
  struct Node {
    Plain callback, queries;
    Atomic below;
  };
  std::vector<Node> nodes;
  Node& node_of(std::int64_t number) { return nodes[static_cast<std::size_t>(number)]; }
  /// streams_: the nodes of one stream, oldest first.
  Plain oldest{execution, "streams_[0]", 0, &state}, second{execution, "streams_[1]", 0, &state};
  std::vector<std::int64_t> ran;

  Queue(Execution& its, const Orders& used) : execution(its), orders(used) {
    for (const std::string node : {"no node", "node 1", "node 2"})
      nodes.push_back({{its, node + "->callback", 0, &state},
                       {its, node + "->queries", 0, &state},
                       {its, node + "->below", 0, &state}});
  }

  /// The inbox: the number of submissions so far, and the newest node.
  static std::int64_t index_of(std::int64_t inbox) { return inbox & 0xff; }
  static std::int64_t count_of(std::int64_t inbox) { return inbox >> 8; }
  static std::int64_t changed(std::int64_t inbox, std::int64_t node) {
    return (count_of(inbox) + 1) << 8 | node;
  }

  Task<> push(std::int64_t node) {
    node_of(node).callback.write(node);
    std::int64_t newest = co_await inbox.load(relaxed);
    for (bool pushed = false; !pushed;) {
      co_await node_of(node).below.store(index_of(newest), relaxed);
      pushed = co_await inbox.compare_exchange(newest, changed(newest, node), orders.push, relaxed);
    }
  }
  Task<std::int64_t> pending() {
    const std::int64_t before = co_await returned.load(orders.returned_load);
    const std::int64_t count = count_of(co_await inbox.load(acquire)) - before;
    execution.check(count >= 0, "more callbacks have returned than were submitted");
    co_return count;
  }

  Task<> poll() {
    const std::int64_t count = co_await pending();
    if (count == 0) co_return;
    std::int64_t now = idle;
    const bool starts = co_await phase.compare_exchange(now, polling, orders.start_poll, acquire);
    if (!starts) co_return; // `now` is polling or ended
    co_await sweep();
    now = polling;
    const bool idle_again = co_await phase.compare_exchange(now, idle, orders.end_poll, acquire);
    if (!idle_again) co_await finish_queue();
  }
  Task<> end() {
    const std::int64_t before = co_await phase.exchange(ended, orders.end);
    if (before != polling) co_await finish_queue();
  }

  Task<> sweep() {
    co_await take_inbox();
    while (oldest.read() != 0) {
      Plain& queries = node_of(oldest.read()).queries;
      queries.write(queries.read() + 1);
      if (queries.read() < 2) co_return;
      co_await run(pop());
    }
  }
  Task<> take_inbox() {
    std::int64_t node = index_of(co_await inbox.fetch_and(~std::int64_t{0xff}, orders.take_inbox));
    std::vector<std::int64_t> newest_first;
    while (node != 0) {
      newest_first.push_back(node);
      node = co_await node_of(node).below.load(relaxed);
    }
    for (; !newest_first.empty(); newest_first.pop_back())
      (oldest.read() == 0 ? oldest : second).write(newest_first.back());
  }
  std::int64_t pop() {
    const std::int64_t node = oldest.read();
    oldest.write(second.read());
    second.write(0);
    return node;
  }
  Task<> run(std::int64_t node) {
    execution.check(node_of(node).callback.read() == node, "a callback runs twice, or before its submission");
    node_of(node).callback.write(0);
    ran.push_back(node);
    co_await called(node);
    const std::int64_t before = co_await returned.load(relaxed);
    co_await returned.store(before + 1, orders.returned_store);
  }
  virtual Task<> called(std::int64_t) { co_return; }
  /// finish() in the library.
  Task<> finish_queue() {
    co_await sweep();
    while (oldest.read() != 0)
      co_await run(pop());
    state.end();
  }

  void finish() {
    execution.check(ran.size() == 2 && ran[0] + ran[1] == 3, "a callback has not run once");
    execution.check(state.ended(), "nobody has deleted the state");
  }
  Queue(const Queue&) = delete;
  virtual ~Queue() = default;
};

/// Two threads submit, and two threads poll. When all are done, one of them ends the queue.
struct SubmitAndPoll : Queue {
  Atomic done{execution, "done", 0};

  SubmitAndPoll(Execution& its, const Orders& used) : Queue(its, used) {
    its.spawn("submits 1", submit(1));
    its.spawn("submits 2", submit(2));
    its.spawn("polls", polls());
    its.spawn("polls and ends", polls_and_ends());
  }
  Task<> submit(std::int64_t node) {
    co_await push(node);
    co_await done.fetch_add(1, release);
  }
  Task<> polls() {
    co_await poll();
    co_await done.fetch_add(1, release);
  }
  Task<> polls_and_ends() {
    co_await poll();
    co_await done.await(acquire, [](std::int64_t value) { return value == 3; });
    co_await end();
  }
};

/// The callback tells another thread to end the queue, while the poll is still running.
struct EndDuringPoll : Queue {
  Atomic told{execution, "told", 0};

  EndDuringPoll(Execution& its, const Orders& used) : Queue(its, used) {
    its.spawn("submits 1 and polls", polls());
    its.spawn("ends", ends());
  }
  Task<> polls() {
    co_await push(1);
    for (int i = 0; i < 2; ++i)
      co_await poll(); // the second one calls the callback
  }
  Task<> called(std::int64_t) override { co_await told.store(1, release); }
  Task<> ends() {
    co_await told.await(acquire, [](std::int64_t value) { return value == 1; });
    co_await end();
  }
  void finish() {
    execution.check(ran == std::vector<std::int64_t>{1}, "the callback has not run once");
    execution.check(state.ended(), "nobody has deleted the state");
  }
};

/// Counts what is pending while callbacks run.
struct PendingDuringPoll : Queue {
  PendingDuringPoll(Execution& its, const Orders& used) : Queue(its, used) {
    its.spawn("submits", push(1));
    its.spawn("polls", polls());
    its.spawn("counts", counts());
  }
  Task<> polls() {
    co_await poll();
    co_await poll();
  }
  Task<> counts() { co_await pending(); }
  void finish() const {}
};

template <class Program>
std::string violation_with(const Orders& orders) {
  return explore<Program>(orders).violation;
}

} // namespace

TEST_CASE("each submitted callback runs once, whichever thread polls", "[models]") {
  const Result result = explore<SubmitAndPoll>(Orders{});
  CHECK(result.violation == "");
  CHECK(result.states > 15'000);
}

TEST_CASE("a queue that ends during a poll is deleted once, by the thread that comes last", "[models]") {
  CHECK(violation_with<EndDuringPoll>({}) == "");
}

TEST_CASE("the number of pending callbacks is never negative", "[models]") {
  CHECK(violation_with<PendingDuringPoll>({}) == "");
}

TEST_CASE("the checker finds each weak memory order of the queue", "[models]") {
  const std::string handed_over = "a callback has not run once", sorted = "data race on streams_[0]",
                    deleted = "data race on State", negative = "more callbacks have returned";
  CHECK_THAT(violation_with<SubmitAndPoll>({.push = relaxed}), StartsWith(handed_over));
  CHECK_THAT(violation_with<SubmitAndPoll>({.take_inbox = relaxed}), StartsWith(handed_over));
  CHECK_THAT(violation_with<SubmitAndPoll>({.start_poll = relaxed}), StartsWith(sorted));
  CHECK_THAT(violation_with<SubmitAndPoll>({.end_poll = relaxed}), StartsWith(sorted));
  CHECK_THAT(violation_with<EndDuringPoll>({.end_poll = acquire}), StartsWith(deleted));
  CHECK_THAT(violation_with<EndDuringPoll>({.end = acquire}), StartsWith(deleted));
  CHECK_THAT(violation_with<EndDuringPoll>({.end = release}), StartsWith(deleted));
  CHECK_THAT(violation_with<PendingDuringPoll>({.returned_store = relaxed}), StartsWith(negative));
  CHECK_THAT(violation_with<PendingDuringPoll>({.returned_load = relaxed}), StartsWith(negative));
}
