// SPDX-License-Identifier: MIT
// The events of a graph that is being captured. Internal to the library.
#pragma once

#include "core/retired_events.hpp"
#include "core/status.hpp"

#include <cuevent/graph.hpp>
#include <cuevent/graph_exec.hpp>

#include <atomic>
#include <memory>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The events that the graph of one capture refers to. A user object of the graph owns the events.
/// The events end after the graph and all its instantiations. It does not matter how the capture
/// ends or which thread ends the capture. The code that made the events shares this object only to
/// learn that they have ended.
class CaptureEvents {
public:
  /// Makes an empty object that `graph` owns. Driver functions: cuUserObjectCreate,
  /// cuGraphRetainUserObject.
  static Status attach(std::shared_ptr<CaptureEvents>& out, const DriverTable& table, CUgraph graph);

  /// Hands `event` to the graph and returns the event as borrowed. If this throws, the caller
  /// keeps the event.
  /// - The graph must not refer to `event` before this call.
  /// - The caller must order this call with the work of the capture.
  DriverEvent keep(DriverEvent&& event);

  /// Instantiates `graph`, which must own all these events. The exec does not own the events, so the
  /// graph must outlive the exec. Each launch of an exec that holds a user object takes much of
  /// its stream's launch queue: 20 to 60 of these launches fill the queue. Each of these launches
  /// also costs the host 1.7 us more. If the graph cannot get its user objects back, the graph is
  /// destroyed.
  /// Driver functions: cuUserObjectRetain, cuGraphReleaseUserObject, the driver functions of
  /// Graph::instantiate, cuGraphRetainUserObject.
  static Status instantiate_apart(GraphExec& out, Graph& graph,
                                  const std::vector<const CaptureEvents*>& events) noexcept;

  /// Whether the graph and all its instantiations are gone. May be called from any thread. If one
  /// of the events has been destroyed, ended() is true for every thread that sees the event's
  /// handle again.
  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }

private:
  static void CUDA_CB end(void* owner);

  CUuserObject object_ = nullptr; // valid until the user object has ended
  std::vector<std::unique_ptr<RetiredEvent>> events_;
  std::atomic<bool> ended_{false};
};

}} // namespace cuevent::CUEVENT_ABI
