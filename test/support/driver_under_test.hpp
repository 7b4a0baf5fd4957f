// The driver that a test program tests, real or simulated, with what it handed out counted.
#pragma once

#include <cuevent/driver.hpp>

namespace test {

/// What was made through the driver under test and is not yet destroyed.
struct LiveHandles {
  int events = 0;
  int streams = 0;
  int contexts = 0;        ///< created ones
  int primary_retains = 0; ///< of all devices together
};

/// Sets the driver of this program to the one that `source` gives access to. For main, once. Throws as
/// Driver's constructor.
void set_driver(cuevent::GetProcAddress source);

/// The driver under test. Its calls that create and destroy are counted on their way.
const cuevent::Driver& driver();

/// Whether it is the simulated driver.
bool simulated();

/// The same driver as one that does not count, which is therefore another Driver.
cuevent::Driver uncounted_driver();

LiveHandles live_handles() noexcept;

/// A driver function that the library does not have: call<PFN_cuStreamQuery_v2000>("cuStreamQuery",
/// 2000)(stream).
template <class Function>
Function call(const char* name, int version) {
  return driver().entry_point<Function>(name, version);
}

} // namespace test
