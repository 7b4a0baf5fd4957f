// SPDX-License-Identifier: MIT
// An experiment: where the events of a whole context have to be recorded, what their times may be compared
// with, and when enough samples are taken. Each variant of these is tried on the same work.
#include "testbed.hpp"

#include "../part_of.hpp"

#include <cuevent/capture.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/stage_timer.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace measuring {

namespace {

using Work = std::function<void(CUstream)>;

/// Where the event of the context that comes before the work is recorded.
enum class Before {
  behind_the_hold, // in front of the sample's own work, and released together with it
  ahead,           // before the hold
  awaited,         // before the hold, which lasts until the event has completed
};

/// Whether the measured stream waits for the whole context before the end, so that nothing can escape.
enum class Joined { by_the_work, by_force };

/// The times of one sample in us. At the end they count from the record after the work.
struct Times {
  double time = 0, lead = 0;
  double all = 0;    ///< the context's event
  double own = 0;    ///< a record on the measured stream after it
  double joined = 0; ///< a record on another stream that waits for the record after the work
  double again = 0;  ///< a second event of the context
};

/// Takes samples as the library does, with more events.
class Samples {
public:
  explicit Samples(const Testbed& testbed) : testbed_(testbed) { *static_cast<int*>(word_) = 0; }

  Times take(const Work& work, Before before, Joined joined) {
    const cuevent::Context& context = testbed_.gpu().context;
    const CUstream stream = testbed_.stream();
    testbed_.finish();
    if (before != Before::behind_the_hold) before_.record_context(context);
    hold();
    if (before == Before::behind_the_hold) before_.record_context(context);
    start_.record(stream);
    work(stream);
    if (joined == Joined::by_force) {
      force_.record_context(context);
      force_.wait(stream);
    }
    end_.record(stream);
    all_.record_context(context);
    own_.record(stream);
    end_.wait(quiet_);
    joined_.record(quiet_);
    again_.record_context(context);
    if (before == Before::awaited) before_.synchronize();
    let_go();
    for (const DriverEvent* const event : {&again_, &joined_, &own_, &all_, &end_, &start_, &before_})
      event->synchronize();
    return {.time = between(start_, end_),
            .lead = between(start_, before_),
            .all = between(end_, all_),
            .own = between(end_, own_),
            .joined = between(end_, joined_),
            .again = between(end_, again_)};
  }

private:
  static double between(const DriverEvent& from, const DriverEvent& to) {
    return 1000 * static_cast<double>(from.elapsed_time(to).count());
  }

  void hold() {
    wait_value_(held_, reinterpret_cast<CUdeviceptr>(static_cast<int*>(word_)), ++number_,
                CU_STREAM_WAIT_VALUE_GEQ);
    held_event_.record(held_);
    held_event_.wait_context(testbed_.gpu().context);
  }
  void let_go() { __atomic_store_n(static_cast<int*>(word_), static_cast<int>(number_), __ATOMIC_RELEASE); }

  const Testbed& testbed_;
  const gpu::Gpu& gpu_ = testbed_.gpu();
  gpu::Call<PFN_cuStreamWaitValue32_v11070> wait_value_{gpu_.driver, "cuStreamWaitValue32", 11070};
  const gpu::Stream held_ = gpu_.stream(), quiet_ = gpu_.stream();
  const gpu::PinnedMemory word_ = gpu_.pinned_memory(1);
  unsigned number_ = 0;
  DriverEvent held_event_{gpu_.context}, force_{gpu_.context};
  DriverEvent before_{gpu_.context, EventFlags::timing}, start_{gpu_.context, EventFlags::timing},
      end_{gpu_.context, EventFlags::timing}, all_{gpu_.context, EventFlags::timing},
      own_{gpu_.context, EventFlags::timing}, joined_{gpu_.context, EventFlags::timing},
      again_{gpu_.context, EventFlags::timing};
};

std::string spread_of(const std::vector<Times>& samples, double (*value)(const Times&)) {
  std::vector<double> values;
  std::size_t above = 0;
  for (const Times& sample : samples) {
    values.push_back(value(sample));
    above += values.back() > 1 ? 1 : 0;
  }
  char text[100];
  std::snprintf(text, sizeof text, "%.2f / %.2f / %.2f (%zu)", median(values), part_of(values, 0.9),
                *std::max_element(values.begin(), values.end()), above);
  return text;
}

class Evidence {
public:
  explicit Evidence(const Testbed& testbed)
      : samples_(testbed), rounds_(testbed.gpu().simulated() ? 5 : 200) {}

  void run(const char* name, const Work& work) {
    constexpr struct {
      Before before;
      Joined joined;
      const char* name;
    } variants[] = {{Before::behind_the_hold, Joined::by_the_work, "behind the hold"},
                    {Before::ahead, Joined::by_the_work, "ahead"},
                    {Before::awaited, Joined::by_the_work, "awaited"},
                    {Before::awaited, Joined::by_force, "awaited, joined by force"}};
    for (const auto& variant : variants) {
      constexpr int warm_up = 5;
      std::vector<Times> times;
      for (int i = -warm_up; i < rounds_; ++i) {
        const Times taken = samples_.take(work, variant.before, variant.joined);
        if (i >= 0) times.push_back(taken);
      }
      std::vector<double> lengths;
      for (const Times& sample : times)
        lengths.push_back(sample.time);
      std::printf("| %s | %s | %.2f", name, variant.name, median(lengths));
      constexpr double (*columns[])(const Times&) = {
          [](const Times& t) { return t.lead; },
          [](const Times& t) { return t.all; },
          [](const Times& t) { return t.own; },
          [](const Times& t) { return t.all - t.own; },
          [](const Times& t) { return t.all - t.joined; },
          [](const Times& t) { return t.all - std::max(t.own, t.joined); },
          [](const Times& t) { return t.again - t.all; },
      };
      for (double (*const column)(const Times&) : columns)
        std::printf(" | %s", spread_of(times, column).c_str());
      std::puts(" |");
    }
    std::fflush(stdout);
  }

private:
  Samples samples_;
  const int rounds_;
};

void try_evidence(const Testbed& testbed) {
  std::puts(
      "\n### Events of the context\n\nEach cell is the median / the 90th percentile / the largest, in us, "
      "and in parentheses how many of 200 samples\nare above 1 us. The lead is from the start to the "
      "context's event before it, and the tail from the end to the\ncontext's event after it. The "
      "variants say where the event before the start is recorded.\n\n"
      "| the work | variant | time | lead | tail | own record | tail beyond own | beyond joined | beyond "
      "both | second event |\n"
      "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
  const gpu::Gpu& gpu = testbed.gpu();
  const Spin& spin = testbed.spin();
  constexpr std::size_t mega = 1 << 20, most = 64 * mega;
  const gpu::DeviceMemory device = gpu.device_memory(most / sizeof(int));
  const gpu::PinnedMemory host = gpu.pinned_memory(most / sizeof(int));
  Evidence evidence(testbed);
  evidence.run("nothing", [](CUstream) {});
  evidence.run("kernel of 20 us", [&](CUstream on) { spin.launch(20us, on); });
  evidence.run("copy of 1 MiB to the device",
               [&](CUstream on) { gpu.copy_to_device(device, host, mega, on); });
  evidence.run("copy of 16 MiB to the device",
               [&](CUstream on) { gpu.copy_to_device(device, host, 16 * mega, on); });
  evidence.run("copy of 64 MiB to the device",
               [&](CUstream on) { gpu.copy_to_device(device, host, most, on); });
  evidence.run("copy of 64 MiB to the host", [&](CUstream on) { gpu.copy_to_host(host, device, most, on); });
  const auto there_and_back = [&](CUstream on) {
    gpu.copy_to_device(device, host, mega, on);
    spin.launch(50us, on);
    gpu.copy_to_host(host, device, mega, on);
  };
  cuevent::StreamCapture capture(gpu.context, testbed.stream());
  there_and_back(testbed.stream());
  cuevent::GraphExec graph = capture.end().instantiate();
  evidence.run("graph: copy, kernel, copy back", [&](CUstream on) { graph.launch(on); });
  evidence.run("20 us escape: a kernel on another stream", [&](CUstream on) {
    spin.launch(10us, on);
    spin.launch(30us, testbed.other());
  });
  evidence.run("20 us escape: a kernel next to a copy to the device", [&](CUstream on) {
    gpu.copy_to_device(device, host, mega, on);
    spin.launch(45us, testbed.other());
  });
  testbed.finish();
}

/// A way to decide that there are enough samples.
struct Rule {
  const char* name;
  double width; ///< of the interval, as part of the median; negative: never
  std::size_t least = 20;
  double least_part = 0; ///< of the series, to be taken in any case
  bool settles = false;  ///< the first third is dropped while the times drift
};

/// The 95 % interval of the median, by the normal approximation.
std::pair<double, double> interval_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  const auto low = static_cast<std::size_t>(std::max(count / 2 - 0.98 * std::sqrt(count), 0.0));
  return {values[low], values[values.size() - 1 - low]};
}

bool drifts(const std::vector<double>& values, double precision) {
  const auto third = static_cast<std::ptrdiff_t>(values.size() / 3);
  const std::vector<double> first(values.begin(), values.begin() + third),
      last(values.end() - third, values.end());
  const auto [first_low, first_high] = interval_of(first);
  const auto [last_low, last_high] = interval_of(last);
  return (first_high < last_low || last_high < first_low) &&
         std::abs(median(last) - median(first)) > precision * median(values);
}

struct Stopped {
  double median = 0;
  double samples = 0; ///< with those that were dropped
};

/// Where the rule would have ended this series.
Stopped stop(const Rule& rule, const std::vector<double>& series, double resolution) {
  constexpr double precision = 0.005;
  std::size_t first = 0,
              count = std::max(
                  rule.least, static_cast<std::size_t>(rule.least_part * static_cast<double>(series.size())));
  for (; count < series.size(); count += 1 + (count - first) / 10) {
    const std::vector<double> now(series.begin() + static_cast<std::ptrdiff_t>(first),
                                  series.begin() + static_cast<std::ptrdiff_t>(count));
    const auto [low, high] = interval_of(now);
    if (rule.width < 0 || high - low > std::max(rule.width * median(now), resolution)) continue;
    if (!rule.settles || !drifts(now, precision)) return {median(now), static_cast<double>(count)};
    first += now.size() / 3;
  }
  return {median({series.begin() + static_cast<std::ptrdiff_t>(first), series.end()}),
          static_cast<double>(series.size())};
}

double spread_of(const std::vector<double>& medians) {
  const auto [least, most] = std::minmax_element(medians.begin(), medians.end());
  return 100 * (*most - *least) / median(medians);
}

void try_rules(const Testbed& testbed) {
  constexpr Rule rules[] = {{"0.5 %", 0.005},
                            {"0.5 %, settles", 0.005, 20, 0, true},
                            {"0.25 %", 0.0025},
                            {"0.25 %, settles", 0.0025, 20, 0, true},
                            {"0.1 %, settles", 0.001, 20, 0, true},
                            {"0.25 %, settles, 100 samples", 0.0025, 100, 0, true},
                            {"0.25 %, settles, 50 ms", 0.0025, 20, 1.0 / 3, true},
                            {"all 150 ms", -1}};
  const int repeats = testbed.gpu().simulated() ? 2 : 15;
  std::printf(
      "\n### Rules for the end\n\n%d series of 150 ms of each work. A cell is the spread of the medians "
      "that the rule would have found, and the\nmedian of the number of samples. The last column "
      "is the spread of the medians of 10 ms in the last series.\n\n| the work |",
      repeats);
  for (const Rule& rule : rules)
    std::printf(" %s |", rule.name);
  std::printf(" 10 ms |\n| --- |");
  for (std::size_t i = 0; i <= std::size(rules); ++i)
    std::printf(" ---: |");
  std::puts("");
  const auto run = [&](const char* name, auto&& work) {
    MeasureOptions options;
    options.time_limit = 150ms;
    options.least_samples = options.most_samples = 1 << 20;
    std::vector<std::vector<double>> series;
    double resolution = 0;
    for (int i = 0; i < repeats; ++i) {
      const Measurement found = testbed.measure(work, options).found;
      resolution = us(found.resolution);
      series.emplace_back();
      for (const cuevent::MeasuredSample& sample : found.samples)
        series.back().push_back(us(sample.time));
    }
    std::printf("| %s |", name);
    for (const Rule& rule : rules) {
      std::vector<double> medians, samples;
      for (const std::vector<double>& each : series) {
        const Stopped stopped = stop(rule, each, resolution);
        medians.push_back(stopped.median);
        samples.push_back(stopped.samples);
      }
      std::printf(" %.2f %% (%.0f) |", spread_of(medians), median(samples));
    }
    const std::vector<double>& last = series.back();
    const std::size_t block = std::max<std::size_t>(last.size() / 15, 1);
    std::vector<double> medians;
    for (std::size_t at = 0; at + block <= last.size(); at += block)
      medians.push_back(median({last.begin() + static_cast<std::ptrdiff_t>(at),
                                last.begin() + static_cast<std::ptrdiff_t>(at + block)}));
    std::printf(" %.2f %% |\n", spread_of(medians));
    std::fflush(stdout);
  };
  const gpu::Gpu& gpu = testbed.gpu();
  const Spin& spin = testbed.spin();
  constexpr std::size_t bytes = 16 << 20;
  const gpu::DeviceMemory device = gpu.device_memory(bytes / sizeof(int));
  const gpu::PinnedMemory host = gpu.pinned_memory(bytes / sizeof(int));
  run("kernel of 20 us", [&](CUstream on) { spin.launch(20us, on); });
  run("kernel of 100 us", [&](CUstream on) { spin.launch(100us, on); });
  run("10 kernels of 5 us", [&](CUstream on) {
    for (int i = 0; i < 10; ++i)
      spin.launch(5us, on);
  });
  run("copy of 16 MiB to the device", [&](CUstream on) { gpu.copy_to_device(device, host, bytes, on); });
  run("copy of 16 MiB to the host", [&](CUstream on) { gpu.copy_to_host(host, device, bytes, on); });
  run("fill of 16 MiB", [&](CUstream on) { gpu.fill(device, 0, bytes, on); });
  testbed.finish();
}

/// Stages of a StageTimer that checks for escapes.
void try_stages(const Testbed& testbed) {
  std::puts(
      "\n### Stages that are checked for escapes\n\nA loop of two stages on one stream. It waits for the "
      "device in every 50th step. Only work of `escapes`\noutlasts its stage.\n\n"
      "| the stage | spans | escaped | unknown | dropped |\n| --- | ---: | ---: | ---: | ---: |");
  const gpu::Gpu& gpu = testbed.gpu();
  const Spin& spin = testbed.spin();
  constexpr std::size_t bytes = 16 << 20;
  const gpu::DeviceMemory device = gpu.device_memory(bytes / sizeof(int));
  const gpu::PinnedMemory host = gpu.pinned_memory(bytes / sizeof(int));
  const Work kernel = [&](CUstream on) { spin.launch(100us, on); };
  const auto loop = [&](const char* first_name, const Work& first, const char* second_name,
                        const Work& second) {
    cuevent::StageTimerOptions options;
    options.escapes = cuevent::StageEscapes::checked;
    cuevent::StageTimer timer(gpu.context, options);
    const cuevent::StageId one = timer.stage(first_name), two = timer.stage(second_name);
    for (int step = 1; step <= 100; ++step) {
      timer.open(testbed.stream(), one);
      first(testbed.stream());
      timer.next(testbed.stream(), two);
      second(testbed.stream());
      timer.close(testbed.stream());
      timer.poll();
      if (step % 50 == 0) timer.collect();
    }
    for (const cuevent::StageStatistics& stage : timer.report().stages)
      std::printf(
          "| %s | %llu | %llu | %llu | %llu |\n", stage.name.c_str(),
          static_cast<unsigned long long>(stage.count), static_cast<unsigned long long>(stage.escaped),
          static_cast<unsigned long long>(stage.unknown), static_cast<unsigned long long>(stage.dropped));
    std::fflush(stdout);
  };
  loop("kernel", kernel, "another kernel", kernel);
  loop("kernel before a copy to the device", kernel, "copy to the device",
       [&](CUstream on) { gpu.copy_to_device(device, host, bytes, on); });
  loop("kernel before a copy to the host", kernel, "copy to the host",
       [&](CUstream on) { gpu.copy_to_host(host, device, bytes, on); });
  loop(
      "escapes", [&](CUstream) { kernel(testbed.other()); }, "kernel after it", kernel);
  testbed.finish();
}

} // namespace

bool try_variants(const Testbed& testbed) {
  try_evidence(testbed);
  try_stages(testbed);
  try_rules(testbed);
  return true;
}

} // namespace measuring
