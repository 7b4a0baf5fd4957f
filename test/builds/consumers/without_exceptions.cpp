// SPDX-License-Identifier: MIT
// The same program for a project that is compiled with -fno-exceptions and -fno-rtti.
#include <cuevent/driver_event.hpp>

#include <cstdio>

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this program is to be compiled with -fno-exceptions -fno-rtti"
#endif

#if __cplusplus != 201703L
#error "this program is to be compiled as C++17, which is the least that the headers need"
#endif

int main() {
  cuevent::Driver driver;
  cuevent::Context context;
  cuevent::DriverEvent event;
  CUresult result = cuevent::Driver::try_load(driver);
  if (result == CUDA_SUCCESS) result = cuevent::Context::try_primary(context, 0, driver);
  if (result == CUDA_SUCCESS) result = cuevent::DriverEvent::try_create(event, context);
  if (result == CUDA_SUCCESS) result = event.try_record(CU_STREAM_LEGACY);
  if (result == CUDA_SUCCESS) result = event.try_synchronize();
  if (result == CUDA_SUCCESS) result = event.try_query();
  std::printf("recorded on CUDA %d: %d\n", driver.version(), static_cast<int>(result));
  return result == CUDA_SUCCESS ? 0 : 1;
}
