// SPDX-License-Identifier: MIT
// What a timed program did, as tracks of nested slices: what the trace and the picture are drawn from.
#pragma once

#include <cuevent/stage_timer.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cli {

/// Something that the host did itself.
struct HostSpan {
  std::string name;
  cuevent::HostTime begin{}, end{};
};

/// What a run left behind. The report may have the last spans only; its statistics are of all.
struct Recording {
  std::string title{};  // "Training loop"
  std::string device{}; // its name
  int driver_version = 0;
  bool simulated = false; // the device: times are modelled
  cuevent::StageReport report{};
  std::vector<HostSpan> host_spans{};
};

struct Slice {
  std::string name;
  std::optional<cuevent::StageId> stage{}; ///< none: the host's own work
  std::uint64_t span = 0;                  ///< StageSpan::number; 0 on the host
  cuevent::DeviceTime begin{}, end{};
  unsigned depth = 0; ///< the number of slices around it
};

/// Slices that nest, each before those inside it and those after it.
struct Track {
  enum class Kind { stream, host };
  Kind kind;
  std::string name;
  std::vector<Slice> slices;
};

/// A wait: the tracks, and the slices in them, that it leads from and to. Departure is in the one slice,
/// arrival in the other, and not before the departure.
struct Arrow {
  struct End {
    std::size_t track, slice;
    cuevent::DeviceTime time{};
  };
  End from, to;
};

struct Timeline {
  std::vector<Track> tracks; ///< the streams by StreamId, then the host's: more than one if its spans overlap
  std::vector<Arrow> arrows;
};

/// All on the device's clock.
Timeline timeline_of(const Recording& recording);

} // namespace cli
