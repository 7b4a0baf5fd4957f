// SPDX-License-Identifier: MIT
// Linked with -static, which no configuration noticed.
#include <cuevent/driver.hpp>

#include <cstdio>
#include <string>

int main() {
  try {
    const cuevent::Driver& driver = cuevent::Driver::instance();
    std::printf("loaded a driver of version %d\n", driver.version());
  } catch (const cuevent::SharedObjectInitFailed& error) {
    std::puts(error.what());
    return std::string(error.what()).find("linked with -static") != std::string::npos ? 0 : 1;
  }
  return 1;
}
