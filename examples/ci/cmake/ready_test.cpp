// SPDX-License-Identifier: MIT
// A test of a program that uses cuevent. It opens the driver of the machine, as the program does.
#include <cstdio>
#include <cuevent/driver_event.hpp>

int main() {
  const cuevent::Driver& driver = cuevent::Driver::instance();
  const auto create_stream = driver.entry_point<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000);
  const cuevent::Context context = cuevent::Context::primary(0);
  const cuevent::ContextGuard current(context);
  CUstream stream = nullptr;
  if (create_stream(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return 1;
  cuevent::DriverEvent ready(context);
  ready.record(stream);
  ready.synchronize();
  if (!ready.query()) return std::puts("synchronize returned before the event was complete"), 1;
}
