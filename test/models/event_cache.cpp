// SPDX-License-Identifier: MIT
// The caches of an EventPool's threads: how another thread freezes a cache whose owner uses it
// without a lock. Models src/scheduling/event_pool_state.hpp and .cpp; each function has the name
// of the one that it models. One event is one bit.
#include "models.hpp"

using namespace model;

namespace {

/// The protocol as in the library. A test that breaks the protocol changes one member.
struct Protocol {
  bool store_before_load = true; // the compiler fence in begin()
  bool barrier = true;           // pass_barriers() in freeze_all()
  bool wait = true;              // wait_until_unused() in freeze_all()
  bool closed_checked = true;    // `!closed_` under the mutex in give_back_slow()
  std::memory_order frozen_load = acquire, end_store = release, in_use_load = acquire, thaw = release,
                    drop = acq_rel;
};

/// One pool, and the cache that one thread has of it.
struct Pool {
  Execution& execution;
  const Protocol protocol;

  Memory state{execution, "EventPoolState"}, cache{execution, "EventCache"};
  Atomic in_use{execution, "in_use", 0, &cache}, frozen{execution, "frozen", 0, &cache};
  Plain idle{execution, "the cache's events", 0, &cache};
  Mutex mutex{execution, &state};
  Plain reserve{execution, "reserve_", 0, &state}, caches{execution, "caches_", 1, &state};
  Atomic closed{execution, "closed_", 0, &state}, references;
  std::int64_t ended = 0; // the events that no longer exist

  Pool(Execution& its, const Protocol& used, std::int64_t references_at_first)
      : execution(its), protocol(used), references(its, "references_", references_at_first, &state) {}

  Task<bool> begin() {
    bool is_frozen = false;
    if (protocol.store_before_load) {
      co_await in_use.store(1, relaxed);
      is_frozen = co_await frozen.load(protocol.frozen_load);
    } else {
      is_frozen = co_await frozen.load(protocol.frozen_load);
      co_await in_use.store(1, relaxed);
    }
    if (is_frozen) co_await end();
    co_return !is_frozen;
  }
  Task<> end() { co_await in_use.store(0, protocol.end_store); }

  Task<> drop() {
    const std::int64_t before = co_await references.fetch_add(-1, protocol.drop);
    if (before == 1) state.end();
  }
  Task<> forget(std::int64_t event) {
    execution.check((ended & event) == 0, "an event is destroyed twice");
    ended |= event;
    co_await drop();
  }

  Task<> give_back(std::int64_t event) {
    const bool usable = co_await begin();
    if (usable) {
      idle.write(idle.read() | event);
      co_await end();
    } else {
      co_await give_back_slow(event, true);
    }
  }
  Task<> give_back_slow(std::int64_t event, bool has_cache) {
    bool is_closed = co_await closed.load(acquire);
    if (!is_closed) {
      co_await mutex.lock();
      if (protocol.closed_checked) is_closed = co_await closed.load(relaxed);
      Plain& to = has_cache ? idle : reserve;
      if (!is_closed) to.write(to.read() | event);
      mutex.unlock();
    }
    if (is_closed) co_await forget(event);
  }
  /// Returns 0 if the cache has no event or is frozen.
  Task<std::int64_t> take() {
    const bool usable = co_await begin();
    if (!usable) co_return 0;
    const std::int64_t events = idle.read(), event = events & -events;
    idle.write(events - event);
    co_await end();
    co_return event;
  }

  Task<> freeze_all() {
    co_await frozen.store(1, relaxed);
    if (protocol.barrier) co_await barrier_of_all_threads(execution);
    if (protocol.wait)
      co_await in_use.await(protocol.in_use_load, [](std::int64_t value) { return value == 0; });
  }
  void empty_into_reserve() {
    reserve.write(reserve.read() | idle.read());
    idle.write(0);
  }
  Task<> gather() {
    co_await freeze_all();
    empty_into_reserve();
    co_await frozen.store(0, protocol.thaw);
  }
  /// The thread of the cache ends.
  Task<> remove() {
    co_await mutex.lock();
    const bool is_closed = co_await closed.load(relaxed);
    if (!is_closed) {
      empty_into_reserve();
      caches.write(0);
    }
    mutex.unlock();
    cache.end();
    co_await drop();
  }
  Task<> close() {
    co_await mutex.lock();
    if (caches.read() != 0) {
      co_await freeze_all();
      empty_into_reserve();
      caches.write(0);
    }
    co_await closed.store(1, release);
    mutex.unlock();
    co_await destroy_reserve();
    co_await drop();
  }
  Task<> destroy_reserve() {
    co_await mutex.lock();
    const std::int64_t events = reserve.read();
    reserve.write(0);
    mutex.unlock();
    for (std::int64_t event = 1; event <= events; event *= 2)
      if ((events & event) != 0) co_await forget(event);
  }
};

/// The pool ends while the thread of the cache returns two leases, and then ends. A third thread,
/// which has no cache, returns another lease.
struct CloseDuringReturns : Pool {
  CloseDuringReturns(Execution& its, const Protocol& used) : Pool(its, used, 1 + 4 + 1) {
    idle.write(8);
    its.spawn("owner", owner());
    its.spawn("closer", close());
    its.spawn("other", give_back_slow(4, false));
  }
  Task<> owner() {
    co_await give_back(1);
    co_await give_back(2);
    co_await remove();
  }
  void finish() {
    execution.check(ended == 15, "an event is not destroyed");
    execution.check(state.ended() && cache.ended(), "the pool's memory is not freed");
  }
};

/// Two times, another thread takes the events of the cache, while its owner takes and returns.
struct GatherDuringUse : Pool {
  Plain taken{execution, "taken", 0}, leased{execution, "leased", 1};

  GatherDuringUse(Execution& its, const Protocol& used) : Pool(its, used, 1) {
    idle.write(2);
    its.spawn("owner", owner());
    its.spawn("other", other());
  }
  Task<> owner() {
    co_await give_back(1);
    const std::int64_t event = co_await take();
    leased.write(event);
    if (event != 0) co_await give_back(event);
    if (event != 0) leased.write(0);
  }
  Task<> other() {
    for (int round = 0; round < 2; ++round) {
      co_await mutex.lock();
      co_await gather();
      execution.check((taken.read() & reserve.read()) == 0, "an event is taken twice");
      taken.write(taken.read() + reserve.read());
      reserve.write(0);
      mutex.unlock();
    }
  }
  void finish() {
    const std::int64_t all = taken.read() + leased.read() + idle.read() + reserve.read();
    execution.check(all == 3, "an event is lost or has two owners");
  }
};

Result close_with(const Protocol& protocol) { return explore<CloseDuringReturns>(protocol); }
Result gather_with(const Protocol& protocol) { return explore<GatherDuringUse>(protocol); }

} // namespace

TEST_CASE("the end of a pool destroys each event once, whatever its threads do") {
  const Result result = close_with({});
  CHECK(result.violation == "");
  CHECK(result.states > 50'000);
}

TEST_CASE("a thread can take the events of another thread's cache at any time") {
  const Result result = gather_with({});
  CHECK(result.violation == "");
  CHECK(result.states > 800);
}

TEST_CASE("the checker finds each weakness in the freezing of caches") {
  const std::string race = "data race on the cache's events";
  CHECK_THAT(close_with({.store_before_load = false}).violation, StartsWith(race));
  CHECK_THAT(close_with({.barrier = false}).violation, StartsWith(race));
  CHECK_THAT(close_with({.wait = false}).violation, StartsWith(race));
  CHECK_THAT(close_with({.closed_checked = false}).violation, StartsWith("an event is not destroyed"));
  CHECK_THAT(close_with({.end_store = relaxed}).violation, StartsWith(race));
  CHECK_THAT(close_with({.in_use_load = relaxed}).violation, StartsWith(race));
  CHECK_THAT(close_with({.drop = relaxed}).violation, StartsWith("data race on EventPoolState"));
  CHECK_THAT(gather_with({.store_before_load = false}).violation, StartsWith(race));
  CHECK_THAT(gather_with({.barrier = false}).violation, StartsWith(race));
  CHECK_THAT(gather_with({.wait = false}).violation, StartsWith(race));
  CHECK_THAT(gather_with({.frozen_load = relaxed}).violation, StartsWith(race));
  CHECK_THAT(gather_with({.thaw = relaxed}).violation, StartsWith(race));
}
