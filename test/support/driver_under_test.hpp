// SPDX-License-Identifier: MIT
// The driver that a test program tests, real or simulated. Its live objects are counted.
#pragma once

#include <cuevent/driver.hpp>

namespace test {

/// The objects that were made through the driver under test and not yet destroyed.
struct LiveHandles {
  int events = 0; ///< includes opened events, but not events that ended with their context
  int streams = 0;
  int contexts = 0;        ///< created contexts
  int primary_retains = 0; ///< of all devices together
  int graphs = 0;          ///< created and captured graphs
  int graph_execs = 0;
};

/// Sets the driver of this program to the one that `source` gives access to. main calls this once.
/// Throws like Driver's constructor.
void set_driver(cuevent::GetProcAddress source);

/// The driver under test. Its calls that create and destroy are counted, and fail if a FaultPlan says so.
const cuevent::Driver& driver();

/// The same driver, also counted but without faults, for the tests' own calls.
const cuevent::Driver& unfailing_driver();

/// Whether it is the simulated driver.
bool simulated();

/// The same driver without counting, so that it is another Driver.
cuevent::Driver uncounted_driver();

LiveHandles live_handles() noexcept;

/// Destroys all created contexts, and stops counting the events that exist, which cuevent may still
/// destroy. Used after a test whose driver has pretended to be gone.
void drop_live_handles();

/// A driver function for the tests' own use: call<PFN_cuStreamQuery_v2000>("cuStreamQuery", 2000)(stream).
template <class Function>
Function call(const char* name, int version) {
  return unfailing_driver().entry_point<Function>(name, version);
}

} // namespace test
