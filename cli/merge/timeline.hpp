// SPDX-License-Identifier: MIT
// The timeline of a program as tracks of nested slices. The trace and the picture are made from it.
#pragma once

#include <cuevent/stage_timer.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cli {

/// Work that the host did itself.
struct HostSpan {
  std::string name;
  cuevent::HostTime begin{}, end{};
};

/// The result of a run. The report may have only the last spans. Its statistics cover all of them.
struct Recording {
  std::string title{};  // "Training loop"
  std::string device{}; // its name
  int driver_version = 0;
  bool simulated = false; // whether the device is simulated and the times are modelled
  cuevent::StageReport report{};
  std::vector<HostSpan> host_spans{};
};

struct Slice {
  std::string name;
  std::optional<cuevent::StageId> stage{}; ///< empty: the host's own work
  std::uint64_t span = 0;                  ///< StageSpan::number; 0 on the host
  cuevent::DeviceTime begin{}, end{};
  unsigned depth = 0; ///< the number of slices around it
};

/// Nested slices. Each comes before the slices inside it and the slices after it.
struct Track {
  enum class Kind { stream, host };
  Kind kind;
  std::string name;
  std::vector<Slice> slices;
};

/// A wait, drawn from one slice to another: `departure` is inside the first slice, `arrival` inside
/// the second and not earlier than `departure`.
struct Arrow {
  struct End {
    std::size_t track, slice;
    cuevent::DeviceTime time{};
  };
  End from, to;
};

struct Timeline {
  /// The streams by StreamId, then the host. Overlapping host spans need several tracks.
  std::vector<Track> tracks;
  std::vector<Arrow> arrows;
};

/// All times are on the device's clock.
Timeline timeline_of(const Recording& recording);

} // namespace cli
