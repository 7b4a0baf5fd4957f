// SPDX-License-Identifier: MIT
// What the command line of the tests names.
#pragma once

#include <string>

namespace test {

struct Programs {
  std::string participant, plain_c;
  int kills = 20;
};

inline Programs& programs() {
  static Programs instance;
  return instance;
}

} // namespace test
