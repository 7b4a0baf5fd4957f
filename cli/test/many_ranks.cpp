// SPDX-License-Identifier: MIT
// Writes the reports of a made-up job: many_ranks FOLDER RANKS SPANS STRAGGLER.
//
// Each step has four spans on two streams, and a wait. The straggler computes 100 us longer than the others
// in each step. Each rank has a host of its own, whose clock has an offset and a drift, and two clock
// samples with an uncertainty of 5 us.
#include <cuevent/rank_report.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

using namespace cuevent;

namespace {

constexpr double step_time = 1e6; // all times are in nanoseconds
constexpr double delay = 100e3;
constexpr int uncertainty = 5000;

/// The clock of a host.
class Clock {
public:
  explicit Clock(unsigned rank)
      : offset_(rank == 0 ? 0 : 1e9 * rank),
        rate_(rank == 0 ? 1 : 1 + 1e-6 * (static_cast<int>(rank % 81) - 40)) {}
  double here(double reference) const { return begin + offset_ + rate_ * reference; }
  static constexpr double begin = 5e12; // of the job, on rank 0's clock

private:
  double offset_, rate_;
};

HostTime host_time(double nanoseconds) {
  return HostTime(std::chrono::nanoseconds(std::llround(nanoseconds)));
}

ClockSample sample(const Clock& clock, double reference, unsigned rank) {
  // The answers of rank 0 are off by up to the uncertainty, in either direction.
  const double error = static_cast<double>(rank % 3) - 1.0;
  return {host_time(clock.here(reference)), host_time(Clock::begin + reference + error * uncertainty),
          std::chrono::nanoseconds(uncertainty)};
}

StageReport report_of(const Clock& clock, unsigned steps, bool late) {
  StageReport report;
  report.stages = {{.name = "forward"}, {.name = "backward"}, {.name = "all-reduce"}, {.name = "optimizer"}};
  report.streams = {{.name = "computing"}, {.name = "reducing"}};
  report.clock.uncertainty = DeviceTime(1000);
  report.clock.epoch = host_time(clock.here(0));
  std::uint64_t number = 0;
  const auto add = [&](unsigned stage, unsigned stream, double begin, double end) {
    const double zero = clock.here(0);
    report.spans.push_back({.number = ++number,
                            .stage = StageId(stage),
                            .stream = StreamId(stream),
                            .begin = DeviceTime(clock.here(begin) - zero),
                            .end = DeviceTime(clock.here(end) - zero)});
    ++report.stages[stage].count;
  };
  for (unsigned i = 0; i < steps; ++i) {
    const double begin = step_time * i, computed = begin + 500e3 + (late ? delay : 0);
    add(0, 0, begin, begin + 200e3);
    add(1, 0, begin + 200e3, computed);
    add(2, 1, computed, begin + 700e3); // ends everywhere at the same time
    add(3, 0, begin + 700e3, begin + 900e3);
    report.waits.push_back({.from = number - 2,
                            .to = number - 1,
                            .from_stream = StreamId(0),
                            .to_stream = StreamId(1),
                            .departure = report.spans[report.spans.size() - 3].end,
                            .arrival = report.spans[report.spans.size() - 2].begin});
  }
  return report;
}

} // namespace

int main(int argc, char** argv) try {
  if (argc != 5) throw std::runtime_error("usage: many_ranks FOLDER RANKS SPANS STRAGGLER");
  const auto number = [&](int i) { return static_cast<unsigned>(std::stoul(argv[i])); };
  const unsigned ranks = number(2), steps = number(3) / 4, straggler = number(4);
  for (unsigned rank = 0; rank < ranks; ++rank) {
    const Clock clock(rank);
    RankReport report({.rank = rank, .size = ranks, .host = "node" + std::to_string(rank)}, "made up");
    if (rank != 0) report.add(sample(clock, -1e6, rank));
    report.add(report_of(clock, steps, rank == straggler));
    if (rank != 0) report.add(sample(clock, step_time * steps, rank));
    report.end();
    std::ofstream file(std::string(argv[1]) + "/rank" + std::to_string(rank) + ".json");
    file << report.take();
    if (!file.flush()) throw std::runtime_error("the reports cannot be written");
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
