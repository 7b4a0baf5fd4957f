// SPDX-License-Identifier: MIT
// The two builds of the scenario program.
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
