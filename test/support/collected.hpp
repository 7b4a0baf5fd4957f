// SPDX-License-Identifier: MIT
// Waits for the events that graphs have kept.
#pragma once

#include "driver_under_test.hpp"
#include "eventually.hpp"

namespace test {

/// Calls `collect` repeatedly. Returns whether the number of events reaches `events`. The driver destroys
/// user objects on a thread of its own, some time after the last graph that holds them is gone.
template <class Collect>
bool collected_down_to(int events, const Collect& collect) {
  const auto are_down = [&] { return live_handles().events == events; };
  return eventually([&] {
    if (are_down()) return true;
    collect();
    return are_down();
  });
}

} // namespace test
