// SPDX-License-Identifier: MIT
// Where does the time of a training loop go? The loop has four stages on two streams. While it computes
// with one batch, it copies the next batch into the other of two buffers. The loop is timed stage by stage,
// and never waits for the device. With the name of a file, it writes the stages there: `cuevent merge FILE`
// makes a trace and a picture of them.
#include "stage_table.hpp"
#include "training_model.hpp"

#include <cuevent/rank_report.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace {

constexpr int iterations = 200;
constexpr int warm_up = 4;

bool is_plausible(const cuevent::StageReport& report) {
  return std::all_of(report.stages.begin(), report.stages.end(), [](const cuevent::StageStatistics& stage) {
    return stage.count + stage.dropped == iterations && stage.min.count() > 0;
  });
}

} // namespace

int main(int argc, char** argv) try {
  const gpu::Gpu gpu;
  std::printf("Running on %s%s\n", gpu.name().c_str(),
              gpu.simulated() ? ": no device, so all times are modelled, not measured" : "");
  training::Model model(gpu);
  for (int i = 0; i < warm_up; ++i)
    model.step(i); // the first launch of a kernel also loads it
  model.timer().collect();
  model.timer().clear();
  model.reset();

  for (int i = 0; i < iterations; ++i)
    model.step(i);
  model.timer().collect();

  const cuevent::StageReport report = model.timer().report();
  training::print(report);
  if (argc > 1) {
    cuevent::RankReport file({}, gpu.name()); // a job of one rank
    file.add(report);
    file.end();
    if (!(std::ofstream(argv[1]) << file.take() << std::flush)) {
      std::fprintf(stderr, "%s cannot be written: name a file in a folder that exists\n", argv[1]);
      return 1;
    }
  }
  const bool right = is_plausible(report) && (gpu.simulated() || model.is_right(iterations));
  if (!right) std::puts("\nSomething is WRONG.");
  return right ? 0 : 1;
} catch (const cuevent::DriverUnavailable& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 77;
} catch (const cuevent::DriverError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
