// SPDX-License-Identifier: MIT
// What the rules know about the objects of a process.
#pragma once

#include "rules/finding.hpp"

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace watch {

using Handle = std::uint64_t;

/// A stream. Default streams are told apart by context, and per-thread ones also by thread.
struct StreamKey {
  Handle handle = 0, context = 0;
  std::uint32_t thread = 0;

  auto operator<=>(const StreamKey&) const = default;
};

/// The key of the stream that a thread means by this handle while the context is current.
inline StreamKey key_of(Handle handle, Handle context, std::uint32_t thread) {
  if (handle > 2) return {handle, 0, 0};
  return {handle, context, handle == 2 ? thread : 0};
}

/// How much of the work of each stream comes before something.
using Clock = std::map<StreamKey, std::uint64_t>;

struct Capture {
  Call begun;
  StreamKey origin;
  unsigned mode = 0; // CUstreamCaptureMode
  bool over = false, invalidated = false;
  std::map<StreamKey, Clock> clocks;   // of each stream in the capture
  std::map<StreamKey, Call> last_work; // the last node of each stream
};

struct EventState {
  std::optional<Call> created; // unknown if it was created in another process, or before the records begin
  std::optional<Call> destroyed, record, failed_record;
  std::optional<Call> context_end;  // the call that ended its context
  std::optional<Call> put_in_graph; // the call that made a graph record it, or wait for it
  unsigned flags = 0;
  Handle context = 0;
  bool shared = false;              // with other processes, which may record it
  bool recorded_by_graph = false;   // by a launch, at a time that is not known here
  StreamKey stream;                 // of the last record
  std::uint64_t work_before = 0;    // the stream's work at the last record
  bool marks_work = false;          // the stream got work between its record before and the last one
  std::shared_ptr<Capture> capture; // of the last record
  Clock clock;                      // of the last record, in that capture
  unsigned late_records = 0;        // how often it was recorded only after the wait that should follow

  bool never_recorded() const { return created && !shared && !record && !recorded_by_graph; }
};

/// A wait for an event while the event's stream has newer work.
struct LateWait {
  Call call;
  std::uint64_t work_before = 0, work_of_waiting = 0; // of the event's stream, and of the waiting one
};

struct StreamState {
  std::optional<Call> created, destroyed;
  std::optional<Call> context_end; // the call that ended its context
  unsigned flags = 0;
  Handle context = 0;
  std::uint64_t work = 0, marked_work = 0; // calls that have submitted work, in all and at the last record
  std::shared_ptr<Capture> capture;

  bool is_capturing() const { return capture && !capture->over; }
};

/// A node of a graph that records an event, or waits for it.
struct EventNode {
  Handle node = 0, event = 0;
  std::optional<Call> put_there; // the call that made it
};

struct GraphState {
  std::optional<Call> created, destroyed;
  std::vector<EventNode> events; // as the auditor lists them before it is instantiated
};

struct ExecState {
  Call created;
  std::optional<Call> destroyed;
  std::vector<EventNode> events;
};

} // namespace watch
