// SPDX-License-Identifier: MIT
// The contract tests. Options:
//   --driver sim             a simulated driver, stepped
//   --driver sim-running     the same in running mode
//   --driver sim-32-bit      the same without 64-bit memory operations
//   --driver sim-missing     the same, and functions that are not modelled are not found
//   --driver sim-reused      a simulated driver, stepped, that gives handles away again
//   --driver real            a real driver, the default
//   --driver-version N       an older simulated driver, which lacks later functions
//   --faults STRIDE          runs the tests again with each driver call failing in turn
//
// Without a real driver, the program prints what is missing and exits with 77, which means skipped.
#include "driver_under_test.hpp"
#include "fault_sweep.hpp"

#include <cuevent/sim.hpp>

#include <catch2/catch_session.hpp>

#include <cstdint>
#include <cstdio>
#include <optional>

namespace {

cuevent::GetProcAddress driver_named(const std::string& name, int version) {
  namespace sim = cuevent::sim;
  if (name == "real") return cuevent::Driver::instance().table().get_proc_address;
  const bool reuses = name == "sim-reused";
  sim::reset({.mode = name == "sim" || reuses ? sim::Mode::stepped : sim::Mode::running,
              .devices = 2,
              .driver_version = version,
              .reuse_handles = reuses ? std::optional<std::uint64_t>(1) : std::nullopt,
              .memory_operations_64_bit = name != "sim-32-bit",
              .unmodelled = name == "sim-missing" ? sim::Unmodelled::missing : sim::Unmodelled::abort});
  return sim::get_proc_address;
}

} // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  std::string driver = "real";
  int version = cuevent::sim::usual_driver_version;
  int stride = 0;
  session.cli(
      session.cli() |
      Catch::Clara::Opt(driver, "sim|sim-running|sim-32-bit|sim-missing|sim-reused|real")["--driver"](
          "the driver to test") |
      Catch::Clara::Opt(version, "12000")["--driver-version"]("of a simulated driver, if not the usual one") |
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
