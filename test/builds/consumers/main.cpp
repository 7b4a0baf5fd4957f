// SPDX-License-Identifier: MIT
// A program of another project: it records and queries an event, and catches one of the library's
// exceptions.
#include <cuevent/driver_event.hpp>
#include <cuevent/event_pool.hpp>

#include <cstdio>

#if __cplusplus != 201703L
#error "this program is to be compiled as C++17, which is the least that the headers need"
#endif

int main() {
  const cuevent::Context context = cuevent::Context::primary(0);
  cuevent::DriverEvent event(context);
  event.record(CU_STREAM_LEGACY);
  event.synchronize();
  if (!event.query()) return 1;

  cuevent::EventPool pool(context);
  cuevent::PooledEvent pooled = pool.acquire();
  pooled.record(CU_STREAM_LEGACY);
  pooled.synchronize();

  try {
    event.elapsed_time(event);
    return 1;
  } catch (const cuevent::TimingDisabled& error) {
    std::printf("recorded on CUDA %d; %s\n", context.driver().version(), error.what());
  }
}
