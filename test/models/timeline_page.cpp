// SPDX-License-Identifier: MIT
// The shared page of a TimelineSemaphore. Models the functions of timeline_page.h and
// timeline_participant.h.
#include "models.hpp"

using namespace model;

namespace {

/// A test that breaks the protocol changes one member.
struct Protocol {
  std::memory_order signal = release, begin_sleep = acq_rel, count_sleepers = acq_rel, wake = release,
                    seen = acquire;
  bool looks_again = true; // a thread that wants to sleep, after it has begun
};

/// A host signals, and a thread waits for the value and then reads the data. The thread sleeps
/// without a timeout, so a wake that gets lost is a deadlock. The mutex is the kernel's lock for
/// the futex.
struct SleepingWait {
  Execution& execution;
  const Protocol protocol;
  Plain data{execution, "data", 0};
  Atomic word{execution, "word", 0}, wakes{execution, "wakes", 0}, sleepers{execution, "sleepers", 0},
      woken{execution, "woken", 0};
  Mutex kernel{execution};
  bool queued = false; // under the kernel's lock

  SleepingWait(Execution& its, const Protocol& used) : execution(its), protocol(used) {
    its.spawn("signals", signals());
    its.spawn("waits", waits());
  }
  Task<> signals() { // cuevent_timeline_signal(), _wake()
    data.write(7);
    std::int64_t now = co_await word.load(relaxed);
    co_await word.compare_exchange(now, 1, protocol.signal, relaxed);
    co_await wakes.fetch_add(1, protocol.wake);
    if (co_await sleepers.fetch_add(0, protocol.count_sleepers) == 0) co_return;
    co_await kernel.lock();
    if (queued) co_await woken.store(1, relaxed);
    queued = false;
    kernel.unlock();
  }
  Task<> waits() { // cuevent_timeline_wait(), _begin_sleep(), _sleep()
    while (co_await word.load(acquire) < 1) {
      co_await sleepers.fetch_add(1, protocol.begin_sleep);
      const std::int64_t seen = co_await wakes.load(protocol.seen);
      const std::int64_t value = protocol.looks_again ? co_await word.load(acquire) : 0;
      if (value < 1) {
        co_await kernel.lock();
        const bool sleeps = co_await wakes.load(relaxed) == seen;
        if (sleeps) queued = true;
        kernel.unlock();
        if (sleeps) co_await woken.await(relaxed, [](std::int64_t now) { return now == 1; });
        if (sleeps) co_await woken.store(0, relaxed);
      }
      co_await sleepers.fetch_add(-1, relaxed);
    }
    execution.check(data.read() == 7, "the data is not there");
  }
  void finish() {}
};

/// One participant leaves, and another one looks for deaths meanwhile. The mutex is the kernel's
/// lock for the locks of the file.
struct Leaving {
  Execution& execution;
  const bool looks_again;
  Atomic place{execution, "place", 2}, locked{execution, "locked", 1};
  Mutex kernel{execution};

  Leaving(Execution& its, bool again) : execution(its), looks_again(again) {
    its.spawn("leaves", leaves());
    its.spawn("looks", looks());
  }
  Task<> leaves() { // cuevent_timeline_leave()
    co_await place.fetch_and(~3, release);
    co_await kernel.lock();
    co_await locked.store(0, relaxed);
    kernel.unlock();
  }
  Task<> looks() { // cuevent_timeline_participant_died()
    const std::int64_t before = co_await place.load(acquire);
    if (before == 0) co_return;
    co_await kernel.lock();
    const bool is_locked = co_await locked.load(relaxed) == 1;
    kernel.unlock();
    if (is_locked) co_return;
    const std::int64_t after = looks_again ? co_await place.load(acquire) : before;
    execution.check(after != before, "a participant that left counts as dead");
  }
  void finish() {}
};

/// A process abandons a semaphore. That releases a stream, which has waited for 2 and now signals 1. A thread
/// that waits for 1 must not take this for the signal that it waits for.
struct Abandoning {
  struct Orders {
    std::memory_order release_word = release;
    bool asks_last = true; // whether the semaphore is abandoned
  };
  Execution& execution;
  const Orders orders;
  Atomic word{execution, "word", 0}, abandoned{execution, "abandoned", 0};

  Abandoning(Execution& its, const Orders& used) : execution(its), orders(used) {
    its.spawn("abandons", abandons());
    its.spawn("stream", stream());
    its.spawn("waits", waits());
  }
  Task<> abandons() { // cuevent_timeline_abandon(), _keep_released()
    co_await abandoned.store(1, release);
    co_await word.store(9, orders.release_word);
  }
  Task<> stream() { // what a device's wait and write guarantee
    co_await word.await(acquire, [](std::int64_t now) { return now >= 2; });
    co_await word.store(1, release);
  }
  Task<> waits() { // TimelineSemaphore::outcome(), cuevent_timeline_wait()
    const std::int64_t early = orders.asks_last ? 0 : co_await abandoned.load(acquire);
    if (co_await word.load(acquire) < 1) co_return;
    const std::int64_t known = orders.asks_last ? co_await abandoned.load(acquire) : early;
    execution.check(known == 1, "a wait succeeds although the semaphore is abandoned");
  }
  void finish() {}
};

/// Two hosts signal at once.
struct TwoSignals {
  Execution& execution;
  Atomic word{execution, "word", 0};

  explicit TwoSignals(Execution& its) : execution(its) {
    its.spawn("signals 1", raises(1));
    its.spawn("signals 2", raises(2));
  }
  Task<> raises(std::int64_t value) { // cuevent_timeline_raise()
    std::int64_t now = co_await word.load(relaxed);
    for (bool stored = false; !stored && now < value;)
      stored = co_await word.compare_exchange(now, value, release, relaxed);
  }
  void finish() { execution.check(word.last() == 2, "the value fell"); }
};

/// The word and the entries of signals. A host's entry has a bit.
struct Entries {
  struct Orders {
    std::memory_order take = release, use = acq_rel, take_back = release, look = acquire;
    bool word_last = true; // whether an announced signal looks at the word after the entries
  };
  static constexpr std::int64_t host = 8;
  Execution& execution;
  const Orders orders;
  Atomic word{execution, "word", 0}, used{execution, "used", 0},
      entry[2] = {{execution, "entry 0", 0}, {execution, "entry 1", 0}};

  Task<bool> take(int own, std::int64_t content) { // cuevent_timeline_take()
    const std::int64_t now = co_await word.load(acquire);
    std::int64_t before = co_await entry[own].load(relaxed);
    if (before % host > now || !co_await entry[own].compare_exchange(before, content, orders.take, relaxed))
      co_return false;
    std::int64_t count = co_await used.fetch_add(0, orders.use);
    for (bool raised = false; !raised && count <= own;)
      raised = co_await used.compare_exchange(count, own + 1, orders.use, acquire);
    co_return true;
  }
  Task<std::int64_t> other(int own) {
    co_return co_await used.load(relaxed) > 1 - own ? co_await entry[1 - own].load(orders.look) : 0;
  }
  Task<> take_back(int own, std::int64_t content) {
    co_await entry[own].compare_exchange(content, 0, orders.take_back, relaxed);
  }
  Task<bool> announce(int own, std::int64_t value) { // cuevent_timeline_announce()
    const bool early = co_await word.load(acquire) < value;
    if (!early || !co_await take(own, value)) co_return false;
    const std::int64_t found = co_await other(own);
    if (found != value && found < (host | value) &&
        (!orders.word_last || co_await word.load(acquire) < value))
      co_return true;
    co_await take_back(own, value);
    co_return false;
  }
  Task<bool> signal(int own, std::int64_t value) { // cuevent_timeline_signal()
    if (!co_await take(own, host | value)) co_return false;
    std::int64_t now = co_await word.load(acquire);
    const std::int64_t found = co_await other(own);
    bool stored = false;
    while ((found <= now || found > value) && !stored && now < value)
      stored = co_await word.compare_exchange(now, value, release, relaxed);
    co_await take_back(own, host | value);
    co_return stored;
  }
  Task<bool> signal_of_stream(int own, std::int64_t value) {
    const bool announced = co_await announce(own, value);
    if (announced) co_await word.store(value, release); // the device
    co_return announced;
  }
};

/// A stream's signal of 5 is announced and submitted, and a host signals 6. Either the host is
/// refused, or the stream: otherwise the stream lowers the word.
struct PassingSignals : Entries {
  bool stored = false;

  PassingSignals(Execution& its, const Orders& given) : Entries{its, given} {
    its.spawn("stream", streams());
    its.spawn("host", signals());
  }
  Task<> streams() { co_await signal_of_stream(0, 5); }
  Task<> signals() { stored = co_await signal(1, 6); }
  void finish() { execution.check(!stored || word.last() == 6, "the value fell"); }
};

/// A stream signals 5. Once this is stored, another process uses its entry for 7. A third process
/// announces 5 meanwhile.
struct ReusedEntry : Entries {
  bool first = false, second = false;

  ReusedEntry(Execution& its, const Orders& given) : Entries{its, given} {
    its.spawn("stream", streams());
    its.spawn("reuses", reuses());
    its.spawn("announces", announces());
  }
  Task<> streams() { first = co_await signal_of_stream(0, 5); }
  Task<> reuses() {
    const std::int64_t now = co_await word.load(acquire);
    if (now != 5) co_return;
    co_await take(0, 7);
  }
  Task<> announces() { second = co_await announce(1, 5); }
  void finish() { execution.check(!first || !second, "a value is announced twice"); }
};

} // namespace

TEST_CASE("a thread that waits for a semaphore misses no wake of a host") {
  const Result result = explore<SleepingWait>(Protocol());
  INFO(result.violation);
  CHECK(result.violation.empty());
}

TEST_CASE("the checker finds a semaphore that loses wakes or data") {
  CHECK_THAT(explore<SleepingWait>(Protocol{.signal = relaxed}).violation, StartsWith("data race"));
  CHECK_THAT(explore<SleepingWait>(Protocol{.looks_again = false}).violation,
             StartsWith("waits waits forever"));
  CHECK_THAT(explore<SleepingWait>(Protocol{.wake = relaxed}).violation, StartsWith("waits waits forever"));
  CHECK_THAT(explore<SleepingWait>(Protocol{.seen = relaxed}).violation, StartsWith("waits waits forever"));
  CHECK_FALSE(explore<SleepingWait>(Protocol{.begin_sleep = relaxed}).violation.empty());
  CHECK_FALSE(explore<SleepingWait>(Protocol{.count_sleepers = relaxed}).violation.empty());
}

TEST_CASE("a participant that leaves a semaphore does not count as dead") {
  const Result result = explore<Leaving>(true);
  INFO(result.violation);
  CHECK(result.violation.empty());
  CHECK_FALSE(explore<Leaving>(false).violation.empty()); // the checker finds it
}

TEST_CASE("a wait for an abandoned semaphore does not succeed") {
  const Result result = explore<Abandoning>(Abandoning::Orders());
  INFO(result.violation);
  CHECK(result.violation.empty());
  CHECK_FALSE(explore<Abandoning>(Abandoning::Orders{.asks_last = false}).violation.empty());
  CHECK_FALSE(explore<Abandoning>(Abandoning::Orders{.release_word = relaxed}).violation.empty());
}

TEST_CASE("two signals of hosts leave the higher value") {
  const Result result = explore<TwoSignals>();
  INFO(result.violation);
  CHECK(result.violation.empty());
}

TEST_CASE("a host and a stream that signal at once do not lower the value") {
  const Result result = explore<PassingSignals>(Entries::Orders());
  INFO(result.violation);
  CHECK(result.violation.empty());
  for (const Entries::Orders& weaker :
       {Entries::Orders{.use = relaxed}, Entries::Orders{.take_back = relaxed},
        Entries::Orders{.look = relaxed}, Entries::Orders{.word_last = false}})
    CHECK_THAT(explore<PassingSignals>(weaker).violation, StartsWith("the value fell"));
}

TEST_CASE("a value whose entry is used again is not announced twice") {
  const Result result = explore<ReusedEntry>(Entries::Orders());
  INFO(result.violation);
  CHECK(result.violation.empty());
  for (const Entries::Orders& weaker : {Entries::Orders{.take = relaxed}, Entries::Orders{.look = relaxed}})
    CHECK_THAT(explore<ReusedEntry>(weaker).violation, StartsWith("a value is announced twice"));
}
