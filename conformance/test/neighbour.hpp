// SPDX-License-Identifier: MIT
// A thread that is no part of the program: while the program runs, it polls the queues and takes leases. The
// thread sanitizer then sees cuevent used by two threads at a time, and no answer may depend on that.
#pragma once

#include "program_pools.hpp"
#include "work_on_cuevent.hpp"

#include <chrono>
#include <stop_token>
#include <thread>

namespace on_cuevent {

class Neighbour {
private:
  static void act(const std::stop_token& end) {
    while (!end.stop_requested()) {
      {
        const std::lock_guard lock(queues_and_pools);
        poll_as_a_neighbour();
        lease_as_a_neighbour();
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  std::jthread thread_{act};
};

} // namespace on_cuevent
