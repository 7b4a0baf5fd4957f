// SPDX-License-Identifier: MIT
// A scheduler for a task graph: one thread, four streams, and no blocking wait. A tiled Cholesky
// factorisation has some hundred tasks. A task can start when its dependencies are complete. A completion
// queue reports completions: the callback of a task counts down its successors, and starts each successor
// that has no dependency left.
#include "gpu.hpp"

#include <cuevent/completion_queue.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t tiles = 16; // in each direction
constexpr std::size_t lanes = 4;  // streams
/// Tasks in each stream: the next one starts while the end of the first is noticed.
constexpr std::size_t depth = 2;

struct Task {
  std::chrono::nanoseconds duration{};
  std::vector<std::size_t> successors{};
  std::size_t dependencies = 0;
};

/// A graph of tasks. Each task reads and writes one tile, and reads others. It depends on the tasks that last
/// wrote these tiles.
class TaskGraph {
public:
  const std::vector<Task>& tasks() const noexcept { return tasks_; }

  /// The factorisation of the lower triangle, tile by tile.
  static TaskGraph cholesky() {
    TaskGraph graph;
    for (std::size_t k = 0; k < tiles; ++k) {
      graph.add(20us, {k, k}, {}); // factorise the tile on the diagonal,
      for (std::size_t i = k + 1; i < tiles; ++i)
        graph.add(15us, {i, k}, {{k, k}}); // solve the column below it,
      for (std::size_t i = k + 1; i < tiles; ++i)
        for (std::size_t j = k + 1; j <= i; ++j)
          graph.add(10us, {i, j}, {{i, k}, {j, k}}); // and update the tiles to the right
    }
    return graph;
  }

private:
  struct Tile {
    std::size_t row, column;
  };
  static constexpr std::size_t nobody = ~std::size_t{0};

  void add(std::chrono::nanoseconds duration, Tile written, std::vector<Tile> read) {
    const std::size_t task = tasks_.size();
    tasks_.push_back({duration});
    read.push_back(written);
    for (const Tile& tile : read) {
      const std::size_t writer = last_writer_[tile.row][tile.column];
      if (writer == nobody) continue;
      std::vector<std::size_t>& successors = tasks_[writer].successors;
      if (!successors.empty() && successors.back() == task) continue; // two reads of one tile
      successors.push_back(task);
      ++tasks_[task].dependencies;
    }
    last_writer_[written.row][written.column] = task;
  }

  std::vector<Task> tasks_;
  std::vector<std::vector<std::size_t>> last_writer_{tiles, std::vector<std::size_t>(tiles, nobody)};
};

/// Measures when the host could first see the end of each task. Each stream writes the number of its
/// completed tasks to a word of pinned memory, and a separate thread reads these words. Only the measurement
/// needs this, not the scheduler.
class Observer {
public:
  Observer(const gpu::Gpu& gpu, std::size_t tasks) : gpu_(gpu) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      seen_[lane].reserve(tasks);
      __atomic_store_n(word(lane), 0, __ATOMIC_RELAXED);
    }
    thread_ = std::thread([this] { observe(); });
  }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  ~Observer() { stop(); }

  /// Submits the count after a task in the stream.
  void mark(std::size_t lane, CUstream stream) {
    const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(word(lane)));
    gpu_.write_value(stream, address, ++marks_[lane], CU_STREAM_WRITE_VALUE_DEFAULT);
  }

  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }
  /// The end of each task by lane, in order. Call it after stop().
  const std::vector<Clock::time_point>& seen(std::size_t lane) const noexcept { return seen_[lane]; }

private:
  int* word(std::size_t lane) const noexcept { return words_ + 64 * lane; } // far apart

  void observe() {
    while (true) {
      const bool last = stopped_;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const auto ended = static_cast<std::size_t>(__atomic_load_n(word(lane), __ATOMIC_ACQUIRE));
        while (seen_[lane].size() < ended)
          seen_[lane].push_back(Clock::now());
      }
      if (last) return;
      if (shares_processor_) std::this_thread::yield();
    }
  }

  const gpu::Gpu& gpu_;
  gpu::PinnedMemory words_ = gpu_.pinned_memory(64 * lanes);
  const bool shares_processor_ = gpu_.simulated(); // with the device
  std::array<std::uint32_t, lanes> marks_{};
  std::array<std::vector<Clock::time_point>, lanes> seen_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

class Scheduler {
public:
  Scheduler(const gpu::Gpu& gpu, const gpu::BusyKernel& kernel, const TaskGraph& graph)
      : kernel_(kernel), graph_(graph), streams_{gpu.stream(), gpu.stream(), gpu.stream(), gpu.stream()},
        observer_(gpu, graph.tasks().size()), queue_(gpu.context) {
    queue_.reserve(lanes * depth); // from here on, submissions create no events
    for (const Task& task : graph.tasks())
      waits_for_.push_back(task.dependencies);
    for (std::vector<Clock::time_point>& called : called_)
      called.reserve(graph.tasks().size());
  }

  /// Runs the tasks, and returns the time that they took.
  std::chrono::duration<double> run() {
    const Clock::time_point start = Clock::now();
    for (std::size_t task = 0; task < waits_for_.size(); ++task)
      if (waits_for_[task] == 0) ready_.push_back(task);
    start_ready();
    while (completed_ < waits_for_.size() && !failure_)
      queue_.poll();
    const std::chrono::duration<double> time = Clock::now() - start;
    if (failure_) std::rethrow_exception(failure_);
    observer_.stop();
    return time;
  }

  /// The sorted times, in microseconds, from when the host could see the end of a task until its callback
  /// ran; 0 if the callback ran before the observer saw the end.
  std::vector<double> latencies() const {
    using Microseconds = std::chrono::duration<double, std::micro>;
    std::vector<double> all;
    for (std::size_t lane = 0; lane < lanes; ++lane)
      for (std::size_t i = 0; i < called_[lane].size(); ++i)
        all.push_back(std::max(Microseconds(called_[lane][i] - observer_.seen(lane).at(i)).count(), 0.0));
    std::sort(all.begin(), all.end());
    return all;
  }

private:
  void start_ready() {
    while (!ready_.empty()) {
      const auto lane = static_cast<std::size_t>(std::min_element(in_flight_.begin(), in_flight_.end()) -
                                                 in_flight_.begin());
      if (in_flight_[lane] == depth) return;
      const std::size_t task = ready_.front();
      ready_.pop_front();
      start(task, lane);
    }
  }

  void start(std::size_t task, std::size_t lane) {
    CUstream const stream = streams_[lane];
    kernel_.launch(graph_.tasks()[task].duration, stream);
    observer_.mark(lane, stream);
    queue_.when_complete(stream, [this, task, lane](CUresult result) { completed(task, lane, result); });
    ++in_flight_[lane];
  }

  /// The callback. It must not throw, because poll() does not pass exceptions on.
  void completed(std::size_t task, std::size_t lane, CUresult result) noexcept {
    called_[lane].push_back(Clock::now());
    --in_flight_[lane];
    ++completed_;
    if (failure_) return;
    try {
      if (result != CUDA_SUCCESS) cuevent::throw_error(result, "a task");
      for (const std::size_t next : graph_.tasks()[task].successors)
        if (--waits_for_[next] == 0) ready_.push_back(next);
      start_ready();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  const gpu::BusyKernel& kernel_;
  const TaskGraph& graph_;
  std::vector<std::size_t> waits_for_; // of each task: how many dependencies are not complete
  std::deque<std::size_t> ready_;
  std::array<std::size_t, lanes> in_flight_{};
  std::array<std::vector<Clock::time_point>, lanes> called_;
  std::size_t completed_ = 0;
  std::exception_ptr failure_;
  std::array<gpu::Stream, lanes> streams_;
  Observer observer_;
  cuevent::CompletionQueue queue_; // the last: at its end it runs the callbacks that are pending
};

/// The smallest of the sorted times that `percent` of them do not exceed.
double percentile(const std::vector<double>& sorted, std::size_t percent) {
  return sorted[(sorted.size() * percent + 99) / 100 - 1];
}

} // namespace

int main() try {
  const gpu::Gpu gpu;
  std::printf("Running on %s%s\n", gpu.name().c_str(),
              gpu.simulated() ? ": no device, so all times are modelled, not measured" : "");
  const gpu::BusyKernel kernel(gpu);
  const TaskGraph graph = TaskGraph::cholesky();
  const std::size_t tasks = graph.tasks().size();
  std::printf("\n%zu tasks of 10 to 20 us on %zu streams\n  %-14s %16s %16s %26s\n", tasks, lanes, "",
              "all tasks", "tasks a second", "end of work to callback");
  bool right = true;
  for (const char* const run : {"1st time", "2nd time", "3rd time"}) {
    Scheduler scheduler(gpu, kernel, graph);
    const double seconds = scheduler.run().count();
    const std::vector<double> latencies = scheduler.latencies();
    std::printf("  %-14s %13.3f ms %16.0f   p50 %5.1f us  p99 %5.1f us\n", run, seconds * 1e3,
                static_cast<double>(tasks) / seconds, percentile(latencies, 50), percentile(latencies, 99));
    right &= latencies.size() == tasks;
  }
  if (right) return 0;
  std::puts("WRONG: not every task has run once.");
  return 1;
} catch (const cuevent::DriverUnavailable& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 77;
} catch (const cuevent::DriverError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
