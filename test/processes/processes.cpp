// SPDX-License-Identifier: MIT
#include "processes.hpp"

#include "run.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace test {

Programs& programs() {
  static Programs instance;
  return instance;
}

namespace {

/// Runs the scenario with the library of that kind. It must print `output` and exit with 0.
void check(std::string library, std::string scenario, std::vector<std::string> environment = {},
           std::string output = "") {
  CAPTURE(library, scenario);
  const std::string& program =
      library == "shared" ? programs().with_shared_library : programs().with_static_library;
  const Ended ended = run({program, scenario}, std::move(environment));
  CHECK(ended.output == output);
  CHECK(ended.how == "exited with 0");
}

} // namespace

TEST_CASE("a report after the driver's end says that the driver is gone, and not that work has failed") {
  check(GENERATE("shared", "static"), "exit-report");
}

TEST_CASE("a detached thread may poll an event while the process exits") {
  check(GENERATE("shared", "static"), "exit-while-polling");
}

TEST_CASE("an error of a destructor prints one line, but nothing if the context is lost") {
  check("shared", "error-hook", {},
        "cuevent: cuEventDestroy failed in a destructor: CUDA_ERROR_OPERATING_SYSTEM (304)\n");
}

TEST_CASE("the library warns of a misspelt variable, and knows the variables of the other products") {
  const std::string program = programs().with_shared_library;
  const Ended warned = run({program, "exit-report"}, {"CUEVENT_DRVER=1"});
  CHECK_THAT(warned.output,
             Catch::Matchers::StartsWith("cuevent: warning: CUEVENT_DRVER: cuevent has no such variable; did "
                                         "you mean CUEVENT_DRIVER?\n"));
  check("shared", "exit-report", {"CUEVENT_WATCH_NEW=1", "CUEVENT_REPORTS=/tmp", "CUEVENT_TEST_NEW=1"});
}

TEST_CASE("the fault of a kernel reaches every callback and every ticket behind it") {
  const auto scenario =
      GENERATE("fault-told-by-completions", "fault-told-by-fence", "fault-wakes-armed-queue");
  check("shared", scenario, {"CUEVENT_SIM_FAULTY_KERNEL=write_illegal_address"});
}

TEST_CASE("the thread of shared semaphores is scheduled as any other, and costs little") {
  check("shared", GENERATE("guard-thread", "many-guarded-semaphores"));
}

TEST_CASE("a flight recorder names the cause of each hang") {
  check("shared", GENERATE("hang-missing-peer", "hang-full-queue", "hang-illegal-address"),
        {"CUEVENT_SIM_ENDLESS_KERNEL=_Z4spinPjy", "CUEVENT_SIM_FAULTY_KERNEL=write_illegal_address",
         "CUEVENT_SIM_DEVICES=2"});
}

} // namespace test
