// SPDX-License-Identifier: MIT
// What StreamWork knows about a stream: its places, and what lies before each of them.
#pragma once

#include "rules/collectives.hpp"
#include "rules/objects.hpp"

#include "core/position.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <vector>

namespace watch {

using cuevent::Position;

/// A place of a stream that has not ended. Its number is never used again.
struct StreamPlace {
  std::uint64_t stream = 0;
  Position position = 0;
};

struct EventWait {
  Handle event = 0; // 0 for the order of default streams
  StreamPlace signal;
};

struct ValueOperation {
  Handle address = 0;
  std::uint64_t value = 0;
  unsigned flags = 0;
  bool is_64_bit = false;
};

/// Whether memory with this value ends the wait.
bool satisfies(const ValueOperation& wait, std::uint64_t value);

/// The work between two probes, or a part of it. Its waits come before its calls.
struct Place {
  std::uint64_t probe = 0; // at its end; 0 for none
  bool sealed = false;     // the next call begins another place
  std::uint32_t thread = 0;
  bool one_thread = true; // made all calls
  std::chrono::nanoseconds first{}, last{};
  std::uint64_t count = 0;            // of calls
  std::uint64_t replays = 0;          // among them
  std::uint64_t queued = 0;           // places in the launch queue: of calls, and of records that follow them
  std::vector<Submission> calls = {}; // the first ones
  std::vector<EventWait> waits = {};
  std::vector<ValueOperation> value_waits = {}, writes = {};
  std::uint64_t untraced_waits = 0;
};

struct Stream {
  std::uint64_t number = 0;
  StreamKey key;
  std::optional<std::uint32_t> slot = {}; // in Region::streams
  std::uint64_t last_probe = 0;
  Position reached = 0;          // the number of places that were reached
  Position probed = 0;           // up to the last probe
  std::deque<Place> places = {}; // the later ones
  std::optional<Place> last_reached = {};
  std::uint64_t calls = 0, calls_reached = 0; // that have submitted work
  CollectiveSequence collectives = {};
  std::uint64_t first_collective = 0; // the number of its call among the calls of all streams

  Position end() const { return reached + places.size(); }
  /// The end of the last place that has a probe.
  Position probed_end() const { return std::max(probed, reached); }
};

} // namespace watch
