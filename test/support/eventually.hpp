// SPDX-License-Identifier: MIT
// Waits for something that happens soon.
#pragma once

#include "faults.hpp"

#include <chrono>
#include <thread>

namespace test {

/// Checks `condition` repeatedly. Returns whether it becomes true.
template <class Condition>
bool eventually(const Condition& condition) {
  using namespace std::chrono_literals;
  const auto patience = fault_is_planned() ? 50ms : 10'000ms; // with a fault, it may never become true
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(100us);
  }
  return true;
}

} // namespace test
