// SPDX-License-Identifier: MIT
#include "contest.hpp"

#include "../part_of.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <sched.h>

namespace peers {

namespace {

using Clock = std::chrono::steady_clock;

/// The state that the threads of one benchmark share. Only one benchmark runs at a time.
class Turns {
public:
  /// Returns once this many threads have arrived. Spins first, because a sleeping thread would start late.
  void meet(int threads) {
    const unsigned meeting = meeting_.load(std::memory_order_acquire);
    if (here_.fetch_add(1) + 1 == threads) {
      here_.store(0);
      meeting_.store(meeting + 1, std::memory_order_release);
      return;
    }
    for (int spins = 0; meeting_.load(std::memory_order_acquire) == meeting; ++spins)
      if (spins > 2'000) sched_yield();
  }

  /// The same for all threads between two meetings. The first thread writes it.
  std::vector<std::size_t> order;
  void shuffle(std::size_t contestants) {
    order.resize(contestants);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
  }

private:
  std::atomic<int> here_{0};
  std::atomic<unsigned> meeting_{0};
  std::mt19937 random_{2026};
};

void run_round(benchmark::State& state, const std::vector<Contestant>& contestants, int calls) {
  static Turns turns;
  Testbed& testbed = Testbed::instance();
  Lane& lane = testbed.lanes[static_cast<std::size_t>(state.thread_index())];
  const cuevent::ContextGuard current(testbed.context);

  std::vector<std::unique_ptr<Workload>> workloads;
  workloads.reserve(contestants.size());
  for (const Contestant& each : contestants)
    workloads.push_back(each.make(lane));
  std::vector<std::vector<double>> samples(contestants.size());

  for ([[maybe_unused]] auto each : state) {
    double all = 0;
    if (state.thread_index() == 0) turns.shuffle(contestants.size());
    turns.meet(state.threads());
    for (const std::size_t i : turns.order) {
      Workload& workload = *workloads[i];
      const int count = contestants[i].calls != 0 ? contestants[i].calls : calls;
      workload.prepare();
      // Brings the code and the data of this contestant back into the caches.
      workload.run(1 + count / 8);
      turns.meet(state.threads());
      const Clock::time_point start = Clock::now();
      workload.run(count);
      const std::chrono::duration<double, std::nano> time = Clock::now() - start;
      turns.meet(state.threads());
      workload.finish();
      samples[i].push_back(time.count() / count);
      all += time.count();
    }
    state.SetIterationTime(1e-9 * all);
  }
  for (std::size_t i = 0; i < contestants.size(); ++i)
    state.counters[contestants[i].name] =
        benchmark::Counter(median(samples[i]), benchmark::Counter::kAvgThreads);
}

} // namespace

void compete(benchmark::State& state, const std::vector<Contestant>& contestants, int calls) {
  try {
    run_round(state, contestants, calls);
  } catch (const std::exception& error) { // without an exit, the other threads would wait forever
    std::fprintf(stderr, "%s\n", error.what());
    std::_Exit(1);
  }
}

} // namespace peers
