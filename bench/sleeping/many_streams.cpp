// SPDX-License-Identifier: MIT
// 64 streams whose ends come in any order: latency against CPU time for each mechanism.
#include "descriptors.hpp"
#include "poll_times.hpp"
#include "sleeping.hpp"

#include <bit>
#include <functional>
#include <random>
#include <semaphore>
#include <utility>

using cuevent::DriverEvent;
using cuevent::EventFlags;

namespace sleeping {

namespace {

constexpr std::size_t streams = 64;

struct OneStream {
  OneStream(const gpu::Gpu& gpu, EventFlags flags) : stream(gpu.stream()), event(gpu.context, flags) {}
  gpu::Stream stream;
  DriverEvent event;
  Nanoseconds submitted = 0;
  PollTimes times; // begins when the work is submitted
};

struct Load {
  std::vector<std::unique_ptr<OneStream>> all;
  std::atomic<std::uint64_t> pending{0}; // a bit for each stream
  Nanoseconds newest_end = 0;            // when the waiting thread last found one
};

/// Lets the waiting thread sleep until a stream may have ended.
class Mechanism {
public:
  virtual ~Mechanism() = default;
  virtual void submitted(OneStream&, std::size_t) {}
  virtual void sleep(Load& load) = 0;
  /// Waits for host functions that still refer to this object.
  virtual void end(Load&) {}
};

class NoSleep : public Mechanism {
public:
  void sleep(Load&) override {}
};

Nanoseconds since_newest_end(const Load& load) { return now() - load.newest_end; }

template <class Each>
void for_each_pending(const Load& load, Each each) {
  for (std::uint64_t left = load.pending; left != 0; left &= left - 1)
    each(*load.all[static_cast<std::size_t>(std::countr_zero(left))]);
}

/// The earliest next poll of all streams. The ends of streams that do not repeat are as late as the time
/// since the newest end allows.
Nanoseconds first_poll(const Load& load, Lateness lateness) {
  const Nanoseconds time = now();
  Nanoseconds first = time + lateness.after(time - load.newest_end);
  for_each_pending(load, [&](OneStream& it) {
    if (it.times.expected(time)) first = std::min(first, it.times.next(time, lateness));
  });
  return first;
}

/// The descriptor becomes readable by a timer. The waiting thread polls.
class ByTimer : public Mechanism {
public:
  using Next = std::function<Nanoseconds(const Load&)>; // the time of the next poll
  explicit ByTimer(Next next) : next_(std::move(next)) { epoll_.add(timer_); }
  void sleep(Load& load) override {
    const Nanoseconds next = next_(load);
    if (next <= now()) return;
    timer_.set(next);
    epoll_.wait();
    timer_.clear();
    const Nanoseconds time = now();
    for_each_pending(load, [&](OneStream& it) { it.times.woke(time, next); });
  }

private:
  Next next_;
  Timer timer_;
  Epoll epoll_;
};

/// `count` side streams wait for the newest event of each stream, in the order of submission. With `timer`,
/// a timer finds those that end out of order.
class SideStreams : public Mechanism {
public:
  SideStreams(const gpu::Gpu& gpu, std::size_t count, Nanoseconds most) : gpu_(gpu), lateness_{most} {
    for (std::size_t i = 0; i < count; ++i)
      sides_.push_back(std::make_unique<OneStream>(gpu, EventFlags::none));
    epoll_.add(signal_);
    if (most != 0) epoll_.add(timer_);
  }
  void submitted(OneStream& it, std::size_t lane) override {
    CUstream const side = sides_[lane % sides_.size()]->stream;
    it.event.wait(side);
    gpu_.launch_host_function(side, Signal::set_signal, &signal_);
  }
  void sleep(Load& load) override {
    if (lateness_.most != 0) timer_.set(now() + lateness_.after(since_newest_end(load)));
    epoll_.wait();
    signal_.clear();
    if (lateness_.most != 0) timer_.clear();
  }
  void end(Load&) override {
    for (const auto& side : sides_) {
      side->event.record(side->stream);
      side->event.synchronize();
    }
  }

private:
  const gpu::Gpu& gpu_;
  std::vector<std::unique_ptr<OneStream>> sides_;
  Lateness lateness_;
  Signal signal_;
  Timer timer_;
  Epoll epoll_;
};

class HostFunctions : public Mechanism {
public:
  explicit HostFunctions(const gpu::Gpu& gpu) : gpu_(gpu) { epoll_.add(signal_); }
  void submitted(OneStream& it, std::size_t) override {
    gpu_.launch_host_function(it.stream, Signal::set_signal, &signal_);
  }
  void sleep(Load&) override {
    epoll_.wait();
    signal_.clear();
  }
  void end(Load& load) override {
    for (const auto& it : load.all) {
      it->event.record(it->stream);
      it->event.synchronize();
    }
  }

private:
  const gpu::Gpu& gpu_;
  Signal signal_;
  Epoll epoll_;
};

/// A thread of the library finds a stream that has ended, wakes the sleeper, and goes on after the sleeper
/// has polled.
class Helper : public Mechanism {
public:
  /// Returns when a stream may have ended.
  using Wait = std::function<void(const Load&)>;
  Helper(Load& load, Wait wait) : wait_(std::move(wait)), thread_([this, &load] { run(load); }) {
    epoll_.add(signal_);
  }
  ~Helper() override {
    stop_ = true;
    armed_.release();
    thread_.join();
  }
  void sleep(Load&) override {
    armed_.release();
    epoll_.wait();
    signal_.clear();
  }

private:
  void run(const Load& load) {
    while (true) {
      armed_.acquire();
      while (!stop_ && !any(load))
        wait_(load);
      if (stop_) return;
      signal_.set();
    }
  }
  static bool any(const Load& load) {
    for (std::uint64_t left = load.pending; left != 0; left &= left - 1)
      if (load.all[static_cast<std::size_t>(std::countr_zero(left))]->event.query()) return true;
    return load.pending == 0;
  }

  Wait wait_;
  Signal signal_;
  Epoll epoll_;
  std::counting_semaphore<> armed_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// Blocks in the driver until the stream that was submitted first has ended.
void block_on_oldest(const Load& load) {
  const OneStream* oldest = nullptr;
  for_each_pending(load, [&](const OneStream& it) {
    if (oldest == nullptr || it.submitted < oldest->submitted) oldest = &it;
  });
  if (oldest != nullptr) oldest->event.synchronize();
}

struct NamedMechanism {
  const char* name;
  std::function<std::unique_ptr<Mechanism>(const gpu::Gpu&, Load&)> make;
  EventFlags flags = EventFlags::none;
};

NamedMechanism every(const char* name, Nanoseconds time) {
  return {name, [time](auto&, auto&) {
            return std::make_unique<ByTimer>([time](const Load&) { return now() + time; });
          }};
}
NamedMechanism at_most(const char* name, Nanoseconds most) {
  return {name, [most](auto&, auto&) {
            return std::make_unique<ByTimer>(
                [most](const Load& load) { return first_poll(load, Lateness{most}); });
          }};
}
NamedMechanism sides(const char* name, std::size_t count, Nanoseconds most = 0) {
  return {name, [=](auto& gpu, auto&) { return std::make_unique<SideStreams>(gpu, count, most); }};
}
NamedMechanism helper(const char* name, Helper::Wait wait, EventFlags flags = EventFlags::none) {
  return {name, [wait](auto&, auto& load) { return std::make_unique<Helper>(load, wait); }, flags};
}

const std::vector<NamedMechanism>& mechanisms() {
  static const std::vector<NamedMechanism> all{
      {"spinning polls", [](auto&, auto&) { return std::make_unique<NoSleep>(); }},
      every("timer, every 35 us", 35'000),
      every("timer, every 100 us", 100'000),
      every("timer, every 300 us", 300'000),
      at_most("timer, at most 50 us late", 50'000),
      at_most("timer, at most 100 us late", 100'000),
      at_most("timer, at most 150 us late", 150'000),
      at_most("timer, at most 300 us late", 300'000),
      at_most("timer, at most 1 ms late", 1'000'000),
      helper("helper, every 100 us", [](const Load&) { sleep_until(now() + 100'000); }),
      helper("helper, blocking_sync on the oldest", block_on_oldest, EventFlags::blocking_sync),
      sides("1 side stream", 1),
      sides("1 side stream, timer 150 us", 1, 150'000),
      sides("64 side streams", streams),
      {"host functions on the streams",
       [](auto& gpu, auto&) { return std::make_unique<HostFunctions>(gpu); }},
  };
  return all;
}

struct Scenario {
  const char* name;
  Nanoseconds least, most;
  bool repeating; // each stream always takes its own time
};

constexpr Scenario scenarios[] = {
    {"random lengths of 1 to 10 ms", 1'000'000, 10'000'000, false},
    {"random lengths of 20 to 100 ms", 20'000'000, 100'000'000, false},
    {"each stream its own length of 20 to 100 ms", 20'000'000, 100'000'000, true},
};

void measure(Testbed& testbed, const Scenario& scenario, const NamedMechanism& named, Nanoseconds duration) {
  Load load;
  for (std::size_t i = 0; i < streams; ++i)
    load.all.push_back(std::make_unique<OneStream>(testbed.gpu(), named.flags));
  std::mt19937 random(1);
  std::uniform_int_distribution<Nanoseconds> any_length(scenario.least, scenario.most);
  std::vector<Nanoseconds> own(streams);
  for (Nanoseconds& length : own)
    length = any_length(random);
  const std::unique_ptr<Mechanism> mechanism = named.make(testbed.gpu(), load);

  const auto submit = [&](std::size_t lane) {
    OneStream& it = *load.all[lane];
    testbed.launch(lane, it.stream, scenario.repeating ? own[lane] : any_length(random));
    it.event.record(it.stream);
    it.submitted = now();
    it.times.begin(it.submitted);
    mechanism->submitted(it, lane);
    load.pending |= std::uint64_t{1} << lane;
  };
  Distribution late, delay;
  std::size_t polls = 0;
  bool measured = false;
  const auto poll = [&](bool again) {
    for (std::uint64_t left = load.pending; left != 0; left &= left - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(left));
      OneStream& it = *load.all[lane];
      if (!it.event.query()) continue;
      const Nanoseconds seen = now();
      load.newest_end = seen;
      load.pending &= ~(std::uint64_t{1} << lane);
      it.times.ended(seen);
      if (measured) {
        late.add(seen - testbed.end_of(lane));
        delay.add(testbed.start_delay(lane));
      }
      if (again) submit(lane);
    }
    ++polls;
  };

  for (std::size_t i = 0; i < streams; ++i)
    submit(i);
  load.newest_end = now();
  // A stream that repeats is known after four ends.
  const Nanoseconds warm = now() + (scenario.repeating ? 5 * scenario.most : scenario.most);
  CpuTime cpu = testbed.cpu_time();
  for (Nanoseconds time = now(); time < warm + duration; time = now()) {
    if (!measured && time >= warm) {
      measured = true;
      cpu = testbed.cpu_time();
      polls = 0;
    }
    mechanism->sleep(load);
    poll(true);
  }
  const auto wall = static_cast<double>(cpu.wall()), ends = static_cast<double>(late.count());
  const auto mine = static_cast<double>(cpu.of_this_thread()), others = static_cast<double>(cpu.of_others());
  std::printf("  %-36s %8.1f %8.1f %8.1f %8.1f %8.1f %9.1f %9.1f %7.1f %8.1f %8.1f\n", named.name,
              late.quantile(0.5), late.quantile(0.9), late.quantile(0.99), 100 * mine / wall,
              100 * others / wall, mine / ends / 1000, others / ends / 1000,
              static_cast<double>(polls) / ends, delay.quantile(0.5), delay.quantile(0.99));
  std::fflush(stdout);
  measured = false;
  while (load.pending != 0)
    poll(false);
  mechanism->end(load);
}

} // namespace

void many_streams(Testbed& testbed, int divisor) {
  for (const Scenario& scenario : scenarios) {
    std::printf("\n64 streams, %s. CPU: the waiting thread, which also submits; others: all other threads.\n"
                "  %-36s %8s %8s %8s %8s %8s %9s %9s %7s %8s %8s\n",
                scenario.name, "", "late p50", "p90 us", "p99 us", "CPU %", "others %", "us an end",
                "others us", "polls", "starts", "p99 us");
    for (const NamedMechanism& mechanism : mechanisms())
      measure(testbed, scenario, mechanism, 500'000'000 / divisor);
  }
}

} // namespace sleeping
