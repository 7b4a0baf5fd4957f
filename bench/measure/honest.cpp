// SPDX-License-Identifier: MIT
// Work from 2 us to 200 ms that hides nothing: measure() has to prove each time.
#include "testbed.hpp"

#include "../part_of.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph_exec.hpp>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace measuring {

namespace {

class Honest {
public:
  explicit Honest(const Testbed& testbed) : testbed_(testbed) {}

  using Work = std::function<void(CUstream)>;

  void run(const std::string& name, const Work& work, const MeasureOptions& options = {}) {
    const Timed timed = testbed_.measure(work, options);
    const Measurement& found = timed.found;
    std::string said = found.proved() ? "yes" : "**NO**: " + found.doubt();
    if (!found.proved()) // whether it was chance
      said += testbed_.measure(work, options).found.proved() ? " (A second time: proved.)"
                                                             : " (A second time: not proved.)";
    std::printf("| %s | %.2f us | %.2f %% | %s | %zu + %zu | %.2f s |\n", name.c_str(), us(found.median),
                100 * (found.high - found.low) / found.median, said.c_str(), found.warm_up,
                found.samples.size(), timed.seconds);
    std::fflush(stdout);
    ++all_;
    proved_ += found.proved() ? 1 : 0;
    samples_.push_back(static_cast<double>(found.warm_up + found.samples.size()));
    seconds_.push_back(timed.seconds);
  }

  /// The work, captured once. It is launched for each sample.
  void run_graph(const std::string& name, const Work& work) {
    cuevent::StreamCapture capture(testbed_.gpu().context, testbed_.stream());
    work(testbed_.stream());
    cuevent::GraphExec graph = capture.end().instantiate();
    run(name, [&](CUstream on) { graph.launch(on); });
    testbed_.finish();
  }

  bool end() const {
    std::printf(
        "\n%d of %d are proved. A measurement takes %.0f samples (at most %.0f), warm-up included, and "
        "%.2f s (at most %.2f s); these are medians.\n",
        proved_, all_, median(samples_), *std::max_element(samples_.begin(), samples_.end()),
        median(seconds_), *std::max_element(seconds_.begin(), seconds_.end()));
    return proved_ == all_;
  }

private:
  const Testbed& testbed_;
  int all_ = 0, proved_ = 0;
  std::vector<double> samples_, seconds_;
};

std::string size_of(std::size_t bytes) {
  return bytes >= 1 << 20 ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 10) + " KiB";
}

/// Streams that fork from the measured one, and join it again.
class Branches {
public:
  Branches(const Testbed& testbed, std::size_t count) : gpu_(testbed.gpu()) {
    for (std::size_t i = 0; i < count; ++i) {
      streams_.emplace_back(new gpu::Stream(i == 0 ? gpu_.urgent_stream() : gpu_.stream()));
      joined_.emplace_back(gpu_.context);
    }
  }

  void run(CUstream on, const std::function<void(CUstream)>& work) {
    forked_.record(on);
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      forked_.wait(*streams_[i]);
      work(*streams_[i]);
      joined_[i].record(*streams_[i]);
      joined_[i].wait(on);
    }
  }

private:
  const gpu::Gpu& gpu_;
  std::vector<std::unique_ptr<gpu::Stream>> streams_;
  DriverEvent forked_{gpu_.context};
  std::deque<DriverEvent> joined_;
};

void measure_kernels(Honest& honest, const Spin& spin) {
  for (const Length length :
       {Length(2us), Length(5us), Length(10us), Length(20us), Length(50us), Length(100us), Length(200us),
        Length(500us), Length(1ms), Length(2ms), Length(5ms), Length(10ms), Length(20ms), Length(50ms),
        Length(100ms), Length(200ms)})
    honest.run("kernel of " + text_of(length), [&](CUstream on) { spin.launch(length, on); });
  honest.run("kernel of 50 us on all multiprocessors", [&](CUstream on) { spin.launch(50us, on, 1024); });
  for (const int count : {10, 100, 400})
    honest.run(std::to_string(count) + " kernels of 2 us", [&](CUstream on) {
      for (int i = 0; i < count; ++i)
        spin.launch(2us, on);
    });
}

void measure_memory(Honest& honest, const Testbed& testbed) {
  const gpu::Gpu& gpu = testbed.gpu();
  constexpr std::size_t most = 64 << 20;
  const gpu::DeviceMemory device = gpu.device_memory(most / sizeof(int)),
                          second = gpu.device_memory(most / sizeof(int));
  const gpu::PinnedMemory host = gpu.pinned_memory(most / sizeof(int));
  for (const std::size_t bytes :
       {std::size_t{4} << 10, std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{16} << 20, most}) {
    honest.run("copy of " + size_of(bytes) + " to the device",
               [&](CUstream on) { gpu.copy_to_device(device, host, bytes, on); });
    honest.run("copy of " + size_of(bytes) + " to the host",
               [&](CUstream on) { gpu.copy_to_host(host, device, bytes, on); });
  }
  const gpu::Call<PFN_cuMemcpyDtoDAsync_v3020> copy(gpu.driver, "cuMemcpyDtoDAsync", 3020);
  for (const std::size_t bytes : {std::size_t{1} << 20, most}) {
    honest.run("fill of " + size_of(bytes), [&](CUstream on) { gpu.fill(device, 0, bytes, on); });
    honest.run("copy of " + size_of(bytes) + " on the device",
               [&](CUstream on) { copy(second, device, bytes, on); });
  }
  MeasureOptions cold;
  cold.overwrite = second;
  cold.overwrite_bytes = most;
  honest.run(
      "fill of 1 MiB, the L2 cache cold", [&](CUstream on) { gpu.fill(device, 0, 1 << 20, on); }, cold);

  const gpu::Call<PFN_cuMemAllocAsync_v11020> allocate(gpu.driver, "cuMemAllocAsync", 11020);
  const gpu::Call<PFN_cuMemFreeAsync_v11020> give_back(gpu.driver, "cuMemFreeAsync", 11020);
  // By default, a pool gives its memory back to the device at each synchronization, which is work, too.
  const gpu::Call<PFN_cuDeviceGetDefaultMemPool_v11020> default_pool(gpu.driver, "cuDeviceGetDefaultMemPool",
                                                                     11020);
  const gpu::Call<PFN_cuMemPoolSetAttribute_v11020> set(gpu.driver, "cuMemPoolSetAttribute", 11020);
  CUmemoryPool pool = nullptr;
  default_pool(&pool, gpu.context.device());
  cuuint64_t kept = ~cuuint64_t{};
  set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept);
  honest.run("memory from a pool that keeps it, filled, and given back", [&](CUstream on) {
    CUdeviceptr memory = 0;
    allocate(&memory, 1 << 20, on);
    gpu.fill(memory, 0, 1 << 20, on);
    give_back(memory, on);
  });

  const Spin& spin = testbed.spin();
  const auto there_and_back = [&](CUstream on) {
    gpu.copy_to_device(device, host, 1 << 20, on);
    spin.launch(50us, on);
    gpu.copy_to_host(host, device, 1 << 20, on);
  };
  honest.run("copy, kernel of 50 us, copy back", there_and_back);
  honest.run_graph("graph: copy, kernel, copy back", there_and_back);
  testbed.finish();
}

void measure_graphs(Honest& honest, const Testbed& testbed) {
  const Spin& spin = testbed.spin();
  for (const int count : {1, 10, 100})
    honest.run_graph("graph of " + std::to_string(count) + (count == 1 ? " kernel" : " kernels") +
                         " of 10 us",
                     [&](CUstream on) {
                       for (int i = 0; i < count; ++i)
                         spin.launch(10us, on);
                     });
  Branches branches(testbed, 4);
  honest.run_graph("graph with four branches", [&](CUstream on) {
    branches.run(on, [&](CUstream branch) { spin.launch(50us, branch); });
  });
}

void measure_branches(Honest& honest, const Testbed& testbed) {
  const Spin& spin = testbed.spin();
  for (const std::size_t count : {std::size_t{2}, std::size_t{4}, std::size_t{8}}) {
    Branches branches(testbed, count);
    honest.run(std::to_string(count) + " streams, joined",
               [&](CUstream on) { branches.run(on, [&](CUstream branch) { spin.launch(50us, branch); }); });
    testbed.finish();
  }
  Branches branches(testbed, 3);
  honest.run("3 streams, forked and joined ten times", [&](CUstream on) {
    for (int i = 0; i < 10; ++i)
      branches.run(on, [&](CUstream branch) { spin.launch(10us, branch); });
  });
  honest.run("a stream joined that works longer than the measured one", [&](CUstream on) {
    branches.run(on, [&](CUstream branch) { spin.launch(1ms, branch); });
    spin.launch(10us, on);
  });
  testbed.finish();
}

} // namespace

bool measure_honest_work(const Testbed& testbed) {
  std::puts("\n### Honest work\n\nThe interval is the 95 % confidence interval of the median, as part of the "
            "median. Samples: warm-up + counted.\n\n"
            "| the work | median | interval | proved | samples | took |\n"
            "| --- | ---: | ---: | --- | ---: | ---: |");
  Honest honest(testbed);
  measure_kernels(honest, testbed.spin());
  measure_memory(honest, testbed);
  measure_graphs(honest, testbed);
  measure_branches(honest, testbed);
  return honest.end();
}

} // namespace measuring
