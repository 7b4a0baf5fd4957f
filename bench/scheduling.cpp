// SPDX-License-Identifier: MIT
// The parts for schedulers beside what one would write without them: event pool, timeline fence, completion queue. Where
// there are several threads, read ns_each if there is one: Google Benchmark's real time is that of all together.
#include "driver_at_hand.hpp"

#include <benchmark/benchmark.h>

#include <string>

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("CUDA", std::to_string(driver_at_hand().version()));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
