// SPDX-License-Identifier: MIT
// What a fuzz target promises for every input.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace fuzz {

/// Ends the program with a crash, which libFuzzer reports together with the input.
inline void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "not true for this input: %s\n", promise);
  std::abort();
}

} // namespace fuzz
