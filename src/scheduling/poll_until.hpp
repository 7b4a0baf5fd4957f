// SPDX-License-Identifier: MIT
// The wait of a host thread for a counter in memory. Internal to the library.
#pragma once

#include "core/between_polls.hpp"
#include "core/learned_wait.hpp"

#include <cuevent/time_limit.hpp>

#include <algorithm>
#include <chrono>

namespace cuevent { inline namespace CUEVENT_ABI {

/// Polls until `check` returns something other than CUDA_ERROR_NOT_READY, and returns that. Asks
/// `fault` every 1 ms and before it gives up; its error ends the wait. `doze` sleeps for a number
/// of nanoseconds of the table's clock, or less. Waits with equal keys that repeat are learned:
/// learned_wait.hpp.
template <class Check, class Fault, class Doze>
CUresult poll_until(const DriverTable& table, const void* key, TimeLimit timeout, Check check, Fault fault,
                    Doze doze) noexcept {
  constexpr long long between_questions = 1'000'000;
  const long long start = table.clock_now();
  const long long end = Deadline(timeout).at(std::chrono::nanoseconds(start)).count();
  LearnedWait wait(table, key, start);
  for (long long now = start, asked = start;;) {
    if (now >= end || now - asked >= between_questions) {
      const CUresult result = fault();
      const CUresult found = check();
      if (found != CUDA_ERROR_NOT_READY) return found;
      if (result != CUDA_SUCCESS) return result;
      if (now >= end) return CUDA_ERROR_NOT_READY;
      asked = now;
    }
    const long long before = now;
    const long long expected = wait.time_to_sleep(now);
    const long long sleep = expected != 0 ? expected : back_off(wait.since_expected(now));
    if (sleep > 0) doze(std::min(sleep, end - now));
    if (expected != 0) wait.woke(table.clock_now());
    const CUresult found = check();
    now = table.clock_now();
    if (found == CUDA_SUCCESS) wait.ended(now);
    if (found != CUDA_ERROR_NOT_READY) return found;
    if (now == before) table.pause(1'000); // nothing else here advances a simulated clock
  }
}

}} // namespace cuevent::CUEVENT_ABI
