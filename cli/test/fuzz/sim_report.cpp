// SPDX-License-Identifier: MIT
// What the processes of `cuevent sim` have reported, from any text.
#include "require.hpp"

#include "sim/sim_report.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view lines(reinterpret_cast<const char*>(data), size);
  const cli::SimReport report(lines);
  const auto line_ends = std::ranges::count(lines, '\n');
  require(report.processes() <= static_cast<std::size_t>(line_ends), "each process has a line");
  const std::string some = report.names_text(3), all = report.names_text(~std::size_t{0});
  require(some.empty() == all.empty() && some.size() <= all.size() + 64, "fewer names are not longer");
  const std::string kernels = report.kernels_text(cli::Names::most_frequent);
  require(std::ranges::count(kernels, '\n') == (kernels.empty() ? 0 : 1), "the kernels have one line");
  require(kernels.empty() == report.kernels_text(cli::Names::all).empty(), "or none");
  require(report.processes_text().ends_with('\n'), "the text ends with its line");
  return 0;
}
