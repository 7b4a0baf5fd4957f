// SPDX-License-Identifier: MIT
// What passed by while a process was watched, with its number.
#pragma once

#include <set>
#include <string>

namespace watch {

struct BlindSpots {
  unsigned long calls = 0;         // of threads beyond those that can be watched at a time
  unsigned long libraries = 0;     // copies of libcuda beyond those that can be watched
  std::set<std::string> functions; // that the program has in a version newer than the known ones

  void add(const BlindSpots& more) {
    calls += more.calls;
    libraries += more.libraries;
    functions.insert(more.functions.begin(), more.functions.end());
  }
};

} // namespace watch
