// SPDX-License-Identifier: MIT
#pragma once

#include <string>

namespace cuevent::sim {

/// What a program has set for core dumps, of a context or of the whole process. None is ever written.
/// Whether the host is in a dump, and whether a dump is lightweight, follows from what is left out.
struct CoreDumpSettings {
  unsigned char on_exception = 0; ///< as it was given
  unsigned char by_pipe = 0;      ///< as it was given
  unsigned left_out = 0;          ///< CUCoredumpGenerationFlags
  std::string file;
  std::string pipe; ///< of the process
};

} // namespace cuevent::sim
