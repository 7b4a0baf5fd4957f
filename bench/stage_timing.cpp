// SPDX-License-Identifier: MIT
// How accurate StageTimer is, and what it costs the loop that it times. Needs a device: kernels spin for a
// time that they measure by their own clock. Exits with 1 if a bound is exceeded, and with 77 if there is
// no device.
#include "../support/exit_code.hpp"
#include "../support/gpu.hpp"
#include "part_of.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/stage_timer.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

using cuevent::DriverEvent;
using cuevent::EventFlags;
using cuevent::StageEscapes;
using cuevent::StageId;
using cuevent::StageReport;
using cuevent::StageStatistics;
using cuevent::StageTimer;
using namespace std::chrono_literals;

namespace {

/// Spins until `time` ns have passed, and adds the actual time to `spun`.
constexpr char ptx[] = R"(
.version 7.0
.target sm_50
.address_size 64

.visible .entry spin(.param .u64 spun, .param .u64 time) {
  .reg .pred %more;
  .reg .b64 %start, %now, %elapsed, %time, %spun, %sum;

  ld.param.u64 %time, [time];
  mov.u64 %start, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %elapsed, %now, %start;
  setp.lt.u64 %more, %elapsed, %time;
  @%more bra again;

  ld.param.u64 %spun, [spun];
  cvta.to.global.u64 %spun, %spun;
  ld.global.u64 %sum, [%spun];
  add.u64 %sum, %sum, %elapsed;
  st.global.u64 [%spun], %sum;
  ret;
}
)";

class Bench {
public:
  explicit Bench(const gpu::Gpu& gpu) : gpu_(gpu) {
    gpu.module_get_function(&spin_, module_, "spin");
    gpu.fill(spun_, 0, sizeof(std::uint64_t), stream_);
    spin(1'000); // loads the kernel
    finish();
  }

  /// Compares stages of one kernel each with the time that the kernel itself measured.
  bool accuracy() {
    std::printf("\nMean of stages of one kernel, in us\n  %-10s %6s %12s %12s %12s %9s %9s\n", "spins for",
                "count", "by itself", "bare events", "stage", "error", "bound");
    bool within = true;
    const Case cases[] = {
        {"20", 20'000, 2'000},
        {"100", 100'000, 1'000},
        {"1000", 1'000'000, 300},
        {"10000", 10'000'000, 50},
        {"50000", 50'000'000, 10},
        {"1000, rare", 1'000'000, 20, 300ms, 100'000}, // with clock anchors between them
        // The stage begins before the kernel is submitted.
        {"1000, idle", 1'000'000, 20, 300ms, 0},
    };
    for (const Case& each : cases)
      within &= accurate(each);
    return within;
  }

  /// A loop whose steps have eight kernels of 125 us, alternately untimed and timed.
  bool overhead() {
    constexpr int rounds = 15;
    std::array<std::vector<double>, variants> times;
    for (int round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < variants; ++i)
        times[i].push_back(loop(static_cast<Variant>(i)));
    std::printf("\nA step of eight kernels of 125 us, median of %d loops of %d steps\n", rounds, steps);
    const double streams = median(times[untimed]), graphs = median(times[graph_untimed]);
    bool within = true;
    for (std::size_t i = 0; i < variants; ++i) {
      const Row& row = rows[i];
      const double base = i < graph_untimed ? streams : graphs;
      const double cost = 100 * (median(times[i]) / base - 1);
      const auto [least, most] = std::minmax_element(times[i].begin(), times[i].end());
      std::printf("  %-32s %9.2f us per step (%.2f to %.2f)  %+6.2f %%", row.name, median(times[i]), *least,
                  *most, cost);
      if (row.bound > 0) std::printf("  at most %.1f%s", row.bound, cost <= row.bound ? "" : "  EXCEEDED");
      std::printf("\n");
      if (row.bound > 0) within &= cost <= row.bound;
    }
    return within && complete_;
  }

  /// The host time of a call.
  void calls() {
    StageTimer timer(gpu_.context);
    const StageId stage = timer.stage("empty");
    timer.add_stream(stream_);
    constexpr int count = 200; // far fewer than the submissions that block the thread
    double record = 0, poll = 0;
    for (int round = 0; round < 5; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < count; ++i)
        timer.next(stream_, stage);
      const auto recorded = std::chrono::steady_clock::now();
      timer.close(stream_);
      finish();
      const auto finished = std::chrono::steady_clock::now();
      timer.poll();
      const auto polled = std::chrono::steady_clock::now();
      record = std::chrono::duration<double, std::nano>(recorded - start).count() / count;
      poll = std::chrono::duration<double, std::nano>(polled - finished).count() / count;
    }
    const StageReport report = timer.report();
    const StageStatistics& empty = report.stages.front();
    std::printf("\nOn the host: next() %.0f ns, reading a stage back %.0f ns\n", record, poll);
    std::printf("Empty stages back to back: p50 %.3f us, min %.3f, p99 %.3f, max %.3f\n", us(empty.p50),
                us(empty.min), us(empty.p99), us(empty.max));
    const cuevent::StageClock& clock = report.clock;
    std::printf("The clock: resolution %.3f us, empty stage %.3f us, aligned with the host's to +-%.3f us, "
                "rounding at most %.3f us\n",
                us(clock.resolution), us(clock.empty_stage), us(clock.uncertainty), us(clock.rounding));
  }

private:
  struct Case {
    const char* name;
    std::uint64_t time; // how long the kernel spins, in ns
    int count;
    std::chrono::nanoseconds pause{}; // after each kernel
    std::uint64_t before = 0;         // a kernel that keeps the device busy while the stage is submitted
  };
  enum Variant : std::size_t {
    untimed,
    adjacent,
    separate,
    adjacent_in_stream,
    separate_in_stream,
    adjacent_checked,
    separate_checked,
    graph_untimed,
    graph_adjacent,
    graph_adjacent_in_stream,
    variants
  };
  struct Row {
    const char* name;
    double bound;             // in %
    std::size_t side_streams; // an option of the timer
  };
  static constexpr std::array<Row, variants> rows{{{"untimed", 0, 0},
                                                   {"8 adjacent stages", 1.5, 1},
                                                   {"8 separate stages", 2.5, 1},
                                                   {"8 adjacent, in the stream", 0, 0},
                                                   {"8 separate, in the stream", 0, 0},
                                                   {"8 adjacent, checked for escapes", 0, 1},
                                                   {"8 separate, checked for escapes", 0, 1},
                                                   {"a graph, untimed", 0, 0},
                                                   {"a graph, 8 adjacent stages", 1.5, 1},
                                                   {"a graph, 8, in the stream", 0, 0}}};
  static constexpr int steps = 200;
  /// How many steps the host is ahead. With more, a check for escapes knows nothing of some stages, because
  /// 256 events of the context are on their way.
  static constexpr std::size_t lead = 10;
  static constexpr std::size_t stages = 8;

  static double us(cuevent::DeviceTime time) { return time.count() / 1000; }

  void spin(std::uint64_t time) { spin(time, spun_); }
  void spin(std::uint64_t time, CUdeviceptr spun) {
    void* arguments[] = {&spun, &time};
    gpu_.launch_kernel(spin_, 1, 1, 1, 1, 1, 1, 0, stream_, arguments, nullptr);
  }

  void finish() {
    DriverEvent end(gpu_.context);
    end.record(stream_);
    end.synchronize();
  }

  /// How long the kernels have spun since the last call, in us.
  double spun() {
    std::uint64_t sum = 0;
    gpu_.copy_to_host(&sum, spun_, sizeof sum, stream_);
    gpu_.fill(spun_, 0, sizeof sum, stream_);
    finish();
    return static_cast<double>(sum) / 1000;
  }

  bool accurate(const Case& wanted) {
    const auto& [name, time, count, pause, before] = wanted;
    StageTimer timer(gpu_.context);
    const StageId stage = timer.stage("spin");
    spun();
    for (int i = 0; i < count; ++i) {
      if (before > 0) spin(before, elsewhere_);
      timer.open(stream_, stage);
      spin(time);
      timer.close(stream_);
      if (i % 100 == 99) finish(); // so that the ring is never full
      timer.poll();
      if (pause > 0ns) std::this_thread::sleep_for(pause);
    }
    timer.collect();
    const double by_itself = spun() / count;
    const double raw = by_bare_events(wanted);
    const StageStatistics spins = timer.report().stages.front();
    const double measured = us(spins.total) / static_cast<double>(std::max<std::uint64_t>(spins.count, 1));
    const bool bounded = pause == 0ns || before > 0;
    const double error = measured - by_itself, bound = 2 + by_itself / 100;
    const bool within = std::abs(error) <= bound && spins.count == static_cast<std::uint64_t>(count);
    std::printf("  %-10s %6llu %12.3f %12.3f %12.3f %9.3f", name,
                static_cast<unsigned long long>(spins.count), by_itself, raw, measured, error);
    if (bounded) std::printf(" %9.3f%s", bound, within ? "" : "  EXCEEDED");
    std::printf("\n");
    return within || !bounded;
  }

  /// The mean time of the same kernels in us, each between two events and without a timer.
  double by_bare_events(const Case& wanted) {
    constexpr std::size_t in_flight = 100;
    std::vector<DriverEvent> starts, ends;
    starts.reserve(in_flight);
    ends.reserve(in_flight);
    for (std::size_t i = 0; i < in_flight; ++i) {
      starts.emplace_back(gpu_.context, EventFlags::timing);
      ends.emplace_back(gpu_.context, EventFlags::timing);
    }
    const auto count = static_cast<std::size_t>(wanted.count);
    double sum = 0;
    for (std::size_t done = 0; done < count; done += in_flight) {
      const std::size_t some = std::min(in_flight, count - done);
      for (std::size_t i = 0; i < some; ++i) {
        if (wanted.before > 0) spin(wanted.before, elsewhere_);
        starts[i].record(stream_);
        spin(wanted.time);
        ends[i].record(stream_);
        if (wanted.pause > 0ns) std::this_thread::sleep_for(wanted.pause);
      }
      finish();
      for (std::size_t i = 0; i < some; ++i)
        sum += 1000 * static_cast<double>(starts[i].elapsed_time(ends[i]).count());
    }
    return sum / static_cast<double>(count);
  }

  static bool is_timed_graph(Variant variant) {
    return variant == graph_adjacent || variant == graph_adjacent_in_stream;
  }

  void step(Variant variant, StageTimer& timer, StageId stage) {
    const bool is_separate =
        variant == separate || variant == separate_in_stream || variant == separate_checked;
    const bool is_adjacent = variant == adjacent || variant == adjacent_in_stream ||
                             variant == adjacent_checked || is_timed_graph(variant);
    for (std::size_t i = 0; i < stages; ++i) {
      if (is_separate) timer.open(stream_, stage);
      if (is_adjacent) timer.next(stream_, stage);
      spin(125'000);
      if (is_separate) timer.close(stream_);
    }
    if (is_adjacent) timer.close(stream_);
  }

  /// A loop of steps. Returns the time of one step in us, measured by events around the loop.
  double loop(Variant variant) {
    const bool is_checked = variant == adjacent_checked || variant == separate_checked;
    StageTimer timer(gpu_.context,
                     {.events_per_stream = 2 * stages * (steps + 1),
                      .when_full = cuevent::WhenFull::wait, // the host is far ahead, and all stages count
                      .side_streams = rows[variant].side_streams,
                      .escapes = is_checked ? StageEscapes::checked : StageEscapes::ignored});
    const StageId stage = timer.stage("stage");
    timer.add_stream(stream_);
    DriverEvent start(gpu_.context, EventFlags::timing), end(gpu_.context, EventFlags::timing);
    if (variant < graph_untimed) {
      std::array<DriverEvent, lead> done;
      for (DriverEvent& each : done)
        each = DriverEvent(gpu_.context);
      start.record(stream_);
      for (int i = 0; i < steps; ++i) {
        DriverEvent& earlier = done[static_cast<std::size_t>(i) % lead];
        earlier.synchronize(); // at first it has not been recorded
        step(variant, timer, stage);
        earlier.record(stream_);
        if (variant != untimed) timer.poll();
      }
      end.record(stream_);
    } else {
      cuevent::StreamCapture capture(gpu_.context, stream_);
      step(variant, timer, stage);
      cuevent::Graph graph = capture.end();
      if (is_timed_graph(variant)) {
        cuevent::TimedGraph exec = timer.instantiate(std::move(graph));
        run(exec, start, end, [&] { timer.poll(); });
      } else {
        cuevent::GraphExec exec = graph.instantiate();
        run(exec, start, end, [] {});
      }
    }
    end.synchronize();
    timer.collect();
    const StageStatistics statistics = timer.report().stages.front();
    const std::size_t timed_steps = is_timed_graph(variant)                          ? steps + 1
                                    : variant == untimed || variant == graph_untimed ? 0
                                                                                     : steps;
    if (statistics.count != timed_steps * stages) {
      complete_ = false;
      std::printf("  WRONG: %s: %llu stages timed, %llu dropped\n", rows[variant].name,
                  static_cast<unsigned long long>(statistics.count),
                  static_cast<unsigned long long>(statistics.dropped));
    }
    if (is_checked && statistics.escaped + statistics.unknown != 0) {
      complete_ = false; // the cost is that of the other stages
      std::printf("  WRONG: %s: of %llu stages %llu escaped, %llu unknown\n", rows[variant].name,
                  static_cast<unsigned long long>(statistics.count),
                  static_cast<unsigned long long>(statistics.escaped),
                  static_cast<unsigned long long>(statistics.unknown));
    }
    return 1000 * static_cast<double>(start.elapsed_time(end).count()) / steps;
  }

  template <class Exec, class After>
  void run(Exec& exec, DriverEvent& start, DriverEvent& end, const After& after) {
    exec.launch(stream_);
    finish(); // the first launch takes longer
    start.record(stream_);
    for (int i = 0; i < steps; ++i) {
      exec.launch(stream_);
      after();
    }
    end.record(stream_);
    end.synchronize();
  }

  const gpu::Gpu& gpu_;
  bool complete_ = true; ///< all stages were timed
  gpu::Module module_ = gpu_.module(ptx);
  CUfunction spin_ = nullptr;
  gpu::DeviceMemory spun_ = gpu_.device_memory(sizeof(std::uint64_t) / sizeof(int));
  gpu::DeviceMemory elsewhere_ = gpu_.device_memory(sizeof(std::uint64_t) / sizeof(int));
  gpu::Stream stream_ = gpu_.stream();
};

int run() {
  const gpu::Gpu gpu;
  std::printf("%s, driver %d\n", gpu.name().c_str(), gpu.driver.version());
  if (gpu.simulated()) {
    std::puts("skipped: kernels do not spin on a simulated device");
    return 77;
  }
  Bench bench(gpu);
  bench.calls();
  const bool accurate = bench.accuracy();
  const bool cheap = bench.overhead();
  std::printf("\n%s\n",
              accurate && cheap ? "All within bounds." : "A bound is EXCEEDED, or stages are missing.");
  return accurate && cheap ? 0 : 1;
}

} // namespace

int main() { return exit_code(run); }
