// SPDX-License-Identifier: MIT
// A timeline fence and a semaphore compared with what a program would use without them: an untimed
// event, recorded and queried.
#include "driver_at_hand.hpp"

#include <cuevent/driver_event.hpp>
#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <vector>

using namespace cuevent;

namespace {

/// A stream takes about 1,020 submissions that have not run, so a batch of this size never blocks
/// in the driver.
constexpr int batch = 256;

/// The objects that the benchmarks use.
class Setup {
public:
  static Setup& instance() {
    static Setup& setup = *new Setup; // never destroyed: the driver may go first
    return setup;
  }

  Driver driver = driver_at_hand();
  Context context = Context::primary(0, driver);
  CUstream stream = make_stream();
  TimelineFence fence{context, stream};
  TimelineSemaphore semaphore{context};
  std::uint64_t value = 0; // the newest signal of the semaphore
  DriverEvent start{context, EventFlags::timing}, end{context, EventFlags::timing};
  DriverEvent event{context};
  std::uint64_t ticket = fence.signal();

  void wait() { check(synchronize_(stream)); }
  void check(CUresult result) const {
    if (result != CUDA_SUCCESS) driver.fail(result, "benchmark");
  }

private:
  Setup() {
    event.record(stream);
    wait();
  }
  CUstream make_stream() const {
    const ContextGuard guard(context);
    CUstream made = nullptr;
    check(
        driver.entry_point<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000)(&made, CU_STREAM_NON_BLOCKING));
    return made;
  }
  PFN_cuStreamSynchronize_v2000 synchronize_ =
      driver.entry_point<PFN_cuStreamSynchronize_v2000>("cuStreamSynchronize", 2000);
};

void count_each(benchmark::State& state, double seconds, double calls) {
  state.counters["ns_each"] = benchmark::Counter(seconds * 1e9 / calls, benchmark::Counter::kAvgThreads);
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The host's time to submit a batch, without the time that the stream takes to run it.
template <class Submit>
void on_host(benchmark::State& state, Submit submit) {
  Setup& setup = Setup::instance();
  double total = 0;
  for ([[maybe_unused]] auto each : state) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < batch; ++i)
      submit(setup);
    const double seconds = seconds_since(begin);
    setup.wait();
    state.SetIterationTime(seconds);
    total += seconds;
  }
  count_each(state, total, batch * static_cast<double>(state.iterations()));
}

/// The device's time for a batch. The batch starts when all of it is submitted.
template <class Submit>
void on_device(benchmark::State& state, Submit submit) {
  Setup& setup = Setup::instance();
  const DriverTable& table = setup.driver.table();
  const ContextGuard guard(setup.context);
  void* memory = nullptr;
  setup.check(table.cuMemHostAlloc_v2020(&memory, sizeof(std::uint32_t), CU_MEMHOSTALLOC_PORTABLE));
  auto* const gate = static_cast<std::uint32_t*>(memory);
  double total = 0;
  for ([[maybe_unused]] auto each : state) {
    __atomic_store_n(gate, 0, __ATOMIC_RELEASE);
    setup.check(table.cuStreamWaitValue32_v11070(setup.stream, reinterpret_cast<CUdeviceptr>(gate), 1,
                                                 CU_STREAM_WAIT_VALUE_GEQ));
    setup.start.record(setup.stream);
    for (int i = 0; i < batch; ++i)
      submit(setup);
    setup.end.record(setup.stream);
    __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
    setup.wait();
    const double seconds = static_cast<double>(setup.start.elapsed_time(setup.end).count()) / 1000;
    state.SetIterationTime(seconds);
    total += seconds;
  }
  count_each(state, total, batch * static_cast<double>(state.iterations()));
  setup.driver.entry_point<PFN_cuMemFreeHost_v2000>("cuMemFreeHost", 2000)(memory);
}

void signal_fence(Setup& setup) { setup.ticket = setup.fence.signal(); }
void signal_semaphore(Setup& setup) { setup.semaphore.signal(setup.stream, ++setup.value); }
void record_event(Setup& setup) { setup.event.record(setup.stream); }
void write_value(Setup& setup) { // the driver call of a signal
  static std::uint64_t* const word = [&setup] {
    const ContextGuard guard(setup.context);
    void* memory = nullptr;
    setup.check(setup.driver.table().cuMemHostAlloc_v2020(&memory, 64, CU_MEMHOSTALLOC_PORTABLE));
    return static_cast<std::uint64_t*>(memory);
  }();
  setup.check(setup.driver.table().cuStreamWriteValue64_v11070(
      setup.stream, reinterpret_cast<CUdeviceptr>(word), 1, CU_STREAM_WRITE_VALUE_DEFAULT));
}

BENCHMARK_CAPTURE(on_host, fence_signal, signal_fence)->UseManualTime();
BENCHMARK_CAPTURE(on_host, semaphore_signal, signal_semaphore)->UseManualTime();
BENCHMARK_CAPTURE(on_host, raw_cuStreamWriteValue64, write_value)->UseManualTime();
BENCHMARK_CAPTURE(on_host, event_record, record_event)->UseManualTime();
BENCHMARK_CAPTURE(on_device, fence_signal, signal_fence)->UseManualTime();
BENCHMARK_CAPTURE(on_device, semaphore_signal, signal_semaphore)->UseManualTime();
BENCHMARK_CAPTURE(on_device, event_record, record_event)->UseManualTime();

void signal_by_host(benchmark::State& state) {
  Setup& setup = Setup::instance();
  for ([[maybe_unused]] auto each : state)
    setup.semaphore.signal(++setup.value);
}
BENCHMARK(signal_by_host);

/// Makes many, which nobody signals, and destroys them.
template <class Make>
void make_many(benchmark::State& state, Make make) {
  constexpr std::size_t many = 500;
  double making = 0, destroying = 0;
  for ([[maybe_unused]] auto each : state) {
    std::vector<decltype(make(Setup::instance()))> made;
    made.reserve(many);
    Clock::time_point begin = Clock::now();
    while (made.size() < many)
      made.push_back(make(Setup::instance()));
    making += seconds_since(begin);
    begin = Clock::now();
    made.clear();
    destroying += seconds_since(begin);
  }
  const double all = many * static_cast<double>(state.iterations());
  state.counters["us_made"] = 1e6 * making / all;
  state.counters["us_destroyed"] = 1e6 * destroying / all;
}
BENCHMARK_CAPTURE(make_many, fence, [](Setup& setup) {
  return TimelineFence(setup.context, setup.stream);
})->Iterations(1);
BENCHMARK_CAPTURE(make_many, semaphore, [](Setup& setup) {
  return TimelineSemaphore(setup.context);
})->Iterations(1);

/// Each thread asks repeatedly whether the work is done. `peers` has the same for a fence and for an event.
void semaphore_reached(benchmark::State& state) {
  const Setup& setup = Setup::instance();
  const Clock::time_point begin = Clock::now();
  for ([[maybe_unused]] auto each : state) {
    bool done = setup.semaphore.reached(setup.value);
    benchmark::DoNotOptimize(done);
    benchmark::ClobberMemory(); // so that the next question reads memory again
  }
  count_each(state, seconds_since(begin), static_cast<double>(state.iterations()));
}
BENCHMARK(semaphore_reached)->Threads(1)->Threads(4)->Threads(16)->UseRealTime();

} // namespace
