// SPDX-License-Identifier: MIT
#include "timeline.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace cli {

namespace {

using cuevent::DeviceTime;
using cuevent::HostTime;
using cuevent::StageReport;
using cuevent::StageSpan;

struct Place {
  std::size_t track, slice;
};

/// Neighbours should share a time, but each time was rounded to a float and may differ by some nanoseconds.
void keep_order(std::vector<Slice>& slices) {
  std::vector<Slice*> around;
  DeviceTime last = slices.empty() ? DeviceTime() : slices.front().begin;
  for (Slice& slice : slices) {
    while (around.size() > slice.depth || (!around.empty() && around.back()->end <= slice.begin)) {
      last = around.back()->end = std::max(last, around.back()->end);
      around.pop_back();
    }
    last = slice.begin = std::max(last, slice.begin);
    // Smaller than before if a slice around it was not timed.
    slice.depth = static_cast<unsigned>(around.size());
    around.push_back(&slice);
  }
  for (; !around.empty(); around.pop_back())
    last = around.back()->end = std::max(last, around.back()->end);
}

std::vector<Track> stream_tracks(const StageReport& report) {
  std::vector<Track> tracks;
  for (const cuevent::StageStream& stream : report.streams)
    tracks.push_back({Track::Kind::stream, stream.name, {}});
  for (const StageSpan& span : report.spans)
    tracks[static_cast<std::size_t>(span.stream)].slices.push_back(
        {.name = report.stages[static_cast<std::size_t>(span.stage)].name,
         .stage = span.stage,
         .span = span.number,
         .begin = span.begin,
         .end = span.end,
         .depth = span.depth});
  for (Track& track : tracks) {
    std::sort(track.slices.begin(), track.slices.end(), [](const Slice& a, const Slice& b) {
      return std::tie(a.begin, a.depth, a.span) < std::tie(b.begin, b.depth, b.span);
    });
    keep_order(track.slices);
  }
  return tracks;
}

/// Puts each slice on the first track where it nests with the earlier slices.
std::vector<Track> host_tracks(std::vector<Slice> slices) {
  std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return std::tie(a.begin, b.end, a.span) < std::tie(b.begin, a.end, b.span); // longer slices first
  });
  std::vector<Track> tracks;
  std::vector<std::vector<DeviceTime>> ends; // the ends of the open slices, one stack per track
  for (Slice& slice : slices) {
    std::size_t i = 0;
    for (; i < tracks.size(); ++i) {
      while (!ends[i].empty() && ends[i].back() <= slice.begin)
        ends[i].pop_back();
      if (ends[i].empty() || slice.end <= ends[i].back()) break;
    }
    if (i == tracks.size()) {
      tracks.push_back({Track::Kind::host, i == 0 ? "host" : "host " + std::to_string(i + 1), {}});
      ends.emplace_back();
    }
    slice.depth = static_cast<unsigned>(ends[i].size());
    ends[i].push_back(slice.end);
    tracks[i].slices.push_back(std::move(slice));
  }
  return tracks;
}

std::vector<Slice> host_slices(const Recording& recording) {
  const StageReport& report = recording.report;
  const auto device_time = [&](HostTime time) { return DeviceTime(time - report.clock.epoch); };
  std::vector<Slice> slices;
  for (const HostSpan& span : recording.host_spans)
    slices.push_back({.name = span.name, .begin = device_time(span.begin), .end = device_time(span.end)});
  for (const StageSpan& span : report.spans) {
    if (span.opened == span.closed) continue; // part of a graph: the host launched all of it at once
    slices.push_back({.name = report.stages[static_cast<std::size_t>(span.stage)].name,
                      .stage = span.stage,
                      .begin = device_time(span.opened),
                      .end = device_time(span.closed)});
  }
  return slices;
}

std::vector<Arrow> arrows_between(const std::vector<Track>& tracks, const StageReport& report) {
  std::unordered_map<std::uint64_t, Place> places;
  for (std::size_t track = 0; track < tracks.size(); ++track)
    for (std::size_t slice = 0; slice < tracks[track].slices.size(); ++slice)
      places.emplace(tracks[track].slices[slice].span, Place{track, slice});

  std::vector<Arrow> arrows;
  for (const cuevent::StageWait& wait : report.waits) {
    const auto from = places.find(wait.from), to = places.find(wait.to);
    if (from == places.end() || to == places.end()) continue;
    const Slice& tail = tracks[from->second.track].slices[from->second.slice];
    const Slice& head = tracks[to->second.track].slices[to->second.slice];
    const DeviceTime arrival = std::clamp(std::max(wait.arrival, tail.begin), head.begin, head.end);
    const DeviceTime departure = std::clamp(std::min(wait.departure, arrival), tail.begin, tail.end);
    if (departure > arrival) continue; // the clocks are never this far apart
    arrows.push_back(
        {{from->second.track, from->second.slice, departure}, {to->second.track, to->second.slice, arrival}});
  }
  return arrows;
}

} // namespace

Timeline timeline_of(const Recording& recording) {
  Timeline timeline{stream_tracks(recording.report), {}};
  timeline.arrows = arrows_between(timeline.tracks, recording.report);
  for (Track& track : host_tracks(host_slices(recording)))
    timeline.tracks.push_back(std::move(track));
  return timeline;
}

} // namespace cli
