// SPDX-License-Identifier: MIT
// How often a thread has yielded, and tests whose clock does not move meanwhile.
#pragma once

namespace test {

/// The calls of sched_yield() in this thread.
int& yields_of_this_thread() noexcept;

/// As long as it lives, sched_yield() in this thread only counts. On a busy machine, millions of calls would
/// take minutes.
class CountedYields {
public:
  CountedYields() noexcept;
  CountedYields(const CountedYields&) = delete;
  CountedYields& operator=(const CountedYields&) = delete;
  ~CountedYields();
};

} // namespace test
