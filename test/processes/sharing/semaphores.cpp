// SPDX-License-Identifier: MIT
#include "two_processes.hpp"

#include <shared_memory.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <string>

using namespace std::chrono_literals;
using cuevent::TimelineSemaphore;
using cuevent::TimelineStatus;
using cuevent::WaitOrder;
using test::Clock;
using test::milliseconds;
using test::programs;
using test::start;
using test::TwoProcesses;

namespace {

/// Overwrites the data in each round, and never before the other process has read it. The first round waits
/// behind a gate until all rounds are submitted, so no luck can put them in order.
void produce(TwoProcesses& two, const std::string& role, CUdeviceptr data, int descriptor) {
  const gpu::Gpu& gpu = two.gpu;
  TimelineSemaphore& semaphore = two.semaphore;
  const gpu::Stream stream = gpu.stream();
  SecondProcess consumer(programs().participant, role, {semaphore.export_handle(), descriptor});
  gpu::Gate gate(gpu, stream);
  for (int i = 0; i < rounds; ++i) {
    const auto value = static_cast<std::uint64_t>(2 * i);
    gpu.fill(data, static_cast<unsigned char>(i + 1), data_bytes, stream);
    semaphore.signal(stream, value + 1);
    semaphore.wait(stream, value + 2, WaitOrder::before_signal);
  }
  std::this_thread::sleep_for(100ms);
  CHECK(semaphore.value() == 0);
  gate.open();
  CHECK(semaphore.wait_for(2 * rounds, 20s));
  CHECK(consumer.wait() == "exited with 0");           // it has seen the data of each round
  CHECK(semaphore.status() == TimelineStatus::active); // it has left
  two.synchronize(stream);
}

/// The role of a process on this device, or on another one.
std::string on_any_device(const TwoProcesses& two, const std::string& role) {
  const int device = GENERATE(0, 1);
  if (device >= two.gpu.count()) SKIP("needs a second device");
  return role + "/" + std::to_string(device);
}

} // namespace

TEST_CASE_METHOD(
    TwoProcesses,
    "streams of two processes on any devices are ordered, and see each other's data in host memory") {
  const std::string role = on_any_device(*this, "consume");
  const int descriptor = gpu::SharedMemory::create(data_bytes);
  const gpu::SharedMemory data(gpu, descriptor, data_bytes);
  produce(*this, role, data.address(), descriptor);
}

TEST_CASE_METHOD(
    TwoProcesses,
    "streams of two processes on any devices are ordered, and see each other's data in device memory") {
  const std::string role = on_any_device(*this, "consume-device-memory");
  if (gpu.simulated() && role.ends_with("/1")) SKIP("memory of another device is not modelled");
  const int descriptor = gpu::SharedMemory::create(data_bytes);
  const gpu::SharedMemory shared(gpu, descriptor, data_bytes);
  const gpu::DeviceMemory data = gpu.device_memory(data_bytes / sizeof(int));
  const gpu::Call<PFN_cuIpcGetMemHandle_v4010> get_handle(gpu.driver, "cuIpcGetMemHandle", 4010);
  CUipcMemHandle handle;
  get_handle(&handle, data);
  std::memcpy(shared.memory(), &handle, sizeof handle);
  produce(*this, role, data, descriptor);
}

TEST_CASE_METHOD(TwoProcesses, "a process without CUDA takes part by the C header") {
  const gpu::Stream stream = gpu.stream();
  gpu::Gate gate(gpu, stream);
  TimelineSemaphore pending(gpu.context);
  pending.signal(stream, 5); // which the other process must not pass
  SecondProcess answers(programs().plain_c, "", {semaphore.export_handle(), pending.export_handle()});
  REQUIRE(pending.wait_for(4, 20s));
  CHECK(pending.value() == 4);
  gate.open();
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
  // The kernel drops the locks of a process before its parent knows that it has ended.
  if (role == "exit-without-leaving" || role == "sleep")
    CHECK(semaphore.status() == TimelineStatus::participant_died);
  // The exec runs on as another program. The child of the fork lives on.
  WARN(role << ": " << milliseconds(until_death()) << " ms");
}

TEST_CASE_METHOD(TwoProcesses, "a process of another PID namespace takes part, and its death is noticed") {
  SecondProcess child(programs().participant, "sleep-in-a-namespace", {semaphore.export_handle()});
  while (!semaphore.reached(1) && semaphore.status() == TimelineStatus::active)
    std::this_thread::sleep_for(1ms);
  if (!semaphore.reached(1)) {
    CHECK(child.wait() == "exited with 77");
    SKIP("no PID namespace here, or a driver that cannot start in one");
  }
  CHECK(semaphore.status() == TimelineStatus::active);
  child.kill();
  until_death();
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

TEST_CASE_METHOD(TwoProcesses, "a death ends a wait on the host and on the device within 150 ms") {
  Clock::duration fastest = 20s; // of a few deaths, because other programs may hold one up
  for (int i = 0; i < 5; ++i) {
    TimelineSemaphore shared(gpu.context);
    SecondProcess victim(programs().participant, "sleep", {shared.export_handle()});
    const gpu::Stream stream = gpu.stream();
    shared.abandon_on_death();
    shared.wait(stream, 1'000'000'000, WaitOrder::before_signal);
    REQUIRE(shared.wait_for(1, 20s));
    victim.send_kill();
    const auto killed = Clock::now();
    REQUIRE(shared.try_wait_for(1'000'000'000, 20s) == CUDA_ERROR_ILLEGAL_STATE);
    synchronize(stream);
    fastest = std::min(fastest, Clock::now() - killed);
  }
  CHECK(fastest <= 150ms);
  WARN("the fastest of 5 deaths: " << milliseconds(fastest) << " ms");
}

TEST_CASE_METHOD(TwoProcesses, "the process that made a semaphore may die, and the semaphore lives on") {
  std::optional<SecondProcess> exporter;
  semaphore = import_from(exporter);
  CHECK(semaphore.wait_for(100, 20s));
  CHECK(semaphore.status() == TimelineStatus::active);
  exporter->kill();
  until_death();
  const gpu::Stream stream = gpu.stream();
  const std::uint64_t next = semaphore.submitted() + 2; // it may have announced one when it died
  semaphore.signal(stream, next);
  CHECK(semaphore.wait_for(next, 20s));
}

TEST_CASE_METHOD(TwoProcesses, "a process may be killed at any moment, and nobody waits forever") {
  const auto started = Clock::now();
  SecondProcess first(programs().participant, "leave", {semaphore.export_handle()});
  REQUIRE(semaphore.wait_for(1, 20s));
  // Before, during and after the import. A driver takes a long time to start, and the simulated one does not.
  const std::chrono::duration<double> latest = (Clock::now() - started) * 3 / 2 + 20ms;
  std::mt19937 random(19);
  std::uniform_real_distribution<double> moment(0, latest.count());
  Clock::duration told{}, released{};
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
    const auto killed = Clock::now();
    victim->send_kill();
    // Not until the process has ended: a driver takes much longer to end than a descriptor.
    while (shared->status() == TimelineStatus::active && Clock::now() - killed < 20s)
      std::this_thread::yield();
    REQUIRE(shared->status() != TimelineStatus::active);
    told = std::max(told, Clock::now() - killed);
    REQUIRE(shared->try_wait_for(1'000'000'000, 20s) == CUDA_ERROR_ILLEGAL_STATE);
    released = std::max(released, Clock::now() - killed);
    synchronize(stream);
    shared->close();
  }
  WARN(programs().kills << " kills: status() tells after at most " << milliseconds(told)
                        << " ms, and threads are released after at most " << milliseconds(released) << " ms");
}
