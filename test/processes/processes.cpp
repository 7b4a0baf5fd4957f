// SPDX-License-Identifier: MIT
#include "processes.hpp"

#include "run.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

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

TEST_CASE("static, thread_local and atexit-owned objects end silently when the process exits", "[exit]") {
  const auto library = GENERATE("shared", "static");
  const auto scenario =
      GENERATE("exit-static-before-init", "exit-static-after-init", "exit-thread-local",
               "exit-thread-local-of-thread", "exit-atexit-before-init", "exit-atexit-after-init");
  check(library, scenario);
}

TEST_CASE("a report after the driver's end says that the driver is gone, and not that work has failed",
          "[exit]") {
  check(GENERATE("shared", "static"), "exit-report");
}

TEST_CASE("no object reaches a driver that has begun to unload", "[exit]") {
  const auto library = GENERATE("shared", "static");
  check(library, GENERATE("exit-watched-static", "exit-watched-atexit"));
}

TEST_CASE("a detached thread may poll an event while the process exits", "[exit]") {
  check(GENERATE("shared", "static"), "exit-while-polling");
}

// Overwrites freed memory, so that a driver that reads an event of a dead context crashes.
TEST_CASE("events of a lost context are closed and destroyed without touching them", "[context]") {
  const auto library = GENERATE("shared", "static");
  const auto scenario =
      GENERATE("lost-borrowed-context", "lost-created-context", "lost-primary-context",
               "lost-primary-context-retained-again", "lost-borrowed-primary-context-retained-again");
  check(library, scenario, {"MALLOC_PERTURB_=165"});
}

TEST_CASE("a forked child learns that it cannot use its parent's driver, and ends silently", "[fork]") {
  const auto library = GENERATE("shared", "static");
  check(library, GENERATE("fork-after-init", "fork-after-init-watched"));
}

TEST_CASE("in a forked child callbacks run once, although another thread was polling", "[fork]") {
  check(GENERATE("shared", "static"), "fork-while-polling");
}

TEST_CASE("a process may fork while another thread signals a semaphore", "[fork]") {
  check(GENERATE("shared", "static"), "fork-while-signalling");
}

TEST_CASE("a process that forks before its first driver call can use the driver in both processes",
          "[fork]") {
  check(GENERATE("shared", "static"), "fork-before-init");
}

TEST_CASE("an error of a destructor prints one line, but nothing if the context is lost", "[hook]") {
  check("shared", "error-hook", {},
        "cuevent: cuEventDestroy failed in a destructor: CUDA_ERROR_OPERATING_SYSTEM (304)\n");
}

TEST_CASE("the fault of a kernel reaches every query of an event recorded after it", "[fault]") {
  const auto scenario =
      GENERATE("fault-query", "fault-synchronize", "fault-synchronize-for", "fault-told-by-completions",
               "fault-told-by-fence", "fault-wakes-armed-queue");
  check("shared", scenario, {"CUEVENT_SIM_FAULTY_KERNEL=write_illegal_address"});
}

TEST_CASE("a kernel that never ends blocks no query and delays no timed wait beyond its timeout", "[fault]") {
  check("shared", "endless-kernel", {"CUEVENT_SIM_ENDLESS_KERNEL=_Z4spinPjy"});
}

TEST_CASE("a full launch queue blocks only creation, destruction and its own stream", "[fault]") {
  check("shared", "full-queue");
}

TEST_CASE("a flight recorder names the cause of each hang", "[fault][hang]") {
  check("shared",
        GENERATE("hang-endless-kernel", "hang-missing-peer", "hang-deadlock", "hang-closed-gate",
                 "hang-full-queue", "hang-stuck-replay", "hang-illegal-address"),
        {"CUEVENT_SIM_ENDLESS_KERNEL=_Z4spinPjy", "CUEVENT_SIM_FAULTY_KERNEL=write_illegal_address",
         "CUEVENT_SIM_DEVICES=2"});
}

} // namespace test
