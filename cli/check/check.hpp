// SPDX-License-Identifier: MIT
// `cuevent check`: compares the answers of this machine's driver with the recording.
#pragma once

#include "exit_code.hpp"

#include <string>

namespace cli {

struct CheckOptions {
  std::string only;       // the scenarios whose names start with this
  bool explained = false; // also list the known differences of the simulated driver
  bool json = false;
};

ExitCode check(const CheckOptions& options);

} // namespace cli
