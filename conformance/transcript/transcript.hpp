// SPDX-License-Identifier: MIT
// The transcript: what a CUDA driver answers, one line a case, in the plain C API. It knows nothing of
// cuevent, so its answers can hold the simulated driver and the documentation to what a device was seen to
// do.
//
// A line is `name = answer`: a CUresult by name, or a small value that is the same in every run (never a time
// or a pointer). Names are hierarchical: the scenario, then the case. Lines that start with '#' say which
// driver answered and what was left out.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace transcript {

using Sink = std::function<void(std::string_view line)>;

struct Options {
  std::string driver = "libcuda.so.1";
  std::string only;      // run only the scenarios whose name starts so
  bool probes = false;   // instead of the recorded scenarios, those that may crash or differ from run to run
  bool isolated = false; // every scenario in a process of its own, so that a crash ends no other
  unsigned watchdog_s = 120; // one scenario may take so long; then the process ends, naming the last answer
};

// Runs the scenarios in order and hands every line to the sink. Returns the number of scenarios that could
// not be set up or did not leave the driver as they found it. Throws LoadFailure if there is no driver at
// all.
//
// Some scenarios need a process of their own: the running program is started again, and has to pass its
// arguments to child_main first thing in main.
int run_transcript(const Options& options, const Sink& sink);

// The names of the scenarios, in order.
std::vector<std::string> scenario_names(const Options& options);

// If these arguments are of a process started by run_transcript, plays its part and does not return.
void child_main(int argc, char** argv);

} // namespace transcript
