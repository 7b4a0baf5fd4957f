// SPDX-License-Identifier: MIT
#include "yields.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace {

thread_local int yields = 0, counted_only = 0;

} // namespace

/// Takes the place of the C library's function in this program.
extern "C" int sched_yield() noexcept {
  ++yields;
  return counted_only > 0 ? 0 : static_cast<int>(syscall(SYS_sched_yield));
}

namespace test {

int& yields_of_this_thread() noexcept { return yields; }

CountedYields::CountedYields() noexcept { ++counted_only; }
CountedYields::~CountedYields() { --counted_only; }

} // namespace test
