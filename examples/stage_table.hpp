// SPDX-License-Identifier: MIT
// Prints the stages of a timer as a table.
#pragma once

#include <cuevent/stage_timer.hpp>

#include <cstdio>

namespace training {

inline double microseconds(cuevent::DeviceTime time) { return time.count() / 1000; }

inline void print(const cuevent::StageReport& report, std::FILE* file = stdout) {
  std::fprintf(file, "\n  %-12s %6s %7s %10s %9s %9s %9s %9s %9s %9s\n", "times in us", "count", "dropped",
               "total", "min", "mean", "p50", "p90", "p99", "max");
  for (const cuevent::StageStatistics& stage : report.stages)
    std::fprintf(file, "  %-12s %6llu %7llu %10.1f %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f\n", stage.name.c_str(),
                 static_cast<unsigned long long>(stage.count), static_cast<unsigned long long>(stage.dropped),
                 microseconds(stage.total), microseconds(stage.min), microseconds(stage.mean),
                 microseconds(stage.p50), microseconds(stage.p90), microseconds(stage.p99),
                 microseconds(stage.max));
  const cuevent::StageClock& clock = report.clock;
  std::fprintf(
      file,
      "\n  An empty stage reads %.2f us, in steps of %.3f us; the host's clock is known to +-%.2f us.\n",
      microseconds(clock.empty_stage), microseconds(clock.resolution), microseconds(clock.uncertainty));
}

} // namespace training
