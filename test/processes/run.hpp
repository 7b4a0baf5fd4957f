// SPDX-License-Identifier: MIT
// Runs a program until it ends.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace test {

struct Ended {
  std::string how;    ///< "exited with 0", "killed by signal 11", "did not end"
  std::string output; ///< standard output and standard error, in the order written
};

/// Runs `words`; the first word is the program's file. `environment` holds NAME=VALUE entries, which
/// override the variables of this process. A program that does not end within `patience` is killed.
Ended run(std::vector<std::string> words, std::vector<std::string> environment = {},
          std::chrono::seconds patience = std::chrono::seconds(60));

} // namespace test
