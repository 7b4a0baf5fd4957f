// SPDX-License-Identifier: MIT
// 64 streams whose ends come in any order: latency against CPU time for each mechanism.
#include "descriptors.hpp"
#include "sleeping.hpp"

#include <cuevent/completion_queue.hpp>

#include <bit>
#include <functional>
#include <random>
#include <semaphore>

using cuevent::DriverEvent;

namespace sleeping {

namespace {

constexpr std::size_t streams = 64;
constexpr Nanoseconds shortest = 20'000'000, longest = 100'000'000;

struct OneStream {
  explicit OneStream(const gpu::Gpu& gpu) : stream(gpu.stream()), event(gpu.context) {}
  /// Waits until all work of the stream has ended.
  void finish() {
    event.record(stream);
    event.synchronize();
  }
  gpu::Stream stream;
  DriverEvent event;
};

std::vector<std::unique_ptr<OneStream>> make_streams(const gpu::Gpu& gpu) {
  std::vector<std::unique_ptr<OneStream>> made;
  for (std::size_t i = 0; i < streams; ++i)
    made.push_back(std::make_unique<OneStream>(gpu));
  return made;
}

struct Load {
  std::vector<std::unique_ptr<OneStream>> all;
  std::atomic<std::uint64_t> pending{0}; // a bit for each stream
};

constexpr std::uint64_t bit_of(std::size_t lane) { return std::uint64_t{1} << lane; }

template <class Each>
void for_each_lane(std::uint64_t lanes, Each each) {
  for (; lanes != 0; lanes &= lanes - 1)
    each(static_cast<std::size_t>(std::countr_zero(lanes)));
}

using Found = std::function<void(std::size_t lane)>;

/// Lets the waiting thread sleep until a stream may have ended.
class Mechanism {
public:
  virtual ~Mechanism() = default;
  virtual void submitted(OneStream& it, std::size_t) { it.event.record(it.stream); }
  virtual void sleep() = 0;
  virtual void poll(const Load& load, const Found& found) {
    for_each_lane(load.pending, [&](std::size_t lane) {
      if (load.all[lane]->event.query()) found(lane);
    });
  }
  /// Waits for host functions that still refer to this object.
  virtual void end(const Load&) {}
};

class NoSleep : public Mechanism {
public:
  void sleep() override {}
};

/// The descriptor becomes readable by a timer. The waiting thread polls.
class ByTimer : public Mechanism {
public:
  explicit ByTimer(Nanoseconds pause) : pause_(pause) { epoll_.add(timer_); }
  void sleep() override {
    timer_.set(now() + pause_);
    epoll_.wait();
    timer_.clear();
  }

private:
  const Nanoseconds pause_;
  Timer timer_;
  Epoll epoll_;
};

/// CompletionQueue::arm()
class ByQueue : public Mechanism {
public:
  ByQueue(const gpu::Gpu& gpu, Nanoseconds most_late) : most_late_(most_late), queue_(gpu.context) {
    epoll_.add(queue_.native_handle());
  }
  void submitted(OneStream& it, std::size_t lane) override {
    queue_.when_complete(it.stream, [this, lane](CUresult) { (*found_)(lane); });
  }
  void sleep() override {
    if (queue_.arm(most_late_)) epoll_.wait();
  }
  void poll(const Load&, const Found& found) override {
    found_ = &found;
    queue_.poll();
  }

private:
  const std::chrono::nanoseconds most_late_;
  cuevent::CompletionQueue queue_;
  Epoll epoll_;
  const Found* found_ = nullptr;
};

/// Host functions wake the waiting thread.
class HostFunctions : public Mechanism {
public:
  explicit HostFunctions(const gpu::Gpu& gpu) : gpu_(gpu) { epoll_.add(signal_); }
  void submitted(OneStream& it, std::size_t) override {
    it.event.record(it.stream);
    gpu_.launch_host_function(it.stream, Signal::set_signal, &signal_);
  }
  void sleep() override {
    epoll_.wait();
    signal_.clear();
  }
  void end(const Load& load) override {
    for (const auto& it : load.all)
      it->finish();
  }

protected:
  const gpu::Gpu& gpu_;
  Signal signal_;

private:
  Epoll epoll_;
};

/// The host functions are on side streams, which wait for the newest events.
class SideStreams : public HostFunctions {
public:
  explicit SideStreams(const gpu::Gpu& gpu) : HostFunctions(gpu), sides_(make_streams(gpu)) {}
  void submitted(OneStream& it, std::size_t lane) override {
    CUstream const side = sides_[lane]->stream;
    it.event.record(it.stream);
    it.event.wait(side);
    gpu_.launch_host_function(side, Signal::set_signal, &signal_);
  }
  void end(const Load&) override {
    for (const auto& side : sides_)
      side->finish();
  }

private:
  std::vector<std::unique_ptr<OneStream>> sides_;
};

/// A thread of the library polls every 100 us until a stream has ended, wakes the sleeper, and goes on after
/// the sleeper has polled.
class Helper : public Mechanism {
public:
  explicit Helper(const Load& load) : thread_([this, &load] { run(load); }) { epoll_.add(signal_); }
  ~Helper() override {
    stop_ = true;
    armed_.release();
    thread_.join();
  }
  void sleep() override {
    armed_.release();
    epoll_.wait();
    signal_.clear();
  }

private:
  void run(const Load& load) {
    while (true) {
      armed_.acquire();
      while (!stop_ && load.pending != 0 && !any_ended(load))
        sleep_until(now() + 100'000);
      if (stop_) return;
      signal_.set();
    }
  }

  static bool any_ended(const Load& load) {
    bool any = false;
    for_each_lane(load.pending, [&](std::size_t lane) { any = any || load.all[lane]->event.query(); });
    return any;
  }

  Signal signal_;
  Epoll epoll_;
  std::counting_semaphore<> armed_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

struct NamedMechanism {
  const char* name;
  std::function<std::unique_ptr<Mechanism>(const gpu::Gpu&, const Load&)> make;
};

NamedMechanism every(const char* name, Nanoseconds pause) {
  return {name, [pause](auto&, auto&) { return std::make_unique<ByTimer>(pause); }};
}
NamedMechanism arm(const char* name, Nanoseconds most_late) {
  return {name, [most_late](auto& gpu, auto&) { return std::make_unique<ByQueue>(gpu, most_late); }};
}

const std::vector<NamedMechanism>& mechanisms() {
  static const std::vector<NamedMechanism> all{
      {"spinning polls", [](auto&, auto&) { return std::make_unique<NoSleep>(); }},
      every("timer, every 35 us", 35'000),
      every("timer, every 100 us", 100'000),
      every("timer, every 300 us", 300'000),
      arm("CompletionQueue::arm, 50 us", 50'000),
      arm("CompletionQueue::arm, 100 us", 100'000),
      arm("CompletionQueue::arm, 300 us", 300'000),
      {"helper thread, every 100 us", [](auto&, auto& load) { return std::make_unique<Helper>(load); }},
      {"64 side streams, host functions",
       [](auto& gpu, auto&) { return std::make_unique<SideStreams>(gpu); }},
      {"host functions on the streams",
       [](auto& gpu, auto&) { return std::make_unique<HostFunctions>(gpu); }},
  };
  return all;
}

void measure(Testbed& testbed, const NamedMechanism& named, Nanoseconds duration) {
  Load load{make_streams(testbed.gpu())};
  std::mt19937 random(1);
  std::uniform_int_distribution<Nanoseconds> any_length(shortest, longest);
  const std::unique_ptr<Mechanism> mechanism = named.make(testbed.gpu(), load);

  const auto submit = [&](std::size_t lane) {
    OneStream& it = *load.all[lane];
    testbed.launch(lane, it.stream, any_length(random));
    mechanism->submitted(it, lane);
    load.pending |= bit_of(lane);
  };
  Distribution late, delay;
  bool measured = false, again = true;
  const Found found = [&](std::size_t lane) {
    const Nanoseconds seen = now();
    load.pending &= ~bit_of(lane);
    if (measured) {
      late.add(seen - testbed.end_of(lane));
      delay.add(testbed.start_delay(lane));
    }
    if (again) submit(lane);
  };

  for (std::size_t i = 0; i < streams; ++i)
    submit(i);
  const Nanoseconds warm = now() + longest;
  CpuTime cpu = testbed.cpu_time();
  for (Nanoseconds time = now(); time < warm + duration; time = now()) {
    if (!measured && time >= warm) {
      measured = true;
      cpu = testbed.cpu_time();
    }
    mechanism->sleep();
    mechanism->poll(load, found);
  }
  const auto wall = static_cast<double>(cpu.wall());
  const auto mine = static_cast<double>(cpu.of_this_thread()), others = static_cast<double>(cpu.of_others());
  std::printf("  %-36s %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f\n", named.name, late.quantile(0.5),
              late.quantile(0.99), 100 * mine / wall, 100 * others / wall, delay.quantile(0.5),
              delay.quantile(0.99));
  std::fflush(stdout);
  measured = again = false;
  while (load.pending != 0)
    mechanism->poll(load, found);
  mechanism->end(load);
}

} // namespace

void many_streams(Testbed& testbed, int divisor) {
  std::printf("\n64 streams, random lengths of 20 to 100 ms. CPU: the waiting thread, which also submits; "
              "others: all other threads.\n  %-36s %8s %8s %8s %8s %8s %8s\n",
              "", "late p50", "p99 us", "CPU %", "others %", "starts", "p99 us");
  for (const NamedMechanism& mechanism : mechanisms())
    measure(testbed, mechanism, 500'000'000 / divisor);
}

} // namespace sleeping
