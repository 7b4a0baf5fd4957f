// SPDX-License-Identifier: MIT
// Runs a program to its end.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace test {

struct Ended {
  std::string how;    ///< "exited with 0", "killed by signal 11", "did not end"
  std::string output; ///< standard output and standard error, as they came
};

/// Runs `words`, the first of which is the program's file. `environment`, as NAME=VALUE, is added to this
/// process's own and goes before it. A program that has not ended in `patience` is killed.
Ended run(std::vector<std::string> words, std::vector<std::string> environment = {},
          std::chrono::seconds patience = std::chrono::seconds(60));

} // namespace test
