// SPDX-License-Identifier: MIT
#include "scenario.hpp"

#include <atomic>
#include <cstdio>

namespace process {

namespace {
std::atomic<bool> in_vain{false};
}

void expect(bool holds, const std::string& what) {
  if (holds) return;
  in_vain = true;
  std::fprintf(stderr, "expected in vain: %s\n", what.c_str());
}

bool disappointed() { return in_vain; }

} // namespace process
