// SPDX-License-Identifier: MIT
// The behaviours of cuevent, on a simulated driver (--driver sim, stepped, or sim-running, or sim-32-bit, which
// runs without 64-bit memory operations) or on a real one (--driver real, the default); with --driver-version on
// an older simulated one, which lacks what came later; with --faults, the same tests with every driver call made
// to fail in turn.
// Without a real driver it says what is missing, and exits with 77, which means skipped.
#include "driver_under_test.hpp"
#include "fault_sweep.hpp"

#include <cuevent/sim.hpp>

#include <catch2/catch_session.hpp>

#include <cstdio>

namespace {

cuevent::GetProcAddress driver_named(const std::string& name, int version) {
  namespace sim = cuevent::sim;
  if (name == "real") return cuevent::Driver::instance().table().get_proc_address;
  sim::reset({.mode = name == "sim" ? sim::Mode::stepped : sim::Mode::running,
              .devices = 2,
              .driver_version = version,
              .memory_operations_64_bit = name != "sim-32-bit"});
  return sim::get_proc_address;
}

} // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  std::string driver = "real";
  int version = cuevent::sim::newest_driver_version;
  int stride = 0;
  session.cli(
      session.cli() |
      Catch::Clara::Opt(driver, "sim|sim-running|sim-32-bit|real")["--driver"]("the driver to test") |
      Catch::Clara::Opt(version, "12000")["--driver-version"]("of a simulated driver, if not the newest") |
      Catch::Clara::Opt(stride, "stride")["--faults"](
          "make driver calls fail: 1 for all faults of every call, n for every n-th"));
  if (const int wrong = session.applyCommandLine(argc, argv)) return wrong;
  if (version > cuevent::sim::newest_driver_version) {
    std::fputs("skipped: the simulated driver is as old as the headers it is compiled with\n", stderr);
    return 77;
  }
  try {
    test::set_driver(driver_named(driver, version));
  } catch (const cuevent::DriverUnavailable& error) {
    std::fprintf(stderr, "skipped: %s\n", error.what());
    return 77;
  }
  if (driver == "real" && test::simulated()) {
    std::fputs("skipped: the driver of this machine is the simulated one\n", stderr);
    return 77;
  }
  return stride > 0 ? test::sweep(session, stride) : session.run();
}
