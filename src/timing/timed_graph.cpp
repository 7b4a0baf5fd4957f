#include "timing/stage_timer.hpp"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace cuevent {

struct TimedGraph::State {
  std::shared_ptr<StageTimer::State> timer; // before the exec, which refers to its events
  CapturedStages captured;
  Graph graph; // its nodes name those of the exec, which the driver no longer knows once it is gone
  GraphExec exec;
  bool pointed_away = true; // the nodes record their first events, which nobody reads

  bool make_room();
  void launch_untimed(CUstream stream);
};

TimedGraph::TimedGraph(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
TimedGraph::TimedGraph(TimedGraph&&) noexcept = default;
TimedGraph& TimedGraph::operator=(TimedGraph&&) noexcept = default;
TimedGraph::~TimedGraph() = default;

TimedGraph StageTimer::instantiate(Graph&& graph) {
  const char* const call = "StageTimer::instantiate";
  State& timer = state();
  if (!graph) throw InvalidHandle(call, "the graph is empty: it was moved from or released");
  // Later events can have the handles of events that have ended.
  timer.forget_ended_captures();
  std::unordered_map<CUevent, EventRecordNode> nodes; // by what they record
  for (const EventRecordNode node : graph.event_nodes().records)
    nodes.emplace(graph.event(node), node);
  const auto in_graph = [&](const CapturedStages::Node& each) {
    return nodes.contains(each.event.native_handle());
  };
  const auto found =
      std::find_if(timer.captures.begin(), timer.captures.end(), [&](const CapturedStages& each) {
        return std::any_of(each.nodes.begin(), each.nodes.end(), in_graph);
      });
  if (found == timer.captures.end())
    throw NotFound(call, "no stage of this timer was captured in the graph, or it was instantiated before");
  if (!std::all_of(found->nodes.begin(), found->nodes.end(), in_graph))
    throw NotFound(call, "the graph lacks nodes that were captured: a stage of it cannot be timed");
  for (const CapturedStages::OnTrack& each : found->tracks) {
    if (!each.open.empty())
      throw IllegalState(call, "a stage was opened in the capture and not closed in it");
    Track& track = timer.tracks[each.track];
    track.captured_depth = std::max(track.captured_depth, each.depth);
    track.reserve_depth();
  }
  for (CapturedStages::Node& each : found->nodes)
    each.node = nodes.at(each.event.native_handle());
  GraphExec exec = found->events->instantiate_apart(graph);
  // Where there is no memory for it, nothing has moved: `new` allocates before it initialises.
  std::unique_ptr<TimedGraph::State> timed(new TimedGraph::State{
      .timer = state_, .captured = std::move(*found), .graph = std::move(graph), .exec = std::move(exec)});
  timer.captures.erase(found);
  return TimedGraph(std::move(timed));
}

bool TimedGraph::State::make_room() {
  for (const CapturedStages::OnTrack& each : captured.tracks) {
    const CUresult result = timer->make_room(timer->tracks[each.track], each.nodes, 0);
    if (result == CUDA_ERROR_NOT_READY) return false;
    if (result != CUDA_SUCCESS) timer->fail(result);
  }
  return true;
}

void TimedGraph::State::launch_untimed(CUstream stream) {
  if (!pointed_away)
    for (const CapturedStages::Node& each : captured.nodes)
      exec.set_event(each.node, std::as_const(each.event));
  pointed_away = true;
  exec.launch(stream);
  for (const CapturedStages::Node& each : captured.nodes)
    if (each.change.opens) timer->drop(*each.change.opens);
}

TimedGraph::State& TimedGraph::state(const char* call) const {
  if (state_ == nullptr) throw InvalidHandle(call, "the TimedGraph is empty: it was moved from");
  return *state_;
}

void TimedGraph::launch(const Context& context, CUstream stream) {
  state("TimedGraph::launch").timer->require(context, "TimedGraph::launch");
  launch(stream);
}

void TimedGraph::launch(CUstream stream) {
  StageTimer::State& timer = *state("TimedGraph::launch").timer;
  CapturedStages& captured = state_->captured;
  const long long now = timer.clock.host_now();
  if (timer.clock.due(now)) {
    std::size_t spans = 0;
    if (const CUresult result = timer.poll(spans); result != CUDA_SUCCESS) timer.fail(result);
  }
  if (!state_->make_room()) return state_->launch_untimed(stream);

  state_->pointed_away = false;
  for (CapturedStages::OnTrack& each : captured.tracks)
    each.last = timer.tracks[each.track].next;
  for (CapturedStages::Node& each : captured.nodes) {
    each.ticket = captured.on(each.track).last++;
    state_->exec.set_event(each.node, std::as_const(timer.tracks[each.track].at(each.ticket).event));
  }
  state_->exec.launch(stream);
  for (const CapturedStages::Node& each : captured.nodes)
    timer.push(each.track, each.change, now, Boundary::Recorded::by_launch);
  for (Arrow arrow : captured.arrows) {
    arrow.from = captured.nodes[arrow.from].ticket;
    arrow.to = captured.nodes[arrow.to].ticket;
    timer.remember(arrow);
  }
}

const Graph& TimedGraph::graph() const { return state("TimedGraph::graph").graph; }
GraphExec& TimedGraph::exec() { return state("TimedGraph::exec").exec; }

} // namespace cuevent
