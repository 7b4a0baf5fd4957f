// Waiting for events that graphs have kept.
#pragma once

#include "driver_under_test.hpp"
#include "faults.hpp"

#include <chrono>
#include <thread>

namespace test {

/// Whether `collect`, called again and again, brings the number of events down to `events`. The driver
/// destroys user objects on a thread of its own, some time after the last graph that holds them is gone.
template <class Collect>
bool collected_down_to(int events, const Collect& collect) {
  using namespace std::chrono_literals;
  const auto patience = fault_is_planned() ? 50ms : 10'000ms; // with a fault it can be in vain
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (live_handles().events != events && std::chrono::steady_clock::now() < deadline) {
    collect();
    std::this_thread::sleep_for(100us);
  }
  return live_handles().events == events;
}

} // namespace test
