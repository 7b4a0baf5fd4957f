// SPDX-License-Identifier: MIT
// Waiting for what happens a moment later.
#pragma once

#include "faults.hpp"

#include <chrono>
#include <thread>

namespace test {

/// Whether `condition` comes true, asked again and again.
template <class Condition>
bool eventually(const Condition& condition) {
  using namespace std::chrono_literals;
  const auto patience = fault_is_planned() ? 50ms : 10'000ms; // with a fault it can be in vain
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(100us);
  }
  return true;
}

} // namespace test
