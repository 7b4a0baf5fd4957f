// SPDX-License-Identifier: MIT
/// \file
/// \brief TimedGraph: a graph whose captured stages are timed at every launch.
#pragma once

#include <cuevent/graph_exec.hpp>
#include <cuevent/stream_ref.hpp>

#include <memory>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

class StageTimer;

/// A graph with captured stages that are timed at every launch. Made by StageTimer::instantiate().
/// Move-only; empty after a move. The rules of stage_timer.hpp hold for its members.
///
///     StageTimer timer(context);
///     StreamCapture capture(context, stream);
///     timer.open(stream, timer.stage("forward"));
///     submit(stream);
///     timer.close(stream);
///     TimedGraph graph = timer.instantiate(capture.end());
///     graph.launch(stream);
///     timer.collect();
///
/// Thread-safety: the caller orders all members, together with the members of the timer.
/// Context: as GraphExec. The timer may end first. A borrowed context must outlive the TimedGraph.
/// During capture: as GraphExec.
class TimedGraph {
public:
  /// No graph, for StageTimer::try_instantiate() and assignment. No driver call.
  TimedGraph() noexcept;
  TimedGraph(TimedGraph&&) noexcept;
  TimedGraph& operator=(TimedGraph&&) noexcept;
  /// The last launch must have completed, as for GraphExec.
  ~TimedGraph();

  /// Submits the graph to `stream`, with free events of the rings in its record nodes. The stages
  /// appear on the streams that they were captured on: see StageSpan. If a ring has no room, the graph
  /// is launched without timing, and its stages are counted as dropped. With WhenFull::wait, the call
  /// waits for room instead. Driver functions:
  /// cuGraphExecEventRecordNodeSetEvent for each node, cuGraphLaunch. Throws what the driver
  /// refuses.
  void launch(StreamRef stream);
  [[nodiscard]] CUresult try_launch(StreamRef stream) noexcept;

  /// The graph. Its nodes name the nodes of exec().
  const Graph& graph() const;

  /// The executable graph, for changes to nodes that are not the timer's. Launch it with launch()
  /// only.
  GraphExec& exec();

  explicit operator bool() const noexcept { return static_cast<bool>(state_); }

private:
  friend class StageTimer;
  struct [[gnu::visibility("hidden")]] State;
  explicit TimedGraph(std::unique_ptr<State> state) noexcept;
  [[gnu::visibility("hidden")]] State& state(const char* call) const;
  std::unique_ptr<State> state_;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
