// SPDX-License-Identifier: MIT
// Programs that hang as no contract test can, and what a flight recorder says about each of them.
#include "kernel.hpp"
#include "scenario.hpp"

#include <cuevent/flight_recorder.hpp>
#include <gpu.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

namespace process {

namespace {

using namespace cuevent;
using namespace std::chrono_literals;
using Kind = FlightFinding::Kind;
using Clock = std::chrono::steady_clock;

/// Makes reports until the first finding is of that kind and its text has all parts.
FlightReport expect_cause(const FlightRecorder& recorder, Kind kind,
                          std::initializer_list<std::string> parts) {
  step("a report of a hang");
  const Clock::time_point deadline = Clock::now() + 10s;
  while (true) {
    FlightReport report = recorder.report();
    bool found = !report.findings.empty() && report.findings[0].kind == kind;
    for (const std::string& part : parts)
      found = found && report.findings[0].text.find(part) != std::string::npos;
    if (found) return report;
    if (Clock::now() > deadline) {
      expect(false, "the report names the cause. It says:\n" + to_text(report));
      return report;
    }
    std::this_thread::sleep_for(1ms);
  }
}

void expect_held_up(const FlightReport& report, std::size_t count) {
  expect(!report.findings.empty() && report.findings[0].held_up == count,
         "the cause holds up the other streams. The report says:\n" + to_text(report));
}

/// Words that streams wait for, and that the host sets. Never freed: the driver would first wait for the
/// streams.
class Words {
public:
  explicit Words(const gpu::Gpu& gpu) {
    void* memory = nullptr;
    gpu.mem_host_alloc(&memory, 4 * sizeof *words_, CU_MEMHOSTALLOC_PORTABLE);
    words_ = static_cast<std::atomic<std::uint32_t>*>(memory);
    for (int i = 0; i < 4; ++i)
      words_[i] = 0;
  }
  ~Words() { // everything that waits goes on
    for (int i = 0; i < 4; ++i)
      words_[i] = 1;
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  std::atomic<std::uint32_t>& operator[](int i) const { return words_[i]; }
  CUdeviceptr address(int i) const { return reinterpret_cast<CUdeviceptr>(words_ + i); }

private:
  std::atomic<std::uint32_t>* words_ = nullptr;
};

void wait_for_word(const gpu::Gpu& gpu, CUstream stream, CUdeviceptr word) {
  const gpu::Call<PFN_cuStreamWaitValue32_v11070> wait(gpu.driver, "cuStreamWaitValue32", 11070);
  wait(stream, word, 1, CU_STREAM_WAIT_VALUE_GEQ);
}

/// A kernel that does not end.
class EndlessKernel {
public:
  explicit EndlessKernel(const gpu::Gpu& gpu) : gpu_(gpu), told_(gpu) {
    CUmodule module = nullptr; // stays loaded: an unload waits for the kernel, and a simulated one never ends
    gpu.module_load_data(&module, kernels);
    gpu.module_get_function(&kernel_, module, "_Z4spinPjy");
  }
  void launch(CUstream stream) const {
    CUdeviceptr word = told_.address(0);
    std::uint64_t bound = 20'000'000'000;
    void* arguments[] = {&word, &bound};
    gpu_.launch_kernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
  }

private:
  const gpu::Gpu& gpu_;
  CUfunction kernel_ = nullptr;
  Words told_; // tells the kernel at the end
};

/// The kernel of a collective waits for its peer, which submits nothing.
void missing_peer() {
  const gpu::Gpu gpu;
  int devices = 0;
  gpu::Call<PFN_cuDeviceGetCount_v2000>(gpu.driver, "cuDeviceGetCount", 2000)(&devices);
  const Context peer = Context::primary(devices > 1 ? 1 : 0, gpu.driver);
  const gpu::Stream rank_0 = gpu.stream(), compute = gpu.stream();
  DriverEvent reduced(gpu.context);
  FlightRecorder recorder(gpu.context);
  const EndlessKernel kernel(gpu);
  const ContextGuard current(peer);
  const gpu::Stream rank_1 = gpu.stream();
  recorder.add_stream(rank_0, "rank 0");
  recorder.add_stream({peer, rank_1}, "rank 1");
  recorder.add_stream(compute, "compute");
  for (const gpu::Stream* each : {&rank_0, &rank_1})
    recorder.mark(*each, "all_reduce 16");
  kernel.launch(rank_0);
  recorder.mark(rank_0, "all_reduce 17");
  recorder.record(reduced, rank_0);
  recorder.wait(reduced, compute);
  recorder.mark(compute, "step 17");
  const FlightReport report =
      expect_cause(recorder, Kind::unfinished, {"stream 'rank 0' has not reached 'all_reduce 17'"});
  expect_held_up(report, 1);
  expect(to_text(report).find("stream 'rank 1' is idle after 'all_reduce 16'") != std::string::npos,
         "the report says what the peer has done");
}

void full_queue() {
  const gpu::Gpu gpu;
  const gpu::Stream stream = gpu.stream();
  const gpu::Module module = gpu.module(kernels);
  CUfunction nothing = nullptr;
  gpu.module_get_function(&nothing, module, "step");
  DriverEvent loaded(gpu.context); // the kernel
  gpu.launch_kernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  loaded.record(stream);
  loaded.synchronize();
  FlightRecorder recorder(gpu.context, {.marks_per_stream = 4096});
  recorder.add_stream(stream, "full");
  std::thread filler;
  struct Join {
    std::thread& thread;
    ~Join() { thread.join(); }
  } const join{filler};
  const Words words(gpu); // opens before the thread is joined
  wait_for_word(gpu, stream, words.address(0));
  filler = std::thread([&] {
    const ContextGuard current(gpu.context);
    for (int i = 0; i < 1'500; ++i) {
      const std::string name = "launch " + std::to_string(i);
      const FlightScope scope(recorder, stream, name);
      gpu.launch_kernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
    }
  });
  expect_cause(recorder, Kind::full_queue,
               {"a thread has been inside 'launch 10", "the launch queue of the stream is full",
                "has not reached 'launch 0'"});
}

void illegal_address() {
  const gpu::Gpu gpu;
  const gpu::Stream good = gpu.stream(), bad = gpu.stream();
  FlightRecorder recorder(gpu.context);
  recorder.add_stream(good, "good");
  recorder.add_stream(bad, "bad");
  const Kernel kernel(gpu, "write_illegal_address");
  DriverEvent done(gpu.context);
  recorder.mark(good, "good work");
  recorder.mark(bad, "before");
  done.record(good);
  done.synchronize();
  done.record(bad);
  done.synchronize();
  recorder.report(); // as a watchdog does from time to time
  kernel.launch(bad);
  recorder.mark(bad, "bad work");
  const FlightReport report = expect_cause(recorder, Kind::fault, {"'bad work' on stream 'bad'"});
  expect(report.fault == CUDA_ERROR_ILLEGAL_ADDRESS, "the fault of an illegal address");
  expect(report.findings.size() == 1 && report.findings[0].streams.size() == 1, "only that stream is named");
  recorder.report();
}

} // namespace

std::vector<Scenario> hang_scenarios() {
  return {{"hang-missing-peer", missing_peer},
          {"hang-full-queue", full_queue},
          {"hang-illegal-address", illegal_address}};
}

} // namespace process
