// SPDX-License-Identifier: MIT
// Whether memory and handles stay flat: soak [CYCLES], ten million if not given. Prints a line for each
// tenth, and exits with 1 if anything grew after the first tenth. Runs on the device, or on the simulated
// driver if there is none.
//
// A cycle, on one thread:
// - A DriverEvent is created, recorded, waited for by a second stream, and destroyed.
// - An event of an EventPool is acquired, recorded and returned.
// - A TimelineFence and a TimelineSemaphore are signalled.
// - Every 16th cycle submits a callback to a CompletionQueue.
// Every 256 cycles, the host waits for the fence and the semaphore and polls the queue. The semaphore is
// exported and imported once. Then all of them are destroyed, or closed, and made again.
#include "driver_at_hand.hpp"

#include <cuevent/completion_queue.hpp>
#include <cuevent/event_pool.hpp>
#include <cuevent/retired_events.hpp>
#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_semaphore.hpp>
#include <gpu.hpp>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <unistd.h>

using namespace cuevent;

namespace {

constexpr long default_cycles = 10'000'000, most_cycles = 1'000'000'000'000;
constexpr long batch =
    256; // a stream takes about 1,020 signals that have not run: these never wait in the driver
constexpr long cycles_per_callback = 16;
constexpr long callbacks_per_batch = batch / cycles_per_callback;
/// Not counted: the simulated driver keeps the history of the last 100,000 handles for its reports.
constexpr long warm_up_cycles = 100'000;
/// What the allocator and the driver may keep in addition.
constexpr long flat_kib = 1024;

/// The driver, with its events counted: a device has no function that tells how many there are.
class Counted {
public:
  static Driver driver(const Driver& bare) {
    find_ = bare.table().get_proc_address;
    return Driver(find);
  }
  static long live_events() { return live_; }

private:
  static CUresult CUDAAPI find(const char* name, void** function, int version, cuuint64_t flags,
                               CUdriverProcAddressQueryResult* status) {
    const CUresult result = find_(name, function, version, flags, status);
    if (result != CUDA_SUCCESS || *function == nullptr) return result;
    if (std::strcmp(name, "cuEventCreate") == 0) {
      create_ = reinterpret_cast<PFN_cuEventCreate_v2000>(*function);
      *function = reinterpret_cast<void*>(create);
    } else if (std::strcmp(name, "cuEventDestroy") == 0) {
      destroy_ = reinterpret_cast<PFN_cuEventDestroy_v4000>(*function);
      *function = reinterpret_cast<void*>(destroy);
    }
    return result;
  }
  static CUresult CUDAAPI create(CUevent* event, unsigned flags) {
    const CUresult result = create_(event, flags);
    if (result == CUDA_SUCCESS) ++live_;
    return result;
  }
  static CUresult CUDAAPI destroy(CUevent event) {
    const CUresult result = destroy_(event);
    if (result == CUDA_SUCCESS) --live_;
    return result;
  }

  static inline GetProcAddress find_ = nullptr;
  static inline PFN_cuEventCreate_v2000 create_ = nullptr;
  static inline PFN_cuEventDestroy_v4000 destroy_ = nullptr;
  static inline std::atomic<long> live_ = 0;
};

/// The memory of this process, as the kernel counts it.
long resident_kib() {
  long size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/// Handles of any kind in the simulated driver of this program; 0 on any other driver.
std::size_t simulated_handles() {
  const sim::HandleCounts counts = sim::live_handles();
  return counts.contexts + counts.streams + counts.events + counts.graphs + counts.graph_execs +
         counts.user_objects + counts.modules + counts.allocations;
}

struct Sample {
  long resident = resident_kib(), events = Counted::live_events();
  std::size_t handles = simulated_handles(), retired = retired_events();
};

class Soak {
public:
  explicit Soak(const gpu::Gpu& gpu) : gpu_(gpu) {}

  /// All work is complete when it returns.
  void run(long cycles) {
    while (cycles > 0) {
      const long now = std::min(cycles, batch);
      run_batch(now);
      cycles -= now;
    }
  }

private:
  void run_batch(long cycles) {
    EventPool pool(gpu_.context);
    TimelineFence fence(gpu_.context, stream_);
    TimelineSemaphore semaphore(gpu_.context);
    TimelineSemaphore joined = TimelineSemaphore::import(gpu_.context, semaphore.export_handle());
    CompletionQueue queue(gpu_.context);
    queue.reserve(callbacks_per_batch); // the number of events then never depends on the device's pace
    long run = 0;
    std::uint64_t ticket = 0;
    for (long cycle = 0; cycle < cycles; ++cycle) {
      DriverEvent event(gpu_.context);
      event.record(stream_);
      event.wait(other_);
      pool.acquire().record(stream_);
      ticket = fence.signal();
      joined.signal(other_, static_cast<std::uint64_t>(cycle) + 1);
      if (cycle % cycles_per_callback != 0) continue;
      queue.when_complete(stream_, [&run](CUresult result) { run += result == CUDA_SUCCESS; });
    }
    if (!fence.wait_for(ticket, std::chrono::seconds(30)))
      throw std::runtime_error("the fence was not reached");
    if (!semaphore.wait_for(static_cast<std::uint64_t>(cycles), std::chrono::seconds(30)))
      throw std::runtime_error("the semaphore was not reached");
    joined.close();
    semaphore.close();
    while (queue.pending() != 0)
      queue.poll();
    if (run != (cycles + cycles_per_callback - 1) / cycles_per_callback)
      throw std::runtime_error("a callback did not run, or was told of an error");
  }

  const gpu::Gpu& gpu_;
  const gpu::Stream stream_ = gpu_.stream(), other_ = gpu_.stream();
};

void print(long cycles, double seconds, const Sample& sample) {
  std::printf("%12ld %8.1f %10ld %8ld %8zu %8zu\n", cycles, seconds, sample.resident, sample.events,
              sample.handles, sample.retired);
  std::fflush(stdout);
}

bool soak(const gpu::Gpu& gpu, long cycles) {
  std::printf("%ld cycles on %s\n%12s %8s %10s %8s %8s %8s\n", cycles, gpu.name().c_str(), "cycles",
              "seconds", "RSS, KiB", "events", "handles", "retired");
  Soak soak(gpu);
  soak.run(warm_up_cycles);
  const auto begin = std::chrono::steady_clock::now();
  Sample first, last;
  for (long tenth = 1; tenth <= 10; ++tenth) {
    soak.run(cycles * tenth / 10 - cycles * (tenth - 1) / 10);
    last = Sample();
    if (tenth == 1) first = last;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    print(cycles * tenth / 10, seconds.count(), last);
  }
  const bool flat = last.resident - first.resident <= flat_kib && last.events == first.events &&
                    last.handles == first.handles && last.retired == first.retired;
  std::printf("%s: since the first tenth, RSS %+ld KiB, events %+ld, handles %+ld\n",
              flat ? "flat" : "NOT FLAT", last.resident - first.resident, last.events - first.events,
              static_cast<long>(last.handles) - static_cast<long>(first.handles));
  return flat;
}

/// Or 0 if the text is no number of cycles.
long cycles_in(std::string_view text) {
  long cycles = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cycles);
  return error == std::errc() && end == text.data() + text.size() && cycles >= 10 && cycles <= most_cycles
             ? cycles
             : 0;
}

} // namespace

int main(int argc, char** argv) {
  const long cycles = argc == 1 ? default_cycles : argc == 2 ? cycles_in(argv[1]) : 0;
  if (cycles == 0) {
    std::fprintf(stderr, "usage: %s [CYCLES]: a number from 10 to 10^12; %ld if not given\n", argv[0],
                 default_cycles);
    return 2;
  }
  try {
    return soak(gpu::Gpu(Counted::driver(driver_at_hand())), cycles) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "soak: %s\n", error.what());
    return 1;
  }
}
