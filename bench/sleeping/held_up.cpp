// SPDX-License-Identifier: MIT
// Whether side streams that wait hold up the work of other streams.
#include "sleeping.hpp"

#include <optional>

using cuevent::DriverEvent;

namespace sleeping {

namespace {

struct OneStream {
  explicit OneStream(const gpu::Gpu& gpu) : stream(gpu.stream()), event(gpu.context) {}
  gpu::Stream stream;
  DriverEvent event;
};

void row(Testbed& testbed, std::size_t sides, bool host_functions, int rounds) {
  constexpr std::size_t workers = 32;
  constexpr Nanoseconds held = 20'000'000, step = 50'000;
  const gpu::Gpu& gpu = testbed.gpu();
  std::vector<std::unique_ptr<OneStream>> work, side;
  for (std::size_t i = 0; i <= workers; ++i)
    work.push_back(std::make_unique<OneStream>(gpu));
  for (std::size_t i = 0; i < sides; ++i)
    side.push_back(std::make_unique<OneStream>(gpu));
  Distribution delay;
  int held_up = 0, kernels = 0;
  for (int round = 0; round < rounds; ++round) {
    OneStream& first = *work[0];
    testbed.launch(0, first.stream, held);
    first.event.record(first.stream);
    for (const auto& each : side) {
      first.event.wait(each->stream);
      if (host_functions)
        gpu.launch_host_function(
            each->stream, [](void*) {}, nullptr);
    }
    for (std::size_t i = 1; i <= workers; ++i) {
      testbed.launch(i, work[i]->stream, step);
      work[i]->event.record(work[i]->stream);
    }
    for (std::size_t i = 0; i <= workers; ++i)
      work[i]->event.synchronize();
    for (std::size_t i = 1; i <= workers; ++i) {
      const Nanoseconds late = testbed.start_delay(i);
      delay.add(late);
      ++kernels;
      held_up += late > held / 2;
    }
    for (const auto& each : side) {
      each->event.record(each->stream);
      each->event.synchronize();
    }
  }
  std::printf("  %2zu waiting side streams%-20s %8.1f %8.1f %8.1f %10.1f   %d of %d\n", sides,
              sides == 0 ? "" : host_functions ? ", host functions" : "", delay.quantile(0.5),
              delay.quantile(0.9), delay.quantile(0.99), delay.quantile(1), held_up, kernels);
  std::fflush(stdout);
}

} // namespace

void held_up(Testbed& testbed, int divisor) {
  std::printf("\nA stream works for 20 ms, and side streams wait for it. Then 32 streams get a kernel each.\n"
              "  %-44s %8s %8s %8s %10s   held up\n",
              "", "starts p50", "p90 us", "p99 us", "max us");
  const int rounds = std::max(2, 8 / divisor);
  row(testbed, 0, false, rounds);
  for (const bool host_functions : {false, true})
    for (const std::size_t sides : {1UL, 2UL, 4UL, 8UL})
      row(testbed, sides, host_functions, rounds);
}

} // namespace sleeping
