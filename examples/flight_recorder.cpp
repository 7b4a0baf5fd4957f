// SPDX-License-Identifier: MIT
// A loop that copies, computes and saves on three streams, with a flight recorder and a watchdog. In step 7
// the copy hangs, and the watchdog names it. Exit code 1: the watchdog named something else; 77: there is no
// GPU.
#include "../support/gpu.hpp"
#include "watchdog.hpp"

#include <cuevent/flight_recorder.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

using namespace std::chrono_literals;
using cuevent::DriverEvent;
using cuevent::FlightRecorder;
using cuevent::FlightReport;

int main(int argc, char** argv) try {
  const gpu::Gpu gpu;
  const gpu::BusyKernel kernel(gpu);
  const gpu::Stream copy = gpu.stream(), compute = gpu.stream(), save = gpu.stream();
  DriverEvent copied(gpu.context), computed(gpu.context);
  std::atomic<bool> named = false;

  FlightRecorder recorder(gpu.context);
  recorder.add_stream(copy, "copy");
  recorder.add_stream(compute, "compute");
  recorder.add_stream(save, "save");
  const auto print = [&](const FlightReport& report) {
    if (named) return;
    std::fputs(to_text(report).c_str(), stdout);
    if (argc > 1) std::ofstream(argv[1]) << to_svg(report);
    if (report.findings[0].text.starts_with("stream 'copy' has not reached 'copy 7'")) named = true;
  };
  const Watchdog watchdog(recorder, 200ms, print);

  std::optional<gpu::Gate> gate; // what hangs
  for (int step = 1; step <= 10; ++step) {
    const std::string number = " " + std::to_string(step);
    if (step == 7) gate.emplace(gpu, copy);
    kernel.launch(100us, copy);
    recorder.mark(copy, "copy" + number);
    recorder.record(copied, copy);

    recorder.wait(copied, compute);
    kernel.launch(100us, compute);
    recorder.mark(compute, "step" + number);
    recorder.record(computed, compute);

    recorder.wait(computed, save);
    kernel.launch(100us, save);
    recorder.mark(save, "save" + number);
  }
  for (int i = 0; i < 100 && !named; ++i)
    std::this_thread::sleep_for(100ms);
  gate->open();
  DriverEvent last(gpu.context);
  last.record(save);
  last.synchronize();
  std::puts(named ? "The watchdog named the cause." : "The watchdog did NOT name the cause.");
  return named ? 0 : 1;
} catch (const cuevent::DriverUnavailable& error) {
  std::puts(error.what());
  return 77;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
