// SPDX-License-Identifier: MIT
// Semaphores that two processes share: on the simulated driver (--driver sim, named by CUEVENT_DRIVER) or
// on a real one (--driver real, the default). Without a real driver, the program exits with 77, which
// means skipped.
#include "programs.hpp"

#include <gpu.hpp>

#include <catch2/catch_session.hpp>

#include <cstdio>

int main(int argc, char** argv) {
  using Catch::Clara::Opt;
  Catch::Session session;
  std::string driver = "real";
  test::Programs& programs = test::programs();
  session.cli(session.cli() | Opt(driver, "sim|real")["--driver"]("the driver to test") |
              Opt(programs.participant, "file")["--participant"]("the other process") |
              Opt(programs.plain_c, "file")["--plain-c"]("the other process without CUDA") |
              Opt(programs.kills, "count")["--kills"]("how often the other process is killed"));
  if (const int wrong = session.applyCommandLine(argc, argv)) return wrong;
  try {
    if (gpu::Gpu().simulated() == (driver == "sim")) return session.run();
    std::fputs("skipped: this machine has the other kind of driver\n", stderr);
  } catch (const cuevent::DriverUnavailable& error) {
    std::fprintf(stderr, "skipped: %s\n", error.what());
  }
  return 77;
}
