// SPDX-License-Identifier: MIT
// How long does work take? Each work is timed once with two events, as most programs do, and then measured.
// The last work hides most of itself on another stream. The two events do not see it. The measurement does.
#include "../support/gpu.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/measure.hpp>
#include <cuevent/text.hpp>

#include <chrono>
#include <cstdio>

using cuevent::DriverEvent;
using cuevent::EventFlags;
using cuevent::Measurement;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t ints = 4 << 20; // 16 MiB

class Bench {
public:
  explicit Bench(const gpu::Gpu& gpu) : gpu_(gpu), stream_(gpu.stream()) {}

  CUstream stream() const { return stream_; }

  template <class Work>
  Measurement time(const char* title, Work& work) {
    start_.record(stream_);
    submit(work);
    end_.record(stream_);
    end_.synchronize();
    const double once = 1e3 * static_cast<double>(start_.elapsed_time(end_).count());
    Measurement found = cuevent::measure(gpu_.context, stream(), work);
    std::printf("  %-22s two events: %9.1f us    measured: %s\n", title, once, to_string(found).c_str());
    return found;
  }

private:
  void submit(cuevent::GraphExec& graph) { graph.launch(stream_); }
  template <class Work>
  void submit(Work& work) {
    work(stream_);
  }

  const gpu::Gpu& gpu_;
  const gpu::Stream stream_;
  DriverEvent start_{gpu_.context, EventFlags::timing}, end_{gpu_.context, EventFlags::timing};
};

bool measure_all(const gpu::Gpu& gpu) {
  const gpu::BusyKernel busy(gpu);
  const gpu::DeviceMemory device = gpu.device_memory(ints);
  const gpu::PinnedMemory host = gpu.pinned_memory(ints);
  const gpu::Stream other = gpu.stream();
  Bench bench(gpu);

  const auto kernel = [&](CUstream stream) { busy.launch(50us, stream); };
  const auto copy = [&](CUstream stream) { gpu.copy_to_device(device, host, ints * sizeof(int), stream); };
  const auto cheat = [&](CUstream stream) {
    busy.launch(10us, stream);
    for (int i = 0; i < 4; ++i)
      busy.launch(1ms, other);
  };
  cuevent::StreamCapture capture(gpu.context, bench.stream());
  copy(bench.stream());
  kernel(bench.stream());
  cuevent::GraphExec graph = capture.end().instantiate();

  std::puts("");
  bool right = true;
  right &= bench.time("a kernel of 50 us", kernel).escaped == 0;
  right &= bench.time("a copy of 16 MiB", copy).escaped == 0;
  right &= bench.time("a graph of both", graph).escaped == 0;
  const Measurement cheated = bench.time("4 ms on another stream", cheat);
  return right && cheated.escaped == cheated.samples.size();
}

} // namespace

int main() try {
  const gpu::Gpu gpu;
  if (gpu.driver.version() < 12050) {
    std::puts("This driver cannot record an event for a whole context: that needs CUDA 12.5.");
    return 77;
  }
  std::printf("Running on %s%s\n", gpu.name().c_str(),
              gpu.simulated() ? ": no device, so all times are modelled, not measured" : "");
  const bool right = measure_all(gpu);
  std::printf("\n%s\n", right ? "Only the last work escaped." : "Something is WRONG.");
  return right ? 0 : 1;
} catch (const cuevent::DriverUnavailable& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 77;
} catch (const cuevent::DriverError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
