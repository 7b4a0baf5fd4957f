// SPDX-License-Identifier: MIT
// Polls of a completion queue compared with those of a queue of std::function under a mutex. submission.cpp
// measures submissions, and sleeping/ how late a thread sees the end of work.
#include "gpu_at_hand.hpp"
#include "mutex_queue.hpp"

#include <cuevent/completion_queue.hpp>

#include <benchmark/benchmark.h>

#include <atomic>
#include <string_view>
#include <vector>

using namespace cuevent;

namespace {

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
