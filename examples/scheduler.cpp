// SPDX-License-Identifier: MIT
// An executor of task graphs: four worker threads, four streams, and no thread that spins while there is
// nothing to do. A tiled Cholesky factorisation has some hundred tasks. The tiles on the diagonal are
// factorised by the worker threads, and all other tasks by kernels. A task can start when its dependencies
// are complete: functions that have returned, and work of streams.
//
// One idle worker sleeps until the device has completed work or a task is ready. The other idle workers sleep
// until a task is ready. A thread that makes tasks ready takes one of them, and wakes another worker if more
// are left.
#include "../support/descriptor.hpp"
#include "../support/exit_code.hpp"
#include "../support/gpu.hpp"
#include "task_graph.hpp"

#include <cuevent/completion_queue.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;
using namespace scheduler;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t workers = 4, lanes = 4; // a lane is a stream

/// How late the worker that watches the device may learn of the end of a kernel, as in arm(). Without a
/// value, the worker polls and never sleeps.
using MostLate = std::optional<cuevent::TimeLimit>;

class Executor {
public:
  explicit Executor(const gpu::Gpu& gpu) : gpu_(gpu), queue_(gpu.context) {
    queue_.reserve(256); // up to this number of kernels in flight, submissions create no events
    for (std::size_t lane = 0; lane < lanes; ++lane)
      lanes_[lane] = std::make_unique<Lane>(gpu, queue_);
    for (std::size_t worker = 0; worker < workers; ++worker)
      threads_.emplace_back([this] { work(); });
  }
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    task_ready_.notify_all();
    wake_watcher();
  } // the threads, which are members, are joined after the lock is gone

  /// Runs all tasks of a graph. The calling thread sleeps until they are complete.
  void run(const TaskGraph& graph, const MostLate& most_late) {
    std::unique_lock lock(mutex_);
    graph_ = &graph;
    most_late_ = most_late;
    left_ = graph.tasks().size();
    waits_for_.clear();
    for (std::size_t task = 0; task < left_; ++task) {
      waits_for_.push_back(graph.tasks()[task].dependencies);
      if (waits_for_[task] == 0) ready_.push_back(task);
    }
    wake_one();
    all_done_.wait(lock, [this] { return left_ == 0 && in_flight_ == 0; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  /// The processor time that all workers have used so far.
  Milliseconds processor_time() {
    std::chrono::nanoseconds all{};
    for (std::jthread& thread : threads_) {
      clockid_t clock{};
      timespec time{};
      pthread_getcpuclockid(thread.native_handle(), &clock);
      clock_gettime(clock, &time);
      all += std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
    }
    return all;
  }

private:
  struct Lane {
    Lane(const gpu::Gpu& gpu, cuevent::CompletionQueue& queue)
        : stream(gpu.stream()), completions(queue.lane(stream)) {}
    gpu::Stream stream;
    cuevent::CompletionQueue::Lane completions;
    std::mutex submitting;
    std::atomic<std::size_t> in_flight{0};
  };

  void work() {
    const cuevent::ContextGuard current(gpu_.context); // for the launches
    std::unique_lock lock(mutex_);
    while (!ended_) {
      if (!ready_.empty()) {
        const std::size_t task = ready_.front();
        ready_.pop_front();
        ++in_flight_;
        if (!ready_.empty() || !watched_) wake_one();
        lock.unlock();
        start(task);
        queue_.poll(); // the callbacks of other streams, if no other thread polls now
        lock.lock();
      } else if (watched_) {
        ++idle_;
        task_ready_.wait(lock);
        --idle_;
      } else {
        watched_ = true;
        const MostLate most_late = most_late_;
        lock.unlock();
        watch_device(most_late);
        lock.lock();
        watched_ = false;
      }
    }
  }

  /// Polls, and sleeps if there is nothing to run. Only one worker at a time.
  void watch_device(const MostLate& most_late) {
    if (queue_.poll() != 0 || !most_late || !queue_.arm(*most_late)) return;
    std::array<pollfd, 2> wakers{{{queue_.native_handle(), POLLIN, 0}, {wake_, POLLIN, 0}}};
    ::poll(wakers.data(), wakers.size(), -1);
    eventfd_t count = 0;
    eventfd_read(wake_, &count); // unreadable again; it does not block
  }

  /// Called with the lock. Wakes a worker that then takes a task, or watches the device.
  void wake_one() {
    if (idle_ != 0)
      task_ready_.notify_one();
    else if (watched_)
      wake_watcher();
  }
  void wake_watcher() { eventfd_write(wake_, 1); }

  void start(std::size_t task) noexcept {
    const Task& what = graph_->tasks()[task];
    if (what.where == Task::Where::device) return submit(task);
    const Clock::time_point end = Clock::now() + what.duration;
    while (Clock::now() < end) { // as a function that computes
    }
    completed(task, nullptr);
  }

  void submit(std::size_t task) noexcept try {
    std::size_t emptiest = 0;
    for (std::size_t lane = 1; lane < lanes; ++lane)
      if (lanes_[lane]->in_flight < lanes_[emptiest]->in_flight) emptiest = lane;
    Lane& lane = *lanes_[emptiest];
    ++lane.in_flight;
    const std::lock_guard lock(lane.submitting);
    kernel_.launch(graph_->tasks()[task].duration, lane.stream);
    lane.completions.when_complete([this, task, emptiest](CUresult result) {
      --lanes_[emptiest]->in_flight;
      completed(task, result == CUDA_SUCCESS ? nullptr : failure(result));
    });
  } catch (...) {
    completed(task, std::current_exception());
  }

  static std::exception_ptr failure(CUresult result) noexcept try {
    cuevent::throw_error(result, "a task");
  } catch (...) {
    return std::current_exception();
  }

  /// After a failure, no other task starts.
  void completed(std::size_t task, const std::exception_ptr& failure) noexcept {
    const std::lock_guard lock(mutex_);
    --in_flight_;
    --left_;
    if (failure && !failure_) failure_ = failure;
    if (failure_) {
      ready_.clear();
      left_ = 0;
    } else {
      for (const std::size_t next : graph_->tasks()[task].successors)
        if (--waits_for_[next] == 0) ready_.push_back(next);
    }
    if (left_ == 0 && in_flight_ == 0) all_done_.notify_one();
  }

  const gpu::Gpu& gpu_;
  gpu::BusyKernel kernel_{gpu_};
  const Descriptor wake_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}; // readable: the watcher has to wake

  std::mutex mutex_; // of all that follows up to the lanes
  std::condition_variable task_ready_, all_done_;
  std::deque<std::size_t> ready_;
  std::size_t idle_ = 0; // workers that sleep until a task is ready
  bool watched_ = false; // a worker watches the device
  bool ended_ = false;
  const TaskGraph* graph_ = nullptr;
  MostLate most_late_ = 100us;
  std::vector<std::size_t> waits_for_; // of each task: how many dependencies are not complete
  std::size_t left_ = 0, in_flight_ = 0;
  std::exception_ptr failure_;

  std::array<std::unique_ptr<Lane>, lanes> lanes_;
  cuevent::CompletionQueue queue_;    // its end runs the callbacks that are pending, which use all above
  std::vector<std::jthread> threads_; // the last: joined first
};

int run() {
  const gpu::Gpu gpu;
  std::printf("Running on %s%s\n", gpu.name().c_str(),
              gpu.simulated() ? ": no device, so all times are modelled, not measured" : "");
  const TaskGraph graph = TaskGraph::cholesky(), long_kernel = TaskGraph::one_kernel(20ms);
  const std::size_t kernels = graph.tasks().size() - tiles;
  Executor executor(gpu);
  std::printf("\n%zu kernels of 20 to 30 us on %zu streams, and %zu functions, with %zu workers\n"
              "  %-28s %10s %18s\n",
              kernels, lanes, tiles, workers, "the worker without a task", "all tasks", "processors in use");
  struct Row {
    const char* text;
    MostLate most_late;
  };
  for (const Row& row :
       {Row{"polls, the first time", {}}, Row{"polls, the second time", {}},
        Row{"sleeps, at most 20 us late", 20us}, Row{"sleeps, at most 100 us late", 100us}}) {
    const Milliseconds used = executor.processor_time();
    const Clock::time_point start = Clock::now();
    executor.run(graph, row.most_late);
    const Milliseconds took = Clock::now() - start;
    const double processors = (executor.processor_time() - used) / took;
    std::printf("  %-28s %7.3f ms %18.2f\n", row.text, took.count(), processors);
  }

  const Milliseconds before = executor.processor_time();
  std::this_thread::sleep_for(50ms);
  const Milliseconds idle = executor.processor_time() - before;
  executor.run(long_kernel, 100us);
  const Milliseconds during = executor.processor_time() - before - idle;
  std::printf("\nAll workers together used %.3f ms of processor time in 50 ms without a task, and %.3f ms\n"
              "during one kernel of 20 ms\n",
              idle.count(), during.count());
  if (idle < 10ms) return 0;
  std::puts("WRONG: an idle worker does not sleep.");
  return 1;
}

} // namespace

int main() { return exit_code(run); }
