// SPDX-License-Identifier: MIT
// Threads that sleep until work is complete: in epoll with CompletionQueue::arm(), or in wait_for().
#include "gate.hpp"
#include "stream.hpp"

#include <cuevent/completion_queue.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace cuevent;
using namespace test;

namespace {

/// Sleeps in epoll until the queue should be polled.
class Sleeper {
public:
  explicit Sleeper(CompletionQueue& queue) : queue_(queue), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event event{};
    event.events = EPOLLIN;
    REQUIRE(epoll_ctl(epoll_, EPOLL_CTL_ADD, queue.native_handle(), &event) == 0);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() { close(epoll_); }

  /// Returns false if the queue is not readable within the time.
  bool sleep(std::chrono::milliseconds most) const {
    epoll_event event{};
    return epoll_wait(epoll_, &event, 1, static_cast<int>(most.count())) == 1;
  }
  /// Polls and sleeps until `callbacks` have run. Returns false if a wake-up takes ten seconds.
  bool run(std::size_t callbacks) {
    for (std::size_t ran = 0; ran < callbacks;) {
      ran += queue_.poll();
      if (ran >= callbacks || !queue_.arm()) continue;
      ++sleeps;
      if (!sleep(10s)) return false;
    }
    return true;
  }
  std::size_t sleeps = 0;

private:
  CompletionQueue& queue_;
  int epoll_;
};

/// Another thread submits while this one arms the queue and sleeps. Returns false if a wake-up gets lost, or
/// if a callback gets an error.
bool sleep_and_count(const Context& context, std::size_t sleeps) {
  const std::array streams{std::make_unique<Stream>(context), std::make_unique<Stream>(context)};
  std::atomic<bool> failed{false}, stop{false};
  CompletionQueue queue(context);
  queue.reserve(64);
  Sleeper sleeper(queue);
  std::atomic<std::size_t> submitted{0};
  std::thread submitter([&] {
    for (std::size_t i = 0; !stop; ++i) {
      queue.when_complete(*streams[i % 2], [&](CUresult result) {
        if (result != CUDA_SUCCESS) failed = true;
      });
      ++submitted;
      while (queue.pending() > i % 3 && !stop)
        std::this_thread::yield();
    }
  });
  std::size_t ran = 0;
  bool woken = true;
  for (std::size_t slept = 0; slept < sleeps && woken;) {
    ran += queue.poll();
    if (!queue.arm()) continue;
    ++slept;
    woken = sleeper.sleep(10s);
  }
  stop = true;
  submitter.join();
  return woken && sleeper.run(submitted - ran) && !failed;
}

} // namespace

TEST_CASE_METHOD(Fixture, "a thread sleeps in epoll until the work of a stream is complete") {
  const Stream held(context), other(context);
  std::vector<int> order;
  CompletionQueue queue(context);
  Sleeper sleeper(queue);
  std::optional<Gate> gate(held);
  queue.when_complete(held, [&](CUresult result) { order.push_back(result == CUDA_SUCCESS ? 1 : -1); });
  queue.when_complete(other, [&](CUresult result) { order.push_back(result == CUDA_SUCCESS ? 2 : -2); });
  CHECK(sleeper.run(1));
  std::thread opener([&] {
    std::this_thread::sleep_for(20ms);
    gate->open();
  });
  CHECK(sleeper.run(1));
  opener.join();
  CHECK(order == std::vector{2, 1});
  CHECK(sleeper.sleeps > 0);
  CHECK(sleeper.sleeps < 2000); // 20 ms at 100 us take 200
}

TEST_CASE_METHOD(Fixture, "a wait sees the end of work that another thread lets go on") {
  const Stream held(context);
  std::vector<CUresult> ran;
  CompletionQueue queue(context);
  Gate gate(held);
  queue.when_complete(held, [&](CUresult result) { ran.push_back(result); });
  CHECK(queue.wait_for(2ms) == 0);
  std::thread opener([&] { gate.open(); });
  while (ran.empty())
    queue.wait_for(1s);
  opener.join();
  CHECK(ran == std::vector{CUDA_SUCCESS});
}

TEST_CASE_METHOD(Fixture, "threads that sleep for one queue end by a descriptor of their own",
                 "[threads][no-sweep]") { // a thread that fails would end the process
  const std::array streams{std::make_unique<Stream>(context), std::make_unique<Stream>(context)};
  CompletionQueue queue(context);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> left{4}, late{0};
    const int all_done = eventfd(0, EFD_CLOEXEC);
    const auto work = [&] { // the loop of docs/choosing.md
      while (left != 0 && late == 0) {
        pollfd wake[] = {{queue.native_handle(), POLLIN, 0}, {all_done, POLLIN, 0}};
        const bool armed = queue.arm();
        if (::poll(wake, 2, armed ? 10'000 : 0) == 0 && armed) ++late;
        queue.poll();
      }
    };
    std::thread second(work);
    for (std::size_t i = 0; i < 4; ++i)
      queue.when_complete(*streams[i % 2], [&](CUresult) {
        if (--left == 0) eventfd_write(all_done, 1);
      });
    work();
    second.join();
    close(all_done);
    REQUIRE(late == 0);
  }
}

TEST_CASE_METHOD(Fixture, "ten thousand armed sleeps lose no wake-up") {
  CHECK(sleep_and_count(context, 10'000));
}

// Not by default: meson test --suite slow.
TEST_CASE_METHOD(Fixture, "ten million armed sleeps lose no wake-up", "[.][slow]") {
  CHECK(sleep_and_count(context, 10'000'000));
}
