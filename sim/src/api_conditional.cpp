// SPDX-License-Identifier: MIT
// Conditional handles and nodes: how they are made, what stops a graph with them, and what a launch runs.

#include "api.hpp"
#include "conditional.hpp"

#include <algorithm>
#include <iterator>

namespace cuevent::sim {

const Conditional* conditional_of(const Work& work) {
  return work.type == conditional_type ? work.parameters->conditional.get() : nullptr;
}

std::span<const std::shared_ptr<Graph>> bodies_of(const Work& work) {
  const Conditional* const conditional = conditional_of(work);
  if (conditional == nullptr) return {};
  return conditional->bodies;
}

/// Ends the program if a stream captures into the graph or one of its bodies, which is about to end.
void Api::must_not_be_captured(const Graph& graph) {
  for (const auto& capture : process_.captures)
    if (capture->graph.get() == &graph)
      undefined("the graph belongs to a capture that has not ended: " + computer_.handles.describe(graph));
  if (graph.lost) crash("the graph of a body was destroyed: " + computer_.handles.describe(graph));
  for (const auto& node : graph.nodes)
    for (const auto& body : bodies_of(node->work))
      must_not_be_captured(*body);
}

// Creation

#if CUDA_VERSION >= 12030
CUresult Api::cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph handle, CUcontext in,
                                             unsigned int initial, unsigned int flags) {
  refuse_if(out == nullptr || handle == nullptr || flags > CU_GRAPH_COND_ASSIGN_DEFAULT,
            CUDA_ERROR_INVALID_VALUE);
  refuse_if(in == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  context(in);
  const auto owner = graph(handle);
  if (!owner->conditional_handles)
    owner->conditional_handles = std::make_shared<std::vector<ConditionalHandle>>();
  owner->conditional_handles->push_back({in, flags == CU_GRAPH_COND_ASSIGN_DEFAULT ? initial : 0});
  *out = owner->conditional_handles->size();
  return CUDA_SUCCESS;
}

namespace {

bool fits(Choice choice, unsigned bodies) {
  switch (choice) {
  case Choice::if_else:
    return bodies == 1 || bodies == 2;
  case Choice::loop:
    return bodies == 1;
  case Choice::one_of:
    return bodies >= 1;
  }
  return false;
}

const char* text_of(Choice choice) {
  switch (choice) {
  case Choice::if_else:
    return "IF node";
  case Choice::loop:
    return "WHILE node";
  default:
    return "SWITCH node";
  }
}

} // namespace

CUresult Api::add_conditional_node(CUgraphNode* out, CUgraph into, const CUgraphNode* after, size_t count,
                                   CUgraphNodeParams& parameters) {
  auto& wanted = parameters.conditional;
  const auto choice = static_cast<Choice>(wanted.type);
  refuse_if(parameters.reserved2 != 0 || !fits(choice, wanted.size), CUDA_ERROR_INVALID_VALUE);
  refuse_if(wanted.ctx == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  context(wanted.ctx);
  const auto& handles = graph(into)->conditional_handles;
  refuse_if(!handles || wanted.handle == 0 || wanted.handle > handles->size(), CUDA_ERROR_INVALID_VALUE);
  ConditionalHandle& chosen = (*handles)[wanted.handle - 1];
  refuse_if(!chosen.node.expired() || chosen.context != wanted.ctx, CUDA_ERROR_INVALID_VALUE);
  refuse_if(std::any_of(std::begin(parameters.reserved0), std::end(parameters.reserved0),
                        [](int word) { return word != 0; }),
            CUDA_ERROR_INVALID_VALUE);
  if (computer_.options.driver_version < 12080 && (choice == Choice::one_of || wanted.size > 1))
    not_modelled("a SWITCH node, or an IF node with two bodies, with a driver before CUDA 12.8");

  const auto conditional = std::make_shared<Conditional>();
  conditional->choice = choice;
  conditional->handle = wanted.handle;
  conditional->context = wanted.ctx;
  auto kept = std::make_shared<NodeParameters>();
  kept->conditional = conditional;
  Work work;
  work.type = conditional_type;
  work.text = text_of(choice);
  work.parameters = std::move(kept);
  add_node(out, into, after, count, std::move(work));
  chosen.node = node(*out);
  for (unsigned i = 0; i < wanted.size; ++i) {
    auto body = make<Graph>(Kind::graph, nullptr);
    body->body = true;
    body->conditional_handles = handles;
    conditional->given.push_back(as<CUgraph>(*body));
    conditional->bodies.push_back(std::move(body));
  }
  wanted.phGraph_out = conditional->given.data();
  return CUDA_SUCCESS;
}
#endif

// Instantiation

namespace {

bool may_be_in_body(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_EMPTY ||
         type == CU_GRAPH_NODE_TYPE_GRAPH || type == conditional_type;
}

} // namespace

/// Pageable memory belongs to no context either.
bool Api::is_of_other_context(const Work& work, const Conditional& conditional) const {
  const NodeParameters* const parameters = work.parameters.get();
  if (work.type == CU_GRAPH_NODE_TYPE_KERNEL)
    return parameters != nullptr && parameters->kernel.ctx != conditional.context;
  if (work.type != CU_GRAPH_NODE_TYPE_MEMCPY) return false;
  const auto pageable = [this](CUmemorytype type, const void* host, CUdeviceptr any) {
    const auto address = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uintptr_t>(host)
                                                    : static_cast<std::uintptr_t>(any);
    return type != CU_MEMORYTYPE_DEVICE && allocation_of(address) == nullptr;
  };
  if (parameters == nullptr)
    not_modelled("a copy that was captured with host memory, in the body of a conditional node");
  return pageable(parameters->copy.srcMemoryType, parameters->copy.srcHost, parameters->copy.srcDevice) ||
         pageable(parameters->copy.dstMemoryType, parameters->copy.dstHost, parameters->copy.dstDevice);
}

/// The first node of the graph that no body can have.
Api::Hindrance Api::hindrance_in_body(const Graph& graph, const Conditional& conditional) const {
  if (graph.lost)
    crash("a failed capture into the body of a conditional node has destroyed the body: " +
          computer_.handles.describe(graph));
  for (const auto& node : graph.nodes) {
    if (!may_be_in_body(node->work.type))
      return {CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, node.get()};
    if (is_of_other_context(node->work, conditional))
      return {CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED, node.get()};
    if (node->work.child)
      if (const Hindrance found = hindrance_in_body(*node->work.child, conditional); found.second != nullptr)
        return found;
    if (const Hindrance found = hindrance_in_bodies(*node); found.second != nullptr) return found;
  }
  return {CUDA_GRAPH_INSTANTIATE_SUCCESS, nullptr};
}

Api::Hindrance Api::hindrance_in_bodies(const Node& node) const {
  for (const auto& body : bodies_of(node.work))
    if (const Hindrance found = hindrance_in_body(*body, *conditional_of(node.work)); found.second != nullptr)
      return found;
  return {CUDA_GRAPH_INSTANTIATE_SUCCESS, nullptr};
}

/// The end of a node leaves its handle unused.
bool has_unused_handle(const Graph& graph) {
  const auto& handles = graph.conditional_handles;
  return handles && std::any_of(handles->begin(), handles->end(),
                                [](const ConditionalHandle& each) { return each.node.expired(); });
}

std::size_t handles_of(const Graph& graph) {
  return graph.conditional_handles ? graph.conditional_handles->size() : 0;
}

unsigned initial_value(const Graph& graph, const Work& work) {
  const Conditional* const conditional = conditional_of(work);
  return conditional == nullptr ? 0 : (*graph.conditional_handles)[conditional->handle - 1].initial;
}

void share_user_objects(const Graph& graph, UserObjectReferences& with) {
  with.share_from(graph.user_objects);
  for (const auto& node : graph.nodes)
    for (const auto& body : bodies_of(node->work))
      share_user_objects(*body, with);
}

// Launches

namespace {

using Steps = std::vector<Exec::Step>;

/// The bodies that run, one after another. Kernels compute nothing, so each handle keeps its initial value,
/// unless a control call has chosen another.
std::vector<const Steps*> running_bodies(const Exec::Step& step, const Exec::Body& exec) {
  const Conditional& conditional = *conditional_of(step.work);
  const auto chosen = exec.chosen_values.find(conditional.handle);
  const bool is_chosen = !step.of_child && chosen != exec.chosen_values.end();
  const unsigned value = is_chosen ? chosen->second : step.initial;
  std::size_t body = value;
  switch (conditional.choice) {
  case Choice::if_else:
    body = value != 0 ? 0 : 1;
    break;
  case Choice::loop:
    if (step.of_child && value != 0)
      not_modelled("a WHILE node of a child graph that only a kernel could end");
    if (!is_chosen && value != 0)
      not_modelled("a WHILE node that only a kernel could end: cuevent::sim::set_conditional says how many "
                   "rounds it makes");
    return std::vector<const Steps*>(value, &step.bodies[0]);
  case Choice::one_of:
    break;
  }
  if (body >= step.bodies.size()) return {};
  return {&step.bodies[body]};
}

/// Adds the steps, and the steps of the bodies that run, behind the steps `before`.
void add_running(const Steps& steps, const std::vector<std::size_t>& before, const Exec::Body& exec,
                 Steps& to) {
  std::vector<std::size_t> places;
  for (const Exec::Step& step : steps) {
    Exec::Step added;
    added.work = step.work;
    added.enabled = step.enabled;
    for (const std::size_t other : step.after)
      added.after.push_back(places[other]);
    if (step.after.empty()) added.after = before;
    if (!step.bodies.empty() && step.work.unmodelled == nullptr)
      for (const Steps* const body : running_bodies(step, exec)) {
        const std::size_t first = to.size();
        add_running(*body, added.after, exec, to);
        if (to.size() == first) continue;
        added.after.clear();
        for (std::size_t i = first; i < to.size(); ++i)
          added.after.push_back(i);
      }
    places.push_back(to.size());
    to.push_back(std::move(added));
  }
}

} // namespace

/// A body comes before the step of its node, which then is the end of the node.
std::vector<Exec::Step> running_steps(const Exec::Body& exec) {
  Steps steps;
  add_running(exec.steps, {}, exec, steps);
  return steps;
}

} // namespace cuevent::sim
