// SPDX-License-Identifier: MIT
// Streams that wait for a semaphore before its signal: which of the other streams do they hold up? The host
// releases them after each row, so nothing hangs. Run it with several values of CUDA_DEVICE_MAX_CONNECTIONS.
#include <exit_code.hpp>
#include <gpu.hpp>

#include <cuevent/timeline_semaphore.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace cuevent;
using namespace std::chrono_literals;

struct OneStream {
  explicit OneStream(const gpu::Gpu& gpu) : stream(gpu.stream()), done(gpu.context) {}
  gpu::Stream stream;
  DriverEvent done;
};

/// `waiting` of `total` streams wait, and then each of the others runs a kernel.
void row(const gpu::Gpu& gpu, const gpu::BusyKernel& kernel, std::size_t waiting, std::size_t total) {
  TimelineSemaphore semaphore(gpu.context);
  std::vector<std::unique_ptr<OneStream>> streams;
  for (std::size_t i = 0; i < total; ++i)
    streams.push_back(std::make_unique<OneStream>(gpu));
  const auto waits = [&](std::size_t i) { return i % (total / waiting) == 0; }; // both are powers of 2
  for (std::size_t i = 0; i < total; ++i)
    if (waits(i)) semaphore.wait(streams[i]->stream, 1, WaitOrder::before_signal);
  for (std::size_t i = 0; i < total; ++i) {
    kernel.launch(10us, streams[i]->stream);
    streams[i]->done.record(streams[i]->stream);
  }
  std::this_thread::sleep_for(100ms);
  std::size_t held_up = 0, passed = 0;
  for (std::size_t i = 0; i < total; ++i) {
    const bool done = streams[i]->done.query();
    held_up += !waits(i) && !done;
    passed += waits(i) && done;
  }
  semaphore.signal(1);
  for (const auto& each : streams)
    each->done.synchronize();
  std::printf("%3zu of %3zu streams wait: %3zu of the other %3zu are held up%s\n", waiting, total, held_up,
              total - waiting, passed == 0 ? "" : ", and a wait ended early");
  std::fflush(stdout);
}

int run() {
  alarm(60); // a hang must not hold the device
  const gpu::Gpu gpu;
  const gpu::BusyKernel kernel(gpu);
  const char* const connections = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  std::printf("%s, driver %d, CUDA_DEVICE_MAX_CONNECTIONS %s\n", gpu.name().c_str(), gpu.driver.version(),
              connections == nullptr ? "not set" : connections);
  for (const std::size_t total : {4U, 16U, 64U})
    for (std::size_t waiting = 1; waiting < total; waiting *= 2)
      row(gpu, kernel, waiting, total);
  return 0;
}

} // namespace

int main() { return exit_code(run); }
