// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace cuevent::sim {

/// What a program has set for core dumps, of a context or of the whole process. None is ever written.
struct CoreDumpSettings {
  bool on_exception = false, with_host = true, lightweight = false, by_pipe = false;
  unsigned left_out = 0; ///< CUCoredumpGenerationFlags
  std::string file;
};

} // namespace cuevent::sim
