// SPDX-License-Identifier: MIT
// The events of a graph that is being captured. Inside the library only.
#pragma once

#include "core/retired_events.hpp"

#include <cuevent/graph.hpp>

#include <atomic>
#include <memory>
#include <vector>

namespace cuevent {

/// The events that the graph of one capture refers to. A user object of the graph owns them: they
/// end after the graph and all that was instantiated from it, however the capture ends and whoever
/// ends it. Whoever made them shares this object only to learn that they have ended.
class CaptureEvents {
public:
  /// Makes an empty one, which `graph` owns from now on. If it fails, `call` is the driver
  /// function that did. Driver functions: cuUserObjectCreate, cuGraphRetainUserObject.
  static CUresult attach(std::shared_ptr<CaptureEvents>& out, const DriverTable& table, CUgraph graph,
                         const char*& call);

  /// Hands `event` to the graph, which must not refer to it before, and returns it borrowed. Needs
  /// the ordering of the capture's own work. If this throws, the event stays the caller's.
  DriverEvent keep(DriverEvent&& event);

  /// Instantiates `graph`, one that owns these. The exec does not own them, so the graph has to outlive it: each
  /// launch of an exec that holds a user object takes much of its stream's launch queue, which 20 to 60 of them
  /// fill, and costs the host 1.7 us more. Driver functions: cuUserObjectRetain, cuGraphReleaseUserObject, those of
  /// Graph::instantiate, cuGraphRetainUserObject. If the graph cannot get the user object back, the graph is
  /// destroyed.
  GraphExec instantiate_apart(Graph& graph) const;

  /// Whether the graph and all that was instantiated from it are gone. Any thread. Once one of the
  /// events has been destroyed, this is true for whoever sees its handle again.
  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }

private:
  static void CUDA_CB end(void* owner);

  CUuserObject object_ = nullptr; // while it has not ended
  std::vector<std::unique_ptr<RetiredEvent>> events_;
  std::atomic<bool> ended_{false};
};

} // namespace cuevent
