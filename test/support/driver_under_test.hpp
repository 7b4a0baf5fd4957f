// SPDX-License-Identifier: MIT
// The driver that a test program tests, real or simulated, with what it handed out counted.
#pragma once

#include <cuevent/driver.hpp>

namespace test {

/// What was made through the driver under test and is not yet destroyed.
struct LiveHandles {
  int events = 0; ///< opened ones too; not those that went with their context
  int streams = 0;
  int contexts = 0;        ///< created ones
  int primary_retains = 0; ///< of all devices together
  int graphs = 0;          ///< created and captured ones
  int graph_execs = 0;
};

/// Sets the driver of this program to the one that `source` gives access to. For main, once. Throws as
/// Driver's constructor.
void set_driver(cuevent::GetProcAddress source);

/// The driver under test. Its calls that create and destroy are counted on their way, and fail where a
/// FaultPlan wants it.
const cuevent::Driver& driver();

/// The same driver, counted too, but with no faults: for what is not under test.
const cuevent::Driver& unfailing_driver();

/// Whether it is the simulated driver.
bool simulated();

/// The same driver as one that does not count, which is therefore another Driver.
cuevent::Driver uncounted_driver();

LiveHandles live_handles() noexcept;

/// Destroys all created contexts that there are, and counts no event any more, which cuevent may
/// still come to destroy. For after a test whose driver has pretended to be gone.
void drop_live_handles();

/// A driver function for the tests' own use: call<PFN_cuStreamQuery_v2000>("cuStreamQuery", 2000)(stream).
template <class Function>
Function call(const char* name, int version) {
  return unfailing_driver().entry_point<Function>(name, version);
}

} // namespace test
