// SPDX-License-Identifier: MIT
// How often each executable graph was launched.
#pragma once

#include <atomic>
#include <cstdint>

namespace watch {

struct LaunchNumbers {
  struct Place {
    std::atomic<std::uint64_t> exec; // 0 if it is free
    std::atomic<std::uint64_t> launches;
  };

  Place places[4096]; // by a hash of the exec
};

/// Counts one more launch. Returns their number, or 0 if too many graphs are known.
std::uint64_t count_launch(std::uint64_t exec);

/// The graph is new, or is about to be destroyed.
void forget_launches(std::uint64_t exec);

} // namespace watch
