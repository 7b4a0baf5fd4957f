// SPDX-License-Identifier: MIT
// The time that each thread of a benchmark sees.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>

/// The time of one operation as each thread sees it. Construct before the loop, destroy after it.
class TimeOfEach {
public:
  explicit TimeOfEach(benchmark::State& state) : state_(state) {}
  TimeOfEach(const TimeOfEach&) = delete;
  TimeOfEach& operator=(const TimeOfEach&) = delete;
  ~TimeOfEach() {
    const std::chrono::duration<double, std::nano> time = Clock::now() - start_;
    state_.counters["ns_each"] = benchmark::Counter(time.count() / static_cast<double>(state_.iterations()),
                                                    benchmark::Counter::kAvgThreads);
  }

private:
  using Clock = std::chrono::steady_clock;
  benchmark::State& state_;
  Clock::time_point start_ = Clock::now();
};
