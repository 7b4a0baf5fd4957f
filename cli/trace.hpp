// `cuevent trace`: a training loop, timed stage by stage.
#pragma once

#include "exit_code.hpp"

#include <string>

namespace cli {

struct TraceOptions {
  int steps = 200;
  std::string trace_file = "trace.json"; // empty: none
  std::string svg_file = "timeline.svg"; // empty: none
  bool json = false;
};

ExitCode trace(const TraceOptions& options);

} // namespace cli
