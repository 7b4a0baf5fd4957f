// SPDX-License-Identifier: MIT
// What the command asks for, in the environment of the program.
#pragma once

#include "protocol/protocol.hpp"

#include <cstdint>

namespace watch {

struct Options {
  char folder[folder_limit]; // in which the files are made; empty: nothing is watched
  Stacks stacks;
  std::uint32_t features; // bits of Feature
  bool is_quiet;          // the records are overwritten, and there is no folder

  bool has(Feature feature) const { return (features & feature) != 0; }
};

/// Reads State::options, and prepares what they need. False if there is nothing to do.
bool read_environment();

} // namespace watch
