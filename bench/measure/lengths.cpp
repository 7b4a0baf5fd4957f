// SPDX-License-Identifier: MIT
// How right the times are: kernels whose length the device's clock knows, on an idle and on a busy host.
#include "testbed.hpp"

#include "../part_of.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <pthread.h>
#include <sched.h>
#include <thread>
#include <vector>

namespace measuring {

namespace {

/// While it lives, this thread has two processors only, and a thread that spins on each of them.
class BusyHost {
public:
  BusyHost() {
    sched_getaffinity(0, sizeof before_, &before_);
    std::vector<std::size_t> processors;
    for (std::size_t i = 0; i < CPU_SETSIZE && processors.size() < threads_.size(); ++i)
      if (CPU_ISSET(i, &before_)) processors.push_back(i);
    cpu_set_t both;
    CPU_ZERO(&both);
    for (const std::size_t each : processors)
      CPU_SET(each, &both);
    sched_setaffinity(0, sizeof both, &both);
    for (std::size_t i = 0; i < threads_.size(); ++i)
      threads_[i] = std::thread([this, processor = processors[i % processors.size()]] {
        cpu_set_t mine;
        CPU_ZERO(&mine);
        CPU_SET(processor, &mine);
        sched_setaffinity(0, sizeof mine, &mine);
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
  }
  BusyHost(const BusyHost&) = delete;
  BusyHost& operator=(const BusyHost&) = delete;
  ~BusyHost() {
    stop_.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads_)
      thread.join();
    sched_setaffinity(0, sizeof before_, &before_);
  }

private:
  cpu_set_t before_{};
  std::atomic<bool> stop_{false};
  std::array<std::thread, 2> threads_;
};

/// Times of one kernel in us.
struct Row {
  double own = 0; ///< what the kernel itself says
  double each = 0, around = 0, measured = 0;
  bool proved = false;
};

class Lengths {
public:
  explicit Lengths(const Testbed& testbed) : testbed_(testbed) {}

  Row measure(Length length) const {
    const Spin& spin = testbed_.spin();
    const CUstream stream = testbed_.stream();
    const auto work = [&](CUstream on) { spin.launch_logged(length, on); };
    const int runs = length >= 5ms ? 20 : 100;
    spin.lengths(stream);
    Row row;
    row.around = testbed_.between_events(work, runs) / runs;
    std::vector<double> each;
    for (int i = 0; i < runs; ++i)
      each.push_back(testbed_.between_events(work));
    row.each = median(each);
    const Measurement found = testbed_.measure(work).found;
    row.measured = us(found.median);
    row.proved = found.proved();
    const std::vector<double> lengths = spin.lengths(stream);
    row.own = lengths.empty() ? static_cast<double>(length.count()) / 1000 : median(lengths);
    return row;
  }

private:
  const Testbed& testbed_;
};

std::string error_of(double time, double own, double fixed) {
  char text[80];
  std::snprintf(text, sizeof text, "%.2f (%+.2f)", time, time - own - fixed);
  return text;
}

/// The row's part of the table. Returns whether the error of measure() is within the bound.
bool print(const char* host, Length length, const Row& row, const Row& fixed, bool bounded) {
  const double error = std::abs(row.measured - row.own - (fixed.measured - fixed.own));
  const bool within = error <= std::max(0.3, 0.005 * row.own);
  std::printf("| %s | %s | %.3f | %s | %s | %s%s%s |\n", host, text_of(length).c_str(), row.own,
              error_of(row.around, row.own, fixed.around - fixed.own).c_str(),
              error_of(row.each, row.own, fixed.each - fixed.own).c_str(),
              error_of(row.measured, row.own, fixed.measured - fixed.own).c_str(),
              row.proved ? "" : " not proved", within || !bounded ? "" : " **EXCEEDED**");
  std::fflush(stdout);
  return within || !bounded;
}

} // namespace

bool measure_known_lengths(const Testbed& testbed) {
  constexpr Length shortest = 2us;
  constexpr Length lengths[] = {5us, 10us, 20us, 50us, 100us, 200us, 500us, 1ms, 2ms, 5ms, 10ms, 20ms, 50ms};
  const Lengths kernels(testbed);
  const Row nothing = kernels.measure(0us), fixed = kernels.measure(shortest);
  std::printf(
      "\n### Kernels of known length\n\nA kernel spins, and says for how long. All times are in us. A launch "
      "has a "
      "fixed cost that\nthe kernel does not see: %.2f us of `measure`, %.2f us of two events around each, "
      "and %.2f "
      "us of two\nevents around all. It is taken from a kernel of 2 us on an idle host. In parentheses is "
      "what is "
      "still too\nmuch after it has been subtracted. The bound of `measure` is 0.3 us or 0.5 %%. A kernel "
      "that ends "
      "at once:\n`measure` says %.2f us. On the busy host, the program has two processors, and a thread "
      "spins on "
      "each.\n\n"
      "| host | spins for | by its own clock | two events around all | two events around each | `measure` |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: |\n",
      fixed.measured - fixed.own, fixed.each - fixed.own, fixed.around - fixed.own, nothing.measured);
  const bool bounded = !testbed.gpu().simulated();
  bool within = true;
  for (const Length length : lengths)
    within &= print("idle", length, kernels.measure(length), fixed, bounded);
  const BusyHost busy;
  for (const Length length : lengths)
    within &= print("busy", length, kernels.measure(length), fixed, bounded);
  return within;
}

bool measure_again_and_again(const Testbed& testbed) {
  constexpr int repeats = 20;
  const gpu::Gpu& gpu = testbed.gpu();
  const Spin& spin = testbed.spin();
  constexpr std::size_t bytes = 16 << 20;
  const gpu::DeviceMemory device = gpu.device_memory(bytes / sizeof(int));
  const gpu::PinnedMemory host = gpu.pinned_memory(bytes / sizeof(int));
  std::printf(
      "\n### %d times the same measurement\n\nThe spread is the largest median less the smallest one, as "
      "part of their median. The bound is 0.5 %%.\n\n"
      "| the work | medians | spread | proved | samples | took |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: |\n",
      repeats);
  bool within = true;
  const auto repeat = [&](const char* name, auto&& work) {
    std::vector<double> medians, samples, seconds;
    int proved = 0;
    for (int i = 0; i < repeats; ++i) {
      const Timed timed = testbed.measure(work);
      medians.push_back(us(timed.found.median));
      samples.push_back(static_cast<double>(timed.found.warm_up + timed.found.samples.size()));
      seconds.push_back(timed.seconds);
      proved += timed.found.proved() ? 1 : 0;
    }
    const auto [least, most] = std::minmax_element(medians.begin(), medians.end());
    const double spread = (*most - *least) / median(medians);
    const bool bounded = !gpu.simulated();
    std::printf("| %s | %.2f to %.2f us | %.3f %%%s | %d of %d | %.0f | %.3f s |\n", name, *least, *most,
                100 * spread, bounded && spread > 0.005 ? " **EXCEEDED**" : "", proved, repeats,
                median(samples), median(seconds));
    std::fflush(stdout);
    within &= spread <= 0.005 || !bounded;
  };
  repeat("kernel of 20 us", [&](CUstream on) { spin.launch(20us, on); });
  repeat("kernel of 1 ms", [&](CUstream on) { spin.launch(1ms, on); });
  repeat("copy of 16 MiB to the device", [&](CUstream on) { gpu.copy_to_device(device, host, bytes, on); });
  repeat("100 kernels of 5 us", [&](CUstream on) {
    for (int i = 0; i < 100; ++i)
      spin.launch(5us, on);
  });
  testbed.finish();
  return within;
}

} // namespace measuring
