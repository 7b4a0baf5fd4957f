// SPDX-License-Identifier: MIT
// What the tests of an EventPool share.
#pragma once

#include "on_threads.hpp"
#include "recording_fixture.hpp"

#include <cuevent/event_pool.hpp>

#include <barrier>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace test {

constexpr std::size_t kept = 64; // events that a thread caches at most

inline std::vector<cuevent::PooledEvent> acquire(cuevent::EventPool& pool, std::size_t count) {
  std::vector<cuevent::PooledEvent> leases;
  for (std::size_t i = 0; i < count; ++i)
    leases.push_back(pool.acquire());
  return leases;
}

/// A thread that runs one piece of work at a time, and stays alive in between.
class Worker {
public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    if (thread_.joinable()) end();
  }

  void run(std::function<void()> work) {
    work_ = std::move(work);
    step();
  }
  void end() {
    ended_ = true;
    begin_.arrive_and_wait();
    thread_.join();
  }

private:
  void step() {
    begin_.arrive_and_wait();
    done_.arrive_and_wait();
  }
  void loop() {
    for (begin_.arrive_and_wait(); !ended_; begin_.arrive_and_wait()) {
      work_();
      done_.arrive_and_wait();
    }
  }

  std::barrier<> begin_{2}, done_{2};
  std::function<void()> work_;
  bool ended_ = false;
  std::thread thread_{[this] { loop(); }}; // last, because it uses the other members
};

} // namespace test
