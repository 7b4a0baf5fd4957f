// SPDX-License-Identifier: MIT
// What the submission of a callback costs the calling thread, next to the driver calls that it makes. In a
// round, each way runs for some batches, in an order that is shuffled each time, on the same idle streams.
// Each thread submits to a stream of its own. A ratio compares times of one round.
//
// Callbacks run between the batches, and are timed separately: one thread polls when all work is complete.
#include "gpu_at_hand.hpp"
#include "mutex_queue.hpp"
#include "part_of.hpp"

#include <cuevent/completion_queue.hpp>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace cuevent;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_threads = 16;
/// A stream takes about 1,020 submissions that have not run, so a batch of this size never blocks in the
/// driver.
constexpr std::size_t batch = 256;

struct OneStream {
  gpu::Stream stream = gpu_at_hand().stream();
  operator CUstream() const noexcept { return stream; }
};
const std::array<OneStream, most_threads>& streams() {
  static const auto& all = *new std::array<OneStream, most_threads>; // never destroyed
  return all;
}

/// A way to learn of the completion of work, or a part of it.
class Way {
public:
  explicit Way(std::string its_name) : name(std::move(its_name)) {}
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;
  virtual ~Way() = default;

  /// Submits one batch, on the given thread.
  virtual void submit(std::size_t thread) = 0;
  /// Runs the callbacks of all threads, whose work is complete. Returns false if the way has none.
  virtual bool poll(std::size_t) { return false; }

  const std::string name;
};

/// Driver calls alone, in the order of a submission.
class BareCalls : public Way {
public:
  struct Calls {
    bool capture = false, id = false, record = false;
    std::size_t events = batch; // used in turn
  };
  BareCalls(const std::string& its_name, Calls calls) : Way(its_name), calls_(calls) {
    for (std::vector<DriverEvent>& events : events_)
      for (std::size_t i = 0; i < calls.events; ++i)
        events.emplace_back(gpu_at_hand().context);
  }

  void submit(std::size_t thread) override {
    const DriverTable& table = gpu_at_hand().driver.table();
    CUstream const stream = streams()[thread];
    const std::vector<DriverEvent>& events = events_[thread];
    CUstreamCaptureStatus status{};
    unsigned long long id = 0;
    for (std::size_t i = 0; i < batch; ++i) {
      CUresult result = CUDA_SUCCESS;
      if (calls_.capture) result = table.cuStreamIsCapturing_v10000(stream, &status);
      if (calls_.id && result == CUDA_SUCCESS) result = table.cuStreamGetId_v12000(stream, &id);
      if (calls_.record && result == CUDA_SUCCESS)
        result = table.cuEventRecord_v2000(events[i % events.size()].native_handle(), stream);
      if (result != CUDA_SUCCESS) gpu_at_hand().driver.fail(result, "submission");
    }
  }
  bool poll(std::size_t threads) override {
    const DriverTable& table = gpu_at_hand().driver.table();
    for (std::size_t thread = 0; thread < threads; ++thread)
      for (std::size_t i = 0; i < batch; ++i)
        if (table.cuEventQuery_v2000(events_[thread][i % calls_.events].native_handle()) != CUDA_SUCCESS)
          gpu_at_hand().driver.fail(CUDA_ERROR_NOT_READY, "cuEventQuery");
    return calls_.record;
  }

private:
  const Calls calls_;
  std::array<std::vector<DriverEvent>, most_threads> events_;
};

class ByLane : public Way {
public:
  explicit ByLane(const std::string& its_name) : Way(its_name) {
    for (std::size_t thread = 0; thread < most_threads; ++thread)
      lanes_[thread] = queue_.lane(streams()[thread]);
  }
  void submit(std::size_t thread) override {
    for (std::size_t i = 0; i < batch; ++i)
      lanes_[thread].when_complete([](CUresult) {});
  }
  bool poll(std::size_t) override {
    while (queue_.pending() != 0)
      queue_.poll();
    return true;
  }

protected:
  CompletionQueue queue_{gpu_at_hand().context};
  std::array<CompletionQueue::Lane, most_threads> lanes_;
};

class ByLaneWithToken : public ByLane {
public:
  using ByLane::ByLane;
  void submit(std::size_t thread) override {
    for (std::size_t i = 0; i < batch; ++i) {
      CompletionToken token;
      lanes_[thread].when_complete([](CUresult) {}, &token);
    }
  }
};

template <class Queue>
class ByQueue : public Way {
public:
  using Way::Way;
  void submit(std::size_t thread) override {
    for (std::size_t i = 0; i < batch; ++i)
      queue_.when_complete(streams()[thread], [](CUresult) {});
  }
  bool poll(std::size_t threads) override {
    for (std::size_t ran = 0; ran < threads * batch;)
      ran += queue_.poll();
    return true;
  }

private:
  Queue queue_{gpu_at_hand().context};
};

class ByHostFunction : public Way {
public:
  using Way::Way;
  void submit(std::size_t thread) override {
    for (std::size_t i = 0; i < batch; ++i)
      gpu_at_hand().launch_host_function(
          streams()[thread], [](void*) {}, nullptr);
  }
};

/// Times in ns per submission, or ratios.
struct Measured {
  std::vector<double> time, to_record, to_calls, poll;
};

/// The places of the ways that the ratios compare with.
constexpr std::size_t record = 0, calls_of_lane = 4;

/// Threads that submit batches at the same time. The calling thread is one of them.
class Submitters {
public:
  explicit Submitters(std::size_t threads)
      : begin_(static_cast<std::ptrdiff_t>(threads)), end_(static_cast<std::ptrdiff_t>(threads)),
        times_(threads) {
    for (std::size_t thread = 1; thread < threads; ++thread)
      running_.emplace_back([this, thread] {
        const ContextGuard current(gpu_at_hand().context);
        while (true) {
          begin_.arrive_and_wait();
          if (way_ == nullptr) return;
          submit(thread);
          end_.arrive_and_wait();
        }
      });
  }
  Submitters(const Submitters&) = delete;
  Submitters& operator=(const Submitters&) = delete;
  ~Submitters() {
    way_ = nullptr;
    begin_.arrive_and_wait();
  }

  /// One batch per thread. Returns the mean of the threads' times per submission.
  double submit_all(Way& way) {
    way_ = &way;
    begin_.arrive_and_wait();
    submit(0);
    end_.arrive_and_wait();
    return std::accumulate(times_.begin(), times_.end(), 0.0) / static_cast<double>(times_.size() * batch);
  }
  std::size_t threads() const noexcept { return times_.size(); }

private:
  void submit(std::size_t thread) {
    const Clock::time_point start = Clock::now();
    way_->submit(thread);
    times_[thread] = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  }

  std::barrier<> begin_, end_;
  Way* way_ = nullptr; // null: the threads end
  std::vector<double> times_;
  std::vector<std::jthread> running_;
};

/// The mean times of some batches, in ns: of a submission, and of a callback in a poll, 0 without callbacks.
struct Batches {
  double submission = 0, poll = 0;
};
Batches run_batches(Way& way, Submitters& submitters, std::size_t batches) {
  DriverEvent last(gpu_at_hand().context);
  Batches sum;
  for (std::size_t i = 0; i <= batches; ++i) { // the first one warms the caches
    const double submission = submitters.submit_all(way);
    for (std::size_t thread = 0; thread < submitters.threads(); ++thread) {
      last.record(streams()[thread]);
      last.synchronize();
    }
    const Clock::time_point start = Clock::now();
    const bool has_callbacks = way.poll(submitters.threads());
    const std::chrono::duration<double, std::nano> poll = Clock::now() - start;
    if (i == 0) continue;
    sum.submission += submission;
    if (has_callbacks) sum.poll += poll.count() / static_cast<double>(submitters.threads() * batch);
  }
  return {sum.submission / static_cast<double>(batches), sum.poll / static_cast<double>(batches)};
}

std::vector<Measured> measure(const std::vector<std::unique_ptr<Way>>& ways, std::size_t threads,
                              std::size_t rounds) {
  std::vector<Measured> all(ways.size());
  std::vector<std::size_t> order(ways.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(18);
  Submitters submitters(threads);
  for (std::size_t round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Batches> times(ways.size());
    for (const std::size_t i : order)
      times[i] = run_batches(*ways[i], submitters, 3);
    for (std::size_t i = 0; i < ways.size(); ++i) {
      all[i].time.push_back(times[i].submission);
      all[i].to_record.push_back(times[i].submission / times[record].submission);
      all[i].to_calls.push_back(times[i].submission / times[calls_of_lane].submission);
      all[i].poll.push_back(times[i].poll);
    }
  }
  return all;
}

void print(const std::vector<std::unique_ptr<Way>>& ways, const std::vector<Measured>& measured,
           std::size_t threads) {
  std::printf("\n| submission, %zu thread%s | ns | to a record of one event | to the lane's calls |"
              " poll, ns per callback |\n| --- | ---: | ---: | ---: | ---: |\n",
              threads, threads == 1 ? "" : "s");
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const Measured& its = measured[i];
    std::printf("| %s | %.0f | %.2f (%.2f-%.2f) | %.2f (%.2f-%.2f) |", ways[i]->name.c_str(),
                median(its.time), median(its.to_record), part_of(its.to_record, 0.25),
                part_of(its.to_record, 0.75), median(its.to_calls), part_of(its.to_calls, 0.25),
                part_of(its.to_calls, 0.75));
    if (const double poll = median(its.poll); poll == 0)
      std::puts(" |");
    else
      std::printf(" %.0f |\n", poll);
  }
}

} // namespace

int main() try {
  const gpu::Gpu& gpu = gpu_at_hand();
  const std::size_t rounds = gpu.simulated() ? 2 : 31;
  std::printf("%s, driver %d, %u processors, %zu rounds; medians and quartiles\n", gpu.name().c_str(),
              gpu.driver.version(), std::thread::hardware_concurrency(), rounds);
  std::vector<std::unique_ptr<Way>> ways;
  ways.push_back(
      std::make_unique<BareCalls>("record, one event", BareCalls::Calls{.record = true, .events = 1}));
  ways.push_back(std::make_unique<BareCalls>("record, 256 events in turn", BareCalls::Calls{.record = true}));
  ways.push_back(std::make_unique<BareCalls>("capture question", BareCalls::Calls{.capture = true}));
  ways.push_back(std::make_unique<BareCalls>("stream id", BareCalls::Calls{.id = true}));
  ways.push_back(std::make_unique<BareCalls>("capture question and record, 256 events",
                                             BareCalls::Calls{.capture = true, .record = true}));
  ways.push_back(std::make_unique<BareCalls>("capture question, stream id and record, 256 events",
                                             BareCalls::Calls{.capture = true, .id = true, .record = true}));
  ways.push_back(std::make_unique<ByLane>("**lane**"));
  ways.push_back(std::make_unique<ByLaneWithToken>("lane, with a token"));
  ways.push_back(std::make_unique<ByQueue<CompletionQueue>>("`CompletionQueue::when_complete`"));
  ways.push_back(std::make_unique<ByQueue<MutexQueue>>("`std::function` queue under a mutex"));
  ways.push_back(std::make_unique<ByHostFunction>("`cuLaunchHostFunc`"));
  for (const std::size_t threads : {std::size_t{1}, most_threads})
    print(ways, measure(ways, threads, rounds), threads);
  return 0;
} catch (const DriverError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
