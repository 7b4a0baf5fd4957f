// SPDX-License-Identifier: MIT
// What the threads of a program may do at the same time. Tests the contract of DriverEvent with 16 threads.
#include "gate.hpp"
#include "on_threads.hpp"
#include "stream.hpp"

#include <cuevent/driver_event.hpp>
#include <cuevent/retired_events.hpp>

#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace test;

namespace {

constexpr std::size_t threads = 16;

} // namespace

TEST_CASE_METHOD(Fixture, "several threads may query, wait for and time one event concurrently",
                 "[threads]") {
  const Stream stream(context), other(context);
  DriverEvent start(context, EventFlags::timing), end(context, EventFlags::timing);
  start.record(stream);
  std::atomic<std::size_t> pending{0}, wrong{0}, asked{0};
  {
    Gate gate(stream);
    end.record(stream);
    on_threads(threads, [&](std::size_t t) {
      for (int i = 0; i < 50; ++i) {
        if (!end.query()) ++pending;
        if (!end.query_relaxed()) ++pending;
        if (end.synchronize_for(0ns)) ++wrong;
        if (t == 0) end.wait(other);
        if (t == 1) end.wait(CU_STREAM_PER_THREAD);
        DriverEvent::Milliseconds none{};
        if (start.try_elapsed_time(none, end) != CUDA_ERROR_NOT_READY) ++wrong;
      }
    });
    CHECK(pending == threads * 100);
  }
  on_threads(threads, [&](std::size_t) {
    for (int i = 0; i < 50; ++i) {
      end.synchronize();
      if (!end.query() || start.elapsed_time(end).count() < 0) ++wrong;
      ++asked;
    }
  });
  CHECK(wrong == 0);
  CHECK(asked == threads * 50);
}

TEST_CASE_METHOD(Fixture, "threads create, record, hand over and destroy events of one context concurrently",
                 "[threads]") {
  std::vector<DriverEvent> handed(threads); // one thread moves each event in, another moves it out
  std::vector<std::mutex> locks(threads);
  std::atomic<int> incomplete{0};
  on_threads(threads, [&](std::size_t t) {
    const Stream stream(context);
    for (std::size_t i = 0; i < 50; ++i) {
      DriverEvent event(context, i % 2 == 0 ? EventFlags::none : EventFlags::timing | EventFlags::retire);
      event.record(stream);
      const std::size_t to = (t + i) % threads;
      {
        const std::lock_guard lock(locks[to]);
        std::swap(event, handed[to]);
      }
      if (!event) continue;
      if (!event.synchronize_for(1min)) ++incomplete;
      if (i % 3 == 0) event.close();
      if (i % 16 == t) destroy_retired();
    }
  });
  for (DriverEvent& event : handed)
    if (event) event.synchronize();
  handed.clear();
  destroy_retired();
  CHECK(incomplete == 0);
}

TEST_CASE_METHOD(Fixture, "threads share and drop one owned context concurrently", "[threads]") {
  Context created = Context::create(0, driver);
  std::vector<Context> copies(threads, created);
  created = Context();
  on_threads(threads, [&](std::size_t t) {
    Context mine = std::move(copies[t]);
    for (int i = 0; i < 20; ++i) {
      DriverEvent event(mine);
      Context again = event.context();
      mine = std::move(again);
    }
    mine = Context();
  });
  CHECK(test::live_handles().contexts == 0);
}
