// SPDX-License-Identifier: MIT
// A semaphore in this process, and how the tests start the other one.
#pragma once

#include "participant.h"
#include "programs.hpp"
#include "send_descriptor.hpp"

#include <gpu.hpp>
#include <second_process.hpp>

#include <cuevent/timeline_semaphore.hpp>

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <optional>
#include <thread>
#include <unistd.h>

namespace test {

using namespace std::chrono_literals;
using cuevent::TimelineSemaphore;
using cuevent::TimelineStatus;
using cuevent::WaitOrder;
using Clock = std::chrono::steady_clock;

inline double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::ratio<1, 1000>>(duration).count();
}

inline void start(std::optional<SecondProcess>& process, const char* role, int descriptor) {
  process.emplace(programs().participant, role, std::initializer_list<int>{descriptor});
}

struct TwoProcesses {
  const gpu::Gpu gpu;
  const gpu::Call<PFN_cuStreamSynchronize_v2000> synchronize{gpu.driver, "cuStreamSynchronize", 2000};
  const gpu::Call<PFN_cuStreamQuery_v2000> query{gpu.driver, "cuStreamQuery", 2000};
  TimelineSemaphore semaphore{gpu.context};

  TwoProcesses() { alarm(240); }           // a hang ends the program
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

} // namespace test
