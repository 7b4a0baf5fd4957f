// SPDX-License-Identifier: MIT
// `cuevent check`: whether this machine's driver answers as the recorded one did.
#pragma once

#include "exit_code.hpp"

#include <string>

namespace cli {

struct CheckOptions {
  std::string only;       // the scenarios whose names start with this
  bool explained = false; // also list the differences that the simulated driver is known to have
  bool json = false;
};

ExitCode check(const CheckOptions& options);

} // namespace cli
