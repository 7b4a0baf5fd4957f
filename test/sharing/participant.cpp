// SPDX-License-Identifier: MIT
// The other process of the tests: joins the semaphore that it inherits, and plays the role of its argument.
#include "participant.h"
#include "send_descriptor.hpp"

#include <gpu.hpp>
#include <shared_memory.hpp>

#include <cuevent/timeline_semaphore.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace cuevent;
using namespace std::chrono_literals;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

/// The test may go on. Another participant may have signalled already.
void ready(TimelineSemaphore& semaphore) { static_cast<void>(semaphore.try_signal(1)); }

[[noreturn]] void sleep_until_killed() {
  std::this_thread::sleep_for(30s);
  std::_Exit(5);
}

/// On the device: waits for 2n + 1, copies the data, signals 2n + 2.
void consume(const gpu::Gpu& gpu, TimelineSemaphore& semaphore) {
  const gpu::SharedMemory data(gpu, data_descriptor, data_bytes);
  const gpu::Stream stream = gpu.stream();
  const gpu::PinnedMemory copies = gpu.pinned_memory(rounds);
  for (int i = 0; i < rounds; ++i) {
    const auto value = static_cast<std::uint64_t>(2 * i);
    semaphore.wait(stream, value + 1, WaitOrder::before_signal);
    gpu.copy_to_host(copies + i, data.address(), sizeof(int), stream);
    semaphore.signal(stream, value + 2);
  }
  require(semaphore.wait_for(2 * rounds, 20s), "the last signal");
  for (int i = 0; i < rounds; ++i)
    require(copies[i] == 0x01010101 * (i + 1), "the data that was written before the signal");
}

/// Signals on the device without end, and waits for nobody.
void signal_on(const gpu::Gpu& gpu, TimelineSemaphore& semaphore) {
  const gpu::Stream stream = gpu.stream();
  for (std::uint64_t value = 2;; ++value) {
    semaphore.signal(stream, value);
    semaphore.wait_for(value, 1s);
  }
}

/// A child of a fork lives on.
void fork_and_sleep(TimelineSemaphore& semaphore) {
  const pid_t child = fork();
  if (child == 0) {
    require(semaphore.value() <= 1, "the child can still read the value");
    require(semaphore.status() == TimelineStatus::active, "the child knows of no death");
    close(STDOUT_FILENO); // the test waits for the end of the parent's output
    close(STDERR_FILENO);
    std::this_thread::sleep_for(5s);
    std::_Exit(0);
  }
  ready(semaphore);
  sleep_until_killed();
}

/// Its thread is blocked in the driver when the other process dies.
void synchronize(const gpu::Gpu& gpu, TimelineSemaphore& semaphore) {
  const gpu::Stream stream = gpu.stream();
  semaphore.abandon_on_death();
  semaphore.wait(stream, 1000, WaitOrder::before_signal);
  ready(semaphore);
  const gpu::Call<PFN_cuStreamSynchronize_v2000> synchronize(gpu.driver, "cuStreamSynchronize", 2000);
  synchronize(stream);
  require(semaphore.status() == TimelineStatus::abandoned, "the stream was released by the death");
}

/// Makes the semaphore, and sends it over the socket that it inherited.
void export_and_signal(const gpu::Gpu& gpu) {
  TimelineSemaphore semaphore(gpu.context);
  const int handle = semaphore.export_handle();
  require(send_descriptor(handle_descriptor, handle), "the test receives the handle");
  close(handle);
  signal_on(gpu, semaphore);
}

void play(const char* role) {
  const gpu::Gpu gpu;
  if (std::strcmp(role, "export") == 0) return export_and_signal(gpu);
  TimelineSemaphore semaphore = TimelineSemaphore::import(gpu.context, handle_descriptor);
  const auto is = [role](const char* name) { return std::strcmp(role, name) == 0; };
  if (is("consume")) return consume(gpu, semaphore);
  if (is("signal-on")) return signal_on(gpu, semaphore);
  if (is("fork")) return fork_and_sleep(semaphore);
  if (is("synchronize")) return synchronize(gpu, semaphore);
  ready(semaphore);
  if (is("leave")) return;
  if (is("exit-without-leaving")) std::_Exit(0);
  if (is("exec")) {
    execl("/bin/sleep", "sleep", "30", nullptr);
    throw std::runtime_error("no exec");
  }
  require(is("sleep"), "unknown role");
  sleep_until_killed();
}

} // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  play(argv[1]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
