// SPDX-License-Identifier: MIT
// The transcript: the answers of a CUDA driver to plain C calls, one line per case. The transcript does not
// use cuevent, so its answers can check the simulated driver and the documentation against a device.
//
// A line is `name = answer`. The answer is the name of a CUresult, or a small value that is the same in
// every run (never a time or a pointer). The name is the scenario, then the case. Lines that start with '#'
// name the driver and what was left out.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace transcript {

using Sink = std::function<void(std::string_view line)>;

// Begins a line that is no answer: the name of a scenario, a colon, and what its process said.
inline constexpr std::string_view said = "# said by ";

struct Options {
  std::string driver = "libcuda.so.1";
  std::string only; // run only the scenarios whose name starts with this
  // Run the scenarios that may crash or differ between runs, instead of the recorded ones.
  bool probes = false;
  // Run no scenario here, but in other processes, several at a time. Each plays scenarios until one crashes
  // or spoils it, because most of the time of a process goes into its contexts. Scenarios come in any order,
  // and what their processes print to standard error comes as lines that begin with `said`.
  bool apart = false;
  // With `apart`, run only these, each in a process of its own: what another scenario left behind cannot
  // change an answer.
  std::vector<std::string> alone{};
  // The limit of one scenario. After it the process ends and prints the last answer.
  unsigned watchdog_s = 120;
};

// Runs the scenarios in order and passes every line to the sink. Returns the number of scenarios that could
// not be set up or did not restore the driver's state. Throws LoadFailure if there is no driver.
//
// Some scenarios need a process of their own: the running program is then started again. Its main must first
// pass its arguments to child_main.
int run_transcript(const Options& options, const Sink& sink);

// The names of the scenarios, in order.
std::vector<std::string> scenario_names(const Options& options);

// If run_transcript started this process, plays its part and does not return.
void child_main(int argc, char** argv);

} // namespace transcript
