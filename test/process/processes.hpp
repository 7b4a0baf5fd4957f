// SPDX-License-Identifier: MIT
// The program of scenarios, in its two builds.
#pragma once

#include <string>

namespace test {

struct Programs {
  std::string with_shared_library;
  std::string with_static_library;
};

/// Set by main.
Programs& programs();

} // namespace test
