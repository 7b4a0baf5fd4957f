// SPDX-License-Identifier: MIT
// The version of this command, as text.
#pragma once

#include <cuevent/version.hpp>

#include <string>

namespace cli {

/// "0.1.0"
inline std::string own_version() {
  return std::to_string(CUEVENT_VERSION_MAJOR) + "." + std::to_string(CUEVENT_VERSION_MINOR) + "." +
         std::to_string(CUEVENT_VERSION_PATCH);
}

} // namespace cli
