// SPDX-License-Identifier: MIT
#include "trace_json.hpp"

#include "driver_version.hpp"
#include "json_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace cli {

namespace {

using Json = nlohmann::ordered_json;
using cuevent::DeviceTime;

/// Writes begin and end events, not complete events. Slices that touch then have the same number in
/// the file, so rounding in a viewer cannot make them overlap.
class Writer {
public:
  Writer(const Recording& recording, const Timeline& timeline) : recording_(recording), timeline_(timeline) {
    for (const Track& track : timeline.tracks)
      if (!track.slices.empty()) first_ = std::min(first_, nanoseconds(track.slices.front().begin));
    for (std::size_t i = 0; i < timeline.arrows.size(); ++i) {
      const auto& [from, to] = timeline.arrows[i];
      ends_[{from.track, from.slice}].push_back({"s", i, from.time});
      ends_[{to.track, to.slice}].push_back({"f", i, to.time});
    }
  }

  std::string text() {
    const char* const note = recording_.simulated ? " (simulated: all times are modelled)" : "";
    add(named("process_name", "device: " + recording_.device + note, streams_pid));
    add(named("process_name", "host", host_pid));
    for (std::size_t i = 0; i < timeline_.tracks.size(); ++i) {
      add(named("thread_name", timeline_.tracks[i].name, pid(i)), i);
      add({{"ph", "M"}, {"name", "thread_sort_index"}, {"args", {{"sort_index", i}}}}, i);
    }
    for (std::size_t i = 0; i < timeline_.tracks.size(); ++i)
      add_slices(i);

    const cuevent::StageClock& clock = recording_.report.clock;
    const Json about = {
        {"title", recording_.title},
        {"device", recording_.device},
        {"simulated", recording_.simulated},
        {"driver", "CUDA " + version_text(recording_.driver_version)},
        {"host_clock_uncertainty_ns", nanoseconds(clock.uncertainty)},
        {"clock_resolution_ns", clock.resolution.count()},
        {"empty_stage_ns", nanoseconds(clock.empty_stage)},
        {"untraced_waits", recording_.report.untraced_waits},
    };
    return "{\"displayTimeUnit\": \"ns\",\n\"otherData\": " + one_line(about) + ",\n\"traceEvents\": [" +
           events_ + "\n]}\n";
  }

private:
  static constexpr int streams_pid = 1, host_pid = 2;
  struct FlowEnd {
    const char* phase;
    std::size_t id;
    DeviceTime time;
  };

  static long long nanoseconds(DeviceTime time) { return std::llround(time.count()); }
  static std::string one_line(const Json& json) { return json_text(json, -1); }

  int pid(std::size_t track) const {
    return timeline_.tracks[track].kind == Track::Kind::stream ? streams_pid : host_pid;
  }
  /// Different from the numbers of the processes.
  static int tid(std::size_t track) { return static_cast<int>(track) + 10; }

  static Json named(const char* what, const std::string& name, int process) {
    return {{"ph", "M"}, {"name", what}, {"pid", process}, {"args", {{"name", name}}}};
  }
  /// One event per line, so that the file can be searched and compared.
  void add(const Json& event) { events_ += (events_.empty() ? "\n" : ",\n") + one_line(event); }
  void add(Json event, std::size_t track) {
    event["pid"] = pid(track);
    event["tid"] = tid(track);
    add(event);
  }
  void add(Json event, std::size_t track, long long time) {
    event["ts"] = static_cast<double>(time - first_) / 1000; // in microseconds
    add(std::move(event), track);
  }

  void add_slices(std::size_t track) {
    const std::vector<Slice>& slices = timeline_.tracks[track].slices;
    std::vector<std::size_t> open;
    const auto close = [&] {
      add({{"ph", "E"}}, track, nanoseconds(slices[open.back()].end));
      open.pop_back();
    };
    for (std::size_t i = 0; i < slices.size(); ++i) {
      while (open.size() > slices[i].depth)
        close();
      open.push_back(i);
      add({{"ph", "B"}, {"name", slices[i].name}, {"cat", slices[i].stage ? "stage" : "host"}}, track,
          nanoseconds(slices[i].begin));
      add_flows(track, i);
    }
    while (!open.empty())
      close();
  }

  /// Directly after the begin of their slice, because viewers sort by time and look for the slice
  /// that is open then.
  void add_flows(std::size_t track, std::size_t slice) {
    const auto found = ends_.find({track, slice});
    if (found == ends_.end()) return;
    const Slice& around = timeline_.tracks[track].slices[slice];
    const long long begin = nanoseconds(around.begin), end = nanoseconds(around.end);
    for (const FlowEnd& flow : found->second) {
      // At its end, a slice is no longer open.
      const long long time = std::clamp(nanoseconds(flow.time), begin, std::max(begin, end - 1));
      Json event = {{"ph", flow.phase}, {"name", "wait"}, {"cat", "wait"}, {"id", flow.id + 1}};
      if (*flow.phase == 'f') event["bp"] = "e"; // ends in the enclosing slice, not in the next one
      add(std::move(event), track, time);
    }
  }

  const Recording& recording_;
  const Timeline& timeline_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<FlowEnd>> ends_; // by track and slice
  long long first_ = std::numeric_limits<long long>::max();
  std::string events_; // as text, which takes much less memory
};

} // namespace

std::string trace_json(const Recording& recording, const Timeline& timeline) {
  return Writer(recording, timeline).text();
}

} // namespace cli
