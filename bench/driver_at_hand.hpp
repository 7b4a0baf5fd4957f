// SPDX-License-Identifier: MIT
// The driver that the benchmarks of a program use.
#pragma once

#include <cuevent/driver.hpp>
#include <cuevent/sim.hpp>

#include <cstdio>

/// This machine's driver. If there is none, the simulated driver, whose times have no meaning. The first call
/// chooses the mode of the simulated driver.
inline const cuevent::Driver& driver_at_hand(cuevent::sim::Mode mode = cuevent::sim::Mode::running) {
  static const cuevent::Driver driver = [mode] {
    try {
      return cuevent::Driver::instance();
    } catch (const cuevent::DriverUnavailable& error) {
      std::fprintf(stderr, "%s\nRunning on the simulated driver instead: its times mean nothing.\n",
                   error.what());
      namespace sim = cuevent::sim;
      sim::reset({.mode = mode});
      return cuevent::Driver(sim::get_proc_address);
    }
  }();
  return driver;
}
