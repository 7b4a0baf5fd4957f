// SPDX-License-Identifier: MIT
// Child graphs, copies, fills and kernels as nodes: what builds them, reads them, and changes an exec.

#include "api.hpp"
#include "box.hpp"
#include "conditional.hpp"
#include "launch_attributes.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

namespace cuevent::sim {

// Child graphs

/// Of the graph itself. The node gets a clone.
Work Api::child_work(CUgraph handle) {
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_GRAPH;
  work.text = "child graph";
  work.child = graph(handle);
  refuse_if(work.child->child, CUDA_ERROR_NOT_SUPPORTED);
  return work;
}

CUresult Api::cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph into, const CUgraphNode* after, size_t count,
                                       CUgraph child) {
  return add_node(out, into, after, count, child_work(child));
}

CUresult Api::cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph* out) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = as<CUgraph>(*node(handle, CU_GRAPH_NODE_TYPE_GRAPH)->work.child);
  return CUDA_SUCCESS;
}

/// The steps of the child come right before its own. A device refuses another event in them, which
/// cuGraphExecUpdate takes.
CUresult Api::cuGraphExecChildGraphNodeSetParams(CUgraphExec exec_handle, CUgraphNode node_handle,
                                                 CUgraph child) {
  refuse_if(child == nullptr, CUDA_ERROR_INVALID_VALUE);
  Work& own = step_of(exec_handle, node_handle, CU_GRAPH_NODE_TYPE_GRAPH);
  auto& steps = exec(exec_handle)->body->steps;
  const auto at =
      std::find_if(steps.begin(), steps.end(), [&](Exec::Step& one) { return &one.work == &own; });
  auto wanted = steps_of(*graph(child));
  const auto first = at - static_cast<std::ptrdiff_t>(at->inside);
  refuse_if(wanted.size() != at->inside, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Work& now = first[static_cast<std::ptrdiff_t>(i)].work;
    refuse_if(wanted[i].work.event != now.event ||
                  hindrance(now, wanted[i].work) != CU_GRAPH_EXEC_UPDATE_SUCCESS,
              CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  }
  for (std::size_t i = 0; i < wanted.size(); ++i)
    first[static_cast<std::ptrdiff_t>(i)].work = std::move(wanted[i].work);
  return CUDA_SUCCESS;
}

// Copies

Work Api::copy_node_work(const CUDA_MEMCPY3D* parameters, CUcontext in) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  if (in != nullptr) context(in);
  builds_node_ = true;
  const Box box = checked(*parameters);
  refuse_if(box.bytes() == 0, CUDA_ERROR_INVALID_VALUE);
  Work work = box_work(box);
  auto kept = std::make_shared<NodeParameters>();
  if (within_host(box)) kept->read_home = home_of(box.from);
  kept->copy = *parameters;
  kept->source_pooled = pooled(box.from);
  kept->target_pooled = pooled(box.to);
  work.parameters = std::move(kept);
  return work;
}

CUresult Api::cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph into, const CUgraphNode* after, size_t count,
                                   const CUDA_MEMCPY3D* parameters, CUcontext in) {
  return add_node(out, into, after, count, copy_node_work(parameters, in));
}

CUresult Api::cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D* parameters) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  const Work& work = node(handle, CU_GRAPH_NODE_TYPE_MEMCPY)->work;
  if (!work.parameters) not_modelled("the parameters of a captured copy");
  *parameters = work.parameters->copy;
  if (work.parameters->by_address)
    parameters->srcMemoryType = parameters->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphMemcpyNodeSetParams(CUgraphNode handle, const CUDA_MEMCPY3D* parameters) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  Work& work = node(handle, CU_GRAPH_NODE_TYPE_MEMCPY)->work;
  work = copy_node_work(parameters, nullptr);
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_MEMCPY3D* parameters, CUcontext in) {
  Work& work = step_of(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY);
  Work changed = copy_node_work(parameters, in);
  if (!work.parameters || work.parameters->captured) not_modelled("new parameters of a captured copy");
  refuse_if(!work.parameters->fit(*changed.parameters) ||
                work.parameters->read_home != changed.parameters->read_home,
            CUDA_ERROR_INVALID_VALUE);
  refuse_if(parameters->Height != 1 || parameters->Depth != 1, CUDA_ERROR_INVALID_VALUE);
  work = std::move(changed);
  return CUDA_SUCCESS;
}

// Fills

bool Api::green_is_current() {
  const auto& stack = thread().contexts;
  return !stack.empty() && stack.back()->type == Context::Type::green;
}

Work Api::fill_node_work(const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext in) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  const auto named = in != nullptr ? context(in) : nullptr;
  builds_node_ = true;
  Work work = fill_work(*parameters);
  refuse_if(!work.effect, CUDA_ERROR_INVALID_VALUE); // nothing to fill
  auto kept = std::make_shared<NodeParameters>();
  kept->fill = *parameters;
  const auto* const memory = reinterpret_cast<const void*>(parameters->dst);
  kept->filled_home = !named && green_is_current() ? thread().contexts.back().get()
                      : named && pooled(memory)    ? named->family()
                                                   : home_of(memory);
  work.parameters = std::move(kept);
  return work;
}

/// Without a context, a device refuses memory of a pool, which has no context either, unless a green one is
/// current.
CUresult Api::cuGraphAddMemsetNode(CUgraphNode* out, CUgraph into, const CUgraphNode* after, size_t count,
                                   const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext in) {
  Work work = fill_node_work(parameters, in);
  refuse_if(in == nullptr && !green_is_current() && pooled(reinterpret_cast<const void*>(parameters->dst)),
            CUDA_ERROR_INVALID_VALUE);
  return add_node(out, into, after, count, std::move(work));
}

CUresult Api::cuGraphMemsetNodeGetParams(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS* parameters) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  const Work& work = node(handle, CU_GRAPH_NODE_TYPE_MEMSET)->work;
  if (!work.parameters) not_modelled("the parameters of a captured fill");
  *parameters = work.parameters->fill;
  return CUDA_SUCCESS;
}

/// Memory of a pool has no context, so it needs a current one.
CUresult Api::cuGraphMemsetNodeSetParams(CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS* parameters) {
  Work& work = node(handle, CU_GRAPH_NODE_TYPE_MEMSET)->work;
  Work changed = fill_node_work(parameters, nullptr);
  refuse_if(thread().contexts.empty() && pooled(reinterpret_cast<const void*>(parameters->dst)),
            CUDA_ERROR_INVALID_VALUE);
  work = std::move(changed);
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext in) {
  Work& work = step_of(exec, node, CU_GRAPH_NODE_TYPE_MEMSET);
  if (in == nullptr) {
    refuse_if(thread().contexts.empty(), CUDA_ERROR_INVALID_VALUE);
    if (!green_is_current()) in = as<CUcontext>(*thread().contexts.back());
  }
  Work changed = fill_node_work(parameters, in);
  if (!work.parameters || work.parameters->captured) not_modelled("new parameters of a captured fill");
  refuse_if(!work.parameters->fit(*changed.parameters), CUDA_ERROR_INVALID_VALUE);
  if (parameters->height != 1) not_modelled("new parameters of a fill of several rows in an exec");
  work = std::move(changed);
  return CUDA_SUCCESS;
}

// Kernels

namespace {

void keep_buffer(NodeParameters& kept, void* const* extra) {
  const std::byte* from = nullptr;
  for (int i = 0; i < 4 && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) from = static_cast<const std::byte*>(extra[i + 1]);
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) kept.buffer_bytes = *static_cast<std::size_t*>(extra[i + 1]);
  }
  if (from != nullptr) kept.buffer.assign(from, from + kept.buffer_bytes);
  kept.extra = {CU_LAUNCH_PARAM_BUFFER_POINTER, kept.buffer.data(), CU_LAUNCH_PARAM_BUFFER_SIZE,
                &kept.buffer_bytes, CU_LAUNCH_PARAM_END};
  kept.kernel.extra = kept.extra.data();
}

} // namespace

/// The arguments are copied at once, as a device does.
std::shared_ptr<const NodeParameters> Api::kept_parameters(const CUDA_KERNEL_NODE_PARAMS& parameters,
                                                           const Function& function) {
  auto kept = std::make_shared<NodeParameters>();
  kept->kernel = parameters;
  kept->kernel.func = as<CUfunction>(function);
  kept->kernel.ctx = as<CUcontext>(*function.module->home.context);
  if (parameters.kernelParams != nullptr) {
    const auto& wanted = code_of(function).parameters;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto* const from = static_cast<const std::byte*>(parameters.kernelParams[i]);
      kept->arguments.emplace_back(from, from + wanted[i].size);
    }
  }
  for (auto& argument : kept->arguments)
    kept->pointers.push_back(argument.data());
  kept->kernel.kernelParams = kept->pointers.empty() ? nullptr : kept->pointers.data();
  if (parameters.extra != nullptr) keep_buffer(*kept, parameters.extra);
  return kept;
}

Work Api::kernel_node_work(const CUDA_KERNEL_NODE_PARAMS* parameters) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  const bool by_kernel = parameters->func == nullptr && parameters->kern != nullptr;
  const auto handle = by_kernel ? reinterpret_cast<CUfunction>(parameters->kern) : parameters->func;
  refuse_if(handle == nullptr, CUDA_ERROR_INVALID_HANDLE);
  if (!by_kernel && parameters->ctx == nullptr && thread().contexts.empty())
    crash("a kernel node without a context is described while none is current");
  const auto function =
      launchable(handle, {{parameters->gridDimX, parameters->gridDimY, parameters->gridDimZ},
                          {parameters->blockDimX, parameters->blockDimY, parameters->blockDimZ},
                          parameters->sharedMemBytes});
  require_arguments(*function, parameters->kernelParams, parameters->extra);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_KERNEL;
  work.text = function->name;
  work.parameters = kept_parameters(*parameters, *function);
  return work;
}

CUresult Api::cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph into, const CUgraphNode* after, size_t count,
                                      const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return add_node(out, into, after, count, kernel_node_work(parameters));
}

CUresult Api::cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* parameters) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  const Work& work = node(handle, CU_GRAPH_NODE_TYPE_KERNEL)->work;
  if (!work.parameters) not_modelled("the parameters of a captured kernel");
  *parameters = work.parameters->kernel;
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphKernelNodeSetParams_v2(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  Work& work = node(handle, CU_GRAPH_NODE_TYPE_KERNEL)->work;
  work = kernel_node_work(parameters);
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS* parameters) {
  Work& work = step_of(exec, node, CU_GRAPH_NODE_TYPE_KERNEL);
  Work changed = kernel_node_work(parameters);
  if (!work.parameters) not_modelled("new parameters of a captured kernel");
  refuse_if(work.parameters->kernel.ctx != changed.parameters->kernel.ctx, CUDA_ERROR_INVALID_VALUE);
  work = std::move(changed);
  return CUDA_SUCCESS;
}

// Nodes of any kind

/// A device crashes with a node that has ended if the clone has a copy of it.
CUresult Api::cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone_handle) {
  refuse_if(out == nullptr, CUDA_ERROR_INVALID_VALUE);
  refuse_if(original == nullptr || clone_handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  *out = nullptr;
  const auto clone = graph(clone_handle);
  if (has_ended(original)) {
    for (const auto& one : clone->nodes)
      if (one->original_handle == original) node_or_crash(original);
    refuse(CUDA_ERROR_INVALID_VALUE);
  }
  const auto wanted = node(original);
  for (const auto& one : clone->nodes)
    if (one->original == wanted->number) {
      *out = as<CUgraphNode>(*one);
      return CUDA_SUCCESS;
    }
  refuse(CUDA_ERROR_INVALID_VALUE);
}

namespace {

bool can_be_disabled(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         type == CU_GRAPH_NODE_TYPE_MEMSET;
}

} // namespace

CUresult Api::cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned* enabled) {
  refuse_if(enabled == nullptr, CUDA_ERROR_INVALID_VALUE);
  const Exec::Step& asked = step(exec, node);
  refuse_if(!can_be_disabled(asked.work.type), CUDA_ERROR_INVALID_VALUE);
  *enabled = asked.enabled;
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  Exec::Step& changed = step(exec, node);
  refuse_if(!can_be_disabled(changed.work.type), CUDA_ERROR_INVALID_VALUE);
  changed.enabled = enabled != 0;
  return CUDA_SUCCESS;
}

/// Our own text: the nodes with their numbers in order of creation, and the edges.
CUresult Api::cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned) {
  const auto printed = graph(handle);
  refuse_if(path == nullptr, CUDA_ERROR_INVALID_VALUE);
  std::ofstream file(path);
  refuse_if(!file, CUDA_ERROR_OPERATING_SYSTEM);
  std::map<const Node*, std::size_t> numbers;
  file << "digraph {\n";
  for (const auto& one : printed->nodes) {
    const std::size_t number = numbers.emplace(one.get(), numbers.size()).first->second;
    file << "  " << number << " [label=\"" << one->work.text << "\"];\n";
  }
  for (const auto& one : printed->nodes)
    for (const Node* before : one->after)
      file << "  " << numbers.at(before) << " -> " << numbers.at(one.get()) << ";\n";
  file << "}\n";
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  auto asked = exec(handle);
  refuse_if(flags == nullptr, CUDA_ERROR_INVALID_VALUE);
  *flags = asked->flags;
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12020
namespace {

/// The last word of reserved1 is behind the parameters of every kind of node.
void require_zeros(const CUgraphNodeParams& parameters) {
  refuse_if(std::any_of(std::begin(parameters.reserved0), std::end(parameters.reserved0),
                        [](int each) { return each != 0; }) ||
                *std::rbegin(parameters.reserved1) != 0 || parameters.reserved2 != 0,
            CUDA_ERROR_INVALID_VALUE);
}

} // namespace

Work Api::node_work(const CUgraphNodeParams* parameters) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  Work work;
  work.type = parameters->type;
  switch (parameters->type) {
  case CU_GRAPH_NODE_TYPE_KERNEL: {
    const auto& from = parameters->kernel;
    const CUDA_KERNEL_NODE_PARAMS kernel{
        from.func,      from.gridDimX,       from.gridDimY,     from.gridDimZ, from.blockDimX, from.blockDimY,
        from.blockDimZ, from.sharedMemBytes, from.kernelParams, from.extra,    from.kern,      from.ctx};
    return kernel_node_work(&kernel);
  }
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    refuse_if(parameters->memcpy.flags != 0 || parameters->memcpy.reserved != 0, CUDA_ERROR_INVALID_VALUE);
    return copy_node_work(&parameters->memcpy.copyParams, parameters->memcpy.copyCtx);
  case CU_GRAPH_NODE_TYPE_MEMSET: {
    const auto& from = parameters->memset;
    const CUDA_MEMSET_NODE_PARAMS fill{from.dst,         from.pitch, from.value,
                                       from.elementSize, from.width, from.height};
    return fill_node_work(&fill, from.ctx);
  }
  case CU_GRAPH_NODE_TYPE_HOST:
    refuse_if(parameters->host.fn == nullptr, CUDA_ERROR_INVALID_VALUE);
    work.text = "host function";
    work.function = parameters->host.fn;
    work.data = parameters->host.userData;
    return work;
  case CU_GRAPH_NODE_TYPE_GRAPH:
#if CUDA_VERSION >= 13000
    if (parameters->graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
      not_modelled("a child graph that moves");
#endif
    return child_work(parameters->graph.graph);
  case CU_GRAPH_NODE_TYPE_EMPTY:
    work.text = "empty node";
    return work;
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    set_node_event(work, parameters->eventWait.event);
    return work;
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    set_node_event(work, parameters->eventRecord.event);
    return work;
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    if (parameters->extSemSignal.numExtSems != 0) not_modelled("a signal of external semaphores");
    work.text = "signal of external semaphores";
    work.unmodelled = "a signal of external semaphores";
    return work;
  case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    if (parameters->extSemWait.numExtSems != 0) not_modelled("a wait for external semaphores");
    work.text = "wait for external semaphores";
    work.unmodelled = "a wait for external semaphores";
    return work;
  default:
    refuse_if(parameters->type > CU_GRAPH_NODE_TYPE_BATCH_MEM_OP + 1,
              CUDA_ERROR_INVALID_VALUE); // conditional
    not_modelled("a node of type " + std::to_string(static_cast<int>(parameters->type)));
  }
}

CUresult Api::cuGraphAddNode(CUgraphNode* out, CUgraph into, const CUgraphNode* after, size_t count,
                             CUgraphNodeParams* parameters) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  require_zeros(*parameters);
#if CUDA_VERSION >= 12030
  if (parameters->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    return add_conditional_node(out, into, after, count, *parameters);
#endif
  if (parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
    return cuGraphAddMemFreeNode(out, into, after, count, parameters->free.dptr);
  if (parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    const auto& from = parameters->alloc;
    CUDA_MEM_ALLOC_NODE_PARAMS allocation{from.poolProps, from.accessDescs, from.accessDescCount,
                                          from.bytesize, 0};
    cuGraphAddMemAllocNode(out, into, after, count, &allocation);
    parameters->alloc.dptr = allocation.dptr;
    return CUDA_SUCCESS;
  }
  if (parameters->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
    const auto& from = parameters->memOp;
    const CUDA_BATCH_MEM_OP_NODE_PARAMS batch{from.ctx, from.count, from.paramArray, from.flags};
    return cuGraphAddBatchMemOpNode(out, into, after, count, &batch);
  }
  return add_node(out, into, after, count, node_work(parameters));
}

#if CUDA_VERSION >= 12030
CUresult Api::cuGraphAddNode_v2(CUgraphNode* out, CUgraph into, const CUgraphNode* after,
                                const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* parameters) {
  must_be_plain(*graph(into), after, edges, count);
  return cuGraphAddNode(out, into, after, count, parameters);
}
#endif

CUresult Api::cuGraphNodeSetParams(CUgraphNode handle, CUgraphNodeParams* parameters) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto changed = node(handle, parameters->type);
  require_zeros(*parameters);
  refuse_if(parameters->type == conditional_type, CUDA_ERROR_NOT_SUPPORTED);
  Work work = node_work(parameters);
  if (work.child.get() == changed->graph) not_modelled("a graph that becomes a child of itself");
  if (work.child) work.child = child(*work.child);
  changed->work = std::move(work);
  return CUDA_SUCCESS;
}

CUresult Api::cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* parameters) {
  refuse_if(parameters == nullptr, CUDA_ERROR_INVALID_VALUE);
  require_zeros(*parameters);
  if (parameters->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return cuGraphExecChildGraphNodeSetParams(exec, node, parameters->graph.graph);
  Work& work = step_of(exec, node, parameters->type);
  refuse_if(parameters->type == conditional_type, CUDA_ERROR_NOT_SUPPORTED);
  work = node_work(parameters);
  return CUDA_SUCCESS;
}
#endif

} // namespace cuevent::sim
