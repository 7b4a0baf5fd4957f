// SPDX-License-Identifier: MIT
// How long does the device take to fill 1 GiB of its memory?
#include <cstdio>
#include <cuevent/driver_event.hpp>

int main() try {
  const cuevent::Driver& driver = cuevent::Driver::instance();
  const auto create_stream = driver.entry_point<PFN_cuStreamCreate_v2000>("cuStreamCreate", 2000);
  const auto allocate = driver.entry_point<PFN_cuMemAlloc_v3020>("cuMemAlloc", 3020);
  const auto fill = driver.entry_point<PFN_cuMemsetD8Async_v3020>("cuMemsetD8Async", 3020);
  const cuevent::Context context = cuevent::Context::primary(0); // its end frees the stream and the memory
  const cuevent::ContextGuard current(context); // for the driver functions; events do not need it
  CUstream stream = nullptr;
  if (const CUresult result = create_stream(&stream, CU_STREAM_NON_BLOCKING))
    driver.fail(result, "cuStreamCreate");
  CUdeviceptr memory = 0;
  if (const CUresult result = allocate(&memory, 1 << 30)) driver.fail(result, "cuMemAlloc");

  cuevent::DriverEvent start(context, cuevent::EventFlags::timing);
  cuevent::DriverEvent end(context, cuevent::EventFlags::timing);
  start.record(stream);
  if (const CUresult result = fill(memory, 0, 1 << 30, stream)) driver.fail(result, "cuMemsetD8Async");
  end.record(stream);
  end.synchronize();
  std::printf("Filling 1 GiB took %.3f ms\n", double(start.elapsed_time(end).count()));
} catch (const cuevent::DriverUnavailable& error) {
  std::puts(error.what()); // says what is missing, and what to do
  return 77;
} catch (const cuevent::DriverError& error) {
  std::puts(error.what()); // any other failure
  return 1;
}
