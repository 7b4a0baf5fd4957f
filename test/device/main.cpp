// Tests on a real device. Without a driver: says what is missing, and exits with 77, which means skipped.
#include "driver_under_test.hpp"

#include <catch2/catch_session.hpp>

#include <cstdio>

int main(int argc, char** argv) {
  try {
    test::set_driver(cuevent::Driver::instance().table().get_proc_address);
  } catch (const cuevent::DriverUnavailable& error) {
    std::fprintf(stderr, "skipped: %s\n", error.what());
    return 77;
  }
  return Catch::Session().run(argc, argv);
}
