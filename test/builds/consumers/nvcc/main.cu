// SPDX-License-Identifier: MIT
// A kernel and events in one file.
#include <cuevent/driver_event.hpp>

#include <cstdio>

#if __cplusplus != 201703L
#error "this program is to be compiled as C++17, which is the least that the headers need"
#endif

__global__ void increment(int* counter) { ++*counter; }

int main(int argc, char**) {
  const cuevent::Context context = cuevent::Context::primary(0);
  cuevent::DriverEvent event(context);
  if (argc > 1) increment<<<1, 1>>>(nullptr); // never without a device
  event.record(CU_STREAM_LEGACY);
  event.synchronize();
  std::printf("recorded on CUDA %d\n", context.driver().version());
  return event.query() ? 0 : 1;
}
