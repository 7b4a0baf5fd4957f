// SPDX-License-Identifier: MIT
// `cuevent merge`: one trace, one table and one picture of the ranks of a job.
#pragma once

#include "exit_code.hpp"

#include "report/folder.hpp"

#include <string>
#include <vector>

namespace cli {

struct MergeOptions {
  std::vector<std::string> files{};       // one for each rank, or folders
  std::string trace_file = "merged.json"; // empty: none
  std::string svg_file = "ranks.svg";     // empty: none
  bool json = false;
  // A name that nobody has typed is known to everybody who can write to the folder.
  watch::Links trace_links = watch::Links::replace, svg_links = watch::Links::replace;
};

ExitCode merge(const MergeOptions& options);

} // namespace cli
