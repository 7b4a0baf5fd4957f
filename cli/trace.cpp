// SPDX-License-Identifier: MIT
#include "trace.hpp"

#include "driver_version.hpp"
#include "interrupt.hpp"
#include "json_text.hpp"
#include "output_file.hpp"
#include "progress.hpp"
#include "timeline.hpp"
#include "timeline_svg.hpp"
#include "trace_json.hpp"

#include "stage_table.hpp"
#include "training_model.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iterator>

namespace cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr int warm_up = 4; // in steps; the first launch of a kernel also loads it
constexpr std::size_t stages_of_step = 4;
constexpr std::size_t steps_in_picture = 4;

class HostClock {
public:
  explicit HostClock(const cuevent::Driver& driver) : driver_(driver) {}
  /// Does the work, and returns when the work is done.
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

struct Run {
  int steps = 0; // the number of steps that ran
  Recording recording{};
};

/// Ends early if the user presses Ctrl-C.
Run run_loop(const gpu::Gpu& gpu, const TraceOptions& trace_options, const Interrupt& interrupt) {
  const int steps = trace_options.steps;
  const int kept = std::min(steps, trace_options.trace_steps);
  cuevent::StageTimerOptions options;
  options.spans = static_cast<std::size_t>(kept) * stages_of_step;
  training::Model model(gpu, options);
  for (int i = 0; i < warm_up; ++i)
    model.step(i);
  model.timer().collect();
  model.timer().clear();

  const HostClock clock(gpu.driver);
  Progress progress("of " + std::to_string(steps) + " steps");
  std::deque<HostSpan> host_spans;
  Run run;
  for (; run.steps < steps && !interrupt; ++run.steps) {
    progress.show(static_cast<std::size_t>(run.steps));
    if (host_spans.size() == static_cast<std::size_t>(kept)) host_spans.pop_front();
    host_spans.push_back(clock.time("step " + std::to_string(run.steps), [&] { model.step(run.steps); }));
  }
  host_spans.push_back(clock.time("collect", [&] { model.timer().collect(); }));

  run.recording = {
      .title = "Training loop",
      .device = gpu.name(),
      .driver_version = gpu.driver.version(),
      .simulated = gpu.simulated(),
      .report = model.timer().report(),
      .host_spans = {std::make_move_iterator(host_spans.begin()), std::make_move_iterator(host_spans.end())}};
  return run;
}

Json json_of(const Run& run, bool interrupted) {
  const Recording& recording = run.recording;
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
          {"simulated", recording.simulated},
          {"steps", run.steps},
          {"interrupted", interrupted},
          {"stages", stages},
          {"clock",
           {{"empty_stage_us", microseconds(clock.empty_stage)},
            {"resolution_us", microseconds(clock.resolution)},
            {"uncertainty_us", microseconds(clock.uncertainty)}}}};
}

/// The name that means standard output.
constexpr const char* standard_output = "-";

/// Writes the file if it has a name, and adds the result to `files`. Returns false if writing failed.
bool write(const std::string& path, const std::string& content, Json& files) {
  if (path.empty()) return true;
  if (path == standard_output) {
    std::fwrite(content.data(), 1, content.size(), stdout); // main checks for errors
    return true;
  }
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

/// Returns what is wrong with the names of the files, or nothing.
std::string mistake_in(const TraceOptions& options) {
  const auto file = [](const std::string& path) { return path == standard_output ? "/dev/stdout" : path; };
  const bool both = !options.trace_file.empty() && !options.svg_file.empty();
  if (both && are_same_file(file(options.trace_file), file(options.svg_file)))
    return "--out and --svg name the same file: " + options.svg_file + "; name two files";
  if (options.json && (options.trace_file == standard_output || options.svg_file == standard_output))
    return "--json and a file named - would both write to standard output: name a file";
  return {};
}

} // namespace

ExitCode trace(const TraceOptions& options) {
  if (const std::string mistake = mistake_in(options); !mistake.empty()) {
    std::fprintf(stderr, "cuevent: %s\n", mistake.c_str());
    return usage;
  }
  // The simulated driver reads this when it is loaded. Other drivers ignore it. On a stepped clock,
  // the modelled times do not depend on the speed of this machine.
  setenv("CUEVENT_SIM_MODE", "stepped", 1);

  const Interrupt interrupt;
  const gpu::Gpu gpu;
  const Run run = run_loop(gpu, options, interrupt);
  const Recording& recording = run.recording;
  const bool interrupted = run.steps < options.steps;
  if (interrupted)
    std::fprintf(stderr, "cuevent: interrupted after %d of %d steps; their results are written\n", run.steps,
                 options.steps);
  const bool stdout_is_file = options.trace_file == standard_output || options.svg_file == standard_output;
  std::FILE* const text = stdout_is_file ? stderr : stdout;
  if (!options.json) {
    std::fprintf(text, "%d steps on %s%s\n", run.steps, recording.device.c_str(),
                 recording.simulated ? ": simulated device, so all times are modelled, not measured" : "");
    training::print(recording.report, text);
    std::fflush(text); // before an error with the files can end the command
  }

  const Timeline timeline = timeline_of(recording);
  Json files = Json::array();
  const bool trace_written = write(options.trace_file, trace_json(recording, timeline), files);
  const bool svg_written =
      write(options.svg_file, timeline_svg(recording, timeline, steps_in_picture), files);

  if (options.json) {
    Json all = json_of(run, interrupted);
    all["files"] = files;
    std::puts(json_text(all).c_str());
  } else {
    for (const Json& file : files)
      if (file["written"] == true)
        std::fprintf(text, "  Written: %s\n", file["path"].get<std::string>().c_str());
  }
  if (!trace_written || !svg_written) return failure;
  return interrupted ? cli::interrupted : success;
}

} // namespace cli
