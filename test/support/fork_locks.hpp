// SPDX-License-Identifier: MIT
// A rule for every driver call of the library.
#pragma once

#include "core/fork_lock.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace test {

/// Ends the test program if this thread holds a lock that fork() takes. A driver call can block for as
/// long as a launch queue is full, and until then no thread of the process could fork.
inline void expect_no_fork_lock(std::string_view call) noexcept {
  if (cuevent::ForkLock::held() == 0) return;
  std::fprintf(stderr, "%.*s is called with a lock that fork() takes\n", static_cast<int>(call.size()),
               call.data());
  std::abort();
}

} // namespace test
