// SPDX-License-Identifier: MIT
// What the World knows about each object of a process.
#pragma once

#include "rules/call.hpp"
#include "rules/order_effects.hpp"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace watch {

struct Object {
  std::uint64_t number = 0;    // of this object only: the driver gives a handle away again
  std::optional<Call> created; // unknown if that was in another process, or before the records begin
  std::optional<Call> destroyed, context_end; // the call that ended its context
  Handle context = 0;

  bool is_alive() const { return !destroyed && !context_end; }
};

struct Capture;

/// A call that has submitted work, or a wait.
struct Submission {
  std::uint16_t entry = 0;
  /// The function of a kernel, the event of a wait, the address of a memory operation or of a host function.
  Handle object = 0;
  std::uint64_t number = 0;                       // the value of a memory operation, the number of a replay
  std::shared_ptr<const Capture> graph = nullptr; // that is replayed
};

/// A node that was captured last on its stream.
struct CapturedNode {
  Call call;
  Point point; // in the capture's order
};

struct Capture {
  Call begun;
  std::optional<Call> ended; // with a graph
  bool over = false, invalidated = false;
  bool into_graph = false;                    // that was there before
  Order order;                                // of its nodes, until it is over
  std::map<StreamKey, std::uint32_t> numbers; // of each stream in it, in `order`
  std::map<StreamKey, CapturedNode> last_work;
  std::uint64_t count = 0;             // of submissions
  std::vector<Submission> submissions; // the first ones
  OrderEffects effects;                // of all its nodes
  bool is_known = true;                // false: the graph may also wait for anything, or do anything

  StreamKey origin() const { return begun.stream(); }
  std::uint32_t number(const StreamKey& key) {
    const auto [found, is_new] = numbers.try_emplace(key, 0);
    if (is_new) found->second = order.add_stream(Order::Kind::independent, 0);
    return found->second;
  }
};

struct EventState : Object {
  std::uint64_t flags = 0;           // CUevent_flags
  std::optional<Call> record;        // the last one
  std::optional<Call> failed_record; // since then
  std::optional<Call> put_in_graph;  // the call that made a graph record it, or wait for it
  bool shared = false;               // with other processes, which may record it
  bool recorded_by_graph = false;    // by launches, at times that are not known here
  StreamKey stream;                  // of the last record
  unsigned long records = 0;
  std::uint64_t sequence = 0;       // of the last record, among all records
  std::uint64_t work_before = 0;    // the stream's work at the last record
  std::shared_ptr<Capture> capture; // of the last record
  std::optional<OrderMark> mark;    // of the last record; if it has a capture, in that capture's order
  std::optional<Point> work;        // the last one that the stream had before the record, outside of captures

  bool never_recorded() const { return created && !shared && !record && !recorded_by_graph; }
  /// Whether something that is not seen may have recorded it after the last record.
  bool may_have_other_record() const { return !created || shared || recorded_by_graph; }
};

struct StreamState : Object {
  std::uint64_t flags = 0;                 // CUstream_flags
  bool blocking = false;                   // it is known to be ordered with the legacy stream of its context
  std::uint64_t work = 0, marked_work = 0; // calls that have submitted work, in all and at the last record
  std::shared_ptr<Capture> capture;
  std::optional<std::uint32_t> number_in_order; // none before its first use
  std::optional<Point> last_work;               // outside of captures
  bool waits_for_unknown = false; // it has waited for a value, or for an event that others may record

  bool is_capturing() const { return capture && !capture->over; }
};

/// A node of a graph that records an event, or waits for it.
struct EventNode {
  Handle node = 0, event = 0;
  std::uint64_t number = 0;      // of the event
  bool waits = false;            // and does not record it
  std::optional<Call> put_there; // the call that made it
};

struct GraphState : Object {
  std::vector<EventNode> events;          // as the auditor lists them before it is instantiated
  std::shared_ptr<const Capture> capture; // that made it
};

struct ExecState : Object {
  std::vector<EventNode> events;
  std::optional<Call> failed_update; // the last update
  unsigned long launches = 0;
  std::shared_ptr<const Capture> capture; // that made its graph
  std::optional<OrderMark> last_launch;
};

struct ContextState : Object {
  std::uint64_t device = 0;
};

} // namespace watch
