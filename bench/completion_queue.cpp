// SPDX-License-Identifier: MIT
// A completion queue compared with what a program would use without one: a spin on cuEventQuery,
// cuLaunchHostFunc, and a queue of std::function under a mutex. submission.cpp measures submissions.
#include "gpu_at_hand.hpp"
#include "mutex_queue.hpp"

#include <cuevent/completion_queue.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string_view>
#include <vector>

using namespace cuevent;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

// Measures from before the launch of a 30 us kernel until the host knows that it has ended. Only the last
// step differs between the variants, so the difference of their medians is the difference in delay.

template <class Learn>
void end_of_kernel(benchmark::State& state) {
  const gpu::Gpu& gpu = gpu_at_hand();
  const gpu::Stream stream = gpu.stream();
  const gpu::BusyKernel kernel(gpu);
  Learn learn;
  std::vector<double> samples; // us
  for ([[maybe_unused]] auto each : state) {
    const Clock::time_point start = Clock::now();
    kernel.launch(30us, stream);
    const std::chrono::duration<double> time = learn.the_end_of(stream) - start;
    state.SetIterationTime(time.count());
    samples.push_back(1e6 * time.count());
  }
  std::sort(samples.begin(), samples.end());
  state.counters["p50_us"] = samples[samples.size() / 2];
  state.counters["p99_us"] = samples[samples.size() * 99 / 100];
}

class BySpin {
public:
  Clock::time_point the_end_of(CUstream stream) {
    event_.record(stream);
    while (!event_.query()) {
    }
    return Clock::now();
  }

private:
  DriverEvent event_{gpu_at_hand().context};
};

template <class Queue>
class ByQueue {
public:
  Clock::time_point the_end_of(CUstream stream) {
    Clock::time_point called;
    queue_.when_complete(stream, [&called](CUresult) { called = Clock::now(); });
    while (queue_.poll() == 0) {
    }
    return called;
  }

private:
  Queue queue_{gpu_at_hand().context};
};

class ByHostFunction {
public:
  Clock::time_point the_end_of(CUstream stream) {
    yes_ = false;
    gpu_at_hand().launch_host_function(stream, call, this);
    while (!yes_) {
    }
    return when_;
  }

private:
  static void CUDA_CB call(void* data) {
    auto& mine = *static_cast<ByHostFunction*>(data);
    mine.when_ = Clock::now();
    mine.yes_ = true;
  }
  Clock::time_point when_;
  std::atomic<bool> yes_{false};
};

BENCHMARK(end_of_kernel<BySpin>)->Name("end_of_kernel/spin_on_cuEventQuery")->UseManualTime();
BENCHMARK(end_of_kernel<ByQueue<CompletionQueue>>)->Name("end_of_kernel/completion_queue")->UseManualTime();
BENCHMARK(end_of_kernel<ByQueue<MutexQueue>>)->Name("end_of_kernel/mutex_queue")->UseManualTime();
BENCHMARK(end_of_kernel<ByHostFunction>)->Name("end_of_kernel/cuLaunchHostFunc")->UseManualTime();

// A poll that finds nothing, with 100,000 callbacks pending on 64 streams. A stream would block its thread
// before it holds this many, so the callbacks only appear pending: each query reaches the driver and is
// counted, but its result is replaced.

PFN_cuEventQuery_v2000 real_query = nullptr;
std::atomic<bool> overruled{false};
std::atomic<std::size_t> queries{0};

CUresult CUDAAPI counted_query(CUevent event) {
  queries.fetch_add(1, std::memory_order_relaxed);
  const CUresult result = real_query(event);
  return overruled.load(std::memory_order_relaxed) ? CUDA_ERROR_NOT_READY : result;
}

CUresult CUDAAPI get_counted(const char* name, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  const GetProcAddress below = gpu_at_hand().driver.table().get_proc_address;
  const CUresult result = below(name, function, version, flags, status);
  if (result == CUDA_SUCCESS && std::string_view(name) == "cuEventQuery") {
    real_query = reinterpret_cast<PFN_cuEventQuery_v2000>(*function);
    *function = reinterpret_cast<void*>(counted_query);
  }
  return result;
}

template <class Queue>
void idle_sweep(benchmark::State& state, std::size_t (*sweep)(Queue&)) {
  constexpr std::size_t callbacks = 100'000, many = 64;
  const Context context = Context::borrow(gpu_at_hand().context.native_handle(), Driver(get_counted));
  struct OneStream {
    gpu::Stream stream = gpu_at_hand().stream();
  };
  const std::vector<OneStream> streams(many);
  Queue queue(context);
  overruled = true;
  std::size_t ran = 0;
  for (std::size_t i = 0; i < callbacks; ++i)
    queue.when_complete(streams[i % many].stream, [&ran](CUresult) { ++ran; });
  sweep(queue); // the first poll also sorts the submissions
  const std::size_t before = queries;
  for ([[maybe_unused]] auto each : state)
    sweep(queue);
  state.counters["queries"] = static_cast<double>(queries - before) / static_cast<double>(state.iterations());
  overruled = false;
  while (ran != callbacks)
    queue.poll();
}

std::size_t poll_once(CompletionQueue& queue) { return queue.poll(); }
std::size_t query_each(MutexQueue& queue) { return queue.query_each(); }

BENCHMARK_CAPTURE(idle_sweep, completion_queue, poll_once);
BENCHMARK_CAPTURE(idle_sweep, query_each, query_each)->Iterations(3);

void poll_of_an_empty_queue(benchmark::State& state) {
  CompletionQueue queue(gpu_at_hand().context);
  for ([[maybe_unused]] auto each : state)
    benchmark::DoNotOptimize(queue.poll());
}
BENCHMARK(poll_of_an_empty_queue);

} // namespace
