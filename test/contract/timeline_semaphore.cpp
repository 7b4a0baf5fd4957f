// SPDX-License-Identifier: MIT
// Timeline semaphores in one process. Imports: shared_semaphores.cpp. Other processes:
// test/processes/sharing.
#include "gate.hpp"
#include "on_threads.hpp"
#include "semaphores.hpp"
#include "stream.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/driver_event.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <catch2/generators/catch_generators.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace cuevent;
using namespace test;

namespace {

int descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<int>(std::distance(begin(all), end(all)));
}

/// The pages of semaphores in the memory of this process.
int mapped_pages() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("cuevent timeline") != std::string::npos ? 1 : 0;
  return count;
}

/// `waiting` waits until `stream` has signalled, and then reaches the record of `after`.
void wait_for_signal(CUstream waiting, TimelineSemaphore& semaphore, CUstream stream, DriverEvent& after) {
  semaphore.signal(stream, 1);
  semaphore.wait(waiting, 1);
  after.record(waiting);
}

} // namespace

TEST_CASE_METHOD(StreamFixture, "a semaphore rises with the signals of streams and hosts") {
  TimelineSemaphore semaphore(context, 3);
  CHECK(semaphore.value() == 3);
  CHECK(semaphore.submitted() == 3);
  CHECK(semaphore.wait_for(3, 0ns));
  semaphore.signal(5);
  CHECK(semaphore.value() == 5);
  Gate gate(stream);
  semaphore.signal(stream, 7);
  CHECK(semaphore.value() == 5);
  CHECK(semaphore.submitted() == 7);
  CHECK_FALSE(semaphore.reached(6));
  CHECK_FALSE(semaphore.wait_for(6, 2ms));
  semaphore.signal(6);
  CHECK(semaphore.wait_for(6, 0ns));
  gate.open();
  CHECK(semaphore.wait_for(7, 1min));
  CHECK(semaphore.value() == 7);
  CHECK(semaphore.status() == TimelineStatus::active);
  semaphore.signal(TimelineSemaphore::max_value);
  CHECK(semaphore.value() == TimelineSemaphore::max_value);
}

TEST_CASE_METHOD(Fixture, "a signal that would lower a semaphore is refused") {
  const Stream stream(context), other(context);
  TimelineSemaphore semaphore(context, 3);
  CHECK_THROWS_AS(semaphore.signal(3), InvalidValue);
  CHECK_THROWS_AS(semaphore.signal(0), InvalidValue);
  CHECK_THROWS_AS(semaphore.signal(TimelineSemaphore::max_value + 1), InvalidValue);
  CHECK_THROWS_AS(semaphore.signal(stream, 3), InvalidValue);
  CHECK_THROWS_AS(semaphore.signal(stream, TimelineSemaphore::max_value + 1), InvalidValue);
  {
    Gate gate(stream);
    semaphore.signal(stream, 6);
    CHECK(semaphore.try_signal(stream, 6) == CUDA_ERROR_INVALID_VALUE);
    CHECK(semaphore.try_signal(stream, 5) == CUDA_ERROR_INVALID_VALUE);
    CHECK(semaphore.try_signal(8) == CUDA_ERROR_INVALID_VALUE); // the stream would set it back to 6
    CHECK(semaphore.try_signal(6) == CUDA_ERROR_INVALID_VALUE); // the stream's own value
    CHECK(semaphore.try_signal(other, 6) == CUDA_ERROR_INVALID_VALUE);
    CHECK(semaphore.try_signal(5) == CUDA_SUCCESS);
    CHECK(semaphore.try_signal(8) == CUDA_ERROR_INVALID_VALUE);
    semaphore.signal(stream, 7);
  }
  CHECK(semaphore.wait_for(7, 1min));
  CHECK(semaphore.try_signal(other, 7) == CUDA_ERROR_INVALID_VALUE);
  CHECK(semaphore.try_signal(8) == CUDA_SUCCESS);
  CHECK(semaphore.value() == 8);
}

TEST_CASE_METHOD(StreamFixture, "a host of any process cannot pass a pending signal of a stream") {
  TimelineSemaphore semaphore(context);
  TimelineSemaphore joined = join(context, semaphore); // as in another process
  Gate gate(stream);
  semaphore.signal(stream, 5);
  for (TimelineSemaphore* const each : {&semaphore, &joined})
    for (const std::uint64_t value : {6U, 5U, 6U})
      CHECK(each->try_signal(value) == CUDA_ERROR_INVALID_VALUE);
  CHECK(joined.try_signal(4) == CUDA_SUCCESS);
  gate.open();
  REQUIRE(semaphore.wait_for(5, 1min));
  CHECK(joined.try_signal(6) == CUDA_SUCCESS);
  CHECK(semaphore.value() == 6);
}

TEST_CASE_METHOD(Fixture, "a host that has seen the signals of ordered streams may signal at once") {
  const Stream stream(context), other(context);
  TimelineSemaphore semaphore(context);
  const Release release(semaphore);
  for (std::uint64_t value = 1; value <= 300; value += 3) {
    semaphore.wait(other, value, WaitOrder::before_signal);
    semaphore.signal(other, value + 1);
    semaphore.signal(stream, value);
    REQUIRE(semaphore.wait_for(value + 1, 1min));
    REQUIRE(semaphore.try_signal(value + 2) == CUDA_SUCCESS);
  }
}

TEST_CASE_METHOD(StreamFixture, "streams of any context and device wait for a semaphore") {
  TimelineSemaphore semaphore(context);
  const auto waits = [&](const Context& of_waiting) {
    const Stream waiting(of_waiting);
    DriverEvent after(of_waiting);
    Gate gate(stream);
    wait_for_signal(waiting, semaphore, stream, after);
    CHECK_FALSE(after.query());
    gate.open();
    CHECK(after.synchronize_for(1min));
    CHECK(semaphore.reached(1));
    semaphore.wait(waiting, 1); // reached, so it does not hold the stream
    after.record(waiting);
    CHECK(after.synchronize_for(1min));
    semaphore.signal(waiting, 2); // and the other context signals
    CHECK(semaphore.wait_for(2, 1min));
  };
  SECTION("the same context") { waits(context); }
  SECTION("another context") { waits(Context::create(0, driver)); }
  SECTION("another device") {
    if (test::device_count() < 2) SKIP("needs a second device");
    waits(Context::create(1, driver));
  }
}

TEST_CASE_METHOD(Fixture, "what a stream wrote before its signal is visible after the wait") {
  const Stream producer(context), consumer(context);
  TimelineSemaphore semaphore(context);
  const Release release(semaphore);
  const auto launch = test::call<PFN_cuLaunchHostFunc_v10000>("cuLaunchHostFunc", 10000);
  struct Data {
    int written = 0, read = 0;
  };
  for (std::uint64_t i = 1; i <= 100; ++i) {
    Data data;
    const auto write = [](void* to) { static_cast<Data*>(to)->written = 7; };
    const auto read = [](void* to) { static_cast<Data*>(to)->read = static_cast<Data*>(to)->written; };
    CUresult results[] = {launch(producer, write, &data),          semaphore.try_signal(producer, 2 * i - 1),
                          semaphore.try_wait(consumer, 2 * i - 1), launch(consumer, read, &data),
                          semaphore.try_signal(consumer, 2 * i),   semaphore.try_wait_for(2 * i, 1min)};
    for (const CUresult result : results)
      if (result != CUDA_SUCCESS) {
        semaphore.abandon();
        for (const Stream* each : {&producer, &consumer}) // they use `data`
          test::call<PFN_cuStreamSynchronize_v2000>("cuStreamSynchronize", 2000)(*each);
        FAIL("a call failed: " << result);
      }
    REQUIRE(data.read == 7);
  }
}

TEST_CASE_METHOD(Fixture, "a wait before its signal is legal only if the caller says so") {
  const Stream waiting(context);
  TimelineSemaphore semaphore(context);
  const Release release(semaphore);
  DriverEvent after(context);
  CHECK_THROWS_AS(semaphore.wait(waiting, 2), InvalidValue);
  after.record(waiting);
  CHECK(after.synchronize_for(1min)); // nothing holds the stream
  semaphore.wait(waiting, 2, WaitOrder::before_signal);
  after.record(waiting);
  CHECK_FALSE(after.query());
  semaphore.signal(1);
  CHECK_FALSE(after.query());
  semaphore.signal(2); // by the host, which no stream can hold up
  CHECK(after.synchronize_for(1min));
  CHECK_THROWS_AS(semaphore.wait(waiting, TimelineSemaphore::max_value + 1, WaitOrder::before_signal),
                  InvalidValue);
}

// A minute of a stepped clock is over in a fraction of a real second, and the other thread may come later.
constexpr auto until_another_thread = std::chrono::hours::max();

TEST_CASE_METHOD(Fixture, "a wait can be deferred on the host until the signal is submitted") {
  const Stream stream(context), waiting(context);
  TimelineSemaphore semaphore(context);
  DriverEvent after(context);
  CHECK_FALSE(semaphore.wait_when_submitted(waiting, 1, 1ms));
  after.record(waiting);
  CHECK(after.synchronize_for(1min)); // the wait was not submitted
  std::optional<Gate> gate(stream);
  CUresult deferred = CUDA_ERROR_UNKNOWN;
  std::thread consumer(
      [&] { deferred = semaphore.try_wait_when_submitted(waiting, 1, until_another_thread); });
  const CUresult signalled = semaphore.try_signal(stream, 1);
  if (signalled != CUDA_SUCCESS) semaphore.abandon(); // so that the thread ends
  consumer.join();
  REQUIRE(signalled == CUDA_SUCCESS);
  CHECK(deferred == CUDA_SUCCESS);
  after.record(waiting);
  CHECK_FALSE(after.query());
  gate.reset();
  CHECK(after.synchronize_for(1min));
}

TEST_CASE_METHOD(Fixture, "a signal of the host wakes a thread that waits") {
  TimelineSemaphore semaphore(context);
  CUresult waited = CUDA_ERROR_UNKNOWN;
  std::thread waiting([&] { waited = semaphore.try_wait_for(1, until_another_thread); });
  std::this_thread::sleep_for(5ms);
  semaphore.signal(1);
  waiting.join();
  CHECK(waited == CUDA_SUCCESS);
}

TEST_CASE_METHOD(StreamFixture, "a thread waits for one or for all of several semaphores") {
  TimelineSemaphore a(context), b(context), c(context);
  const std::vector<TimelinePoint> points{{a, 1}, {b, 2}, {c, 3}};
  CHECK(TimelineSemaphore::wait_any(points, 1ms) == TimelineSemaphore::none);
  CHECK_FALSE(TimelineSemaphore::wait_all(points, 1ms));
  CHECK(TimelineSemaphore::wait_all({}, 0ns));
  CHECK_THROWS_AS(TimelineSemaphore::wait_any({}, 0ns), InvalidValue);
  b.signal(2);
  CHECK(TimelineSemaphore::wait_any(points, 1min) == 1);
  c.signal(3);
  CHECK(TimelineSemaphore::wait_any(points, 1min) == 1); // the first of them
  CHECK_FALSE(TimelineSemaphore::wait_all(points, 1ms));
  a.signal(stream, 1);
  CHECK(TimelineSemaphore::wait_all(points, 1min));
  std::size_t index = 7;
  CHECK(TimelineSemaphore::try_wait_any(index, points, 0ns) == CUDA_SUCCESS);
  CHECK(index == 0);
  a.abandon();
  CHECK_THROWS_AS(TimelineSemaphore::wait_all(points, 0ns), SemaphoreAbandoned);
  CHECK(TimelineSemaphore::wait_any(points, 0ns) == 1);
}

TEST_CASE_METHOD(Fixture, "signals and waits act on default streams of the context that is named") {
  const Context created = Context::create(0, driver);
  CUstream const handle = GENERATE(CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD);
  const auto stack = test::context_stack();
  TimelineSemaphore semaphore(context);
  const Release release(semaphore);
  DriverEvent own(context), others(created);
  semaphore.wait({created, handle}, 1, WaitOrder::before_signal);
  own.record(handle);
  others.record(handle);
  CHECK(own.synchronize_for(1min));
  CHECK_FALSE(others.query());
  semaphore.signal(handle, 1);
  CHECK(others.synchronize_for(1min));
  semaphore.signal({created, handle}, 2);
  CHECK(semaphore.wait_for(2, 1min));
  semaphore.wait(handle, 2);
  CHECK(test::context_stack() == stack);
  CHECK_THROWS_AS(semaphore.signal({Context(), handle}, 3), InvalidContext);
  CHECK_THROWS_AS(semaphore.wait({Context(), handle}, 2), InvalidContext);
}

TEST_CASE_METHOD(Fixture, "a destroyed semaphore keeps its signals and waits, and a closed one is empty") {
  const Stream stream(context), waiting(context);
  DriverEvent after(context);
  {
    Gate gate(stream);
    {
      TimelineSemaphore semaphore(context);
      wait_for_signal(waiting, semaphore, stream, after);
    }
    CHECK_FALSE(after.query());
    gate.open();
  }
  CHECK(after.synchronize_for(1min));
  TimelineSemaphore semaphore(context);
  semaphore.close();
  CHECK_FALSE(semaphore);
  CHECK(semaphore.value() == 0);
  CHECK(semaphore.status() == TimelineStatus::active);
  CHECK_THROWS_AS(semaphore.close(), InvalidHandle);
  CHECK_THROWS_AS(semaphore.signal(1), InvalidHandle);
  CHECK_THROWS_AS(semaphore.signal(stream, 1), InvalidHandle);
  CHECK_THROWS_AS(semaphore.wait(stream, 0), InvalidHandle);
  for (const std::uint64_t value : {0U, 1U}) {
    CHECK_THROWS_AS(semaphore.wait_for(value, 0ns), InvalidHandle);
    CHECK_THROWS_AS(semaphore.wait_when_submitted(stream, value, 0ns), InvalidHandle);
    CHECK_THROWS_AS(TimelineSemaphore::wait_all({{semaphore, value}}, 0ns), InvalidHandle);
    CHECK_THROWS_AS(TimelineSemaphore::wait_any({{semaphore, value}}, 0ns), InvalidHandle);
  }
  CHECK_THROWS_AS(semaphore.export_handle(), InvalidHandle);
  CHECK_THROWS_AS(semaphore.abandon_on_death(), InvalidHandle);
}

TEST_CASE_METHOD(StreamFixture,
                 "a destroyed semaphore keeps no descriptor, also while its signal is pending") {
  Gate gate(stream);
  const int before = descriptors();
  for (int i = 0; i < 100; ++i) {
    TimelineSemaphore semaphore(context);
    semaphore.signal(stream, 1);
  }
  CHECK(descriptors() == before);
}

TEST_CASE_METHOD(Fixture, "the memory of semaphores goes with their context",
                 "[semaphore][no-sweep]") { // a page that cannot be asked about is kept, and nobody is told
  const int before = test::live_handles().contexts, mapped = mapped_pages();
  for (int i = 0; i < 5; ++i) {
    Context created = Context::create(0, driver);
    const Stream stream(created);
    TimelineSemaphore semaphore(created);
    semaphore.signal(stream, 1);
    CHECK(semaphore.wait_for(1, 1min));
    created = semaphore.context(); // until the stream is destroyed
    semaphore = TimelineSemaphore();
    CHECK(mapped_pages() <= mapped + 2); // this one, and the one before until its successor was made
  }
  CHECK(test::live_handles().contexts == before);
  const TimelineSemaphore next(context);
  CHECK(mapped_pages() <= mapped + 1);
  CHECK_THROWS_AS(TimelineSemaphore(Context()), InvalidContext);
  CHECK_THROWS_AS(TimelineSemaphore(context, TimelineSemaphore::max_value + 1), InvalidValue);
}

TEST_CASE_METHOD(Fixture, "eight threads can share a semaphore") {
  TimelineSemaphore semaphore(context);
  std::atomic<int> wrong = 0;
  test::on_threads(8, [&](std::size_t) {
    for (std::uint64_t before = 0, next = 1; next <= 400; ++next) {
      const CUresult signalled = semaphore.try_signal(next); // one of the threads wins
      if (signalled != CUDA_SUCCESS && signalled != CUDA_ERROR_INVALID_VALUE) ++wrong;
      const std::uint64_t now = semaphore.value();
      if (now < before || now < next || semaphore.submitted() < next) ++wrong;
      before = now;
    }
  });
  CHECK(wrong == 0);
  CHECK(semaphore.value() == 400);
}
