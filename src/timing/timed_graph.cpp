// SPDX-License-Identifier: MIT
#include "timing/stage_timer.hpp"

#include <utility>

namespace cuevent {

struct TimedGraph::State {
  std::shared_ptr<StageRings> rings; // before the exec, which refers to their events
  CapturedStages captured;
  Graph graph; // its nodes name the nodes of the exec, as long as it exists
  GraphExec exec;
  bool events_are_own = true; // the nodes record the events of the capture, which nobody reads

  bool make_room();
  void launch_timed(CUstream stream, long long now);
  void launch_untimed(CUstream stream);
};

TimedGraph::TimedGraph(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
TimedGraph::TimedGraph(TimedGraph&&) noexcept = default;
TimedGraph& TimedGraph::operator=(TimedGraph&&) noexcept = default;
TimedGraph::~TimedGraph() = default;

TimedGraph StageTimer::instantiate(Graph&& graph) {
  const char* const call = "StageTimer::instantiate";
  State& timer = state();
  if (!graph)
    throw InvalidHandle(
        call, "the graph is empty, because it was moved from or released: use the object that has it now");
  CapturedStages& captured = timer.captures.of_graph(graph, call);
  for (const CapturedStages::OnStream& each : captured.streams) {
    TimedStream& stream = (*timer.rings)[each.stream];
    stream.captured_depth = std::max(stream.captured_depth, each.depth);
    stream.reserve_depth();
  }
  GraphExec exec = captured.events->instantiate_apart(graph);
  // If there is no memory, nothing has moved: `new` allocates before it initialises.
  std::unique_ptr<TimedGraph::State> timed(new TimedGraph::State{.rings = timer.rings,
                                                                 .captured = timer.captures.take(captured),
                                                                 .graph = std::move(graph),
                                                                 .exec = std::move(exec)});
  return TimedGraph(std::move(timed));
}

bool TimedGraph::State::make_room() {
  for (const CapturedStages::OnStream& each : captured.streams) {
    const Status status = rings->make_room(each.stream, each.nodes, 0);
    if (status.result == CUDA_ERROR_NOT_READY) return false;
    if (!status) fail(rings->context(), status);
  }
  return true;
}

void TimedGraph::State::launch_timed(CUstream stream, long long now) {
  events_are_own = false;
  for (CapturedStages::OnStream& each : captured.streams)
    each.last = (*rings)[each.stream].ring.next();
  for (CapturedStages::Node& each : captured.nodes) {
    each.position = captured.on(each.stream).last++;
    exec.set_event(each.node, std::as_const((*rings)[each.stream].ring.at(each.position).event));
  }
  exec.launch(stream);
  for (const CapturedStages::Node& each : captured.nodes)
    rings->push(each.stream, each.change, now, Boundary::Recorded::by_launch);
  for (TracedWait wait : captured.waits) {
    wait.from = captured.nodes[wait.from].position;
    wait.to = captured.nodes[wait.to].position;
    rings->trace().add(wait);
  }
}

void TimedGraph::State::launch_untimed(CUstream stream) {
  if (!events_are_own)
    for (const CapturedStages::Node& each : captured.nodes)
      exec.set_event(each.node, std::as_const(each.event));
  events_are_own = true;
  exec.launch(stream);
  for (const CapturedStages::Node& each : captured.nodes)
    if (each.change.opens) rings->log().drop(*each.change.opens);
}

TimedGraph::State& TimedGraph::state(const char* call) const {
  if (state_ == nullptr)
    throw InvalidHandle(call,
                        "the TimedGraph is empty, because it was moved from: use the object that has it now");
  return *state_;
}

void TimedGraph::launch(const Context& context, CUstream stream) {
  require_own_context(state("TimedGraph::launch").rings->context(), context, "TimedGraph::launch");
  launch(stream);
}

void TimedGraph::launch(CUstream stream) {
  State& timed = state("TimedGraph::launch");
  const long long now = timed.rings->clock().host_now();
  if (const Status status = timed.rings->poll_if_due(now); !status) fail(timed.rings->context(), status);
  if (timed.make_room())
    timed.launch_timed(stream, now);
  else
    timed.launch_untimed(stream);
}

const Graph& TimedGraph::graph() const { return state("TimedGraph::graph").graph; }
GraphExec& TimedGraph::exec() { return state("TimedGraph::exec").exec; }

} // namespace cuevent
