// SPDX-License-Identifier: MIT
// Ways to wait for the device without spinning: how late each sees the end, and the CPU time that it takes.
// `sleeping 20` divides all counts by 20. Without a real driver, this runs on the simulated one, which only
// shows that it works.
#include "sleeping.hpp"

#include <cstdlib>
#include <unistd.h>

int main(int count, char** arguments) try {
  alarm(118); // a hang must not hold the device
  sleeping::Testbed testbed;
  const gpu::Gpu& gpu = testbed.gpu();
  const int divisor = std::max(1, count > 1 ? std::atoi(arguments[1]) : 1);
  const sleeping::Nanoseconds start = sleeping::now();
  std::printf("%s, driver %d, %u processors\n", gpu.name().c_str(), gpu.driver.version(),
              std::thread::hardware_concurrency());
  sleeping::one_stream(testbed, divisor);
  sleeping::many_streams(testbed, divisor);
  sleeping::held_up(testbed, divisor);
  std::printf("\nTook %.1f s\n", static_cast<double>(sleeping::now() - start) / 1e9);
  return 0;
} catch (const cuevent::DriverError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
