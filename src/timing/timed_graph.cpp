// SPDX-License-Identifier: MIT
#include "core/explanation.hpp"
#include "core/failure.hpp"
#include "core/refusal.hpp"
#include "core/require_context.hpp"
#include "core/result_of.hpp"
#include "timing/stage_timer_state.hpp"

#include <cuevent/graph_exec.hpp>

#include <algorithm>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

constexpr const char* call_to_make = "StageTimer::instantiate";
constexpr const char* launch_exec = "cuGraphLaunch";
constexpr const char* set_event = "cuGraphExecEventRecordNodeSetEvent";

} // namespace

struct TimedGraph::State {
  /// What a launch takes from the ring of a stream.
  struct Taken {
    std::uint32_t stream;
    std::size_t events = 0;
    Position next = 0; // the place of the next of these events
  };

  std::shared_ptr<StageRings> rings; // before the exec, which refers to their events
  std::vector<CapturedStages> captures;
  std::vector<Taken> taken;
  Graph graph; // its nodes name the nodes of the exec, as long as it exists
  GraphExec exec;
  bool events_are_own = true; // the nodes record the events of the captures, which nobody reads

  /// Throws std::bad_alloc.
  static Status make(std::unique_ptr<State>& out, const std::shared_ptr<StageRings>& rings,
                     Captures& captures, Graph&& graph);

  Status make_room();
  Taken& of(std::uint32_t stream) noexcept {
    return *std::find_if(taken.begin(), taken.end(),
                         [&](const Taken& each) { return each.stream == stream; });
  }
  Status launch(CUstream stream);
  Status launch_timed(CUstream stream, long long now);
  Status launch_untimed(CUstream stream);
};

TimedGraph::TimedGraph(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
TimedGraph::TimedGraph() noexcept = default;
TimedGraph::TimedGraph(TimedGraph&&) noexcept = default;
TimedGraph& TimedGraph::operator=(TimedGraph&&) noexcept = default;
TimedGraph::~TimedGraph() = default;

Status TimedGraph::State::make(std::unique_ptr<State>& out, const std::shared_ptr<StageRings>& rings,
                               Captures& all, Graph&& graph) {
  ArrayView<CapturedStages> captures;
  Status status = all.of_graph(captures, graph, call_to_make);
  if (!status) return status;
  std::vector<const CaptureEvents*> events;
  std::vector<Taken> taken;
  for (const CapturedStages& captured : captures) {
    events.push_back(captured.events.get());
    for (const CapturedStages::OnStream& each : captured.streams) {
      TimedStream& stream = (*rings)[each.stream];
      stream.launched.begun.reserve(each.depth);
      const auto found = std::find_if(taken.begin(), taken.end(),
                                      [&](const auto& its) { return its.stream == each.stream; });
      (found != taken.end() ? *found : taken.emplace_back(Taken{.stream = each.stream})).events += each.nodes;
    }
  }
  std::vector<CapturedStages> room;
  room.reserve(captures.size());
  GraphExec exec;
  status = CaptureEvents::instantiate_apart(exec, graph, events);
  if (!status) return status;
  // If there is no memory, nothing has moved: `new` allocates before it initialises.
  out.reset(new State{.rings = rings,
                      .captures = std::move(room),
                      .taken = std::move(taken),
                      .graph = std::move(graph),
                      .exec = std::move(exec)});
  all.take(captures, out->captures);
  return {};
}

TimedGraph StageTimer::instantiate(Graph&& graph) {
  State& timer = state();
  if (!graph)
    throw_error(CUDA_ERROR_INVALID_HANDLE, call_to_make,
                "the graph is empty, because it was moved from or released: use the object that has it now");
  std::unique_ptr<TimedGraph::State> made;
  const Status status = TimedGraph::State::make(made, timer.rings, timer.captures, std::move(graph));
  // NOLINTNEXTLINE(bugprone-use-after-move): not moved then, but it can have ended
  if (!status && graph && is_call(status.call, "cuGraphInstantiateWithFlags"))
    Explanation::fail_instantiate(graph, status.result);
  if (!status) fail(context(), status);
  return TimedGraph(std::move(made));
}

CUresult StageTimer::try_instantiate(TimedGraph& out, Graph&& graph) noexcept {
  if (state_ == nullptr || !graph) return CUDA_ERROR_INVALID_HANDLE;
  return result_of([&] {
    std::unique_ptr<TimedGraph::State> made;
    const Status status = TimedGraph::State::make(made, state_->rings, state_->captures, std::move(graph));
    if (status) out = TimedGraph(std::move(made));
    return status.result;
  });
}

Status TimedGraph::State::make_room() {
  for (const Taken& each : taken)
    if (const Status status = rings->make_room(each.stream, each.events, 0); !status) return status;
  return {};
}

Status TimedGraph::State::launch(CUstream stream) {
  const long long now = rings->clock().host_now();
  if (const Status status = rings->clock().check_context(); !status) return status; // the exec ends with it
  if (const Status status = rings->poll_if_due(now); !status) return status;
  const Status room = make_room();
  if (room) return launch_timed(stream, now);
  return room.result == CUDA_ERROR_NOT_READY ? launch_untimed(stream) : room;
}

Status TimedGraph::State::launch_timed(CUstream stream, long long now) {
  events_are_own = false;
  for (Taken& each : taken)
    each.next = (*rings)[each.stream].ring.next();
  for (CapturedStages& captured : captures)
    for (CapturedStages::Node& each : captured.nodes) {
      each.position = of(each.stream).next++;
      const EventRef event = (*rings)[each.stream].ring.at(each.position).event;
      if (const CUresult result = exec.try_set_event(each.node, event); result != CUDA_SUCCESS)
        return {result, set_event};
    }
  if (const CUresult result = exec.try_launch(stream); result != CUDA_SUCCESS) return {result, launch_exec};
  const std::uint32_t here = rings->find(stream);
  LaunchPart part{.launch = rings->next_launch()};
  for (const CapturedStages& captured : captures) {
    for (const CapturedStages::Node& each : captured.nodes)
      rings->push(each.stream, each.change, now,
                  each.stream == here ? Boundary::Recorded::by_launch
                                      : Boundary::Recorded::by_launch_elsewhere,
                  part);
    for (TracedWait wait : captured.waits) {
      wait.from = captured.nodes[wait.from].position;
      wait.to = captured.nodes[wait.to].position;
      rings->trace().add(wait);
    }
    ++part.capture;
  }
  return {};
}

Status TimedGraph::State::launch_untimed(CUstream stream) {
  if (!events_are_own)
    for (const CapturedStages& captured : captures)
      for (const CapturedStages::Node& each : captured.nodes)
        if (const CUresult result = exec.try_set_event(each.node, each.event); result != CUDA_SUCCESS)
          return {result, set_event};
  events_are_own = true;
  if (const CUresult result = exec.try_launch(stream); result != CUDA_SUCCESS) return {result, launch_exec};
  for (const CapturedStages& captured : captures)
    for (const CapturedStages::Node& each : captured.nodes)
      if (each.change.opens) rings->log().drop(*each.change.opens);
  return {};
}

TimedGraph::State& TimedGraph::state(const char* call) const {
  if (state_ == nullptr)
    throw_error(CUDA_ERROR_INVALID_HANDLE, call,
                "the TimedGraph is empty, because it was moved from: use the object that has it now");
  return *state_;
}

void TimedGraph::launch(StreamRef given) {
  const char* const call = "TimedGraph::launch";
  State& timed = state(call);
  CUstream const stream = own_stream(timed.rings->context(), given, call);
  if (const Status status = timed.launch(stream); !status) fail(timed.rings->context(), status);
}

CUresult TimedGraph::try_launch(StreamRef stream) noexcept {
  if (state_ == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult refused = check_context(state_->rings->context(), stream);
  if (refused != CUDA_SUCCESS) return refused;
  return result_of([&] { return state_->launch(stream.native_handle()).result; });
}

const Graph& TimedGraph::graph() const { return state("TimedGraph::graph").graph; }
GraphExec& TimedGraph::exec() { return state("TimedGraph::exec").exec; }

}} // namespace cuevent::CUEVENT_ABI
