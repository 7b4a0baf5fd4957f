// SPDX-License-Identifier: MIT
// Threads that sleep until a CompletionQueue has something to run.
#include "scheduling/poll_schedule.hpp"

#include "forked_child.hpp"
#include "queue_fixture.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace cuevent;
using namespace test;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

static_assert(noexcept(std::declval<CompletionQueue&>().wait_for(TimeLimit())));
static_assert(noexcept(std::declval<CompletionQueue&>().try_arm(TimeLimit())));

namespace {

/// Whether the descriptor becomes readable within the time.
bool readable(int descriptor, std::chrono::milliseconds within = 0ms) {
  pollfd one{descriptor, POLLIN, 0};
  return ::poll(&one, 1, static_cast<int>(within.count())) == 1 && one.revents == POLLIN;
}

/// As an event loop does it. An earlier wait of regular work can suggest that the end is near, and then the
/// queue is not armed at once.
bool armed_while_pending(CompletionQueue& queue, TimeLimit most_late = 100us) {
  for (const auto end = steady_clock::now() + 10s; steady_clock::now() < end;) {
    if (queue.arm(most_late)) return true;
    if (queue.poll() != 0) return false;
  }
  return false;
}

constexpr long long us = 1'000, ms = 1'000'000;

} // namespace

TEST_CASE_METHOD(QueueFixture, "an armed queue without work stays unreadable until a submission") {
  const int descriptor = queue.native_handle();
  CHECK(queue.native_handle() == descriptor);
  CHECK(queue.arm());
  CHECK(queue.arm());
  CHECK_FALSE(readable(descriptor, 20ms));
  std::thread([&] { queue.when_complete(stream, note()); }).join();
  CHECK(readable(descriptor, 1s));
  CHECK(queue.poll() == 1);
  CHECK(queue.arm());
  CHECK_FALSE(readable(descriptor, 20ms));
}

TEST_CASE_METHOD(QueueFixture, "an event loop that nobody has armed wakes, polls and arms the queue") {
  const int descriptor = queue.native_handle();
  queue.when_complete(stream, note());
  REQUIRE(readable(descriptor));
  CHECK(queue.poll() == 1);
  CHECK(queue.arm());
  CHECK_FALSE(readable(descriptor));
  queue.when_complete(stream, note());
  CHECK(readable(descriptor, 1s));
}

TEST_CASE_METHOD(QueueFixture, "a poll that finds an empty inbox does not disarm the queue") {
  all_pending();
  queue.when_complete(stream, note());
  CHECK(queue.poll() == 0);
  CHECK(armed_while_pending(queue, 1h));
  CHECK(queue.poll() == 0);
  recording.fail_nothing();
  CHECK(queue.poll() == 1);
  CHECK(queue.arm());
  CHECK_FALSE(readable(queue.native_handle(), 5ms));
  queue.when_complete(stream, note());
  CHECK(readable(queue.native_handle(), 1s));
}

TEST_CASE_METHOD(QueueFixture, "a queue with a submission that no poll has seen is not armed") {
  all_pending();
  queue.when_complete(stream, note());
  CHECK_FALSE(queue.arm());
  CHECK(queue.poll() == 0);
  CHECK(armed_while_pending(queue));
}

TEST_CASE_METHOD(QueueFixture, "a queue whose last poll stopped at its limit is not armed") {
  queue.when_complete(stream, note());
  queue.when_complete(stream, note());
  CHECK(queue.poll(PollLimit{1}) == 1);
  CHECK_FALSE(queue.arm());
  CHECK(queue.poll() == 1);
  CHECK(queue.arm());
}

TEST_CASE_METHOD(QueueFixture, "a queue whose last poll left cancelled callbacks is not armed") {
  all_pending();
  std::array<CompletionToken, 2> tokens;
  for (CompletionToken& token : tokens) {
    queue.when_complete(stream, note(), &token);
    CHECK(token.cancel());
  }
  CHECK(queue.poll(PollLimit{1}) == 1);
  CHECK_FALSE(queue.arm());
  CHECK(queue.poll() == 1);
  CHECK(queue.arm());
}

TEST_CASE_METHOD(QueueFixture, "while work is pending the timer wakes the thread to poll") {
  all_pending();
  queue.when_complete(stream, note());
  CHECK(queue.poll() == 0);
  for (int i = 0; i < 20; ++i) {
    REQUIRE(armed_while_pending(queue));
    REQUIRE(readable(queue.native_handle(), 1s));
    CHECK(queue.poll() == 0);
  }
  recording.fail_nothing();
  while (!queue.arm()) {
  }
  CHECK(readable(queue.native_handle(), 1s));
  CHECK(queue.poll() == 1);
}

TEST_CASE_METHOD(QueueFixture, "a running callback may arm its queue, and needs no timer") {
  bool armed = false, woken = true;
  queue.when_complete(stream, [&](CUresult) {
    armed = queue.arm();
    woken = readable(queue.native_handle(), 5ms);
  });
  CHECK(queue.poll() == 1);
  CHECK(armed);
  CHECK_FALSE(woken);
}

TEST_CASE_METHOD(QueueFixture, "a cancellation wakes a sleeping thread") {
  all_pending();
  CompletionToken token;
  queue.when_complete(stream, note(), &token);
  CHECK(queue.poll() == 0);
  REQUIRE(armed_while_pending(queue, 1h));
  CHECK(token.cancel());
  CHECK(readable(queue.native_handle(), 1s));
  CHECK(queue.poll() == 1);
  CHECK(results == std::vector<CUresult>{CompletionToken::cancelled});
  CHECK(token.cancel() == false);
}

TEST_CASE_METHOD(QueueFixture, "the end of a queue wakes a thread that sleeps in epoll, by a duplicate") {
  auto fastest = steady_clock::duration::max(); // a busy machine runs no thread on time
  for (int i = 0; i < 3; ++i) {
    auto mine = std::make_unique<CompletionQueue>(context);
    const int copy = fcntl(mine->native_handle(), F_DUPFD_CLOEXEC, 0), epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN;
    REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, copy, &event) == 0);
    REQUIRE(mine->arm());
    int woken = 0;
    steady_clock::time_point awake;
    std::thread sleeper([&] {
      woken = epoll_wait(epoll, &event, 1, 10'000);
      awake = steady_clock::now();
    });
    std::this_thread::sleep_for(5ms);
    const auto before = steady_clock::now();
    mine.reset();
    sleeper.join();
    CHECK(woken == 1);
    fastest = std::min(fastest, awake - before);
    CHECK(readable(copy));
    close(copy);
    close(epoll);
  }
  CHECK(fastest < 100ms);
}

TEST_CASE_METHOD(QueueFixture, "a device fault and a lost context wake the thread") {
  for (const CUresult fault : {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_CONTEXT_IS_DESTROYED}) {
    auto fastest = steady_clock::duration::max(); // a busy machine runs no thread on time
    for (int i = 0; i < 3; ++i) {
      all_pending();
      queue.when_complete(stream, note());
      CHECK(queue.poll() == 0);
      REQUIRE(armed_while_pending(queue));
      recording.fail_always("cuEventQuery", fault);
      const auto before = steady_clock::now();
      CHECK(readable(queue.native_handle(), 1s));
      fastest = std::min(fastest, steady_clock::now() - before);
      CHECK(queue.poll() == 1);
      CHECK(results.back() == fault);
      recording.fail_nothing();
    }
    CHECK(fastest < 100ms);
  }
}

TEST_CASE_METHOD(QueueFixture, "a timer that the kernel refuses is a typed error") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  int descriptor = -7;
  const CUresult handle = queue.try_native_handle(descriptor), armed = queue.try_arm();
  bool thrown = false;
  try {
    static_cast<void>(queue.arm());
  } catch (const OperatingSystem& error) {
    thrown = std::string_view(error.what()).find("ulimit -n") != std::string_view::npos;
  }
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(handle == CUDA_ERROR_OPERATING_SYSTEM);
  CHECK(armed == CUDA_ERROR_OPERATING_SYSTEM);
  CHECK(descriptor == -7);
  CHECK(thrown);
  CHECK(queue.arm()); // later
}

TEST_CASE_METHOD(QueueFixture, "an empty queue waits for nothing") {
  CompletionQueue empty;
  CHECK(empty.wait_for(1h) == 0);
}

TEST_CASE_METHOD(QueueFixture, "a forked child leaves the timer to its parent") {
  const int descriptor = queue.native_handle();
  all_pending();
  queue.when_complete(stream, note());
  CHECK(queue.poll() == 0);
  recording.fail_nothing();
  CHECK(queue.poll() == 1);
  REQUIRE(queue.arm());
  CHECK(in_child([&] {
          const bool refused = queue.try_arm() == CUDA_ERROR_NOT_INITIALIZED;
          queue = CompletionQueue();
          return refused ? 0 : 1;
        }) == 0);
  CHECK_FALSE(readable(descriptor));
  queue.when_complete(stream, note());
  CHECK(readable(descriptor, 1s));
}

TEST_CASE_METHOD(QueueFixture, "a wait ends when a callback has run, or with its limit") {
  queue.when_complete(stream, note());
  CHECK(queue.wait_for(1h) == 1);
  all_pending();
  queue.when_complete(stream, note());
  const auto before = steady_clock::now();
  CHECK(queue.wait_for(3ms) == 0);
  CHECK(steady_clock::now() - before >= 3ms);
  recording.fail_nothing();
  CHECK(queue.wait_for(0ms) == 1);
  CHECK(queue.wait_for(0ms) == 0);
  std::size_t inside = 1;
  queue.when_complete(stream, [&](CUresult) { inside = queue.wait_for(1h); });
  CHECK(queue.wait_for(1h) == 1);
  CHECK(inside == 0);
}

TEST_CASE_METHOD(QueueFixture, "a wait of an empty queue sees a submission by another thread", "[threads]") {
  std::thread submitter([&] {
    std::this_thread::sleep_for(5ms);
    queue.when_complete(stream, note());
  });
  CHECK(queue.wait_for(1min) == 1);
  submitter.join();
}

TEST_CASE_METHOD(QueueFixture, "a callback may destroy the queue that its thread waits for") {
  auto mine = std::make_unique<CompletionQueue>(context);
  mine->when_complete(stream, [&](CUresult) { mine.reset(); });
  CHECK(mine->wait_for(1h) == 1);
}

TEST_CASE("polls of unknown work come after an eighth of the wait, within the bounds") {
  const DriverTable table{};
  for (const long long most_late : {20 * us, 100 * us, 300 * us, 3'600'000 * ms}) {
    PollSchedule schedule;
    long long now = 5 * ms;
    const long long start = now;
    while (now < start + 200'000 * ms) {
      const long long next = schedule.next(table, now, 1, most_late), waited = now - start;
      REQUIRE(next >= 1);
      REQUIRE(next <= 50 * ms);
      if (waited < 100 * us) REQUIRE(next <= 35 * us);
      REQUIRE(next <= std::max(most_late, waited / 1000));
      now += next;
      schedule.polled(now, false);
    }
  }
}

TEST_CASE("polls of repeating work come shortly before its end, and then without a sleep") {
  const DriverTable table{};
  const auto schedule = std::make_unique<PollSchedule>();
  long long now = 1'000'000 * ms, slept = 0, late = 0, begin = 0;
  for (std::uint32_t step = 1; step <= 400; ++step) {
    if (step == 101) begin = now, slept = late = 0;
    const long long end = now + ms;
    while (true) {
      now += us; // a poll
      schedule->polled(now, now >= end);
      if (now >= end) break;
      const long long sleep = schedule->next(table, now, step, 100 * us);
      if (sleep != 0) slept += sleep + 15 * us; // the timer is late
      if (sleep != 0) now += sleep + 15 * us;
    }
    late = std::max(late, now - end);
  }
  CHECK(late <= 2 * us);
  CHECK(slept > (now - begin) * 8 / 10);
}
