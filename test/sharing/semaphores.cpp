// SPDX-License-Identifier: MIT
#include "participant.h"
#include "programs.hpp"
#include "send_descriptor.hpp"

#include <gpu.hpp>
#include <second_process.hpp>
#include <shared_memory.hpp>

#include <cuevent/timeline_semaphore.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace std::chrono_literals;
using cuevent::TimelineSemaphore;
using cuevent::TimelineStatus;
using cuevent::WaitOrder;
using test::programs;

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::ratio<1, 1000>>(duration).count();
}

void start(std::optional<SecondProcess>& process, const char* role, int descriptor) {
  process.emplace(programs().participant, role, std::initializer_list<int>{descriptor});
}

struct TwoProcesses {
  const gpu::Gpu gpu;
  const gpu::Call<PFN_cuStreamSynchronize_v2000> synchronize{gpu.driver, "cuStreamSynchronize", 2000};
  const gpu::Call<PFN_cuStreamQuery_v2000> query{gpu.driver, "cuStreamQuery", 2000};
  TimelineSemaphore semaphore{gpu.context};

  ~TwoProcesses() { semaphore.abandon(); } // no stream waits forever, even if a check fails

  /// Starts a process that makes a semaphore and sends it over a socket.
  TimelineSemaphore import_from(std::optional<SecondProcess>& exporter) const {
    int sockets[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    start(exporter, "export", sockets[1]);
    const int handle = receive_descriptor(sockets[0]);
    close(sockets[0]);
    return TimelineSemaphore::import(gpu.context, handle);
  }

  /// How long the status takes to change. A busy machine runs no thread on time, so the limit of the test
  /// is far above the promised 100 ms.
  Clock::duration until_death(TimelineStatus status = TimelineStatus::participant_died) {
    const auto start = Clock::now();
    while (semaphore.status() != status) {
      REQUIRE(Clock::now() - start < 10s);
      std::this_thread::sleep_for(1ms);
    }
    return Clock::now() - start;
  }
};

} // namespace

TEST_CASE_METHOD(TwoProcesses, "streams of two processes are ordered, and see each other's data") {
  const int descriptor = gpu::SharedMemory::create(data_bytes);
  const gpu::SharedMemory data(gpu, descriptor, data_bytes);
  {
    const gpu::Stream stream = gpu.stream();
    SecondProcess consumer(programs().participant, "consume", {semaphore.export_handle(), descriptor});
    for (int i = 0; i < rounds; ++i) {
      const auto value = static_cast<std::uint64_t>(2 * i);
      gpu.fill(data.address(), static_cast<unsigned char>(i + 1), sizeof(int), stream);
      semaphore.signal(stream, value + 1);
      semaphore.wait(stream, value + 2, WaitOrder::before_signal);
    }
    CHECK(semaphore.wait_for(2 * rounds, 20s));
    CHECK(consumer.wait() == "exited with 0");
    CHECK(semaphore.status() == TimelineStatus::active); // it has left
    synchronize(stream);
  }
}

TEST_CASE_METHOD(TwoProcesses, "a process without CUDA takes part by the C header") {
  const gpu::Stream stream = gpu.stream();
  SecondProcess answers(programs().plain_c, "", {semaphore.export_handle()});
  for (std::uint64_t round = 0; round < rounds; ++round) {
    if (round % 2 == 0)
      semaphore.signal(stream, 2 * round + 1);
    else
      semaphore.signal(2 * round + 1);
    REQUIRE(semaphore.wait_for(2 * round + 2, 20s));
  }
  CHECK(answers.wait() == "exited with 0");
  CHECK(semaphore.status() == TimelineStatus::active);
}

TEST_CASE_METHOD(TwoProcesses, "a process that leaves or ends its semaphore does not count as dead") {
  SecondProcess child(programs().participant, "leave", {semaphore.export_handle()});
  CHECK(semaphore.wait_for(1, 20s));
  CHECK(child.wait() == "exited with 0");
  CHECK(semaphore.status() == TimelineStatus::active);
}

TEST_CASE_METHOD(TwoProcesses, "the end of a process that has not left is a death, however it ends") {
  const std::string role = GENERATE("exit-without-leaving", "exec", "fork", "sleep");
  SecondProcess child(programs().participant, role, {semaphore.export_handle()});
  CHECK(semaphore.wait_for(1, 20s));
  if (role == "fork" || role == "sleep") {
    CHECK(semaphore.status() == TimelineStatus::active);
    child.kill();
  } else if (role == "exit-without-leaving") {
    CHECK(child.wait() == "exited with 0");
  }
  // The exec runs on as another program. The child of the fork lives on.
  WARN(role << ": " << milliseconds(until_death()) << " ms");
}

TEST_CASE_METHOD(TwoProcesses,
                 "the death of one process releases another one that is blocked in the driver") {
  SecondProcess survivor(programs().participant, "synchronize", {semaphore.export_handle()});
  CHECK(semaphore.wait_for(1, 20s));
  SecondProcess victim(programs().participant, "sleep", {semaphore.export_handle()});
  std::this_thread::sleep_for(20ms); // before or after the import
  victim.kill();
  CHECK(survivor.wait() == "exited with 0");
  CHECK(semaphore.status() == TimelineStatus::abandoned);
}

TEST_CASE_METHOD(TwoProcesses, "a death releases the stream and the blocked thread of this process") {
  const gpu::Stream stream = gpu.stream();
  semaphore.abandon_on_death();
  semaphore.wait(stream, 1'000'000'000, WaitOrder::before_signal);
  SecondProcess victim(programs().participant, "signal-on", {semaphore.export_handle()});
  CHECK(semaphore.wait_for(10, 20s));
  std::thread killer([&] {
    std::this_thread::sleep_for(20ms);
    victim.kill();
  });
  synchronize(stream);
  killer.join();
  CHECK(semaphore.status() == TimelineStatus::abandoned);
  CHECK_THROWS_AS(semaphore.wait_for(1, 0ns), cuevent::SemaphoreAbandoned);
}

TEST_CASE_METHOD(TwoProcesses, "the process that made a semaphore may die, and the semaphore lives on") {
  std::optional<SecondProcess> exporter;
  semaphore = import_from(exporter);
  CHECK(semaphore.wait_for(100, 20s));
  CHECK(semaphore.status() == TimelineStatus::active);
  exporter->kill();
  until_death();
  const gpu::Stream stream = gpu.stream();
  const std::uint64_t reached = semaphore.submitted();
  semaphore.signal(stream, reached + 1);
  CHECK(semaphore.wait_for(reached + 1, 20s));
}

TEST_CASE_METHOD(TwoProcesses, "a process may be killed at any moment, and nobody waits forever") {
  const auto started = Clock::now();
  SecondProcess first(programs().participant, "leave", {semaphore.export_handle()});
  REQUIRE(semaphore.wait_for(1, 20s));
  // Before, during and after the import. A driver takes a long time to start, and the simulated one does not.
  const std::chrono::duration<double> latest = (Clock::now() - started) * 3 / 2 + 20ms;
  std::mt19937 random(19);
  std::uniform_real_distribution<double> moment(0, latest.count());
  Clock::duration longest{};
  for (int i = 0; i < programs().kills; ++i) {
    CAPTURE(i);
    std::optional<TimelineSemaphore> shared;
    std::optional<SecondProcess> victim;
    if (i % 3 == 2) { // the process that made the semaphore
      shared = import_from(victim);
    } else {
      shared.emplace(gpu.context);
      start(victim, i % 3 == 0 ? "signal-on" : "synchronize", shared->export_handle());
    }
    const gpu::Stream stream = gpu.stream();
    shared->abandon_on_death();
    shared->wait(stream, 1'000'000'000, WaitOrder::before_signal);
    std::this_thread::sleep_for(std::chrono::duration<double>(moment(random)));
    victim->kill();
    const auto killed = Clock::now();
    const CUresult waited = shared->try_wait_for(1'000'000'000, 20s);
    longest = std::max(longest, Clock::now() - killed);
    REQUIRE(waited == CUDA_ERROR_ILLEGAL_STATE);
    synchronize(stream);
    shared->close();
  }
  WARN(programs().kills << " kills, noticed after at most " << milliseconds(longest) << " ms");
}
