// SPDX-License-Identifier: MIT
// `cuevent check --random`: whether this machine's driver answers random programs as the recorded one did.
#pragma once

#include "exit_code.hpp"

#include <string>

namespace cli {

struct RandomOptions {
  std::string seeds;     // "N" for 1-N, or "A-B"; empty: not requested
  std::string record;    // a file for the answers of this driver
  std::string reference; // a library to compare with, instead of the recorded answers
  int jobs = 1;
  bool json = false;
};

ExitCode check_random(const RandomOptions& options);

} // namespace cli
