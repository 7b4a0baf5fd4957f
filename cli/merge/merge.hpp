// SPDX-License-Identifier: MIT
// `cuevent merge`: one trace, one table and one picture of the ranks of a job.
#pragma once

#include "exit_code.hpp"

#include <string>
#include <vector>

namespace cli {

struct MergeOptions {
  std::vector<std::string> files{};       // one for each rank, or folders
  std::string trace_file = "merged.json"; // empty: none
  std::string svg_file = "ranks.svg";     // empty: none
  bool json = false;
};

ExitCode merge(const MergeOptions& options);

} // namespace cli
