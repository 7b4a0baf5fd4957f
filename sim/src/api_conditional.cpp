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

bool has_conditional_nodes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const auto& node) { return node->work.type == conditional_type; });
}

/// Ends the program if a stream captures into the graph or one of its bodies, which is about to end.
void Api::must_not_be_captured(const Graph& graph) {
  for (const auto& capture : process_.captures)
    if (capture->graph.get() == &graph)
      undefined("the graph belongs to a capture that has not ended: " + computer_.handles.describe(graph));
  for (const auto& node : graph.nodes)
    for (const auto& body : bodies_of(node->work))
      must_not_be_captured(*body);
}

// Creation

#if CUDA_VERSION >= 12030
CUresult Api::cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph handle, CUcontext in,
                                             unsigned int initial, unsigned int flags) {
  refuse_if(in == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  context(in);
  refuse_if(out == nullptr || flags > CU_GRAPH_COND_ASSIGN_DEFAULT, CUDA_ERROR_INVALID_VALUE);
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

/// Not measured: conditional.unusual
CUresult Api::add_conditional_node(CUgraphNode* out, CUgraph into, const CUgraphNode* after, size_t count,
                                   CUgraphNodeParams& parameters) {
  auto& wanted = parameters.conditional;
  refuse_if(wanted.ctx == nullptr, CUDA_ERROR_INVALID_CONTEXT);
  context(wanted.ctx);
  const auto choice = static_cast<Choice>(wanted.type);
  refuse_if(parameters.reserved2 != 0 || !fits(choice, wanted.size), CUDA_ERROR_INVALID_VALUE);
  const auto& handles = graph(into)->conditional_handles;
  refuse_if(!handles || wanted.handle == 0 || wanted.handle > handles->size(), CUDA_ERROR_INVALID_VALUE);
  ConditionalHandle& chosen = (*handles)[wanted.handle - 1];
  refuse_if(!chosen.node.expired(), CUDA_ERROR_INVALID_VALUE);
  if (std::any_of(std::begin(parameters.reserved0), std::end(parameters.reserved0),
                  [](int word) { return word != 0; }))
    not_modelled("a conditional node with reserved numbers");
  if (chosen.used) not_modelled("a conditional handle whose node was destroyed");
  if (chosen.context != wanted.ctx) not_modelled("a conditional node in another context than its handle");
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
  chosen.used = true;
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

/// Not measured: conditional.unusual (copies of memory that is not pinned, and kernels of other contexts)
void Api::not_modelled_in_body(const Work& work, const Conditional& conditional) const {
  const NodeParameters* const parameters = work.parameters.get();
  if (work.type == CU_GRAPH_NODE_TYPE_KERNEL && parameters != nullptr &&
      parameters->kernel.ctx != conditional.context)
    not_modelled("a kernel of another context in the body of a conditional node");
  if (work.type != CU_GRAPH_NODE_TYPE_MEMCPY) return;
  const auto on_host = [this](CUmemorytype type, const void* host, CUdeviceptr any) {
    const auto address = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uintptr_t>(host)
                                                    : static_cast<std::uintptr_t>(any);
    return type != CU_MEMORYTYPE_DEVICE && allocation_of(address) == nullptr;
  };
  if (parameters == nullptr ||
      on_host(parameters->copy.srcMemoryType, parameters->copy.srcHost, parameters->copy.srcDevice) ||
      on_host(parameters->copy.dstMemoryType, parameters->copy.dstHost, parameters->copy.dstDevice))
    not_modelled("a copy of memory that is not pinned, or that was captured with host memory, in the body of "
                 "a conditional node");
}

/// The first node of the graph that no body can have, or null.
const Node* Api::unfit_for_body(const Graph& graph, const Conditional& conditional) const {
  for (const auto& node : graph.nodes) {
    if (!may_be_in_body(node->work.type)) return node.get();
    not_modelled_in_body(node->work, conditional);
    if (node->work.child)
      if (const Node* const found = unfit_for_body(*node->work.child, conditional)) return found;
    if (const Node* const found = unfit_in_bodies(*node)) return found;
  }
  return nullptr;
}

const Node* Api::unfit_in_bodies(const Node& node) const {
  for (const auto& body : bodies_of(node.work))
    if (const Node* const found = unfit_for_body(*body, *conditional_of(node.work))) return found;
  return nullptr;
}

/// Not measured: conditional.refused_instantiations (which node, and the result of an unused handle)
std::pair<CUgraphInstantiateResult, const Node*> Api::hindrance_of_conditionals(const Graph& graph) const {
  for (const auto& node : graph.nodes)
    if (const Node* const found = unfit_in_bodies(*node))
      return {CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, found};
  if (graph.conditional_handles)
    for (const ConditionalHandle& each : *graph.conditional_handles) {
      if (each.used && each.node.expired()) not_modelled("a conditional handle whose node was destroyed");
      constexpr auto unused = static_cast<CUgraphInstantiateResult>(5); // named since CUDA 12.8
      if (!each.used) return {unused, nullptr};
    }
  return {CUDA_GRAPH_INSTANTIATE_SUCCESS, nullptr};
}

std::vector<unsigned> initial_values(const Graph& graph) {
  std::vector<unsigned> values;
  if (graph.conditional_handles)
    for (const ConditionalHandle& each : *graph.conditional_handles)
      values.push_back(each.initial);
  return values;
}

// Launches

namespace {

using Steps = std::vector<Exec::Step>;

/// The bodies that run, one after another. Kernels compute nothing, so each handle keeps its initial value,
/// unless a control call has chosen another.
std::vector<const Steps*> running_bodies(const Exec::Step& step, const Exec::Body& exec) {
  const Conditional& conditional = *conditional_of(step.work);
  const auto chosen = exec.chosen_values.find(conditional.handle);
  const bool is_chosen = chosen != exec.chosen_values.end();
  const unsigned value = is_chosen ? chosen->second : exec.initial_values[conditional.handle - 1];
  std::size_t body = value;
  switch (conditional.choice) {
  case Choice::if_else:
    body = value != 0 ? 0 : 1;
    break;
  case Choice::loop:
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
    if (!step.bodies.empty())
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
