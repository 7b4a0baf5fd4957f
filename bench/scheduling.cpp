// SPDX-License-Identifier: MIT
// The scheduling parts compared with what a program would write without them: event pool, timeline fence,
// completion queue. For several threads, read ns_each if there is one, because Google Benchmark's real time
// is for all threads together.
#include "driver_at_hand.hpp"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("CUDA", std::to_string(driver_at_hand().version()));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
#ifdef CUEVENT_PEER_TORCH
  std::fflush(nullptr);
  std::_Exit(0); // the exit handlers of PyTorch's libraries may abort
#else
  return 0;
#endif
}
