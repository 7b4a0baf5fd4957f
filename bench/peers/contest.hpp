// SPDX-License-Identifier: MIT
// How implementations of one operation are compared: in turns, so that each ratio is of one moment.
#pragma once

#include "testbed.hpp"

#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

namespace peers {

/// One operation by one implementation, on one lane. Made and used on one thread.
class Workload {
public:
  Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  virtual ~Workload() = default;

  virtual void prepare() {} ///< before each turn, not timed
  virtual void run(int calls) = 0;
  virtual void finish() {} ///< after each turn, when all threads have had theirs; not timed
};

struct Contestant {
  const char* name;
  std::unique_ptr<Workload> (*make)(Lane&);
  int calls = 0; ///< of a turn, where a call is so quick that it takes more than the others'
};

template <class Kind>
std::unique_ptr<Workload> make(Lane& lane) {
  return std::make_unique<Kind>(lane);
}

/// Runs a round: as often as `state` iterates, all contestants have one turn each of `calls` calls,
/// or of their own number, in an order that is shuffled anew each time; on all threads at once. A
/// counter of each contestant's name is the median, over its turns, of the ns of a call, as each
/// thread sees it. So each repetition of the benchmark is a round, and a ratio is taken within one.
void compete(benchmark::State& state, const std::vector<Contestant>& contestants, int calls);

/// The compiler knows nothing of the value from here on, as it does not in a real caller.
template <class Value>
[[gnu::always_inline]] inline void hide(Value& value) {
  asm volatile("" : "+m"(value) : : "memory");
}

} // namespace peers
