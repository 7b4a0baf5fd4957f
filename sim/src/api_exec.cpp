// SPDX-License-Identifier: MIT
#include "api.hpp"
#include "conditional.hpp"

#include <algorithm>
#include <climits>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <utility>

namespace cuevent::sim {

namespace {

/// Each node comes after all its dependencies, otherwise in creation order. Nodes of a cycle, and those
/// behind it, are left out.
std::vector<const Node*> in_topological_order(const Graph& graph) {
  std::vector<const Node*> order;
  std::set<const Node*> placed;
  for (bool placing = true; placing && order.size() < graph.nodes.size();) {
    placing = false;
    for (auto& node : graph.nodes) {
      if (placed.contains(node.get())) continue;
      bool ready = true;
      for (const Node* before : node->after)
        ready = ready && placed.contains(before);
      if (!ready) continue;
      placed.insert(node.get());
      order.push_back(node.get());
      placing = true;
    }
  }
  return order;
}

constexpr unsigned long long upload = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
constexpr unsigned long long for_device = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
constexpr unsigned long long kept_flags = for_device | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
constexpr unsigned long long known_flags = kept_flags | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

/// Whether an exec with such a node can be launched from the device.
bool is_for_device(const Node& node) {
  if (node.work.type == conditional_type) return false; // older headers do not have it
  switch (node.work.type) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
  case CU_GRAPH_NODE_TYPE_MEMSET:
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return true;
  case CU_GRAPH_NODE_TYPE_EMPTY:
  case CU_GRAPH_NODE_TYPE_HOST:
  case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return false;
  case CU_GRAPH_NODE_TYPE_GRAPH:
    for (const auto& inside : node.work.child->nodes)
      if (inside->work.type != CU_GRAPH_NODE_TYPE_KERNEL)
        not_modelled("a launch from the device of a child graph with more than kernels");
    return true;
  default:
    not_modelled("a launch from the device of this kind of node");
  }
}

bool is_conditional(const std::vector<Exec::Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Exec::Step& step) { return !step.bodies.empty(); });
}

/// Also those in bodies.
void mark_as_of_child(std::vector<Exec::Step>& steps) {
  for (Exec::Step& step : steps) {
    step.of_child = true;
    for (auto& body : step.bodies)
      mark_as_of_child(body);
  }
}

} // namespace

std::vector<Exec::Step> Api::steps_of(const Graph& graph) {
  return steps_of(graph, in_topological_order(graph));
}

std::vector<Exec::Step> Api::steps_of(const Graph& graph, const std::vector<const Node*>& order) {
  refuse_if(order.size() < graph.nodes.size(), CUDA_ERROR_INVALID_VALUE); // a cycle
  std::vector<Exec::Step> steps;
  std::map<const Node*, std::size_t> position;
  for (const Node* node : order) {
    Exec::Step step;
    step.node = node->number;
    step.work = node->work;
    for (const Node* before : node->after)
      step.after.push_back(position.at(before));
    if (const auto earlier = std::exchange(step.work.earlier, nullptr))
      for (const Work& one : *earlier) {
        Exec::Step before;
        before.work = one;
        before.after = std::exchange(step.after, {steps.size()});
        steps.push_back(std::move(before));
      }
    for (const auto& body : bodies_of(node->work))
      step.bodies.push_back(steps_of(*body));
    step.initial = initial_value(graph, step.work);
    if (const auto child = std::exchange(step.work.child, nullptr)) {
      auto inside = steps_of(*child);
      if (has_unused_handle(*child)) not_modelled("a child graph with an unused conditional handle");
      mark_as_of_child(inside);
      const std::size_t first = steps.size();
      step.inside = inside.size();
      for (Exec::Step& one : inside) {
        for (std::size_t& before : one.after)
          before += first;
        if (one.after.empty()) one.after = step.after;
        steps.push_back(std::move(one));
      }
      // The child is done when all in it is.
      for (std::size_t i = first; i < steps.size(); ++i)
        step.after.push_back(i);
    }
    position[node] = steps.size();
    steps.push_back(std::move(step));
  }
  return steps;
}

/// Why the graph cannot be instantiated with these flags, and the node that is to blame.
Api::Hindrance Api::hindrance_to_instantiation(const Graph& graph, const std::vector<const Node*>& order,
                                               unsigned long long flags) {
  constexpr unsigned long long not_together = for_device | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  const bool has_no_work = (flags & for_device) != 0 && graph.nodes.empty();
  if ((flags & not_together) == not_together || has_no_work) return {CUDA_GRAPH_INSTANTIATE_ERROR, nullptr};
  constexpr auto unused = static_cast<CUgraphInstantiateResult>(5); // named since CUDA 12.8
  if (has_unused_handle(graph)) return {unused, nullptr};
  for (const auto& node : graph.nodes) {
    if ((flags & for_device) != 0 && !is_for_device(*node))
      return {CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, node.get()};
    if (const Hindrance found = hindrance_in_bodies(*node); found.second != nullptr) return found;
  }
  if (order.size() == graph.nodes.size()) return {CUDA_GRAPH_INSTANTIATE_SUCCESS, nullptr};
  const auto in_cycle = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
    return std::find(order.begin(), order.end(), node.get()) == order.end();
  });
  return {CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, in_cycle->get()};
}

CUresult Api::instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags,
                          CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  refuse_if((flags & ~known_flags) != 0, CUDA_ERROR_INVALID_VALUE);
  auto home = current_context();
  const bool uploads = parameters != nullptr && (parameters->flags & upload) != 0;
  if (!uploads) unsafe_call(); // before it looks at the other arguments
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto from = graph(handle);
  refuse_if(from->body || from->child, CUDA_ERROR_NOT_SUPPORTED);
  const auto order = in_topological_order(*from);
  const auto [hindrance, node] = hindrance_to_instantiation(*from, order, flags);
  if (parameters != nullptr && hindrance != CUDA_GRAPH_INSTANTIATE_SUCCESS) {
    parameters->result_out = hindrance;
    parameters->hErrNode_out = node != nullptr ? as<CUgraphNode>(*node) : nullptr;
  }
  refuse_if(hindrance != CUDA_GRAPH_INSTANTIATE_SUCCESS, CUDA_ERROR_INVALID_VALUE);
  if (uploads) refuse_in_capture(*stream(parameters->hUploadStream));
  wait_while_queue_is_full(*home);
  const bool has_memory = from->names_memory;
  refuse_if(has_memory && !from->only_exec.expired(), CUDA_ERROR_NOT_SUPPORTED);
  auto body = std::make_shared<Exec::Body>();
  body->has_memory = has_memory;
  body->steps = steps_of(*from, order);
  body->handles = handles_of(*from);
  body->is_conditional = is_conditional(body->steps);
  for (const Exec::Step& step : body->steps) {
    refuse_if(step.work.fills_nothing, CUDA_ERROR_INVALID_VALUE);
    if (step.work.event && step.work.event->destroyed)
      undefined("the instantiated graph refers to a destroyed event: " +
                computer_.handles.describe(*step.work.event));
  }
  share_user_objects(*from, *body->user_objects);
  auto exec = make<Exec>(Kind::exec, nullptr);
  exec->body = std::move(body);
  if (has_memory) from->only_exec = exec;
  exec->flags = flags & kept_flags;
  exec->home = {home, home->generation};
  *out = as<CUgraphExec>(*exec);
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return instantiate(exec, graph, flags, nullptr);
}

CUresult Api::cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  parameters->hErrNode_out = nullptr;
  parameters->result_out = CUDA_GRAPH_INSTANTIATE_ERROR; // unless the next call returns
  const CUresult result = instantiate(exec, graph, parameters->flags & ~upload, parameters);
  parameters->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return result;
}

/// Copies and fills keep to the kinds of memory and the numbers of rows.
CUgraphExecUpdateResult hindrance(const Work& before, const Work& after) {
  if (before.type != after.type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  if (before.event && before.event->home.context->family() != after.event->home.context->family())
    return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  if (before.parameters && after.parameters) {
    if (!before.parameters->fit(*after.parameters)) return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if (!before.parameters->has_target_of(*after.parameters))
      not_modelled("an update of an exec with a copy to another array");
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

namespace {

/// One graph among the steps: the last step is its own, and those inside a child graph are not.
class Level {
public:
  Level(const std::vector<Exec::Step>& steps, std::size_t begin, std::size_t end) : steps_(steps) {
    while (end > begin) {
      nodes_.push_back(--end);
      end -= steps[end].inside;
    }
  }
  std::size_t size() const { return nodes_.size(); }
  const Exec::Step& node(std::size_t number) const { return steps_[nodes_[number]]; } // 0 is the last one
  Level inside(std::size_t number) const {
    return {steps_, nodes_[number] - node(number).inside, nodes_[number]};
  }
  /// The nodes of this graph that the node comes after.
  std::vector<std::ptrdiff_t> edges(std::size_t number) const {
    std::vector<std::ptrdiff_t> found;
    for (const std::size_t before : node(number).after)
      if (const auto at = std::lower_bound(nodes_.begin(), nodes_.end(), before, std::greater<>());
          at != nodes_.end() && *at == before)
        found.push_back(at - nodes_.begin());
    return found;
  }

private:
  const std::vector<Exec::Step>& steps_;
  std::vector<std::size_t> nodes_; // the last one first
};

bool has_same_memory(const std::vector<Exec::Step>& before, const std::vector<Exec::Step>& after) {
  const auto memory_of = [](const Exec::Step& step) {
    return is_of_memory(step.work.type) ? graph_memory_of(step.work) : nullptr;
  };
  return std::equal(before.begin(), before.end(), after.begin(), after.end(),
                    [&](const auto& a, const auto& b) { return memory_of(a) == memory_of(b); });
}

CUgraphExecUpdateResult first_hindrance(const Level& before, const Level& after);

/// Of two conditional nodes.
CUgraphExecUpdateResult hindrance_of_conditional(const Exec::Step& before, const Exec::Step& after) {
  const Conditional *const one = conditional_of(before.work), *const other = conditional_of(after.work);
  if (one == nullptr) return CU_GRAPH_EXEC_UPDATE_SUCCESS;
  if (one->choice != other->choice || before.bodies.size() != after.bodies.size())
    return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  for (std::size_t i = 0; i < before.bodies.size(); ++i)
    if (const auto found = first_hindrance({before.bodies[i], 0, before.bodies[i].size()},
                                           {after.bodies[i], 0, after.bodies[i].size()});
        found != CU_GRAPH_EXEC_UPDATE_SUCCESS)
      return found;
  if (one->handle != other->handle) return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
  if (one->context != other->context)
    not_modelled("an update with a conditional node whose handle is of another context");
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/// Takes the work of other steps of the same shape. The steps keep the names of the first graph's nodes.
void take_work(std::vector<Exec::Step>& steps, std::vector<Exec::Step>& from) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].work = std::move(from[i].work);
    steps[i].initial = from[i].initial;
    for (std::size_t body = 0; body < steps[i].bodies.size(); ++body)
      take_work(steps[i].bodies[body], from[i].bodies[body]);
  }
}

/// What a device finds different about a graph that an exec is to be updated from. It compares all
/// edges first, then the nodes, beginning with the last one, and a child graph with its node. An exec that
/// has copies or fills of several rows takes others.
CUgraphExecUpdateResult first_hindrance(const Level& before, const Level& after) {
  if (before.size() != after.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before.edges(i) != after.edges(i)) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (std::size_t i = 0; i < before.size(); ++i) {
    auto found = hindrance(before.node(i).work, after.node(i).work);
    if (found == CU_GRAPH_EXEC_UPDATE_SUCCESS) found = first_hindrance(before.inside(i), after.inside(i));
    if (found == CU_GRAPH_EXEC_UPDATE_SUCCESS)
      found = hindrance_of_conditional(before.node(i), after.node(i));
    if (found != CU_GRAPH_EXEC_UPDATE_SUCCESS) return found;
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

} // namespace

CUresult Api::cuGraphExecUpdate_v2(CUgraphExec exec_handle, CUgraph graph_handle,
                                   CUgraphExecUpdateResultInfo* info) {
  CUgraphExecUpdateResultInfo nowhere;
  if (info == nullptr) info = &nowhere;
  if (exec_handle == nullptr || graph_handle == nullptr) *info = {};
  auto updated = exec(exec_handle);
  auto from = graph(graph_handle);
  if (from->child) *info = {};
  refuse_if(from->body || from->child, CUDA_ERROR_INVALID_VALUE);
  auto steps = steps_of(*from);
  if ((updated->body->has_memory || from->names_memory) && !has_same_memory(updated->body->steps, steps))
    not_modelled("an update of an exec that allocates or frees from another graph");
  const auto& before = updated->body->steps;
  const auto hindrance = first_hindrance({before, 0, before.size()}, {steps, 0, steps.size()});
  *info = {};
  info->result = hindrance;
  if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
    process_.kept.push_back(updated->body->user_objects); // a device never destroys them after that
    refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  }
  take_work(updated->body->steps, steps);
  updated->body->handles = handles_of(*from);
  auto references = std::make_shared<UserObjectReferences>();
  share_user_objects(*from, *references);
  updated->body->user_objects = std::move(references);
  computer_.settle(lock_);
  return CUDA_SUCCESS;
}

namespace {

/// Also in bodies of conditional nodes. Null if the exec was made without the node.
Exec::Step* step_of_node(std::vector<Exec::Step>& steps, unsigned long long node) {
  for (Exec::Step& step : steps) {
    if (step.node == node) return &step;
    for (auto& body : step.bodies)
      if (Exec::Step* const found = step_of_node(body, node)) return found;
  }
  return nullptr;
}

} // namespace

Exec::Step& Api::step(CUgraphExec exec_handle, CUgraphNode node_handle, const char* reason_if_gone) {
  auto changed = exec(exec_handle);
  // A node handle belongs to the graph. Once the graph is destroyed, the driver finds no such node, or a
  // later node with the same handle, which it refuses as a node of another graph.
  refuse_if(computer_.handles.peek<Object>(reinterpret_cast<std::uintptr_t>(node_handle)) == nullptr,
            CUDA_ERROR_INVALID_VALUE, node_handle != nullptr ? reason_if_gone : nullptr);
  Exec::Step* const found = step_of_node(changed->body->steps, node(node_handle)->number);
  refuse_if(found == nullptr, CUDA_ERROR_INVALID_VALUE);
  return *found;
}

Work& Api::step_of(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, const char* reason_if_gone) {
  Work& work = step(exec, node, reason_if_gone).work;
  const bool asked = type == CU_GRAPH_NODE_TYPE_EVENT_RECORD || type == CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  if (work.type != type && asked)
    refuse(CUDA_ERROR_INVALID_VALUE,
           reasons::made("Node type " + std::to_string(work.type) + " does not match the expected value " +
                         std::to_string(type)));
  refuse_if(work.type != type, CUDA_ERROR_INVALID_VALUE);
  return work;
}

/// Unlike the node of a graph, the node of an exec keeps to the context of its first event.
CUresult Api::set_step_event(Work& work, CUevent handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto next = find<Event>(handle, Kind::event); // a fault is not reported
  require_alive(next->home, *next);
  refuse_if(next->home.context->family() != work.event->home.context->family(), CUDA_ERROR_INVALID_VALUE);
  return set_node_event(work, handle);
}

CUresult Api::cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  Work& work =
      step_of(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, "Node type 0 does not match the expected value 7");
  refuse_if(event == nullptr, CUDA_ERROR_INVALID_VALUE, "Node parameters cannot be NULL");
  return set_step_event(work, event);
}

CUresult Api::cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return set_step_event(step_of(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT), event);
}

CUresult Api::cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_HOST_NODE_PARAMS* parameters) {
  refuse_if(parameters == nullptr || parameters->fn == nullptr, CUDA_ERROR_INVALID_VALUE);
  Work& work = step_of(exec, node, CU_GRAPH_NODE_TYPE_HOST);
  work.function = parameters->fn;
  work.data = parameters->userData;
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphUpload(CUgraphExec exec_handle, CUstream stream_handle) {
  exec(exec_handle);
  refuse_in_capture(*stream(stream_handle));
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphLaunch(CUgraphExec exec_handle, CUstream stream_handle) {
  auto where = stream(stream_handle);
  refuse_in_capture(*where);
  implicit_check(*where);
  auto launched = exec(exec_handle);
  std::vector<Exec::Step> chosen;
  if (launched->body->is_conditional) chosen = running_steps(*launched->body);
  const auto& steps = chosen.empty() ? launched->body->steps : chosen;
  for (const Exec::Step& step : steps) {
    if (step.enabled && step.work.unmodelled != nullptr) not_modelled(step.work.unmodelled);
    if (step.enabled) fault_of_ended_memory(step.work);
    if (!step.work.event) continue;
    if (step.work.event->destroyed)
      undefined("the launched graph refers to a destroyed event: " +
                computer_.handles.describe(*step.work.event));
    require_alive(step.work.event->home, *step.work.event);
  }
  if (process_.fault != CUDA_SUCCESS) return CUDA_SUCCESS;
  if (launched->body->has_memory) launch_memory(*launched);
  launch(launched->body, steps, where);
  return CUDA_SUCCESS;
}

namespace {

/// Whether a step behind this record, but not right behind it, waits for the event. Steps come in the order
/// of their edges.
bool is_awaited_further_behind(const std::vector<Exec::Step>& steps, std::size_t record) {
  std::vector<bool> behind(steps.size()), further(steps.size());
  for (std::size_t i = record + 1; i < steps.size(); ++i) {
    for (const std::size_t before : steps[i].after) {
      if (behind[before]) further[i] = true;
      if (behind[before] || before == record) behind[i] = true;
    }
    if (further[i] && steps[i].work.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT &&
        steps[i].work.event == steps[record].work.event)
      return true;
  }
  return false;
}

/// What the steps of a launch take part in: a wait for an event of an active capture joins it, and the
/// records behind that wait are in the capture. Other work does not become nodes of it. The stream joins it,
/// too, unless it belongs to another context.
class CapturedSteps {
public:
  explicit CapturedSteps(const std::vector<Exec::Step>& steps) : steps_(steps) {}

  /// Takes the steps in their order. Returns the record that this one takes part in, or null.
  const Recording* next() {
    const Exec::Step& step = steps_[inside_.size()];
    const Recording* in = nullptr;
    for (const std::size_t before : step.after)
      if (in == nullptr) in = inside_[before];
    if (in == nullptr && step.work.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
      if (const Recording& awaited = *step.work.event->recording;
          awaited.capture && awaited.capture->active())
        in = &joined_.emplace_back(awaited);
    return inside_.emplace_back(in);
  }
  /// As they were when their events were waited for.
  const std::list<Recording>& joined() const { return joined_; }

private:
  const std::vector<Exec::Step>& steps_;
  std::vector<const Recording*> inside_; // of the steps so far
  std::list<Recording> joined_;
};

/// One place, and one more for each timed record if there is other work. A launch with user objects
/// needs the places of a notification, because the driver is notified when the launch ends.
std::size_t places_of(const Exec::Body& body) {
  if (!body.user_objects->empty()) return places_of_a_notification;
  std::size_t timed = 0;
  for (const Exec::Step& step : body.steps)
    if (step.work.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && step.work.event->timed()) ++timed;
  const bool others = timed != body.steps.size();
  return std::max<std::size_t>(1, timed + (others ? 1 : 0));
}

} // namespace

/// As for cuStreamWaitEvent, the legacy stream cannot join a capture of its context.
void Api::refuse_captured_waits(const std::vector<Exec::Step>& steps, const Stream& legacy) {
  CapturedSteps captured(steps);
  for (std::size_t i = 0; i < steps.size(); ++i)
    captured.next();
  for (const Recording& recording : captured.joined()) {
    if (recording.capture->origin->home.context->family() != legacy.home.context->family()) continue;
    recording.capture->invalidated = true;
    refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  }
}

/// The stream gets one submission. Inside it, each node runs after the nodes that it depends on.
void Api::launch(const std::shared_ptr<Exec::Body>& body, const std::vector<Exec::Step>& steps,
                 const std::shared_ptr<Stream>& where) {
  if (where->type == Stream::Type::legacy && !process_.captures.empty()) refuse_captured_waits(steps, *where);
  Work done;
  done.text = "end of the graph launch";
  done.owner = body->user_objects;
  done.places = places_of(*body);
  make_room(where, done);
  auto new_operation = [&](Work work) {
    auto operation = std::make_shared<Operation>();
    operation->work = std::move(work);
    operation->stream = where;
    return operation;
  };
  Work first;
  first.text = "graph launch";
  auto begin = new_operation(first);
  begin->after = predecessors(*where);
  // A launch without work waits for no launch before it, and leaves an idle stream idle.
  const bool has_work = std::any_of(steps.begin(), steps.end(), [](const Exec::Step& step) {
    return step.work.type != CU_GRAPH_NODE_TYPE_EMPTY && step.work.type != CU_GRAPH_NODE_TYPE_GRAPH;
  });
  if (has_work) begin->after.push_back(body->last_launch);

  // It comes after what the contexts of its events wait for.
  for (const Exec::Step& step : steps)
    if (step.work.event) {
      const auto& barriers = step.work.event->home.context->barriers;
      begin->after.insert(begin->after.end(), barriers.begin(), barriers.end());
    }

  std::vector<std::shared_ptr<Operation>> operations;
  std::vector<bool> last(steps.size(), true);
  CapturedSteps captured(steps);
  for (const Exec::Step& step : steps) {
    const Recording* const in_capture = captured.next();
    auto operation = new_operation(step.enabled ? step.work : Work{});
    if (step.enabled && step.work.type == CU_GRAPH_NODE_TYPE_KERNEL) computer_.set_up_kernel(operation->work);
    if (const CUresult fault = fault_of_ended_memory(operation->work)) {
      operation->work.fault = fault;
      operation->work.effect = nullptr;
    }
    if (step.after.empty()) operation->after.push_back(begin);
    for (std::size_t before : step.after) {
      operation->after.push_back(operations[before]);
      last[before] = false;
    }
    if (step.work.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
      operation->after.push_back(last_record(*step.work.event));
    if (step.work.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
      // As on a stream, no record of an interprocess event overtakes the one before. Nor does the record
      // of an event for which the graph waits further behind.
      if (step.work.event->interprocess() || is_awaited_further_behind(steps, operations.size()))
        operation->after.push_back(last_record(*step.work.event));
      if (in_capture != nullptr) {
        recorded_in_capture(*step.work.event, in_capture->capture, in_capture->frontier);
      } else {
        if (step.enabled) begin_record(*step.work.event, operation->work);
        recorded(*step.work.event, operation);
        step.work.event->recording->by_node = true;
      }
    }
    operations.push_back(std::move(operation));
  }
  if (body->has_memory) // that other nodes may use to the end, even if the exec and its graph are destroyed
    done.effect = [steps = body->steps] {};
  auto end = new_operation(std::move(done));
  end->submitted = true;
  end->after.push_back(begin);
  for (std::size_t i = 0; i < operations.size(); ++i)
    if (last[i]) end->after.push_back(operations[i]);
  if (has_work || !idle(*where)) where->seen_tail = end;
  where->tail = end;
  body->last_launch = end;

  computer_.scheduler.submit(begin);
  for (auto& operation : operations)
    computer_.scheduler.submit(operation);
  computer_.scheduler.submit(end);
  for (const Recording& recording : captured.joined()) {
    const bool at_home = recording.capture->origin->home.context == where->home.context;
    if (at_home && (!where->capture || where->capture == recording.capture)) join(where, recording);
  }
  computer_.settle(lock_);
  for (const auto& operation : operations)
    if (operation->work.launch_waits) wait_for(operation, "a copy to memory of the host, of its own launch");
}

CUresult Api::cuGraphExecDestroy(CUgraphExec handle) {
  if (handle == nullptr) unsafe_call();
  auto gone = exec(handle);
  if (!gone->home.alive() && gone->home.context->active)
    crash("the exec outlived a reset of its primary context, which is active again: " +
          computer_.handles.describe(handle));
  unsafe_call(); // other than for graphs and events, whose destruction no capture forbids
  wait_while_queue_is_full(*gone->home.context);
  computer_.handles.remove(*gone, ending());
  gone.reset(); // launches in flight keep what they need
  computer_.settle(lock_);
  return CUDA_SUCCESS;
}

// User objects

CUresult Api::cuUserObjectCreate(CUuserObject* out, void* pointer, CUhostFn destroy, unsigned int references,
                                 unsigned int flags) {
  refuse_if(out == nullptr || destroy == nullptr || references == 0 ||
                flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC,
            CUDA_ERROR_INVALID_VALUE);
  auto created = make<UserObject>(Kind::user_object, nullptr);
  created->pointer = pointer;
  created->destroy = destroy;
  created->references = references;
  *out = as<CUuserObject>(*created);
  return CUDA_SUCCESS;
}

namespace {

/// How many references one call may take or give back.
bool is_number_of_references(unsigned count) { return count != 0 && count <= INT_MAX; }

} // namespace

CUresult Api::cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  refuse_if(handle == nullptr || !is_number_of_references(count), CUDA_ERROR_INVALID_VALUE);
  find<UserObject>(handle, Kind::user_object)->references += count;
  return CUDA_SUCCESS;
}

CUresult Api::cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  refuse_if(handle == nullptr || !is_number_of_references(count), CUDA_ERROR_INVALID_VALUE);
  auto object = find<UserObject>(handle, Kind::user_object);
  if (object->references < count)
    undefined("more references are released than exist: " + computer_.handles.describe(handle));
  object->release(count);
  computer_.settle(lock_);
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count,
                                      unsigned int flags) {
  refuse_if(handle == nullptr || !is_number_of_references(count) ||
                (flags & ~static_cast<unsigned>(CU_GRAPH_USER_OBJECT_MOVE)) != 0,
            CUDA_ERROR_INVALID_VALUE);
  auto holder = graph(graph_handle);
  auto object = find<UserObject>(handle, Kind::user_object);
  if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0) object->references += count;
  holder->user_objects.add(object, count);
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count) {
  refuse_if(handle == nullptr || !is_number_of_references(count), CUDA_ERROR_INVALID_VALUE);
  auto holder = graph(graph_handle);
  auto object = find<UserObject>(handle, Kind::user_object);
  if (!holder->user_objects.release(*object, count)) // a device takes somebody else's reference
    undefined("the graph does not hold the user object that is released");
  computer_.settle(lock_);
  return CUDA_SUCCESS;
}

} // namespace cuevent::sim
