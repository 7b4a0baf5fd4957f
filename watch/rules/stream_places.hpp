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

/// Where a call was made.
struct CallPlace {
  std::uint16_t entry = 0;
  std::uint32_t stack = 0; // 0 if it has none
};

struct EventWait {
  Handle event = 0; // 0 for the order of default streams
  StreamPlace signal;
  bool is_of_record = false; // the wait is known to mean this record, and not an earlier one
  CallPlace made = {};
};

struct ValueOperation {
  Handle address = 0;
  std::uint64_t value = 0;
  unsigned flags = 0;
  bool is_64_bit = false;
  CallPlace made = {};
};

/// Whether memory with this value ends the wait.
bool satisfies(const ValueOperation& wait, std::uint64_t value);

/// The work between two probes, or a part of it. Its waits come before its calls.
struct Place {
  std::uint64_t probe = 0; // at its end; 0 for none
  bool late = false;       // the probe was recorded when nothing had moved for some time
  bool sealed = false;     // the next call begins another place
  std::uint32_t thread = 0;
  bool one_thread = true; // made all calls
  std::chrono::nanoseconds first{}, last{};
  std::uint64_t count = 0;            // of calls
  std::uint64_t replays = 0;          // among them
  std::uint64_t queued = 0;           // places in the launch queue: of calls, and of records that follow them
  std::vector<Submission> calls = {}; // the first ones and the last one, each once
  bool has_more_calls = false;        // between the last two
  std::vector<EventWait> waits = {};
  std::vector<ValueOperation> value_waits = {}, writes = {};
  std::uint64_t untraced_waits = 0;

  void add(Submission call);
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
  // The last time that the program was told that a place is not reached.
  std::optional<Position> not_ready = {};
  std::chrono::nanoseconds not_ready_at{};

  Position end() const { return reached + places.size(); }
  /// The end of the last place that has a probe.
  Position probed_end() const { return std::max(probed, reached); }
  const Place& place(Position position) const { return places[position - reached]; }
  /// The first place with a probe that was not reached: the stream is known not to have reached this one.
  std::optional<Position> first_probed() const;
  /// Whether the program was told so less than a moment ago.
  bool is_not_ready(std::chrono::nanoseconds now) const;
};

} // namespace watch
