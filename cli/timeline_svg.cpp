// SPDX-License-Identifier: MIT
#include "timeline_svg.hpp"

#include "driver_version.hpp"
#include "timeline_picture.hpp"

#include <algorithm>

namespace cli {

namespace {

using cuevent::DeviceTime;
using cuevent::StageStatistics;

/// The runs that the picture shows.
class Window {
public:
  Window(const Recording& recording, const Timeline& timeline, std::size_t runs) {
    const Slice* first = nullptr;
    for (const Track& track : timeline.tracks)
      for (const Slice& slice : track.slices) {
        end = std::max(end, slice.end);
        if (track.kind == Track::Kind::stream && (first == nullptr || slice.begin < first->begin))
          first = &slice;
      }
    if (first == nullptr) return;
    begin = first->begin;
    std::vector<DeviceTime> begins;
    for (const Track& track : timeline.tracks)
      for (const Slice& slice : track.slices)
        if (track.kind == Track::Kind::stream && slice.stage == first->stage) begins.push_back(slice.begin);
    std::sort(begins.begin(), begins.end());
    if (begins.size() > runs) end = begins[runs];
    shown = std::min(runs, begins.size());
    const auto stage = static_cast<std::size_t>(*first->stage);
    all = std::max<std::size_t>(begins.size(), recording.report.stages[stage].count);
    first_run = all - begins.size() + 1;
    // Includes the time before the first run, because the host submitted the stage before it began.
    for (const Track& track : timeline.tracks)
      for (const Slice& slice : track.slices)
        if (track.kind == Track::Kind::host && slice.end > begin - (end - begin) / 10)
          begin = std::min(begin, std::max(slice.begin, first->begin - (end - first->begin) / 10));
  }

  DeviceTime begin{}, end{};
  std::size_t first_run = 1, shown = 0, all = 0;
};

} // namespace

std::string timeline_svg(const Recording& recording, const Timeline& timeline, std::size_t runs) {
  const Window window(recording, timeline, runs);
  const cuevent::StageClock& clock = recording.report.clock;
  PictureFrame frame{
      .title = recording.title + " on " + recording.device + ": runs " + std::to_string(window.first_run) +
               " to " + std::to_string(window.first_run + window.shown - 1) + " of " +
               std::to_string(window.all),
      .subtitle = std::string(recording.simulated ? "Simulated: all times are modelled. " : "") + "CUDA " +
                  version_text(recording.driver_version) + "; an empty stage takes " +
                  duration_markup(clock.empty_stage) + ", the host's clock is accurate to &#177;" +
                  duration_markup(clock.uncertainty),
      .begin = window.begin,
      .end = window.end,
      .columns = {{"runs", 340}, {"p50", 440}, {"p90", 530}, {"p99", 620}, {"max", 710}, {"total", 800}}};
  for (const StageStatistics& stage : recording.report.stages) {
    PictureFrame::Row row{stage.name, {std::to_string(stage.count)}};
    for (const DeviceTime time : {stage.p50, stage.p90, stage.p99, stage.max, stage.total})
      row.markup.push_back(duration_markup(time));
    frame.rows.push_back(std::move(row));
  }
  return picture(timeline, frame);
}

} // namespace cli
