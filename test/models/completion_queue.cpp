// SPDX-License-Identifier: MIT
// The inbox of a CompletionQueue, and how polls and the end of the queue take turns. Models
// src/scheduling/completion_queue_state.cpp; each function has the name of the one that it models. Left
// out: forks, the lists of several streams, and the driver's calls.
#include "models.hpp"

#include <string>
#include <vector>

using namespace model;

namespace {

/// The memory orders of the library. A test that breaks the protocol changes one member.
struct Orders {
  std::memory_order push = release, take_inbox = acquire, take = acquire, leave = acq_rel,
                    begin_callback = release, end_callback = acq_rel, busy = acquire, end = acq_rel,
                    returned_add = release, returned_load = acquire;
  bool checks_busy = true;
};

/// The word of PollTurns: a poll has the lists, the queue has ended, and a bit for each running callback.
constexpr std::int64_t lists = 1, ended = 2, first_callback = 4, callbacks = 4 | 8;
bool last(std::int64_t word) { return (word & (lists | ended | callbacks)) == ended; }

struct Queue {
  Execution& execution;
  const Orders orders;
  const std::int64_t streams; // 1: both nodes are of one stream

  Memory state{execution, "State"};
  Atomic inbox{execution, "inbox_", 0, &state}, turns{execution, "turns_", 0, &state},
      returned{execution, "returned_", 0, &state};
  /// Nodes 1 and 2. A callback runs at this query of its event.
  std::int64_t complete_at = 2;
  struct Node {
    Plain callback, queries, next;
    Atomic below;
  };
  std::vector<Node> nodes;
  Node& node_of(std::int64_t number) { return nodes[static_cast<std::size_t>(number)]; }
  /// Each stream: its list, oldest node first; and what only its callbacks use.
  struct Stream {
    Plain oldest, used;
  };
  std::vector<Stream> all_streams;
  std::int64_t stream_of(std::int64_t node) const { return streams == 1 ? 0 : node - 1; }
  Stream& at(std::int64_t stream) { return all_streams[static_cast<std::size_t>(stream)]; }
  std::vector<Plain> streams_; // of the running callbacks
  /// Not seen by the threads: the nodes in order of submission, and in the order in which they ran.
  std::vector<std::int64_t> submitted, ran;

  Queue(Execution& its, const Orders& used, std::int64_t number_of_streams)
      : execution(its), orders(used), streams(number_of_streams) {
    for (const std::string node : {"no node", "node 1", "node 2"})
      nodes.push_back({{its, node + "->callback", 0, &state},
                       {its, node + "->queries", 0, &state},
                       {its, node + "->next", 0, &state},
                       {its, node + "->below", 0, &state}});
    for (const std::string stream : {"0", "1"}) {
      all_streams.push_back(
          {{its, "oldest of stream " + stream, 0, &state}, {its, "use of stream " + stream, 0}});
      streams_.push_back({its, "streams_[" + stream + "]", 0, &state});
    }
  }

  /// The inbox: the number of submissions so far, and the newest node.
  static std::int64_t index_of(std::int64_t word) { return word & 0xff; }
  static std::int64_t count_of(std::int64_t word) { return word >> 8; }
  static std::int64_t changed(std::int64_t word, std::int64_t node) {
    return (count_of(word) + 1) << 8 | node;
  }

  Task<> push(std::int64_t node) {
    node_of(node).callback.write(node);
    std::int64_t newest = co_await inbox.load(relaxed);
    for (bool pushed = false; !pushed;) {
      co_await node_of(node).below.store(index_of(newest), relaxed);
      pushed = co_await inbox.compare_exchange(newest, changed(newest, node), orders.push, relaxed);
    }
    submitted.push_back(node);
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
    const bool has_lists = co_await take();
    if (!has_lists) co_return;
    const bool still_has_lists = co_await sweep();
    if (!still_has_lists) co_return;
    const std::int64_t before = co_await turns.fetch_add(-lists, orders.leave);
    if (last(before - lists)) co_await finish_queue();
  }
  Task<> end() {
    const std::int64_t before = co_await turns.fetch_or(ended, orders.end);
    if (last(before | ended)) co_await finish_queue();
  }

  Task<bool> take() {
    std::int64_t now = co_await turns.load(relaxed);
    for (bool taken = false; !taken;) {
      if ((now & (lists | ended)) != 0) co_return false;
      taken = co_await turns.compare_exchange(now, now | lists, orders.take, relaxed);
    }
    co_return true;
  }
  Task<std::int64_t> begin_callback(std::int64_t stream) {
    const std::int64_t now = co_await turns.load(relaxed);
    const std::int64_t callback = (now & first_callback) == 0 ? first_callback : 2 * first_callback;
    streams_[callback == first_callback ? 0 : 1].write(stream);
    co_await turns.fetch_add(callback - lists, orders.begin_callback);
    co_return callback;
  }
  /// Returns the word after it.
  Task<std::int64_t> end_callback(std::int64_t callback) {
    std::int64_t now = co_await turns.load(relaxed), after = 0;
    for (bool done = false; !done;) {
      after = now & ~callback;
      if ((after & (lists | ended)) == 0)
        after |= lists;
      else
        after |= 0x100; // says that the lists are another poll's; not part of the word
      done = co_await turns.compare_exchange(now, after & 0xff, orders.end_callback, relaxed);
    }
    co_return after;
  }
  Task<bool> busy(std::int64_t stream) {
    const std::int64_t now = co_await turns.load(orders.busy);
    bool found = false;
    if ((now & first_callback) != 0) found = streams_[0].read() == stream;
    if ((now & 2 * first_callback) != 0) found = found || streams_[1].read() == stream;
    co_return found&& orders.checks_busy;
  }

  Task<bool> sweep() {
    co_await take_inbox();
    for (std::int64_t stream = 0; stream < streams; ++stream) {
      while (at(stream).oldest.read() != 0) {
        const bool is_busy = co_await busy(stream);
        if (is_busy) break;
        Plain& queries = node_of(at(stream).oldest.read()).queries;
        queries.write(queries.read() + 1);
        if (queries.read() < complete_at) break;
        const bool still_has_lists = co_await run(pop(stream));
        if (!still_has_lists) co_return false;
      }
    }
    co_return true;
  }
  Task<> take_inbox() {
    const std::int64_t word = co_await inbox.fetch_and(~std::int64_t{0xff}, orders.take_inbox);
    std::vector<std::int64_t> newest_first;
    for (std::int64_t node = index_of(word); node != 0;) {
      newest_first.push_back(node);
      node = co_await node_of(node).below.load(relaxed);
    }
    for (; !newest_first.empty(); newest_first.pop_back())
      append(newest_first.back());
  }
  void append(std::int64_t node) {
    Plain& oldest = at(stream_of(node)).oldest;
    (oldest.read() == 0 ? oldest : node_of(oldest.read()).next).write(node);
  }
  std::int64_t pop(std::int64_t stream) {
    const std::int64_t node = at(stream).oldest.read();
    at(stream).oldest.write(node_of(node).next.read());
    return node;
  }
  Task<bool> run(std::int64_t node) {
    const std::int64_t callback = co_await begin_callback(stream_of(node));
    co_await call(node);
    const std::int64_t after = co_await end_callback(callback);
    if (last(after & 0xff)) co_await finish_queue();
    co_return (after & 0x100) == 0;
  }
  Task<> call(std::int64_t node) {
    execution.check(node_of(node).callback.read() == node, "a callback runs twice, or before its submission");
    node_of(node).callback.write(0);
    at(stream_of(node)).used.write(node);
    ran.push_back(node);
    co_await called(node);
    co_await returned.fetch_add(1, orders.returned_add);
  }
  virtual Task<> called(std::int64_t) { co_return; }
  /// finish() in the library.
  Task<> finish_queue() {
    co_await take_inbox();
    for (std::int64_t stream = 0; stream < streams; ++stream)
      while (at(stream).oldest.read() != 0)
        co_await call(pop(stream));
    state.end();
  }

  void finish() {
    execution.check(ran.size() == 2 && ran[0] + ran[1] == 3, "a callback has not run once");
    execution.check(streams == 2 || ran == submitted, "callbacks of a stream have not run in order");
    execution.check(state.ended(), "nobody has deleted the state");
  }
  Queue(const Queue&) = delete;
  virtual ~Queue() = default;
};

/// Two threads submit, and two threads poll. When all are done, one of them ends the queue.
struct SubmitAndPoll : Queue {
  Atomic done{execution, "done", 0};

  SubmitAndPoll(Execution& its, const Orders& used, std::int64_t of_streams) : Queue(its, used, of_streams) {
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

/// The work of both nodes is complete, and two threads poll. A third one ends the queue.
struct ParallelPolls : Queue {
  Atomic done{execution, "done", 0};

  ParallelPolls(Execution& its, const Orders& used, std::int64_t of_streams) : Queue(its, used, of_streams) {
    complete_at = 1;
    its.spawn("submits and polls", submits_and_polls());
    its.spawn("polls", polls());
    its.spawn("ends", ends());
  }
  Task<> submits_and_polls() {
    co_await push(1);
    co_await push(2);
    co_await polls();
  }
  Task<> polls() {
    co_await poll();
    co_await done.fetch_add(1, release);
  }
  Task<> ends() {
    co_await done.await(acquire, [](std::int64_t value) { return value == 2; });
    co_await end();
  }
};

/// Two callbacks of different streams run at the same time, in two polls. Meanwhile a third thread ends the
/// queue.
struct EndDuringPolls : Queue {
  Atomic first_runs{execution, "first runs", 0}, second_runs{execution, "second runs", 0};

  EndDuringPolls(Execution& its, const Orders& used) : Queue(its, used, 2) {
    its.spawn("submits and polls", polls());
    its.spawn("polls", polls_too());
    its.spawn("ends", ends());
  }
  Task<> polls() {
    co_await push(1);
    co_await push(2);
    for (int i = 0; i < 2; ++i)
      co_await poll(); // the second one calls the first callback
  }
  Task<> polls_too() {
    co_await first_runs.await(acquire, [](std::int64_t value) { return value == 1; });
    co_await poll(); // calls the second callback
  }
  Task<> called(std::int64_t node) override {
    co_await (node == 1 ? first_runs : second_runs).store(1, release);
    if (node == 1) co_await second_runs.await(acquire, [](std::int64_t value) { return value == 1; });
  }
  Task<> ends() {
    co_await second_runs.await(acquire, [](std::int64_t value) { return value == 1; });
    co_await end();
  }
};

/// Counts what is pending while callbacks run.
struct PendingDuringPoll : Queue {
  PendingDuringPoll(Execution& its, const Orders& used) : Queue(its, used, 1) {
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

template <class Program, class... Options>
std::string violation_with(const Orders& orders, const Options&... options) {
  return explore<Program>(orders, options...).violation;
}

} // namespace

TEST_CASE("each submitted callback runs once and in stream order, whichever threads poll") {
  for (const std::int64_t streams : {1, 2}) {
    const Result submitting = explore<SubmitAndPoll>(Orders{}, streams);
    CHECK(submitting.violation == "");
    CHECK(submitting.states > 15'000);
    const Result parallel = explore<ParallelPolls>(Orders{}, streams);
    CHECK(parallel.violation == "");
    CHECK(parallel.states > 1'000);
  }
}

TEST_CASE("a queue that ends during polls is deleted once, by the thread that comes last") {
  const Result result = explore<EndDuringPolls>(Orders{});
  CHECK(result.violation == "");
  CHECK(result.states > 300);
}

TEST_CASE("the number of pending callbacks is never negative") {
  CHECK(violation_with<PendingDuringPoll>({}) == "");
}

TEST_CASE("the checker finds each weakness of the queue") {
  const std::int64_t one = 1, two = 2;
  const std::string lost = "a callback has not run once", sorted = "data race on oldest of stream",
                    together = "data race on use of stream 0", deleted = "data race on State",
                    negative = "more callbacks have returned";
  CHECK_THAT(violation_with<SubmitAndPoll>({.push = relaxed}, one), StartsWith(lost));
  CHECK_THAT(violation_with<SubmitAndPoll>({.take_inbox = relaxed}, one), StartsWith(lost));
  CHECK_THAT(violation_with<SubmitAndPoll>({.take = relaxed}, one), StartsWith(sorted));
  CHECK_THAT(violation_with<SubmitAndPoll>({.leave = relaxed}, one), StartsWith(sorted));
  CHECK_THAT(violation_with<ParallelPolls>({.begin_callback = relaxed}, two), StartsWith(sorted));
  CHECK_THAT(violation_with<ParallelPolls>({.end_callback = acquire}, one), StartsWith(together));
  CHECK_THAT(violation_with<ParallelPolls>({.end_callback = release}, one), StartsWith(sorted));
  CHECK_THAT(violation_with<ParallelPolls>({.busy = relaxed}, one), StartsWith(together));
  CHECK_THAT(violation_with<ParallelPolls>({.checks_busy = false}, one), StartsWith(together));
  CHECK_THAT(violation_with<EndDuringPolls>({.leave = acquire}), StartsWith(deleted));
  CHECK_THAT(violation_with<EndDuringPolls>({.leave = release}), StartsWith(deleted));
  CHECK_THAT(violation_with<EndDuringPolls>({.end_callback = acquire}), StartsWith(deleted));
  CHECK_THAT(violation_with<EndDuringPolls>({.end_callback = release}), StartsWith(deleted));
  CHECK_THAT(violation_with<EndDuringPolls>({.end = acquire}), StartsWith(deleted));
  CHECK_THAT(violation_with<EndDuringPolls>({.end = release}), StartsWith(deleted));
  CHECK_THAT(violation_with<PendingDuringPoll>({.returned_add = relaxed}), StartsWith(negative));
  CHECK_THAT(violation_with<PendingDuringPoll>({.returned_load = relaxed}), StartsWith(negative));
}
