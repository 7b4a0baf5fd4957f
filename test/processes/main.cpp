// SPDX-License-Identifier: MIT
// Tests of exit, fork and faults, each in a process of its own: on the simulated driver (--driver sim,
// named by CUEVENT_DRIVER) or on a real one (--driver real, the default). Without a real driver, the
// program prints what is missing and exits with 77, which means skipped.
#include "processes.hpp"
#include "run.hpp"

#include <catch2/catch_session.hpp>

#include <cstdio>

int main(int argc, char** argv) {
  using Catch::Clara::Opt;
  Catch::Session session;
  std::string driver = "real";
  test::Programs& programs = test::programs();
  session.cli(session.cli() | Opt(driver, "sim|real")["--driver"]("the driver to test") |
              Opt(programs.with_shared_library, "file")["--shared"]("the scenarios with the shared library") |
              Opt(programs.with_static_library, "file")["--static"]("the scenarios with the static library"));
  if (const int wrong = session.applyCommandLine(argc, argv)) return wrong;

  // A separate process checks for the driver, so that this process never loads one.
  const auto [how, device] = test::run({programs.with_shared_library, "name-device"});
  const bool simulated = device.find("simulated") != std::string::npos;
  if (driver == "real" && (how == "exited with 77" || simulated)) {
    const char* const why = simulated ? "the driver of this machine is the simulated one\n" : device.c_str();
    std::fprintf(stderr, "skipped: %s", why);
    return 77;
  }
  if (how != "exited with 0" || (driver == "sim" && !simulated)) {
    std::fprintf(stderr, "this is not the driver to test, or it does not work: %s\n%s", how.c_str(),
                 device.c_str());
    return 1;
  }
  return session.run();
}
