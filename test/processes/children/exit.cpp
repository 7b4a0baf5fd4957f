// SPDX-License-Identifier: MIT
// What a process is told about its objects after the driver's end. The table of situations has the objects
// that end without being asked.
#include "scenario.hpp"

#include <cuevent/flight_recorder.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

namespace process {

namespace {

using namespace cuevent;

std::optional<FlightRecorder> of_atexit;

/// Registered before cuInit, so it runs after the driver has begun to unload.
void report_after_driver() {
  std::atexit([] {
    const FlightReport report = of_atexit->report();
    expect(report.fault == CUDA_SUCCESS, "nothing has failed");
    expect(report.no_answer == CUDA_ERROR_DEINITIALIZED, "the driver is shutting down");
    expect(report.findings.size() == 1 && report.findings[0].kind == FlightFinding::Kind::no_answer,
           "one finding, and not " + to_text(report));
    of_atexit.reset();
  });
  of_atexit.emplace(Context::primary(0), FlightRecorderOptions{.marks_per_stream = 4});
  of_atexit->mark(nullptr, "work");
}

/// Each way to query returns an answer, or says that the driver is gone.
void poll(const DriverEvent& event) {
  const CUresult result = event.try_query();
  expect(result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED,
         "an answer while the process exits, and not " + std::to_string(result));
  try {
    expect(event.query(), "a finished event stays finished");
    expect(event.synchronize_for(std::chrono::milliseconds(1)), "a finished event stays finished");
  } catch (const Deinitialized&) {
  }
}

void while_polling() {
  // Registered before cuInit, so it runs after the driver has begun to unload. The other thread
  // sees that too.
  std::atexit([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  // Never destroyed, because the thread that uses it never ends.
  static const DriverEvent& event = *new DriverEvent(Context::primary(0));
  static std::atomic<bool> polled{false};
  std::thread([] {
    while (true) {
      poll(event);
      polled = true;
    }
  }).detach();
  while (!polled)
    std::this_thread::yield();
}

} // namespace

std::vector<Scenario> exit_scenarios() {
  return {{"exit-report", report_after_driver}, {"exit-while-polling", while_polling}};
}

} // namespace process
