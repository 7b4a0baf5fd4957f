// SPDX-License-Identifier: MIT
// `cuevent trace`: times a training loop stage by stage.
#pragma once

#include "exit_code.hpp"

#include <string>

namespace cli {

struct TraceOptions {
  int steps = 200;
  int trace_steps = 10'000;              // the number of last steps to trace; a step takes about 700 bytes
  std::string trace_file = "trace.json"; // empty: none; "-": standard output
  std::string svg_file = "timeline.svg"; // empty: none; "-": standard output
  bool json = false;
};

ExitCode trace(const TraceOptions& options);

} // namespace cli
