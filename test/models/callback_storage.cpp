// SPDX-License-Identifier: MIT
// The tokens of a CompletionQueue. Models src/scheduling/callback_storage.hpp and the life of a node in
// callback_nodes.hpp; each function has the name of the one that it models. One thread polls, because only
// one at a time has the lists. completion_queue.cpp models how the polls take turns.
#include "models.hpp"

#include <string>

using namespace model;

namespace {

/// As in the library. A test that breaks the tokens changes one member.
struct Protocol {
  std::memory_order cancel = release, push_cancelled = release, take_cancelled = acquire,
                    claim_cancelled = acquire, drop = acq_rel;
  bool claims_atomically = true;
  bool counts_lives = true;
  bool waits_for_push = true; // a poll passes over a cancelled node that it has not taken from the stack
};

constexpr std::int64_t free_node = 0, pending = 1, cancelled = 2; // CallbackNode::Phase
std::int64_t phase_of(std::int64_t life) { return life & 3; }
std::int64_t in(std::int64_t life, std::int64_t phase) { return (life & ~std::int64_t{3}) | phase; }

/// One thread submits a callback with a token, polls, submits another callback with the same node, and ends
/// the queue. Two threads cancel the first callback.
struct Tokens {
  Execution& execution;
  const Protocol protocol;
  const std::int64_t polls; // before the queue ends

  Memory storage{execution, "CallbackStorage"};
  Atomic life{execution, "life", 0, &storage}, stack{execution, "cancelled_", 0, &storage},
      references{execution, "references_", 3, &storage}, submitted{execution, "submitted", 0};
  Plain callback{execution, "callback", 0, &storage}; // the number of the submission
  /// What each thread has done before it cancels, for the callback to see.
  Plain reasons[2] = {{execution, "reason 0", 0}, {execution, "reason 1", 0}};
  /// Not seen by the threads.
  int results[3] = {}; // of the callbacks: 0 none, 1 not cancelled, 2 cancelled
  int won = 0;         // calls of cancel() that returned true
  std::size_t winner = 0;
  bool in_list = false, passed_over = false;

  Tokens(Execution& its, const Protocol& used, std::int64_t polls_before_end)
      : execution(its), protocol(used), polls(polls_before_end) {
    its.spawn("polls", polls_and_ends());
    its.spawn("cancels", cancels(0));
    its.spawn("cancels too", cancels(1));
  }

  Task<> polls_and_ends() {
    co_await begin(1);
    co_await submitted.store(co_await life.load(relaxed), release); // the token
    for (std::int64_t left = polls; left > 0; --left) {
      co_await poll();
      if (!in_list && results[2] == 0) co_await begin(2); // without a token
    }
    if (in_list) co_await finish_node();
    co_await drop();
  }
  Task<> cancels(std::size_t number) {
    const std::int64_t token =
        co_await submitted.await(acquire, [](std::int64_t value) { return value != 0; });
    reasons[number].write(1);
    const bool has_won = co_await cancel(token);
    if (has_won) winner = number;
    won += has_won ? 1 : 0;
    co_await drop();
  }

  Task<> begin(std::int64_t number) {
    callback.write(number);
    const std::int64_t before = co_await life.load(relaxed);
    const std::int64_t next = protocol.counts_lives ? before + 4 : 4;
    co_await life.store(in(next, pending), release);
    in_list = true;
  }
  Task<bool> cancel(std::int64_t token) {
    const bool has_won =
        co_await life.compare_exchange(token, in(token, cancelled), protocol.cancel, relaxed);
    if (has_won) {
      std::int64_t newest = co_await stack.load(relaxed);
      for (bool pushed = false; !pushed;) {
        execution.check(newest == 0, "a node is in the stack twice");
        pushed = co_await stack.compare_exchange(newest, 1, protocol.push_cancelled, relaxed);
      }
    }
    co_return has_won;
  }
  Task<> drop() {
    const std::int64_t before = co_await references.fetch_add(-1, protocol.drop);
    if (before == 1) storage.end();
  }

  /// Work is complete at each second poll.
  Task<> poll() {
    std::int64_t taken = co_await stack.load(relaxed);
    if (taken != 0) taken = co_await stack.exchange(0, protocol.take_cancelled);
    if (taken != 0) {
      execution.check(in_list, "a node was reused before it was taken from the stack");
      co_await claim_cancelled();
      call(2);
    }
    if (!in_list) co_return;
    if (!passed_over) {
      passed_over = true;
      co_return;
    }
    const std::int64_t now = co_await life.load(acquire);
    if (phase_of(now) == cancelled && protocol.waits_for_push) co_return;
    if (phase_of(now) == cancelled) {
      co_await claim_cancelled();
      call(2);
      co_return;
    }
    const bool claimed = co_await claim();
    if (claimed) call(1);
  }
  Task<bool> claim() {
    std::int64_t now = co_await life.load(relaxed);
    if (phase_of(now) != pending) co_return false;
    if (!protocol.claims_atomically) {
      co_await life.store(in(now, free_node), relaxed);
      co_return true;
    }
    const bool claimed = co_await life.compare_exchange(now, in(now, free_node), relaxed, relaxed);
    co_return claimed;
  }
  Task<> claim_cancelled() {
    const std::int64_t now = co_await life.load(protocol.claim_cancelled);
    co_await life.store(in(now, free_node), relaxed);
  }
  /// The last loop of finish() in the library.
  Task<> finish_node() {
    const bool claimed = co_await claim();
    if (!claimed) co_await claim_cancelled();
    call(claimed ? 1 : 2);
  }
  void call(int result) {
    const std::int64_t number = callback.read();
    execution.check(number != 0, "a callback runs twice");
    callback.write(0);
    in_list = passed_over = false;
    results[number] = result;
    if (result == 2 && won != 0) execution.check(reasons[winner].read() == 1, "the reason is not seen");
  }

  void finish() {
    execution.check(results[1] != 0, "the callback has not run");
    execution.check(won == (results[1] == 2 ? 1 : 0), "the token and the callback disagree");
    execution.check(results[2] != 2, "a token has cancelled another callback");
    execution.check(storage.ended(), "nobody has deleted the storage");
  }
};

std::string violation_with(const Protocol& protocol, std::int64_t polls) {
  return explore<Tokens>(protocol, polls).violation;
}

} // namespace

TEST_CASE("of a cancellation and a poll one wins, and a token outlives the queue") {
  for (const std::int64_t polls : {0, 1, 2, 3}) {
    const Result result = explore<Tokens>(Protocol{}, polls);
    CHECK(result.violation == "");
    CHECK(result.states > 300);
  }
}

TEST_CASE("the checker finds each weakness of the tokens") {
  const std::string reason = "data race on reason", deleted = "data race on CallbackStorage";
  CHECK_THAT(violation_with({.cancel = relaxed}, 0), StartsWith(reason));
  CHECK_THAT(violation_with({.push_cancelled = relaxed}, 3), StartsWith(reason));
  CHECK_THAT(violation_with({.take_cancelled = relaxed}, 3), StartsWith(reason));
  CHECK_THAT(violation_with({.claim_cancelled = relaxed}, 0), StartsWith(reason));
  CHECK_THAT(violation_with({.drop = acquire}, 0), StartsWith(deleted));
  CHECK_THAT(violation_with({.drop = release}, 0), StartsWith(deleted));
  CHECK_THAT(violation_with({.claims_atomically = false}, 2),
             StartsWith("the token and the callback disagree"));
  CHECK_THAT(violation_with({.counts_lives = false}, 3), StartsWith("the token and the callback disagree"));
  CHECK_THAT(violation_with({.waits_for_push = false}, 3), StartsWith("a token has cancelled another"));
}
