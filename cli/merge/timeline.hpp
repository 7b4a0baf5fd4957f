// SPDX-License-Identifier: MIT
// The timeline of a job as tracks of nested slices. The picture is made from it.
#pragma once

#include <cuevent/stage_report.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace cli {

struct Slice {
  std::string name;
  cuevent::StageId stage{};
  std::uint64_t span = 0; ///< StageSpan::number
  cuevent::DeviceTime begin{}, end{};
  unsigned depth = 0; ///< the number of slices around it
};

/// Nested slices. Each comes before the slices inside it and the slices after it.
struct Track {
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
  std::vector<Track> tracks;
  std::vector<Arrow> arrows;
};

} // namespace cli
