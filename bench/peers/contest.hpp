// SPDX-License-Identifier: MIT
// Compares implementations of one operation. They take turns, so that each ratio compares the same moment.
#pragma once

#include "testbed.hpp"

#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

namespace peers {

/// One operation of one implementation, on one lane. Made and used on one thread.
class Workload {
public:
  Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  virtual ~Workload() = default;

  virtual void prepare() {} ///< before each turn, not timed
  virtual void run(int calls) = 0;
  virtual void finish() {} ///< after each turn, when all threads have finished theirs; not timed
};

struct Contestant {
  const char* name;
  std::unique_ptr<Workload> (*make)(Lane&);
  int calls = 0; ///< per turn; 0 means the same number as the other contestants
};

template <class Kind>
std::unique_ptr<Workload> make(Lane& lane) {
  return std::make_unique<Kind>(lane);
}

/// Runs a round. For each iteration of `state`, all contestants have one turn on all threads at the same
/// time, in a newly shuffled order. A turn makes `calls` calls, or the contestant's own number of calls. A
/// counter with the contestant's name is the median over its turns of the ns per call, as each thread sees
/// it. Each repetition of the benchmark is a round, and a ratio is taken within one round.
void compete(benchmark::State& state, const std::vector<Contestant>& contestants, int calls);

/// The compiler can assume nothing about the value from here on, as in a real caller.
template <class Value>
[[gnu::always_inline]] inline void hide(Value& value) {
  asm volatile("" : "+m"(value) : : "memory");
}

} // namespace peers
