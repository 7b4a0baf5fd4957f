// SPDX-License-Identifier: MIT
// Captures, graphs and user objects.
#include "in_driver.hpp"
#include "kernels.hpp"
#include "runtime.hpp"
#include "unmodelled.hpp"

#include <cstddef>

namespace cuevent::sim::runtime {
namespace {

// With edges that are more than full dependencies. Programs of CUDA 12 have names of their own for these.
using Edges = void;
using CaptureInfo = CUresult(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,
                             const Edges**, std::size_t*);
using UpdateDependencies = CUresult(CUstream, CUgraphNode*, const Edges*, std::size_t, unsigned);
using NodesOfNode = CUresult(CUgraphNode, CUgraphNode*, Edges*, std::size_t*);
using EdgesOfGraph = CUresult(CUgraph, CUgraphNode*, CUgraphNode*, Edges*, std::size_t*);
using CaptureToGraph = CUresult(CUstream, CUgraph, const CUgraphNode*, const Edges*, std::size_t,
                                CUstreamCaptureMode);
using AddNode = CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, const Edges*, std::size_t, void*);

Error capture_info(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                   const CUgraphNode** nodes, const Edges** edges, std::size_t* count) {
  return with_context([=] {
    return in_driver<CaptureInfo>("cuStreamGetCaptureInfo", 12030, stream, status, id, graph, nodes, edges,
                                  count);
  });
}

Error update_dependencies(CUstream stream, CUgraphNode* nodes, const Edges* edges, std::size_t count,
                          unsigned flags) {
  return with_context([=] {
    return in_driver<UpdateDependencies>("cuStreamUpdateCaptureDependencies", 12030, stream, nodes, edges,
                                         count, flags);
  });
}

Error nodes_of_node(const char* function, CUgraphNode node, CUgraphNode* nodes, Edges* edges,
                    std::size_t* count) {
  return with_context([=] { return in_driver<NodesOfNode>(function, 12030, node, nodes, edges, count); });
}

Error edges_of_graph(CUgraph graph, CUgraphNode* from, CUgraphNode* to, Edges* edges, std::size_t* count) {
  return with_context(
      [=] { return in_driver<EdgesOfGraph>("cuGraphGetEdges", 12030, graph, from, to, edges, count); });
}

} // namespace

// Captures

RUNTIME Error cudaStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  return with_context([=] { return cuStreamBeginCapture(stream, mode); });
}

RUNTIME Error cudaStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                            const void* edges, std::size_t count, CUstreamCaptureMode mode) {
  return with_context([=] {
    return in_driver<CaptureToGraph>("cuStreamBeginCaptureToGraph", 12030, stream, graph, nodes, edges, count,
                                     mode);
  });
}

RUNTIME Error cudaStreamEndCapture(CUstream stream, CUgraph* graph) {
  return with_context([=] { return cuStreamEndCapture(stream, graph); });
}

RUNTIME Error cudaStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return with_context([=] { return cuStreamIsCapturing(stream, status); });
}

RUNTIME Error cudaThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return told(cuThreadExchangeStreamCaptureMode(mode));
}

#if RUNTIME_VERSION < 13000
RUNTIME Error cudaStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return capture_info(stream, status, id, nullptr, nullptr, nullptr, nullptr);
}

RUNTIME Error cudaStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                          CUgraph* graph, const CUgraphNode** nodes, std::size_t* count) {
  return capture_info(stream, status, id, graph, nodes, nullptr, count);
}

RUNTIME Error cudaStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                          CUgraph* graph, const CUgraphNode** nodes, const void** edges,
                                          std::size_t* count) {
  return capture_info(stream, status, id, graph, nodes, edges, count);
}

RUNTIME Error cudaStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, std::size_t count,
                                                  unsigned flags) {
  return update_dependencies(stream, nodes, nullptr, count, flags);
}

RUNTIME Error cudaStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes, const void* edges,
                                                     std::size_t count, unsigned flags) {
  return update_dependencies(stream, nodes, edges, count, flags);
}

RUNTIME Error cudaGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, std::size_t* count) {
  return nodes_of_node("cuGraphNodeGetDependencies", node, nodes, nullptr, count);
}

RUNTIME Error cudaGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, void* edges,
                                              std::size_t* count) {
  return nodes_of_node("cuGraphNodeGetDependencies", node, nodes, edges, count);
}

RUNTIME Error cudaGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes, std::size_t* count) {
  return nodes_of_node("cuGraphNodeGetDependentNodes", node, nodes, nullptr, count);
}

RUNTIME Error cudaGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* nodes, void* edges,
                                                std::size_t* count) {
  return nodes_of_node("cuGraphNodeGetDependentNodes", node, nodes, edges, count);
}

RUNTIME Error cudaGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  return edges_of_graph(graph, from, to, nullptr, count);
}

RUNTIME Error cudaGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to, void* edges,
                                   std::size_t* count) {
  return edges_of_graph(graph, from, to, edges, count);
}
#else
RUNTIME Error cudaStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                       CUgraph* graph, const CUgraphNode** nodes, const void** edges,
                                       std::size_t* count) {
  return capture_info(stream, status, id, graph, nodes, edges, count);
}

RUNTIME Error cudaStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, const void* edges,
                                                  std::size_t count, unsigned flags) {
  return update_dependencies(stream, nodes, edges, count, flags);
}

RUNTIME Error cudaGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, void* edges,
                                           std::size_t* count) {
  return nodes_of_node("cuGraphNodeGetDependencies", node, nodes, edges, count);
}

RUNTIME Error cudaGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes, void* edges,
                                             std::size_t* count) {
  return nodes_of_node("cuGraphNodeGetDependentNodes", node, nodes, edges, count);
}

RUNTIME Error cudaGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, void* edges,
                                std::size_t* count) {
  return edges_of_graph(graph, from, to, edges, count);
}
#endif

// Graphs

RUNTIME Error cudaGraphCreate(CUgraph* graph, unsigned flags) {
  return with_context([=] { return cuGraphCreate(graph, flags); });
}

RUNTIME Error cudaGraphDestroy(CUgraph graph) {
  return with_context([=] { return cuGraphDestroy(graph); });
}

RUNTIME Error cudaGraphClone(CUgraph* clone, CUgraph graph) {
  return with_context([=] { return cuGraphClone(clone, graph); });
}

RUNTIME Error cudaGraphGetNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  return with_context([=] { return cuGraphGetNodes(graph, nodes, count); });
}

RUNTIME Error cudaGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, std::size_t* count) {
  return with_context([=] { return cuGraphGetRootNodes(graph, nodes, count); });
}

RUNTIME Error cudaGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return with_context([=] { return cuGraphNodeGetType(node, type); });
}

RUNTIME Error cudaGraphDestroyNode(CUgraphNode node) {
  return with_context([=] { return cuGraphDestroyNode(node); });
}

RUNTIME Error cudaGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                    std::size_t count) {
  return with_context([=] { return cuGraphAddEmptyNode(node, graph, after, count); });
}

RUNTIME Error cudaGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                          std::size_t count, CUevent event) {
  return with_context([=] { return cuGraphAddEventRecordNode(node, graph, after, count, event); });
}

RUNTIME Error cudaGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                        std::size_t count, CUevent event) {
  return with_context([=] { return cuGraphAddEventWaitNode(node, graph, after, count, event); });
}

RUNTIME Error cudaGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                   std::size_t count, const CUDA_HOST_NODE_PARAMS* parameters) {
  return with_context([=] { return cuGraphAddHostNode(node, graph, after, count, parameters); });
}

RUNTIME Error cudaGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                         std::size_t count, CUgraph child) {
  return with_context([=] { return cuGraphAddChildGraphNode(node, graph, after, count, child); });
}

namespace {

/// cudaGraphNodeParams and CUgraphNodeParams differ in kernels, which the program names by the address of a
/// host function, and in copies.
struct NodeParameters {
  CUgraphNodeType type;
  int reserved[3];
  const void* kernel; ///< the first member for a kernel
};

Error add_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, const void* edges,
               std::size_t count, NodeParameters* parameters) {
  if (parameters == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_context([=] {
    const auto add = [=] {
      return static_cast<Error>(
          in_driver<AddNode>("cuGraphAddNode", 12030, node, graph, after, edges, count, parameters));
    };
    if (parameters->type == CU_GRAPH_NODE_TYPE_MEMCPY)
      return static_cast<Error>(cueventUnmodelled("cudaGraphAddNode", __builtin_return_address(0)));
    if (parameters->type != CU_GRAPH_NODE_TYPE_KERNEL) return add();
    const void* const kernel = parameters->kernel;
    CUfunction function = nullptr;
    if (const Error found = function_of(kernel, function); found != CUDA_SUCCESS) return found;
    parameters->kernel = function;
    const Error error = add();
    parameters->kernel = kernel;
    return error;
  });
}

} // namespace

#if RUNTIME_VERSION < 13000
RUNTIME Error cudaGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, std::size_t count,
                               NodeParameters* parameters) {
  return add_node(node, graph, after, nullptr, count, parameters);
}

RUNTIME Error cudaGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                  const void* edges, std::size_t count, NodeParameters* parameters) {
  return add_node(node, graph, after, edges, count, parameters);
}
#else
RUNTIME Error cudaGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after, const void* edges,
                               std::size_t count, NodeParameters* parameters) {
  return add_node(node, graph, after, edges, count, parameters);
}
#endif

/// The driver names the context, which is the current one.
RUNTIME Error cudaGraphConditionalHandleCreate(unsigned long long* handle, CUgraph graph, unsigned value,
                                               unsigned flags) {
  return with_context([=] {
    CUcontext context = nullptr;
    const CUresult found = cuCtxGetCurrent(&context);
    return found != CUDA_SUCCESS
               ? found
               : in_driver<CUresult(unsigned long long*, CUgraph, CUcontext, unsigned, unsigned)>(
                     "cuGraphConditionalHandleCreate", 12030, handle, graph, context, value, flags);
  });
}

RUNTIME Error cudaGraphDebugDotPrint(CUgraph graph, const char* path, unsigned flags) {
  return with_context([=] { return cuGraphDebugDotPrint(graph, path, flags); });
}

RUNTIME Error cudaGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* result) {
  return with_context([=] { return cuGraphExecUpdate(exec, graph, result); });
}

RUNTIME Error cudaGraphInstantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return with_context([=] { return cuGraphInstantiateWithFlags(exec, graph, flags); });
}

RUNTIME Error cudaGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}

RUNTIME Error cudaGraphExecGetFlags(CUgraphExec exec, unsigned long long* flags) {
  return with_context([=] {
    return in_driver<CUresult(CUgraphExec, cuuint64_t*)>("cuGraphExecGetFlags", 12000, exec,
                                                         reinterpret_cast<cuuint64_t*>(flags));
  });
}

RUNTIME Error cudaGraphUpload(CUgraphExec exec, CUstream stream) {
  return with_context([=] { return cuGraphUpload(exec, stream); });
}

RUNTIME Error cudaGraphLaunch(CUgraphExec exec, CUstream stream) {
  return with_context([=] { return cuGraphLaunch(exec, stream); });
}

RUNTIME Error cudaGraphExecDestroy(CUgraphExec exec) {
  return with_context([=] { return cuGraphExecDestroy(exec); });
}

// User objects

RUNTIME Error cudaUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned count,
                                   unsigned flags) {
  return with_context([=] { return cuUserObjectCreate(object, data, destroy, count, flags); });
}

RUNTIME Error cudaUserObjectRetain(CUuserObject object, unsigned count) {
  return with_context([=] { return cuUserObjectRetain(object, count); });
}

RUNTIME Error cudaUserObjectRelease(CUuserObject object, unsigned count) {
  return with_context([=] { return cuUserObjectRelease(object, count); });
}

RUNTIME Error cudaGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  return with_context([=] { return cuGraphRetainUserObject(graph, object, count, flags); });
}

RUNTIME Error cudaGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  return with_context([=] { return cuGraphReleaseUserObject(graph, object, count); });
}

} // namespace cuevent::sim::runtime
