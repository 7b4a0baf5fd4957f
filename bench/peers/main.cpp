// SPDX-License-Identifier: MIT
// The driver's events through cuevent, its peers and bare calls, in one run. bench/compare-peers
// runs this program and makes tables and pictures from its output.
#include "operations.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

using namespace peers;

namespace {

struct Peer {
  const char* name;
  void (*enter)(Entries&); // null if its headers were not found at configuration
};

constexpr Peer others[] = {
#ifdef CUEVENT_PEER_RUNTIME
    {"runtime", enter_runtime},
#else
    {"runtime", nullptr},
#endif
#ifdef CUEVENT_PEER_TORCH
    {"torch", enter_torch},
#else
    {"torch", nullptr},
#endif
#ifdef CUEVENT_PEER_CCCL
    {"cccl", enter_cccl},
#else
    {"cccl", nullptr},
#endif
};

/// In the order of the table. The bare driver comes first.
Entries enter_all(const Testbed& testbed) {
  Entries entries;
  enter_raw(entries);
  enter_cuevent(entries);
  const cuevent::ContextGuard current(testbed.context);
  for (const Peer& peer : others) {
    std::string state = "present";
    try {
      if (peer.enter == nullptr)
        state = "not found when the benchmark was configured";
      else if (testbed.simulated)
        state = "left out: it needs a real driver";
      else
        peer.enter(entries);
    } catch (const std::exception& error) {
      state = "left out: " + std::string(error.what());
      state.resize(std::min(state.size(), state.find('\n')));
    }
    benchmark::AddCustomContext(peer.name, state);
  }
  return entries;
}

/// One benchmark per operation. All implementations that have an entry for it take turns.
void register_operations(const Entries& entries) {
  for (auto first = entries.begin(); first != entries.end(); ++first) {
    const auto same = [first](const Entry& entry) {
      return std::string(entry.operation) == first->operation;
    };
    if (std::any_of(entries.begin(), first, same)) continue;
    std::vector<Contestant> contestants;
    for (const Entry& entry : entries)
      if (same(entry)) contestants.push_back(entry.contestant);
    for (const int threads : {1, 2, 4, 8, 16}) {
      // With many threads a call takes much longer, so fewer calls are enough.
      const int calls = threads == 1 ? first->calls : std::min(first->calls, 64);
      benchmark::RegisterBenchmark(
          first->operation,
          [contestants, calls](benchmark::State& state) { compete(state, contestants, calls); })
          ->Iterations(threads == 1 ? 16 : 6)
          ->Threads(threads)
          ->UseManualTime();
    }
  }
}

} // namespace

int main(int argc, char** argv) try {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const Testbed& testbed = Testbed::instance();
  benchmark::AddCustomContext("device", testbed.device_name());
  benchmark::AddCustomContext("cuda", std::to_string(testbed.driver.version()));
  register_operations(enter_all(testbed));
  register_growth();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  std::fflush(nullptr);
  std::_Exit(0); // the exit handlers of PyTorch's libraries may abort
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
