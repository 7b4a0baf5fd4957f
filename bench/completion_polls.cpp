// SPDX-License-Identifier: MIT
// Polls of a completion queue by several threads, and cancellation.
#include "gpu_at_hand.hpp"

#include <cuevent/completion_queue.hpp>

#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace cuevent;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int most_threads = 16;

// Threads that poll one queue. The work of all streams is complete, and each callback takes 10 us.

void pollers(benchmark::State& state) {
  constexpr std::size_t many = 16;
  constexpr int of_each = 16;
  struct OneStream {
    gpu::Stream stream = gpu_at_hand().stream();
  };
  const std::vector<OneStream> streams(many);
  CompletionQueue queue(gpu_at_hand().context);
  for ([[maybe_unused]] auto each : state) {
    for (int i = 0; i < of_each; ++i)
      for (const OneStream& one : streams)
        queue.when_complete(one.stream, [](CUresult) {
          const Clock::time_point end = Clock::now() + 10us;
          while (Clock::now() < end) {
          }
        });
    DriverEvent last(gpu_at_hand().context);
    for (const OneStream& one : streams) {
      last.record(one.stream);
      last.synchronize();
    }
    const Clock::time_point start = Clock::now();
    std::vector<std::thread> threads;
    for (auto left = state.range(0); left > 0; --left)
      threads.emplace_back([&queue] {
        while (queue.pending() != 0)
          queue.poll();
      });
    for (std::thread& thread : threads)
      thread.join();
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
  }
  state.counters["callbacks"] = static_cast<double>(many * of_each);
}
BENCHMARK(pollers)->ArgName("threads")->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Arg(16)->UseManualTime();

// Threads that poll while one long callback runs and nothing else is pending: they write nothing.

void polls_during_a_long_callback(benchmark::State& state) {
  static CompletionQueue queue;
  static std::atomic<bool> started, stop;
  static std::thread poller;
  if (state.thread_index() == 0) {
    started = stop = false;
    queue = CompletionQueue(gpu_at_hand().context);
    const gpu::Stream stream = gpu_at_hand().stream();
    queue.when_complete(stream, [](CUresult) {
      started = true;
      while (!stop)
        std::this_thread::yield();
    });
    poller = std::thread([] {
      while (!started)
        queue.poll();
    });
    while (!started)
      std::this_thread::yield();
  }
  for ([[maybe_unused]] auto each : state)
    benchmark::DoNotOptimize(queue.poll());
  if (state.thread_index() != 0) return;
  stop = true;
  poller.join();
  queue = CompletionQueue();
}
BENCHMARK(polls_during_a_long_callback)->Threads(1)->Threads(most_threads)->UseRealTime();

// Cancellation of callbacks whose work is held back, each with the poll that runs it.

void cancellation(benchmark::State& state) {
  const gpu::Gpu& gpu = gpu_at_hand();
  const gpu::Stream stream = gpu.stream();
  std::size_t ran = 0;
  CompletionQueue queue(gpu.context);
  const gpu::Gate gate(gpu, stream);
  for (int i = 0; i < 100; ++i) // work that stays pending
    queue.when_complete(stream, [&ran](CUresult) { ++ran; });
  for ([[maybe_unused]] auto each : state) {
    CompletionToken token;
    queue.when_complete(
        stream, [&ran](CUresult) { ++ran; }, &token);
    const Clock::time_point start = Clock::now();
    token.cancel();
    queue.poll(PollLimit{1});
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
  }
}
BENCHMARK(cancellation)->UseManualTime();

} // namespace
