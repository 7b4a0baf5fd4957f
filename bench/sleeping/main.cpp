// SPDX-License-Identifier: MIT
// Ways to wait for the device without spinning: how late each sees the end of the work of one stream, and
// the CPU time that it takes. `sleeping 20` divides all counts by 20. Without a real driver, this runs on the
// simulated one, which only shows that it works.
#include "../part_of.hpp"
#include "descriptors.hpp"
#include "testbed.hpp"

#include <cuevent/completion_queue.hpp>
#include <cuevent/timeline_fence.hpp>

#include <cstdlib>
#include <functional>
#include <random>
#include <semaphore>
#include <unistd.h>
#include <utility>

using cuevent::DriverEvent;
using cuevent::EventFlags;

namespace {

using namespace sleeping;

/// A way to wait for the work of a stream.
class Way {
public:
  virtual ~Way() = default;
  /// Called after the work was submitted.
  virtual void submitted(CUstream stream) { event_.record(stream); }
  virtual void wait() = 0;
  /// Waits for host functions that still refer to this object.
  virtual void finish(CUstream stream) {
    event_.record(stream);
    event_.synchronize();
  }

protected:
  explicit Way(const Testbed& testbed, EventFlags flags = EventFlags::none)
      : testbed_(testbed), event_(testbed.gpu().context, flags) {}
  bool ready() const { return event_.query(); }

  const Testbed& testbed_;
  DriverEvent event_;
};

class SpinningQuery : public Way {
public:
  explicit SpinningQuery(const Testbed& testbed) : Way(testbed) {}
  void wait() override {
    while (!ready()) {
    }
  }
};

class Synchronize : public Way {
public:
  Synchronize(const Testbed& testbed, EventFlags flags) : Way(testbed, flags) {}
  void wait() override { event_.synchronize(); }
};

class SynchronizeFor : public Way {
public:
  explicit SynchronizeFor(const Testbed& testbed) : Way(testbed) {}
  void wait() override { static_cast<void>(event_.synchronize_for(std::chrono::seconds(10))); }
};

class FenceWaitFor : public Way {
public:
  FenceWaitFor(const Testbed& testbed, CUstream stream)
      : Way(testbed), fence_(testbed.gpu().context, stream) {}
  void submitted(CUstream) override { ticket_ = fence_.signal(); }
  void wait() override { static_cast<void>(fence_.wait_for(ticket_, std::chrono::seconds(10))); }

private:
  cuevent::TimelineFence fence_;
  std::uint64_t ticket_ = 0;
};

/// The waiting thread sleeps in epoll.
class ByEpoll : public Way {
public:
  void wait() override {
    while (true) {
      epoll_.wait();
      signal_.clear();
      if (ready()) return;
    }
  }

protected:
  explicit ByEpoll(const Testbed& testbed, EventFlags flags = EventFlags::none) : Way(testbed, flags) {
    epoll_.add(signal_);
  }
  Signal signal_;
  Epoll epoll_;
};

class HostFunction : public ByEpoll {
public:
  explicit HostFunction(const Testbed& testbed) : ByEpoll(testbed) {}
  void submitted(CUstream stream) override {
    event_.record(stream);
    testbed_.gpu().launch_host_function(stream, Signal::set_signal, &signal_);
  }
};

/// A CompletionQueue, whose callback says that the work has ended.
class ByQueue : public Way {
public:
  explicit ByQueue(const Testbed& testbed) : Way(testbed), queue_(testbed.gpu().context) {}
  void submitted(CUstream stream) override {
    queue_.when_complete(stream, [](CUresult) {});
  }

protected:
  cuevent::CompletionQueue queue_;
};

class QueueWaitFor : public ByQueue {
public:
  using ByQueue::ByQueue;
  void wait() override { queue_.wait_for(std::chrono::seconds(10)); }
};

class QueueInEpoll : public ByQueue {
public:
  explicit QueueInEpoll(const Testbed& testbed) : ByQueue(testbed) { epoll_.add(queue_.native_handle()); }
  void wait() override {
    while (queue_.poll() == 0)
      if (queue_.arm(std::chrono::microseconds(100))) epoll_.wait();
  }

private:
  Epoll epoll_;
};

/// A thread of the library waits, and wakes the sleeper.
class Helper : public ByEpoll {
public:
  using Wait = std::function<void(const DriverEvent&)>;
  Helper(const Testbed& testbed, EventFlags flags, Wait wait)
      : ByEpoll(testbed, flags), wait_(std::move(wait)), thread_([this] {
          while (true) {
            work_.acquire();
            if (stop_) return;
            wait_(event_);
            signal_.set();
          }
        }) {}
  ~Helper() override {
    stop_ = true;
    work_.release();
    thread_.join();
  }
  void submitted(CUstream stream) override {
    event_.record(stream);
    work_.release();
  }

private:
  Wait wait_;
  std::counting_semaphore<> work_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

struct NamedWay {
  const char* name;
  std::function<std::unique_ptr<Way>(const Testbed&, CUstream)> make;
};

const std::vector<NamedWay>& ways() {
  static const std::vector<NamedWay> all{
      {"cuEventQuery, spinning", [](auto& t, auto) { return std::make_unique<SpinningQuery>(t); }},
      {"cuEventSynchronize",
       [](auto& t, auto) { return std::make_unique<Synchronize>(t, EventFlags::none); }},
      {"cuEventSynchronize, blocking_sync",
       [](auto& t, auto) { return std::make_unique<Synchronize>(t, EventFlags::blocking_sync); }},
      {"DriverEvent::synchronize_for", [](auto& t, auto) { return std::make_unique<SynchronizeFor>(t); }},
      {"TimelineFence::wait_for",
       [](auto& t, auto stream) { return std::make_unique<FenceWaitFor>(t, stream); }},
      {"CompletionQueue::wait_for", [](auto& t, auto) { return std::make_unique<QueueWaitFor>(t); }},
      {"epoll: host function on the stream", [](auto& t, auto) { return std::make_unique<HostFunction>(t); }},
      {"epoll: helper in blocking_sync",
       [](auto& t, auto) {
         return std::make_unique<Helper>(t, EventFlags::blocking_sync,
                                         [](const DriverEvent& event) { event.synchronize(); });
       }},
      {"CompletionQueue::arm, 100 us", [](auto& t, auto) { return std::make_unique<QueueInEpoll>(t); }},
  };
  return all;
}

struct Scenario {
  const char* name;
  int count;
  Nanoseconds least, most; // of the work
  Nanoseconds idle = 0;    // before each submission
};

constexpr Scenario scenarios[] = {
    {"a repeating step of 50 us", 2000, 50'000, 50'000},
    {"a repeating step of 200 us", 1000, 200'000, 200'000},
    {"a repeating step of 1 ms", 1000, 1'000'000, 1'000'000},
    {"a repeating step of 1 ms, varying by 20 us", 600, 1'000'000, 1'020'000},
    {"a repeating step of 10 ms", 50, 10'000'000, 10'000'000},
    {"irregular steps of 0.1 to 3 ms", 300, 100'000, 3'000'000},
    {"one-off waits of 1 to 4 ms after 3 ms idle", 150, 1'000'000, 4'000'000, 3'000'000},
};

void measure(Testbed& testbed, const Scenario& scenario, const NamedWay& named, int count) {
  const gpu::Stream stream = testbed.gpu().stream();
  const std::unique_ptr<Way> way = named.make(testbed, stream);
  std::mt19937 random(1);
  std::uniform_int_distribution<Nanoseconds> length(scenario.least, scenario.most);
  std::vector<double> late, submission; // us
  const int warm = std::max(5, count / 20);
  CpuTime cpu = testbed.cpu_time();
  for (int i = -warm; i < count; ++i) {
    if (i == 0) cpu = testbed.cpu_time();
    if (scenario.idle != 0) sleep_until(now() + scenario.idle);
    testbed.launch(stream, length(random));
    const Nanoseconds launched = now();
    way->submitted(stream);
    const Nanoseconds submitted = now();
    way->wait();
    const Nanoseconds seen = now();
    if (i < 0) continue;
    late.push_back(1e-3 * static_cast<double>(seen - testbed.end()));
    submission.push_back(1e-3 * static_cast<double>(submitted - launched));
  }
  way->finish(stream);
  const Nanoseconds wall = cpu.wall(), mine = cpu.of_this_thread(), others = cpu.of_others();
  const double most = static_cast<double>(wall) / 100, each = 1000.0 * count;
  std::printf("  %-38s %8.1f %8.1f %8.1f %9.1f %9.1f %8.1f %8.1f\n", named.name, median(late),
              part_of(late, 0.9), part_of(late, 0.99), static_cast<double>(mine) / each,
              static_cast<double>(others) / each, 100 - static_cast<double>(mine) / most, median(submission));
  std::fflush(stdout);
}

void measure_all(Testbed& testbed, int divisor) {
  for (const Scenario& scenario : scenarios) {
    const int count = std::max(10, scenario.count / divisor);
    std::printf("\nOne stream, %s, %d times. Late: after the kernel's last store was seen by a spinning "
                "thread.\n  %-38s %8s %8s %8s %9s %9s %8s %8s\n",
                scenario.name, count, "", "late p50", "p90 us", "p99 us", "CPU us", "others us", "asleep %",
                "submit");
    for (const NamedWay& way : ways())
      measure(testbed, scenario, way, count);
  }
}

} // namespace

int main(int count, char** arguments) try {
  alarm(118); // a hang must not hold the device
  Testbed testbed;
  const gpu::Gpu& gpu = testbed.gpu();
  std::printf("%s, driver %d, %u processors\n", gpu.name().c_str(), gpu.driver.version(),
              std::thread::hardware_concurrency());
  measure_all(testbed, std::max(1, count > 1 ? std::atoi(arguments[1]) : 1));
  return 0;
} catch (const cuevent::DriverError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
