// SPDX-License-Identifier: MIT
// The checker itself: programs whose outcomes the C++ standard decides.
#include "models.hpp"

#include <set>
#include <vector>

using namespace model;

namespace {

/// The outcomes of a program: the values that its threads have read.
using Outcomes = std::set<std::vector<std::int64_t>>;

struct Base {
  Execution& execution;
  Outcomes& outcomes;
  std::vector<std::int64_t> read = std::vector<std::int64_t>(4, -1);
  Atomic x{execution, "x", 0}, y{execution, "y", 0};

  Base(Execution& its, Outcomes* to) : execution(its), outcomes(*to) {}
  void finish() { outcomes.insert(read); }
};

template <class Program, class... Options>
Outcomes outcomes_of(const Options&... options) {
  Outcomes outcomes;
  const Result result = explore<Program>(&outcomes, options...);
  INFO(result.violation);
  REQUIRE(result.violation.empty());
  return outcomes;
}

enum class Between { nothing, fences, asymmetric, barrier_alone };

/// Each thread writes one variable and reads the other.
struct StoreBuffer : Base {
  StoreBuffer(Execution& its, Outcomes* to, Between between) : Base(its, to) {
    its.spawn("first", first(between));
    its.spawn("second", second(between));
  }
  Task<> first(Between between) {
    co_await x.store(1, relaxed);
    if (between == Between::fences) co_await fence(execution, seq_cst);
    read[0] = co_await y.load(relaxed);
  }
  Task<> second(Between between) {
    co_await y.store(1, relaxed);
    if (between == Between::fences) co_await fence(execution, seq_cst);
    if (between == Between::asymmetric) co_await barrier_of_all_threads(execution);
    read[1] = co_await x.load(relaxed);
  }
};

/// The second thread reads the flag of the first, then what was written before the flag.
struct MessagePassing : Base {
  MessagePassing(Execution& its, Outcomes* to, std::memory_order store, std::memory_order load)
      : Base(its, to) {
    its.spawn("first", first(store));
    its.spawn("second", second(load));
  }
  Task<> first(std::memory_order store) {
    co_await x.store(1, relaxed);
    co_await y.store(1, store);
  }
  Task<> second(std::memory_order load) {
    read[0] = co_await y.load(load);
    read[1] = co_await x.load(relaxed);
  }
};

/// As MessagePassing, with relaxed accesses and fences.
struct FencedMessagePassing : Base {
  FencedMessagePassing(Execution& its, Outcomes* to, std::memory_order before, std::memory_order after)
      : Base(its, to) {
    its.spawn("first", first(before));
    its.spawn("second", second(after));
  }
  Task<> first(std::memory_order before) {
    co_await x.store(1, relaxed);
    co_await fence(execution, before);
    co_await y.store(1, relaxed);
  }
  Task<> second(std::memory_order after) {
    read[0] = co_await y.load(relaxed);
    co_await fence(execution, after);
    read[1] = co_await x.load(relaxed);
  }
};

/// A third thread changes the flag between the release and the acquire.
struct ReleaseSequence : Base {
  ReleaseSequence(Execution& its, Outcomes* to, bool update) : Base(its, to) {
    its.spawn("first", first());
    its.spawn("second", second(update));
    its.spawn("third", third());
  }
  Task<> first() {
    co_await x.store(1, relaxed);
    co_await y.store(1, release);
  }
  Task<> second(bool update) {
    co_await y.await(relaxed, [](std::int64_t value) { return value == 1; });
    if (update)
      co_await y.fetch_add(1, relaxed);
    else
      co_await y.store(2, relaxed);
  }
  Task<> third() {
    co_await y.await(acquire, [](std::int64_t value) { return value == 2; });
    read[0] = co_await x.load(relaxed);
  }
};

/// Two threads read two independent writes.
struct IndependentReads : Base {
  IndependentReads(Execution& its, Outcomes* to, bool fences) : Base(its, to) {
    its.spawn("writes x", write(x));
    its.spawn("writes y", write(y));
    its.spawn("reads x first", look(x, y, 0, fences));
    its.spawn("reads y first", look(y, x, 2, fences));
  }
  Task<> write(Atomic& to) { co_await to.store(1, release); }
  Task<> look(Atomic& first, Atomic& second, std::size_t at, bool fences) {
    read[at] = co_await first.load(acquire);
    if (fences) co_await fence(execution, seq_cst);
    read[at + 1] = co_await second.load(acquire);
  }
};

/// Each thread writes both variables, in opposite order.
struct TwoWrites : Base {
  explicit TwoWrites(Execution& its, Outcomes* to) : Base(its, to) {
    its.spawn("first", both(x, y));
    its.spawn("second", both(y, x));
  }
  Task<> both(Atomic& first, Atomic& second) {
    co_await first.store(1, relaxed);
    co_await second.store(2, relaxed);
  }
  void finish() { outcomes.insert({x.last(), y.last()}); }
};

struct Coherence : Base {
  explicit Coherence(Execution& its, Outcomes* to) : Base(its, to) {
    its.spawn("writes", writes());
    its.spawn("reads", reads());
  }
  Task<> writes() {
    co_await x.store(1, relaxed);
    co_await x.store(2, relaxed);
  }
  Task<> reads() {
    read[0] = co_await x.load(relaxed);
    read[1] = co_await x.load(relaxed);
  }
};

struct Counter : Base {
  explicit Counter(Execution& its, Outcomes* to) : Base(its, to) {
    its.spawn("first", add());
    its.spawn("second", add());
    its.spawn("third", add());
  }
  Task<> add() { co_await x.fetch_add(1, relaxed); }
  void finish() { outcomes.insert({x.last()}); }
};

/// Hands a plain variable over through a flag.
struct HandOver {
  Execution& execution;
  Plain data{execution, "data", 0};
  Atomic flag{execution, "flag", 0};

  HandOver(Execution& its, std::memory_order store, std::memory_order load) : execution(its) {
    its.spawn("writer", writer(store));
    its.spawn("reader", reader(load));
  }
  Task<> writer(std::memory_order store) {
    data.write(1);
    co_await flag.store(1, store);
  }
  Task<> reader(std::memory_order load) {
    const std::int64_t set = co_await flag.load(load);
    if (set == 1) execution.check(data.read() == 1, "the reader has not seen the data");
  }
  void finish() const {}
};

/// Two threads that lock two mutexes in opposite order.
struct TwoMutexes {
  Mutex a, b;

  TwoMutexes(Execution& execution) : a(execution), b(execution) {
    execution.spawn("first", both(a, b));
    execution.spawn("second", both(b, a));
  }
  Task<> both(Mutex& outer, Mutex& inner) {
    co_await outer.lock();
    co_await inner.lock();
    inner.unlock();
    outer.unlock();
  }
  void finish() const {}
};

struct ReadAfterLock {
  Execution& execution;
  Mutex mutex{execution};
  Plain count{execution, "count", 0};

  explicit ReadAfterLock(Execution& its) : execution(its) {
    its.spawn("first", add());
    its.spawn("second", add());
  }
  Task<> add() {
    co_await mutex.lock();
    count.write(count.read() + 1);
    mutex.unlock();
  }
  void finish() { execution.check(count.read() == 2, "both have added"); }
};

/// Deletes what another thread may still use.
struct LastReference {
  Execution& execution;
  Memory object{execution, "object"};
  Atomic references{execution, "references", 2, &object};

  LastReference(Execution& its, std::memory_order order) : execution(its) {
    its.spawn("first", drop(order));
    its.spawn("second", drop(order));
  }
  Task<> drop(std::memory_order order) {
    const std::int64_t before = co_await references.fetch_add(-1, order);
    if (before == 1) object.end();
  }
  void finish() { execution.check(object.ended(), "nobody has deleted the object"); }
};

} // namespace

TEST_CASE("relaxed loads may both miss the other thread's store, unless there are fences") {
  const std::vector<std::int64_t> both_missed{0, 0, -1, -1};
  CHECK(outcomes_of<StoreBuffer>(Between::nothing).count(both_missed) == 1);
  CHECK(outcomes_of<StoreBuffer>(Between::nothing).size() == 4);
  CHECK(outcomes_of<StoreBuffer>(Between::fences).count(both_missed) == 0);
  CHECK(outcomes_of<StoreBuffer>(Between::asymmetric).count(both_missed) == 0);
  CHECK(outcomes_of<StoreBuffer>(Between::asymmetric).size() == 3);
}

TEST_CASE("a release and an acquire pass a message, and neither does alone") {
  const std::vector<std::int64_t> stale{1, 0, -1, -1};
  CHECK(outcomes_of<MessagePassing>(release, acquire).count(stale) == 0);
  CHECK(outcomes_of<MessagePassing>(release, acquire).size() == 3);
  CHECK(outcomes_of<MessagePassing>(relaxed, acquire).count(stale) == 1);
  CHECK(outcomes_of<MessagePassing>(release, relaxed).count(stale) == 1);
  CHECK(outcomes_of<FencedMessagePassing>(release, acquire).count(stale) == 0);
  CHECK(outcomes_of<FencedMessagePassing>(acquire, acquire).count(stale) == 1);
  CHECK(outcomes_of<FencedMessagePassing>(release, release).count(stale) == 1);
}

TEST_CASE("an update continues a release sequence, and a store of another thread does not") {
  CHECK(outcomes_of<ReleaseSequence>(true) == Outcomes{{1, -1, -1, -1}});
  CHECK(outcomes_of<ReleaseSequence>(false).count({0, -1, -1, -1}) == 1);
}

TEST_CASE("threads may see independent writes in different orders, unless there are fences") {
  CHECK(outcomes_of<IndependentReads>(false).count({1, 0, 1, 0}) == 1);
  CHECK(outcomes_of<IndependentReads>(true).count({1, 0, 1, 0}) == 0);
}

TEST_CASE("relaxed stores of two threads may end in any order of each variable") {
  CHECK(outcomes_of<TwoWrites>() == Outcomes{{1, 1}, {1, 2}, {2, 1}, {2, 2}});
}

TEST_CASE("a thread does not read an older value after a newer one") {
  const Outcomes outcomes = outcomes_of<Coherence>();
  CHECK(outcomes.size() == 6);
  CHECK(outcomes.count({2, 1, -1, -1}) == 0);
  CHECK(outcomes.count({1, 0, -1, -1}) == 0);
}

TEST_CASE("no update is lost", "[models]") { CHECK(outcomes_of<Counter>() == Outcomes{{3}}); }

TEST_CASE("a data race is found") {
  CHECK(explore<HandOver>(release, acquire).violation.empty());
  CHECK(explore<HandOver>(relaxed, acquire).violation.starts_with("data race on data between"));
  CHECK(explore<HandOver>(release, relaxed).violation.starts_with("data race on data between"));
  CHECK(explore<ReadAfterLock>().violation.empty());
}

TEST_CASE("a deadlock is found") {
  CHECK(explore<TwoMutexes>().violation.starts_with("first waits forever"));
}

TEST_CASE("a deletion that races with an access is found") {
  CHECK(explore<LastReference>(acq_rel).violation.empty());
  CHECK_FALSE(explore<LastReference>(release).violation.empty());
  CHECK_FALSE(explore<LastReference>(acquire).violation.empty());
}
