// SPDX-License-Identifier: MIT
// The process ends without output, whatever it still has of the driver.
#include "belongings.hpp"
#include "scenario.hpp"
#include "watched_driver.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

namespace process {

namespace {

using cuevent::Driver;

// Before main, so that it is destroyed after the driver's exit handler, which cuInit registers.
std::optional<Belongings> built_early;
std::optional<Belongings> of_atexit;
thread_local std::optional<Belongings> of_thread;

void drop_at_exit() {
  std::atexit([] { of_atexit.reset(); });
}

void static_before_init() { built_early.emplace(Driver::instance()); }

void static_after_init() { static const Belongings built_late(Driver::instance()); }

void of_main_thread() { of_thread.emplace(Driver::instance()); }

void of_another_thread() {
  std::thread([] { of_thread.emplace(Driver::instance()); }).join();
}

void atexit_before_init() {
  drop_at_exit();
  of_atexit.emplace(Driver::instance());
}

void atexit_after_init() {
  of_atexit.emplace(Driver::instance());
  drop_at_exit();
}

void watched_static() { built_early.emplace(watched_driver()); }

void watched_atexit() {
  drop_at_exit();
  of_atexit.emplace(watched_driver());
}

/// Registered before cuInit, so it runs after the driver has begun to unload.
void report_after_driver() {
  std::atexit([] {
    const cuevent::FlightReport report = of_atexit->recorder.report();
    expect(report.fault == CUDA_SUCCESS, "nothing has failed");
    expect(report.no_answer == CUDA_ERROR_DEINITIALIZED, "the driver is shutting down");
    expect(report.findings.size() == 1 && report.findings[0].kind == cuevent::FlightFinding::Kind::no_answer,
           "one finding, and not " + to_text(report));
    of_atexit.reset();
  });
  of_atexit.emplace(Driver::instance());
}

/// Each way to query returns an answer, or says that the driver is gone.
void poll(const cuevent::DriverEvent& event) {
  const CUresult result = event.try_query();
  expect(result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED,
         "an answer while the process exits, and not " + std::to_string(result));
  try {
    expect(event.query(), "a finished event stays finished");
    expect(event.synchronize_for(std::chrono::milliseconds(1)), "a finished event stays finished");
  } catch (const cuevent::Deinitialized&) {
  }
}

void while_polling() {
  // Registered before cuInit, so it runs after the driver has begun to unload. The other thread
  // sees that too.
  std::atexit([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  // Never destroyed, because the thread that uses them never ends.
  static const Belongings& belongings = *new Belongings(Driver::instance());
  static std::atomic<bool> polled{false};
  std::thread([] {
    while (true) {
      poll(belongings.event);
      polled = true;
    }
  }).detach();
  while (!polled)
    std::this_thread::yield();
}

} // namespace

std::vector<Scenario> exit_scenarios() {
  return {{"exit-static-before-init", static_before_init},
          {"exit-static-after-init", static_after_init},
          {"exit-thread-local", of_main_thread},
          {"exit-thread-local-of-thread", of_another_thread},
          {"exit-atexit-before-init", atexit_before_init},
          {"exit-atexit-after-init", atexit_after_init},
          {"exit-report", report_after_driver},
          {"exit-watched-static", watched_static},
          {"exit-watched-atexit", watched_atexit},
          {"exit-while-polling", while_polling}};
}

} // namespace process
