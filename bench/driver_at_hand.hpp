// SPDX-License-Identifier: MIT
// The driver that the benchmarks of this program run on.
#pragma once

#include <cuevent/driver.hpp>
#include <cuevent/sim.hpp>

#include <cstdio>

/// That of this machine; where it has none the simulated one, with which times mean nothing.
inline const cuevent::Driver& driver_at_hand() {
  static const cuevent::Driver driver = [] {
    try {
      return cuevent::Driver::instance();
    } catch (const cuevent::DriverUnavailable& error) {
      std::fprintf(stderr, "%s\nSo on the simulated driver: the times are not those of any device.\n",
                   error.what());
      namespace sim = cuevent::sim;
      sim::reset({.mode = sim::Mode::running});
      return cuevent::Driver(sim::get_proc_address);
    }
  }();
  return driver;
}
