#include "trace.hpp"

#include "driver_version.hpp"
#include "output_file.hpp"
#include "timeline.hpp"
#include "timeline_svg.hpp"
#include "trace_json.hpp"

#include "stage_table.hpp"
#include "training_model.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <functional>

namespace cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr int warm_up = 4; // steps: the first launch of a kernel also loads it
constexpr std::size_t stages_of_step = 4;
constexpr std::size_t steps_in_picture = 4;

class HostClock {
public:
  explicit HostClock(const cuevent::Driver& driver) : driver_(driver) {}
  /// Does the work, and returns when it did.
  HostSpan time(std::string name, const std::function<void()>& work) const {
    const cuevent::HostTime begin = now();
    work();
    return {std::move(name), begin, now()};
  }

private:
  cuevent::HostTime now() const {
    return cuevent::HostTime(std::chrono::nanoseconds(driver_.table().clock_now()));
  }
  const cuevent::Driver driver_;
};

Recording run_loop(const gpu::Gpu& gpu, int steps) {
  cuevent::StageTimerOptions options;
  options.spans = static_cast<std::size_t>(steps) * stages_of_step; // the trace is to have them all
  training::Model model(gpu, options);
  for (int i = 0; i < warm_up; ++i)
    model.step(i);
  model.timer().collect();
  model.timer().clear();

  const HostClock clock(gpu.driver);
  Recording recording{.title = "Training loop", .device = gpu.name(), .driver_version = gpu.driver.version()};
  for (int i = 0; i < steps; ++i)
    recording.host_spans.push_back(clock.time("step " + std::to_string(i), [&] { model.step(i); }));
  recording.host_spans.push_back(clock.time("collect", [&] { model.timer().collect(); }));
  recording.report = model.timer().report();
  return recording;
}

Json json_of(const Recording& recording, int steps) {
  using training::microseconds;
  Json stages = Json::array();
  for (const cuevent::StageStatistics& stage : recording.report.stages)
    stages.push_back({{"name", stage.name},
                      {"count", stage.count},
                      {"dropped", stage.dropped},
                      {"total_us", microseconds(stage.total)},
                      {"min_us", microseconds(stage.min)},
                      {"mean_us", microseconds(stage.mean)},
                      {"p50_us", microseconds(stage.p50)},
                      {"p90_us", microseconds(stage.p90)},
                      {"p99_us", microseconds(stage.p99)},
                      {"max_us", microseconds(stage.max)}});
  const cuevent::StageClock& clock = recording.report.clock;
  return {{"device", recording.device},
          {"driver", version_text(recording.driver_version)},
          {"steps", steps},
          {"stages", stages},
          {"clock",
           {{"empty_stage_us", microseconds(clock.empty_stage)},
            {"resolution_us", microseconds(clock.resolution)},
            {"uncertainty_us", microseconds(clock.uncertainty)}}}};
}

/// Writes the file if it has a name, notes in `files` what became of it, and returns false if nothing did.
bool write(const std::string& path, const std::string& content, Json& files) {
  if (path.empty()) return true;
  try {
    write_file(path, content);
    files.push_back({{"path", path}, {"written", true}});
    return true;
  } catch (const OutputError& error) {
    std::fprintf(stderr, "cuevent: %s\n", error.what());
    files.push_back({{"path", path}, {"written", false}, {"error", error.what()}});
    return false;
  }
}

} // namespace

ExitCode trace(const TraceOptions& options) {
  const gpu::Gpu gpu;
  const Recording recording = run_loop(gpu, options.steps);
  if (!options.json) {
    std::printf("%d steps on %s%s\n", options.steps, recording.device.c_str(),
                gpu.simulated() ? ": no device, so all times are modelled, not measured" : "");
    training::print(recording.report);
    std::fflush(stdout); // before anything can go wrong with the files
  }

  const Timeline timeline = timeline_of(recording);
  Json files = Json::array();
  const bool trace_written = write(options.trace_file, trace_json(recording, timeline), files);
  const bool svg_written =
      write(options.svg_file, timeline_svg(recording, timeline, steps_in_picture), files);

  if (options.json) {
    Json all = json_of(recording, options.steps);
    all["files"] = files;
    std::puts(all.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    for (const Json& file : files)
      if (file["written"] == true) std::printf("  Written: %s\n", file["path"].get<std::string>().c_str());
  }
  return trace_written && svg_written ? success : failure;
}

} // namespace cli
