// SPDX-License-Identifier: MIT
// How a kernel is launched: its blocks and threads, and the attributes of the launch.
#pragma once

#include "cuda_headers.hpp"
#include "event.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string>

namespace cuevent::sim {

struct LaunchShape {
  unsigned grid[3], block[3], shared;
  bool cooperative = false; ///< all blocks run at the same time

  bool has_possible_grid() const {
    return grid[0] != 0 && grid[1] != 0 && grid[2] != 0 && grid[0] <= 2'147'483'647 && grid[1] <= 65'535 &&
           grid[2] <= 65'535;
  }
};

LaunchShape shape_of(const CUlaunchConfig&);

using Cluster = std::array<int, 3>;

/// The attributes that a device accepted.
struct LaunchAttributes {
  std::shared_ptr<Event> at_start, at_end; ///< that the launch records
  std::optional<Cluster> cluster;          ///< nothing if the launch names none
  std::string unmodelled;                  ///< what the launch would need. Empty if it needs no more
};

} // namespace cuevent::sim
