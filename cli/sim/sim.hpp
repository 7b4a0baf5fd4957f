// SPDX-License-Identifier: MIT
// `cuevent sim`: runs a program on simulated devices, and says what it asked for that is not modelled.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cli {

struct SimOptions {
  std::vector<std::string> program;                           // and its arguments
  std::vector<std::pair<std::string, std::string>> variables; // of the simulator, with their values
  std::string report;                                         // a file for what is said at the end
  bool verbose = false;                                       // say all of it
};

/// Returns the exit code of the program. If a signal ended the program, the same signal ends this command.
int simulate(const SimOptions& options);

} // namespace cli
