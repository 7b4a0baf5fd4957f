// SPDX-License-Identifier: MIT
// A thread that notices when streams stand still.
#pragma once

#include <cuevent/flight_recorder.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <thread>

/// Calls `stuck` with a report whenever no stream has reached anything for `patience`.
template <class Stuck>
class Watchdog {
public:
  Watchdog(const cuevent::FlightRecorder& recorder, std::chrono::milliseconds patience, const Stuck& stuck)
      : thread_([=, &recorder](const std::stop_token& stop) {
          for (std::optional<std::uint64_t> before; !stop.stop_requested();
               std::this_thread::sleep_for(patience)) {
            const cuevent::FlightReport report = recorder.report();
            if (!report.findings.empty() && report.progress == before) stuck(report);
            before = report.progress;
          }
        }) {}

private:
  std::jthread thread_;
};
