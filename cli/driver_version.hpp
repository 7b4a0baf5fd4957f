// SPDX-License-Identifier: MIT
// CUDA versions as text.
#pragma once

#include <string>

namespace cli {

/// "13.0" for 13000.
inline std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

} // namespace cli
