// The events of a graph that is being captured. Inside the library only.
#pragma once

#include "retired_events.hpp"

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

  /// Whether the graph and all that was instantiated from it are gone. Any thread. Once one of the
  /// events has been destroyed, this is true for whoever sees its handle again.
  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }

private:
  static void CUDA_CB end(void* owner);

  std::vector<std::unique_ptr<RetiredEvent>> events_;
  std::atomic<bool> ended_{false};
};

} // namespace cuevent
