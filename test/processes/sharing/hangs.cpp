// SPDX-License-Identifier: MIT
// Waits before signals that hang on purpose. Whoever hangs is another process, which an alarm ends, and
// abandoning the semaphore releases it.
#include "two_processes.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace std::chrono_literals;
using cuevent::TimelineSemaphore;
using cuevent::TimelineStatus;
using cuevent::WaitOrder;
using test::programs;
using test::TwoProcesses;

TEST_CASE_METHOD(TwoProcesses,
                 "streams of two processes that wait for each other are released by abandoning") {
  const gpu::Stream stream = gpu.stream();
  SecondProcess other(programs().participant, "deadlock", {semaphore.export_handle()});
  REQUIRE(semaphore.wait_for(1, 20s));
  semaphore.wait(stream, 4, WaitOrder::before_signal); // which the other signals after 3
  semaphore.signal(stream, 5);
  CHECK_FALSE(semaphore.wait_for(3, 300ms));
  CHECK(semaphore.value() == 1);
  CHECK(semaphore.status() == TimelineStatus::active); // a hang is no death
  semaphore.abandon();
  CHECK(other.wait() == "exited with 0");
  synchronize(stream);
  CHECK_THROWS_AS(semaphore.wait_for(5, 0ns), cuevent::SemaphoreAbandoned);
}

TEST_CASE_METHOD(TwoProcesses,
                 "a process that hangs in a deadlock can be killed, and its streams hold up nobody") {
  const gpu::Stream stream = gpu.stream();
  semaphore.abandon_on_death();
  SecondProcess other(programs().participant, "deadlock", {semaphore.export_handle()});
  REQUIRE(semaphore.wait_for(1, 20s));
  semaphore.wait(stream, 4, WaitOrder::before_signal);
  std::this_thread::sleep_for(50ms);
  other.kill();
  synchronize(stream); // this thread is blocked in the driver
  CHECK(semaphore.status() == TimelineStatus::abandoned);
}

TEST_CASE_METHOD(TwoProcesses,
                 "a stream that waits can hold up the signal, and the safe ways to wait cannot hang") {
  SecondProcess other(programs().participant, "share-a-connection", {semaphore.export_handle()});
  REQUIRE(semaphore.wait_for(2, 60s));
  CHECK(other.wait() == "exited with 0");
  // The simulated driver has a connection for each stream.
  CHECK(semaphore.value() == (gpu.simulated() ? 2 : 3));
}
