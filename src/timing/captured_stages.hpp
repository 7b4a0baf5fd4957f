// SPDX-License-Identifier: MIT
// The stages that were captured in a graph. Inside the library only.
#pragma once

#include "graphs/capture_events.hpp"
#include "graphs/capturing.hpp"
#include "timing/boundary_recorder.hpp"
#include "timing/boundary_ring.hpp"
#include "timing/wait_trace.hpp"

#include <cuevent/array_view.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The stages and waits of one capture, in the order of the calls.
struct CapturedStages {
  struct Node {
    DriverEvent event; // owned by the graph, and recorded until a launch sets another one
    std::uint32_t stream;
    Change change;
    EventRecordNode node{nullptr};
    Position position = no_position; // of the present launch
  };
  struct OnStream {
    std::uint32_t stream;
    std::vector<StageId> open;
    std::size_t depth = 0;             // the largest number of open stages
    std::size_t nodes = 0;             // the number of nodes on this stream
    Position last = no_position;       // the last of these nodes
    CUgraphNode last_record = nullptr; // as BoundaryRecorder::capture() wants it
    WaitsSinceBoundary waits;
  };

  OnStream& on(std::uint32_t stream);
  /// Whether a stage is open on the stream in this capture.
  bool has_open(std::uint32_t stream) const noexcept;
  /// A boundary of the stream, as a node with an event of its own. If this fails, no stage changes.
  Status change(std::uint32_t stream, const BoundaryRecorder& recorder, const Context& context, CUgraph graph,
                Change change);

  cuuint64_t capture = 0;
  std::shared_ptr<CaptureEvents> events; // once they have ended, nothing here is of use
  std::vector<Node> nodes;
  std::vector<OnStream> streams;
  std::vector<TracedWait> waits; // positions are places in `nodes`
};

/// The captures with stages that are not instantiated yet.
class Captures {
public:
  /// Null if no stage was captured in it.
  CapturedStages* find(cuuint64_t capture) noexcept;

  /// Adds a capture, and destroys the events of captures that were abandoned. Driver functions:
  /// as for CaptureEvents::attach, cuEventDestroy.
  Status begin(const DriverTable& table, Capturing capture, CapturedStages*& begun);

  /// The captures that have gone into the graph, with all stages closed. Their nodes are known from here on.
  /// Driver functions: as for Graph::event_nodes and Graph::event. Throws std::bad_alloc.
  Status of_graph(ArrayView<CapturedStages>& out, const Graph& graph, const char* call);
  /// Moves the result of of_graph() to a vector with enough capacity.
  void take(ArrayView<CapturedStages> captured, std::vector<CapturedStages>& taken) noexcept;

  /// Removes the captures whose graphs are gone.
  void forget_ended() noexcept;

private:
  std::vector<CapturedStages> captures_;
};

}} // namespace cuevent::CUEVENT_ABI
