// SPDX-License-Identifier: MIT
// What StreamWork knows about a stream: its places, and what lies before each of them.
#pragma once

#include "rules/objects.hpp"

#include "core/position.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

namespace watch {

using cuevent::Position;

struct CapturedWork;

/// A call that has submitted work, or a wait.
struct Submission {
  std::uint16_t entry = 0;
  Handle object = 0; // the function of a kernel, the event of a wait, the address of a memory operation
  std::uint64_t number = 0; // the value of a memory operation, the number of a replay
  std::shared_ptr<const CapturedWork> graph = nullptr;
};

/// What was captured into a graph.
struct CapturedWork {
  Call begun;
  bool over = false;
  std::uint64_t count = 0;
  std::vector<Submission> calls = {}; // the first ones
};

/// A place of a stream that has not ended. Its number is never used again.
struct Point {
  std::uint64_t stream = 0;
  Position position = 0;
};

struct EventWait {
  Handle event = 0; // 0 for the order of default streams
  Point signal;
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
  std::optional<Call> created = {};
  Handle context = 0;                     // 0 if unknown
  bool blocking = false;                  // it is known to be ordered with the legacy stream of its context
  std::optional<std::uint32_t> slot = {}; // in Region::streams
  std::uint64_t last_probe = 0;
  Position reached = 0;          // the number of places that were reached
  Position probed = 0;           // up to the last probe
  std::deque<Place> places = {}; // the later ones
  std::optional<Place> last_reached = {};
  std::shared_ptr<CapturedWork> capture = nullptr;

  bool is_capturing() const { return capture && !capture->over; }
  Position end() const { return reached + places.size(); }
  /// The end of the last place that has a probe.
  Position probed_end() const { return std::max(probed, reached); }
};

} // namespace watch
