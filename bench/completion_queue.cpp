// SPDX-License-Identifier: MIT
// A completion queue compared with what a program would use without one: a spin on cuEventQuery,
// cuLaunchHostFunc, and a queue of std::function under a mutex.
#include "driver_at_hand.hpp"

#include <cuevent/completion_queue.hpp>
#include <gpu.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

using namespace cuevent;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

/// Never destroyed, because the driver may go before static objects. Current on the main thread.
const gpu::Gpu& device() {
  static const gpu::Gpu& gpu = *new gpu::Gpu{driver_at_hand()};
  return gpu;
}

constexpr int most_threads = 16;
/// A stream takes about 1,020 submissions that have not run, so a batch of this size never blocks
/// in the driver.
constexpr int batch = 256;

/// What a program would write: the callbacks in submission order, each with a new event.
class MutexQueue {
public:
  explicit MutexQueue(const Context& context) : context_(context) {}

  void when_complete(CUstream stream, std::function<void(CUresult)> callback) {
    DriverEvent event(context_);
    event.record(stream);
    const std::lock_guard lock(mutex_);
    pending_.push_back({std::move(event), std::move(callback)});
  }

  std::size_t poll() {
    std::size_t count = 0;
    for (;; ++count) {
      std::unique_lock lock(mutex_);
      if (pending_.empty()) return count;
      const CUresult result = pending_.front().event.try_query_relaxed();
      if (result == CUDA_ERROR_NOT_READY) return count;
      const Pending done = std::move(pending_.front());
      pending_.pop_front();
      lock.unlock();
      done.callback(result);
    }
  }

  /// A queue that does not distinguish streams queries every event.
  std::size_t query_each() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(pending_.begin(), pending_.end(), [](const Pending& each) {
      return each.event.try_query_relaxed() != CUDA_ERROR_NOT_READY;
    }));
  }

private:
  struct Pending {
    DriverEvent event;
    std::function<void(CUresult)> callback;
  };
  Context context_;
  std::mutex mutex_;
  std::deque<Pending> pending_;
};

// Measures from before the launch of a 30 us kernel until the host knows that it has ended. Only the last
// step differs between the variants, so the difference of their medians is the difference in delay.

template <class Learn>
void end_of_kernel(benchmark::State& state) {
  const gpu::Gpu& gpu = device();
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
  DriverEvent event_{device().context};
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
  Queue queue_{device().context};
};

class ByHostFunction {
public:
  Clock::time_point the_end_of(CUstream stream) {
    yes_ = false;
    device().launch_host_function(stream, call, this);
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

// The cost of a submission on the calling thread, for a stream without other work. The callbacks
// run outside the measured time. Each thread has its own stream, and all threads share one queue.

class RecordOnly {
public:
  CUstream target(CUstream stream) { return stream; }
  void submit(CUstream stream, DriverEvent& event) { event.record(stream); }
  void drain() {}
};

template <class Queue>
class ToQueue {
public:
  CUstream target(CUstream stream) { return stream; }
  void submit(CUstream stream, DriverEvent&) {
    queue_.when_complete(stream, [](CUresult) {});
  }
  void drain() { queue_.poll(); }

private:
  Queue queue_{device().context};
};

/// As ToQueue, with a lane for each stream.
class ToLane {
public:
  CompletionQueue::Lane target(CUstream stream) { return queue_.lane(stream); }
  void submit(const CompletionQueue::Lane& lane, DriverEvent&) {
    lane.when_complete([](CUresult) {});
  }
  void drain() { queue_.poll(); }

private:
  CompletionQueue queue_{device().context};
};

/// As ToQueue, with a token for each callback.
class WithToken {
public:
  CUstream target(CUstream stream) { return stream; }
  void submit(CUstream stream, DriverEvent&) {
    CompletionToken token;
    queue_.when_complete(
        stream, [](CUresult) {}, &token);
  }
  void drain() { queue_.poll(); }

private:
  CompletionQueue queue_{device().context};
};

class HostFunction {
public:
  CUstream target(CUstream stream) { return stream; }
  void submit(CUstream stream, DriverEvent&) {
    device().launch_host_function(
        stream, [](void*) {}, nullptr);
  }
  void drain() {}
};

template <class To>
std::optional<To> shared;

template <class To>
void submission(benchmark::State& state) {
  const gpu::Gpu& gpu = device();
  const ContextGuard guard(gpu.context);
  const gpu::Stream stream = gpu.stream();
  DriverEvent event(gpu.context);
  auto target = shared<To>->target(stream);
  double total = 0; // ns
  for ([[maybe_unused]] auto each : state) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < batch; ++i)
      shared<To>->submit(target, event);
    const std::chrono::duration<double, std::nano> time = Clock::now() - start;
    state.SetIterationTime(time.count() / 1e9);
    total += time.count();
    event.record(stream);
    event.synchronize();
    shared<To>->drain();
  }
  state.counters["ns_each"] = benchmark::Counter(total / (batch * static_cast<double>(state.iterations())),
                                                 benchmark::Counter::kAvgThreads);
}

template <class To>
void measure_submission(const char* name) {
  benchmark::RegisterBenchmark(name, submission<To>)
      ->UseManualTime()
      ->Setup([](const benchmark::State&) { shared<To>.emplace(); })
      ->Teardown([](const benchmark::State&) { shared<To>.reset(); })
      ->Threads(1)
      ->Threads(most_threads);
}

const bool registered = [] {
  measure_submission<RecordOnly>("submission/cuEventRecord_only");
  measure_submission<ToQueue<CompletionQueue>>("submission/completion_queue");
  measure_submission<ToLane>("submission/lane");
  measure_submission<WithToken>("submission/completion_queue_with_token");
  measure_submission<ToQueue<MutexQueue>>("submission/mutex_queue");
  measure_submission<HostFunction>("submission/cuLaunchHostFunc");
  return true;
}();

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
  const GetProcAddress below = device().driver.table().get_proc_address;
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
  const Context context = Context::borrow(device().context.native_handle(), Driver(get_counted));
  struct OneStream {
    gpu::Stream stream = device().stream();
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
  CompletionQueue queue(device().context);
  for ([[maybe_unused]] auto each : state)
    benchmark::DoNotOptimize(queue.poll());
}
BENCHMARK(poll_of_an_empty_queue);

} // namespace
