// SPDX-License-Identifier: MIT
#include <cuevent/driver_event.hpp>
#include <cuevent/sim.hpp>

#include <cstdio>

int main() {
  const cuevent::sim::Machine machine;
  const cuevent::Driver driver(cuevent::sim::get_proc_address);
  cuevent::DriverEvent event(cuevent::Context::primary(0, driver));
  event.record(CU_STREAM_PER_THREAD);
  event.synchronize();
  if (!event.query()) return 1;
  std::puts("recorded an event on the simulated driver");
}
