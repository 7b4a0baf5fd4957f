// SPDX-License-Identifier: MIT
// Whether what a sleeping wait adds holds up the work of other streams.
#include "sleeping.hpp"

using cuevent::DriverEvent;
using cuevent::EventFlags;

namespace sleeping {

namespace {

struct OneStream {
  OneStream(const gpu::Gpu& gpu, EventFlags flags) : stream(gpu.stream()), event(gpu.context, flags) {}
  gpu::Stream stream;
  DriverEvent event;
};

/// What is added for a stream that works.
enum class Added { nothing, side_stream, side_stream_with_host_function, blocking_sync, host_function };

void row(Testbed& testbed, const char* name, Added added, std::size_t marked, int rounds) {
  constexpr std::size_t busy = 32, others = 32;
  constexpr Nanoseconds held = 20'000'000, step = 50'000;
  const gpu::Gpu& gpu = testbed.gpu();
  const EventFlags flags = added == Added::blocking_sync ? EventFlags::blocking_sync : EventFlags::none;
  std::vector<std::unique_ptr<OneStream>> all;
  for (std::size_t i = 0; i < busy + others; ++i)
    all.push_back(std::make_unique<OneStream>(gpu, flags));
  OneStream side(gpu, EventFlags::none);
  const auto nothing = [](void*) {};
  const auto submit = [&](std::size_t i, Nanoseconds length) {
    testbed.launch(i, all[i]->stream, length);
    if (added != Added::blocking_sync) all[i]->event.record(all[i]->stream);
  };
  Distribution delay;
  int held_up = 0, kernels = 0;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < busy; ++i) {
      submit(i, held);
      OneStream& it = *all[i];
      if (i >= marked) continue;
      if (added == Added::blocking_sync) it.event.record(it.stream);
      if (added == Added::host_function) gpu.launch_host_function(it.stream, nothing, nullptr);
      if (added == Added::side_stream || added == Added::side_stream_with_host_function)
        it.event.wait(side.stream);
      if (added == Added::side_stream_with_host_function)
        gpu.launch_host_function(side.stream, nothing, nullptr);
    }
    for (std::size_t i = busy; i < busy + others; ++i)
      submit(i, step);
    for (const auto& it : all) {
      it->event.record(it->stream);
      it->event.synchronize();
    }
    for (std::size_t i = busy; i < busy + others; ++i) {
      const Nanoseconds late = testbed.start_delay(i);
      delay.add(late);
      ++kernels;
      held_up += late > held / 4;
    }
    side.event.record(side.stream);
    side.event.synchronize();
  }
  std::printf("  %-40s %4zu %10.1f %8.1f %8.1f %10.1f   %d of %d\n", name, marked, delay.quantile(0.5),
              delay.quantile(0.9), delay.quantile(0.99), delay.quantile(1), held_up, kernels);
  std::fflush(stdout);
}

} // namespace

void held_up(Testbed& testbed, int divisor) {
  std::printf(
      "\n32 streams work for 20 ms, and something is added for some of them. Then 32 other streams get a "
      "kernel each.\n  %-40s %4s %10s %8s %8s %10s   held up\n",
      "added", "for", "starts p50", "p90 us", "p99 us", "max us");
  const int rounds = std::max(2, 6 / divisor);
  row(testbed, "nothing", Added::nothing, 0, rounds);
  constexpr struct {
    const char* name;
    Added added;
  } rows[] = {{"a wait of one side stream", Added::side_stream},
              {"the same, and a host function there", Added::side_stream_with_host_function},
              {"a record with blocking_sync", Added::blocking_sync},
              {"a host function on the stream", Added::host_function}};
  for (const auto& [name, added] : rows)
    for (const std::size_t marked : {1UL, 2UL, 4UL, 8UL, 16UL, 32UL})
      row(testbed, name, added, marked, rounds);
}

} // namespace sleeping
