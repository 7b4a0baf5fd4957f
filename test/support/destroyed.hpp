// SPDX-License-Identifier: MIT
// Waits for the events that graphs have kept.
#pragma once

#include "driver_under_test.hpp"
#include "eventually.hpp"

namespace test {

/// Calls `destroy` repeatedly. Returns whether the number of events reaches `events`. The driver destroys
/// user objects on a thread of its own, some time after the last graph that holds them.
template <class Destroy>
bool destroyed_down_to(int events, const Destroy& destroy) {
  const auto are_down = [&] { return live_handles().events == events; };
  return eventually([&] {
    if (are_down()) return true;
    destroy();
    return are_down();
  });
}

} // namespace test
