// SPDX-License-Identifier: MIT
#pragma once

#include "cuevent/sim.hpp"

#include <map>
#include <string>

namespace cuevent::sim {

/// What the environment chose when the program started.
struct Settings {
  Options options;
  std::map<std::string, Kernel> kernels; ///< by name; "" is the default
};
const Settings& settings();

} // namespace cuevent::sim
