// SPDX-License-Identifier: MIT
// The driver functions that are watched: the names that libcuda exports, the names and versions for
// cuGetProcAddress, and the signatures. What is not in this list passes through untouched.
#pragma once

#include "protocol/verbs.hpp"

// Keeps the header from renaming functions to their newest variant.
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include <array>
#include <cstddef>

namespace watch {

struct EntryData {
  Verb verb;
  const char* symbol; // that libcuda exports
  const char* name;   // for cuGetProcAddress
  int version;        // the CUDA version of this signature, for cuGetProcAddress
  const char* suffix; // of the variant for per-thread default streams, or null
};

template <class Signature>
struct Entry : EntryData {};

/// Not a std::tuple, which would take a compiler seconds in every file.
template <class... Signatures>
struct EntryList {
  std::array<EntryData, sizeof...(Signatures)> data;
};

template <class... Signatures>
constexpr EntryList<Signatures...> list_of(const Entry<Signatures>&... entries) {
  return {{EntryData(entries)...}};
}

// Types that the headers of CUDA 12.0 lack.
// CUgreenCtx of a stream's creation, CUctxCreateParams*, CUgraphEdgeData*; and lists of nodes
using Opaque = void*;
struct GreenContext;    // CUgreenCtx is a pointer to it
struct MemoryLocation { // CUmemLocation
  int type, id;
};
struct NodeParameters; // CUgraphNodeParams; a type of its own, so that it is not taken for an Opaque

using Launch = CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        CUstream, void**, void**);
using Cooperative = CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             CUstream, void**);
using AddEventNode = CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUevent);
using MemoryOperation32 = CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned);
using MemoryOperation64 = CUresult(CUstream, CUdeviceptr, cuuint64_t, unsigned);

inline constexpr auto entries = list_of(
    Entry<CUresult(const char*, void**, int, cuuint64_t)>{
        {Verb::lookup, "cuGetProcAddress", "cuGetProcAddress", 11030, nullptr}},
    Entry<CUresult(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*)>{
        {Verb::lookup, "cuGetProcAddress_v2", "cuGetProcAddress", 12000, nullptr}},

    Entry<CUresult(CUevent*, unsigned)>{
        {Verb::event_create, "cuEventCreate", "cuEventCreate", 2000, nullptr}},
    Entry<CUresult(CUevent)>{{Verb::event_destroy, "cuEventDestroy", "cuEventDestroy", 2000, nullptr}},
    Entry<CUresult(CUevent)>{{Verb::event_destroy, "cuEventDestroy_v2", "cuEventDestroy", 4000, nullptr}},
    Entry<CUresult(CUevent, CUstream)>{{Verb::event_record, "cuEventRecord", "cuEventRecord", 2000, "_ptsz"}},
    Entry<CUresult(CUevent, CUstream, unsigned)>{
        {Verb::event_record, "cuEventRecordWithFlags", "cuEventRecordWithFlags", 11010, "_ptsz"}},
    Entry<CUresult(CUcontext, CUevent)>{
        {Verb::context_record, "cuCtxRecordEvent", "cuCtxRecordEvent", 12050, nullptr}},
    Entry<CUresult(GreenContext*, CUevent)>{
        {Verb::context_record, "cuGreenCtxRecordEvent", "cuGreenCtxRecordEvent", 12040, nullptr}},
    Entry<CUresult(CUevent)>{{Verb::event_query, "cuEventQuery", "cuEventQuery", 2000, nullptr}},
    Entry<CUresult(CUevent)>{
        {Verb::event_synchronize, "cuEventSynchronize", "cuEventSynchronize", 2000, nullptr}},
    Entry<CUresult(float*, CUevent, CUevent)>{
        {Verb::event_elapsed, "cuEventElapsedTime", "cuEventElapsedTime", 2000, nullptr}},
    Entry<CUresult(float*, CUevent, CUevent)>{
        {Verb::event_elapsed, "cuEventElapsedTime_v2", "cuEventElapsedTime", 12080, nullptr}},
    Entry<CUresult(CUipcEventHandle*, CUevent)>{
        {Verb::event_export, "cuIpcGetEventHandle", "cuIpcGetEventHandle", 4010, nullptr}},
    Entry<CUresult(CUevent*, CUipcEventHandle)>{
        {Verb::event_open, "cuIpcOpenEventHandle", "cuIpcOpenEventHandle", 4010, nullptr}},
    Entry<CUresult(CUevent*, void*, unsigned)>{
        {Verb::event_open, "cuEventCreateFromEGLSync", "cuEventCreateFromEGLSync", 9000, nullptr}},
    Entry<CUresult(CUstream, CUevent, unsigned)>{
        {Verb::stream_wait, "cuStreamWaitEvent", "cuStreamWaitEvent", 3020, "_ptsz"}},
    Entry<CUresult(CUcontext, CUevent)>{
        {Verb::context_wait, "cuCtxWaitEvent", "cuCtxWaitEvent", 12050, nullptr}},
    Entry<CUresult(GreenContext*, CUevent)>{
        {Verb::context_wait, "cuGreenCtxWaitEvent", "cuGreenCtxWaitEvent", 12040, nullptr}},

    Entry<CUresult(CUstream*, unsigned)>{
        {Verb::stream_create, "cuStreamCreate", "cuStreamCreate", 2000, nullptr}},
    Entry<CUresult(CUstream*, unsigned, int)>{
        {Verb::stream_create, "cuStreamCreateWithPriority", "cuStreamCreateWithPriority", 5050, nullptr}},
    Entry<CUresult(CUstream*, Opaque, unsigned, int)>{
        {Verb::stream_create_green, "cuGreenCtxStreamCreate", "cuGreenCtxStreamCreate", 12050, nullptr}},
    Entry<CUresult(CUstream)>{{Verb::stream_destroy, "cuStreamDestroy", "cuStreamDestroy", 2000, nullptr}},
    Entry<CUresult(CUstream)>{{Verb::stream_destroy, "cuStreamDestroy_v2", "cuStreamDestroy", 4000, nullptr}},
    Entry<CUresult(CUstream)>{{Verb::stream_query, "cuStreamQuery", "cuStreamQuery", 2000, "_ptsz"}},
    Entry<CUresult(CUstream)>{
        {Verb::stream_synchronize, "cuStreamSynchronize", "cuStreamSynchronize", 2000, "_ptsz"}},
    Entry<CUresult(CUstream, CUstreamCaptureMode)>{
        {Verb::capture_begin, "cuStreamBeginCapture_v2", "cuStreamBeginCapture", 10010, "_ptsz"}},
    Entry<CUresult(CUstream, CUgraph, const CUgraphNode*, const Opaque*, std::size_t, CUstreamCaptureMode)>{
        {Verb::capture_into_graph, "cuStreamBeginCaptureToGraph", "cuStreamBeginCaptureToGraph", 12030,
         "_ptsz"}},
    Entry<CUresult(CUstream, CUgraph*)>{
        {Verb::capture_end, "cuStreamEndCapture", "cuStreamEndCapture", 10000, "_ptsz"}},
    Entry<CUresult(CUstreamCaptureMode*)>{{Verb::exchange_mode, "cuThreadExchangeStreamCaptureMode",
                                           "cuThreadExchangeStreamCaptureMode", 10010, nullptr}},

    Entry<Launch>{{Verb::work, "cuLaunchKernel", "cuLaunchKernel", 4000, "_ptsz"}},
    Entry<CUresult(const CUlaunchConfig*, CUfunction, void**, void**)>{
        {Verb::work, "cuLaunchKernelEx", "cuLaunchKernelEx", 11060, "_ptsz"}},
    Entry<Cooperative>{{Verb::work, "cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel", 9000, "_ptsz"}},
    // Its record has the stream of the first launch.
    Entry<CUresult(CUDA_LAUNCH_PARAMS*, unsigned, unsigned)>{
        {Verb::work, "cuLaunchCooperativeKernelMultiDevice", "cuLaunchCooperativeKernelMultiDevice", 9000,
         nullptr}},
    Entry<CUresult(CUstream, CUhostFn, void*)>{
        {Verb::work, "cuLaunchHostFunc", "cuLaunchHostFunc", 10000, "_ptsz"}},
    Entry<CUresult(CUstream, CUstreamCallback, void*, unsigned)>{
        {Verb::work, "cuStreamAddCallback", "cuStreamAddCallback", 5000, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, CUdeviceptr, std::size_t, CUstream)>{
        {Verb::work, "cuMemcpyAsync", "cuMemcpyAsync", 4000, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, const void*, std::size_t, CUstream)>{
        {Verb::work, "cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync", 3020, "_ptsz"}},
    Entry<CUresult(void*, CUdeviceptr, std::size_t, CUstream)>{
        {Verb::work, "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync", 3020, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, CUdeviceptr, std::size_t, CUstream)>{
        {Verb::work, "cuMemcpyDtoDAsync_v2", "cuMemcpyDtoDAsync", 3020, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, std::size_t, CUstream)>{
        {Verb::work, "cuMemcpyPeerAsync", "cuMemcpyPeerAsync", 4000, "_ptsz"}},
    Entry<CUresult(const CUDA_MEMCPY2D*, CUstream)>{
        {Verb::work, "cuMemcpy2DAsync_v2", "cuMemcpy2DAsync", 3020, "_ptsz"}},
    Entry<CUresult(const CUDA_MEMCPY3D*, CUstream)>{
        {Verb::work, "cuMemcpy3DAsync_v2", "cuMemcpy3DAsync", 3020, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, unsigned char, std::size_t, CUstream)>{
        {Verb::work, "cuMemsetD8Async", "cuMemsetD8Async", 3020, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, unsigned short, std::size_t, CUstream)>{
        {Verb::work, "cuMemsetD16Async", "cuMemsetD16Async", 3020, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, unsigned, std::size_t, CUstream)>{
        {Verb::work, "cuMemsetD32Async", "cuMemsetD32Async", 3020, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, std::size_t, unsigned char, std::size_t, std::size_t, CUstream)>{
        {Verb::work, "cuMemsetD2D8Async", "cuMemsetD2D8Async", 3020, "_ptsz"}},
    Entry<CUresult(CUdeviceptr*, std::size_t, CUstream)>{
        {Verb::work, "cuMemAllocAsync", "cuMemAllocAsync", 11020, "_ptsz"}},
    Entry<CUresult(CUdeviceptr*, std::size_t, CUmemoryPool, CUstream)>{
        {Verb::work, "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync", 11020, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, CUstream)>{{Verb::work, "cuMemFreeAsync", "cuMemFreeAsync", 11020, "_ptsz"}},
    Entry<CUresult(CUfunction, int, int, CUstream)>{
        {Verb::work, "cuLaunchGridAsync", "cuLaunchGridAsync", 2000, nullptr}},
    Entry<CUresult(CUstream, CUhostFn, void*, unsigned)>{
        {Verb::work, "cuLaunchHostFunc_v2", "cuLaunchHostFunc", 13010, "_ptsz"}},
    Entry<CUresult(CUdeviceptr*, CUdeviceptr*, std::size_t*, std::size_t, Opaque, std::size_t*, std::size_t,
                   std::size_t*, CUstream)>{
        {Verb::work, "cuMemcpyBatchAsync", "cuMemcpyBatchAsync", 12080, "_ptsz"}},
    Entry<CUresult(CUdeviceptr*, CUdeviceptr*, std::size_t*, std::size_t, Opaque, std::size_t*, std::size_t,
                   CUstream)>{{Verb::work, "cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync", 13000, "_ptsz"}},
    Entry<CUresult(std::size_t, Opaque, std::size_t*, unsigned long long, CUstream)>{
        {Verb::work, "cuMemcpy3DBatchAsync", "cuMemcpy3DBatchAsync", 12080, "_ptsz"}},
    Entry<CUresult(std::size_t, Opaque, unsigned long long, CUstream)>{
        {Verb::work, "cuMemcpy3DBatchAsync_v2", "cuMemcpy3DBatchAsync", 13000, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, CUdeviceptr, std::size_t, Opaque, CUstream)>{
        {Verb::work, "cuMemcpyWithAttributesAsync", "cuMemcpyWithAttributesAsync", 13020, "_ptsz"}},
    Entry<CUresult(Opaque, unsigned long long, CUstream)>{
        {Verb::work, "cuMemcpy3DWithAttributesAsync", "cuMemcpy3DWithAttributesAsync", 13020, "_ptsz"}},
    Entry<CUresult(std::size_t, Opaque, unsigned long long, CUstream)>{
        {Verb::work, "cuFabricCpyBatchAsync", "cuFabricCpyBatchAsync", 13050, "_ptsz"}},
    Entry<CUresult(const CUDA_MEMCPY3D_PEER*, CUstream)>{
        {Verb::work, "cuMemcpy3DPeerAsync", "cuMemcpy3DPeerAsync", 4000, "_ptsz"}},
    Entry<CUresult(void*, CUarray, std::size_t, std::size_t, CUstream)>{
        {Verb::work, "cuMemcpyAtoHAsync_v2", "cuMemcpyAtoHAsync", 3020, "_ptsz"}},
    Entry<CUresult(CUarray, std::size_t, const void*, std::size_t, CUstream)>{
        {Verb::work, "cuMemcpyHtoAAsync_v2", "cuMemcpyHtoAAsync", 3020, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, std::size_t, unsigned short, std::size_t, std::size_t, CUstream)>{
        {Verb::work, "cuMemsetD2D16Async", "cuMemsetD2D16Async", 3020, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, std::size_t, unsigned, std::size_t, std::size_t, CUstream)>{
        {Verb::work, "cuMemsetD2D32Async", "cuMemsetD2D32Async", 3020, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, std::size_t, CUdevice, CUstream)>{
        {Verb::work, "cuMemPrefetchAsync", "cuMemPrefetchAsync", 8000, "_ptsz"}},
    Entry<CUresult(CUdeviceptr, std::size_t, MemoryLocation, unsigned, CUstream)>{
        {Verb::work, "cuMemPrefetchAsync_v2", "cuMemPrefetchAsync", 12020, "_ptsz"}},
    Entry<CUresult(CUdeviceptr*, std::size_t*, std::size_t, Opaque, std::size_t*, std::size_t,
                   unsigned long long, CUstream)>{
        {Verb::work, "cuMemPrefetchBatchAsync", "cuMemPrefetchBatchAsync", 13000, "_ptsz"}},
    Entry<CUresult(CUdeviceptr*, std::size_t*, std::size_t, Opaque, std::size_t*, std::size_t,
                   unsigned long long, CUstream)>{{Verb::work, "cuMemDiscardAndPrefetchBatchAsync",
                                                   "cuMemDiscardAndPrefetchBatchAsync", 13000, "_ptsz"}},
    Entry<CUresult(CUdeviceptr*, std::size_t*, std::size_t, unsigned long long, CUstream)>{
        {Verb::work, "cuMemDiscardBatchAsync", "cuMemDiscardBatchAsync", 13000, "_ptsz"}},
    Entry<CUresult(Opaque, std::size_t, unsigned, std::size_t*, CUstream)>{
        {Verb::work, "cuMemBatchDecompressAsync", "cuMemBatchDecompressAsync", 12060, "_ptsz"}},
    Entry<CUresult(CUarrayMapInfo*, unsigned, CUstream)>{
        {Verb::work, "cuMemMapArrayAsync", "cuMemMapArrayAsync", 11010, "_ptsz"}},
    Entry<CUresult(CUstream, CUdeviceptr, std::size_t, unsigned)>{
        {Verb::work, "cuStreamAttachMemAsync", "cuStreamAttachMemAsync", 6000, "_ptsz"}},
    Entry<CUresult(const CUexternalSemaphore*, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS*, unsigned,
                   CUstream)>{
        {Verb::work, "cuSignalExternalSemaphoresAsync", "cuSignalExternalSemaphoresAsync", 10000, "_ptsz"}},
    Entry<CUresult(const CUexternalSemaphore*, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS*, unsigned,
                   CUstream)>{
        {Verb::work, "cuWaitExternalSemaphoresAsync", "cuWaitExternalSemaphoresAsync", 10000, "_ptsz"}},
    Entry<CUresult(CUgraphExec, CUstream)>{{Verb::work, "cuGraphUpload", "cuGraphUpload", 11010, "_ptsz"}},
    Entry<CUresult(unsigned, CUgraphicsResource*, CUstream)>{
        {Verb::work, "cuGraphicsMapResources", "cuGraphicsMapResources", 3000, "_ptsz"}},
    Entry<CUresult(unsigned, CUgraphicsResource*, CUstream)>{
        {Verb::work, "cuGraphicsUnmapResources", "cuGraphicsUnmapResources", 3000, "_ptsz"}},
    Entry<MemoryOperation32>{
        {Verb::value_write, "cuStreamWriteValue32_v2", "cuStreamWriteValue32", 11070, "_ptsz"}},
    Entry<MemoryOperation64>{
        {Verb::value_write, "cuStreamWriteValue64_v2", "cuStreamWriteValue64", 11070, "_ptsz"}},
    Entry<MemoryOperation32>{
        {Verb::value_wait, "cuStreamWaitValue32_v2", "cuStreamWaitValue32", 11070, "_ptsz"}},
    Entry<MemoryOperation64>{
        {Verb::value_wait, "cuStreamWaitValue64_v2", "cuStreamWaitValue64", 11070, "_ptsz"}},
    Entry<CUresult(CUstream, unsigned, CUstreamBatchMemOpParams*, unsigned)>{
        {Verb::work, "cuStreamBatchMemOp_v2", "cuStreamBatchMemOp", 11070, "_ptsz"}},
    Entry<CUresult(CUgraphExec, CUstream)>{
        {Verb::graph_launch, "cuGraphLaunch", "cuGraphLaunch", 10000, "_ptsz"}},

    Entry<CUresult(CUstream, CUstreamCaptureMode, CUgraph, Opaque, void*)>{
        {Verb::capture_begin, "cuStreamBeginRecaptureToGraph", "cuStreamBeginRecaptureToGraph", 13030,
         "_ptsz"}},
    Entry<CUresult(CUstream, Opaque, std::size_t, unsigned)>{
        {Verb::capture_change, "cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies",
         11030, "_ptsz"}},
    Entry<CUresult(CUstream, Opaque, Opaque, std::size_t, unsigned)>{
        {Verb::capture_change, "cuStreamUpdateCaptureDependencies_v2", "cuStreamUpdateCaptureDependencies",
         12030, "_ptsz"}},
    Entry<CUresult(CUgraph*, unsigned)>{
        {Verb::graph_create, "cuGraphCreate", "cuGraphCreate", 10000, nullptr}},
    Entry<CUresult(CUgraph)>{{Verb::graph_destroy, "cuGraphDestroy", "cuGraphDestroy", 10000, nullptr}},
    Entry<CUresult(CUgraph*, CUgraph)>{{Verb::graph_clone, "cuGraphClone", "cuGraphClone", 10000, nullptr}},
    Entry<CUresult(CUgraphExec*, CUgraph, CUgraphNode*, char*, std::size_t)>{
        {Verb::graph_instantiate, "cuGraphInstantiate", "cuGraphInstantiate", 10000, nullptr}},
    Entry<CUresult(CUgraphExec*, CUgraph, CUgraphNode*, char*, std::size_t)>{
        {Verb::graph_instantiate, "cuGraphInstantiate_v2", "cuGraphInstantiate", 11000, nullptr}},
    Entry<CUresult(CUgraphExec*, CUgraph, unsigned long long)>{
        {Verb::graph_instantiate, "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags", 11040,
         nullptr}},
    Entry<CUresult(CUgraphExec*, CUgraph, unsigned long long)>{
        {Verb::graph_instantiate, "cuGraphInstantiateWithFlags", "cuGraphInstantiate", 12000, nullptr}},
    Entry<CUresult(CUgraphExec*, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS*)>{
        {Verb::graph_instantiate, "cuGraphInstantiateWithParams", "cuGraphInstantiateWithParams", 12000,
         "_ptsz"}},
    Entry<CUresult(CUgraphExec)>{
        {Verb::exec_destroy, "cuGraphExecDestroy", "cuGraphExecDestroy", 10000, nullptr}},
    Entry<CUresult(CUgraphExec, CUgraph, CUgraphNode*, CUgraphExecUpdateResult*)>{
        {Verb::exec_update, "cuGraphExecUpdate", "cuGraphExecUpdate", 10020, nullptr}},
    Entry<CUresult(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*)>{
        {Verb::exec_update, "cuGraphExecUpdate_v2", "cuGraphExecUpdate", 12000, nullptr}},
    Entry<AddEventNode>{
        {Verb::node_add_event, "cuGraphAddEventRecordNode", "cuGraphAddEventRecordNode", 11010, nullptr}},
    Entry<AddEventNode>{
        {Verb::node_add_event, "cuGraphAddEventWaitNode", "cuGraphAddEventWaitNode", 11010, nullptr}},
    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, NodeParameters*)>{
        {Verb::node_add_event, "cuGraphAddNode", "cuGraphAddNode", 12020, nullptr}},
    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, const Opaque*, std::size_t, NodeParameters*)>{
        {Verb::node_add_event, "cuGraphAddNode_v2", "cuGraphAddNode", 12030, nullptr}},
    Entry<CUresult(CUgraphNode, CUevent)>{{Verb::node_set_event, "cuGraphEventRecordNodeSetEvent",
                                           "cuGraphEventRecordNodeSetEvent", 11010, nullptr}},
    Entry<CUresult(CUgraphNode, CUevent)>{{Verb::node_set_event, "cuGraphEventWaitNodeSetEvent",
                                           "cuGraphEventWaitNodeSetEvent", 11010, nullptr}},
    Entry<CUresult(CUgraphExec, CUgraphNode, CUevent)>{
        {Verb::exec_set_event, "cuGraphExecEventRecordNodeSetEvent", "cuGraphExecEventRecordNodeSetEvent",
         11010, nullptr}},
    Entry<CUresult(CUgraphExec, CUgraphNode, CUevent)>{{Verb::exec_set_event,
                                                        "cuGraphExecEventWaitNodeSetEvent",
                                                        "cuGraphExecEventWaitNodeSetEvent", 11010, nullptr}},
    Entry<CUresult(CUgraphNode, NodeParameters*)>{
        {Verb::node_set_event, "cuGraphNodeSetParams", "cuGraphNodeSetParams", 12020, nullptr}},
    Entry<CUresult(CUgraphExec, CUgraphNode, NodeParameters*)>{
        {Verb::exec_set_event, "cuGraphExecNodeSetParams", "cuGraphExecNodeSetParams", 12020, nullptr}},

    Entry<CUresult(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1*)>{
        {Verb::graph_change, "cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams", 10010,
         nullptr}},
    Entry<CUresult(CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1*)>{
        {Verb::graph_change, "cuGraphKernelNodeSetParams", "cuGraphKernelNodeSetParams", 10000, nullptr}},
    Entry<CUresult(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*)>{
        {Verb::graph_change, "cuGraphExecKernelNodeSetParams_v2", "cuGraphExecKernelNodeSetParams", 12000,
         nullptr}},
    Entry<CUresult(CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D*, CUcontext)>{
        {Verb::graph_change, "cuGraphExecMemcpyNodeSetParams", "cuGraphExecMemcpyNodeSetParams", 10020,
         nullptr}},
    Entry<CUresult(CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*, CUcontext)>{
        {Verb::graph_change, "cuGraphExecMemsetNodeSetParams", "cuGraphExecMemsetNodeSetParams", 10020,
         nullptr}},
    Entry<CUresult(CUgraphExec, CUgraphNode, CUgraph)>{
        {Verb::graph_change, "cuGraphExecChildGraphNodeSetParams", "cuGraphExecChildGraphNodeSetParams",
         11010, nullptr}},
    Entry<CUresult(CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*)>{
        {Verb::graph_change, "cuGraphKernelNodeSetParams_v2", "cuGraphKernelNodeSetParams", 12000, nullptr}},
    Entry<CUresult(CUgraphNode, const CUDA_MEMCPY3D*)>{
        {Verb::graph_change, "cuGraphMemcpyNodeSetParams", "cuGraphMemcpyNodeSetParams", 10000, nullptr}},
    Entry<CUresult(CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*)>{
        {Verb::graph_change, "cuGraphMemsetNodeSetParams", "cuGraphMemsetNodeSetParams", 10000, nullptr}},
    Entry<CUresult(CUgraph, const CUgraphNode*, const CUgraphNode*, std::size_t)>{
        {Verb::graph_change, "cuGraphAddDependencies", "cuGraphAddDependencies", 10000, nullptr}},
    Entry<CUresult(CUgraph, const CUgraphNode*, const CUgraphNode*, const Opaque*, std::size_t)>{
        {Verb::graph_change, "cuGraphAddDependencies_v2", "cuGraphAddDependencies", 12030, nullptr}},
    Entry<CUresult(CUgraph, const CUgraphNode*, const CUgraphNode*, std::size_t)>{
        {Verb::graph_change, "cuGraphRemoveDependencies", "cuGraphRemoveDependencies", 10000, nullptr}},
    Entry<CUresult(CUgraph, const CUgraphNode*, const CUgraphNode*, const Opaque*, std::size_t)>{
        {Verb::graph_change, "cuGraphRemoveDependencies_v2", "cuGraphRemoveDependencies", 12030, nullptr}},
    Entry<CUresult(CUgraphNode)>{
        {Verb::graph_change, "cuGraphDestroyNode", "cuGraphDestroyNode", 10000, nullptr}},
    Entry<CUresult(CUgraphExec, CUgraphNode, unsigned)>{
        {Verb::graph_change, "cuGraphNodeSetEnabled", "cuGraphNodeSetEnabled", 11060, nullptr}},
    Entry<CUresult(CUcontext*, CUdevice)>{
        {Verb::primary_retain, "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000, nullptr}},
    Entry<CUresult(CUdevice)>{
        {Verb::device_reset, "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset", 7000, nullptr}},
    Entry<CUresult(CUdevice)>{
        {Verb::device_reset, "cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset", 11000, nullptr}},
    Entry<CUresult(CUdevice)>{
        {Verb::primary_release, "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease", 7000, nullptr}},
    Entry<CUresult(CUdevice)>{
        {Verb::primary_release, "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease", 11000, nullptr}},
    Entry<CUresult(CUcontext*, unsigned, CUdevice)>{
        {Verb::context_create, "cuCtxCreate_v2", "cuCtxCreate", 3020, nullptr}},
    Entry<CUresult(CUcontext*, CUexecAffinityParam*, int, unsigned, CUdevice)>{
        {Verb::context_create, "cuCtxCreate_v3", "cuCtxCreate", 11040, nullptr}},
    Entry<CUresult(CUcontext*, Opaque, unsigned, CUdevice)>{
        {Verb::context_create, "cuCtxCreate_v4", "cuCtxCreate", 12050, nullptr}},
    Entry<CUresult(CUcontext)>{{Verb::context_destroy, "cuCtxDestroy", "cuCtxDestroy", 2000, nullptr}},
    Entry<CUresult(CUcontext)>{{Verb::context_destroy, "cuCtxDestroy_v2", "cuCtxDestroy", 4000, nullptr}},
    Entry<CUresult(GreenContext**, Opaque, CUdevice, unsigned)>{
        {Verb::other, "cuGreenCtxCreate", "cuGreenCtxCreate", 12040, nullptr}},
    Entry<CUresult(GreenContext*)>{
        {Verb::green_destroy, "cuGreenCtxDestroy", "cuGreenCtxDestroy", 12040, nullptr}},

    Entry<CUresult(CUstream, unsigned*)>{
        {Verb::stream_ask, "cuStreamGetFlags", "cuStreamGetFlags", 5050, "_ptsz"}},
    Entry<CUresult(CUstream, int*)>{
        {Verb::stream_ask, "cuStreamGetPriority", "cuStreamGetPriority", 5050, "_ptsz"}},
    Entry<CUresult(CUstream, unsigned long long*)>{
        {Verb::stream_ask, "cuStreamGetId", "cuStreamGetId", 12000, "_ptsz"}},
    Entry<CUresult(CUgraph, CUgraphNode*, std::size_t*)>{
        {Verb::graph_ask, "cuGraphGetNodes", "cuGraphGetNodes", 10000, nullptr}},
    Entry<CUresult(CUgraphExec, cuuint64_t*)>{
        {Verb::exec_ask, "cuGraphExecGetFlags", "cuGraphExecGetFlags", 12000, nullptr}},
    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t)>{
        {Verb::node_add, "cuGraphAddEmptyNode", "cuGraphAddEmptyNode", 10000, nullptr}},
    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const CUDA_KERNEL_NODE_PARAMS*)>{
        {Verb::node_add, "cuGraphAddKernelNode_v2", "cuGraphAddKernelNode", 12000, nullptr}},
    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const CUDA_HOST_NODE_PARAMS*)>{
        {Verb::node_add, "cuGraphAddHostNode", "cuGraphAddHostNode", 10000, nullptr}},
    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const CUDA_MEMCPY3D*, CUcontext)>{
        {Verb::node_add, "cuGraphAddMemcpyNode", "cuGraphAddMemcpyNode", 10000, nullptr}},
    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const CUDA_MEMSET_NODE_PARAMS*,
                   CUcontext)>{
        {Verb::node_add, "cuGraphAddMemsetNode", "cuGraphAddMemsetNode", 10000, nullptr}},

    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t,
                   const CUDA_KERNEL_NODE_PARAMS_v1*)>{
        {Verb::node_add, "cuGraphAddKernelNode", "cuGraphAddKernelNode", 10000, nullptr}},
    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUgraph)>{
        {Verb::node_add, "cuGraphAddChildGraphNode", "cuGraphAddChildGraphNode", 10000, nullptr}},
    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUDA_MEM_ALLOC_NODE_PARAMS*)>{
        {Verb::node_add, "cuGraphAddMemAllocNode", "cuGraphAddMemAllocNode", 11040, nullptr}},
    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUdeviceptr)>{
        {Verb::node_add, "cuGraphAddMemFreeNode", "cuGraphAddMemFreeNode", 11040, nullptr}},
    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t,
                   const CUDA_BATCH_MEM_OP_NODE_PARAMS*)>{
        {Verb::node_add, "cuGraphAddBatchMemOpNode", "cuGraphAddBatchMemOpNode", 11070, nullptr}},
    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t,
                   const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS*)>{
        {Verb::node_add, "cuGraphAddExternalSemaphoresSignalNode", "cuGraphAddExternalSemaphoresSignalNode",
         11020, nullptr}},
    Entry<CUresult(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t,
                   const CUDA_EXT_SEM_WAIT_NODE_PARAMS*)>{
        {Verb::node_add, "cuGraphAddExternalSemaphoresWaitNode", "cuGraphAddExternalSemaphoresWaitNode",
         11020, nullptr}},

    Entry<CUresult(CUfunction*, CUmodule, const char*)>{
        {Verb::name_function, "cuModuleGetFunction", "cuModuleGetFunction", 2000, nullptr}},
    Entry<CUresult(CUkernel*, CUlibrary, const char*)>{
        {Verb::name_function, "cuLibraryGetKernel", "cuLibraryGetKernel", 12000, nullptr}},
    Entry<CUresult(CUfunction*, CUkernel)>{
        {Verb::name_function, "cuKernelGetFunction", "cuKernelGetFunction", 12000, nullptr}},

    Entry<CUresult()>{{Verb::context_synchronize, "cuCtxSynchronize", "cuCtxSynchronize", 2000, nullptr}},
    Entry<CUresult(CUcontext)>{
        {Verb::context_synchronize, "cuCtxSynchronize_v2", "cuCtxSynchronize", 13000, nullptr}},
    Entry<CUresult(CUdeviceptr*, std::size_t)>{
        {Verb::memory_make, "cuMemAlloc_v2", "cuMemAlloc", 3020, nullptr}},
    Entry<CUresult(CUdeviceptr)>{{Verb::memory_free, "cuMemFree_v2", "cuMemFree", 3020, nullptr}},
    Entry<CUresult(CUdeviceptr*, std::size_t, unsigned)>{
        {Verb::memory_make, "cuMemAllocManaged", "cuMemAllocManaged", 6000, nullptr}},
    Entry<CUresult(CUdeviceptr*, std::size_t*, std::size_t, std::size_t, unsigned)>{
        {Verb::memory_make, "cuMemAllocPitch_v2", "cuMemAllocPitch", 3020, nullptr}},
    Entry<CUresult(void**, std::size_t)>{
        {Verb::memory_make, "cuMemAllocHost_v2", "cuMemAllocHost", 3020, nullptr}},
    Entry<CUresult(void**, std::size_t, unsigned)>{
        {Verb::memory_make, "cuMemHostAlloc", "cuMemHostAlloc", 2020, nullptr}},
    Entry<CUresult(void*)>{{Verb::memory_free, "cuMemFreeHost", "cuMemFreeHost", 2000, nullptr}},
    Entry<CUresult(void*, std::size_t, unsigned)>{
        {Verb::memory_make, "cuMemHostRegister_v2", "cuMemHostRegister", 6050, nullptr}},
    Entry<CUresult(void*)>{{Verb::memory_free, "cuMemHostUnregister", "cuMemHostUnregister", 4000, nullptr}},
    Entry<CUresult(CUdeviceptr, CUdeviceptr, std::size_t)>{
        {Verb::copy, "cuMemcpy", "cuMemcpy", 4000, "_ptds"}},
    Entry<CUresult(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, std::size_t)>{
        {Verb::copy, "cuMemcpyPeer", "cuMemcpyPeer", 4000, "_ptds"}},
    Entry<CUresult(const CUDA_MEMCPY2D*)>{{Verb::copy, "cuMemcpy2D_v2", "cuMemcpy2D", 3020, "_ptds"}},
    Entry<CUresult(const CUDA_MEMCPY2D*)>{
        {Verb::copy, "cuMemcpy2DUnaligned_v2", "cuMemcpy2DUnaligned", 3020, "_ptds"}},
    Entry<CUresult(const CUDA_MEMCPY3D*)>{{Verb::copy, "cuMemcpy3D_v2", "cuMemcpy3D", 3020, "_ptds"}},
    Entry<CUresult(CUdeviceptr, const void*, std::size_t)>{
        {Verb::copy, "cuMemcpyHtoD_v2", "cuMemcpyHtoD", 3020, "_ptds"}},
    Entry<CUresult(void*, CUdeviceptr, std::size_t)>{
        {Verb::copy, "cuMemcpyDtoH_v2", "cuMemcpyDtoH", 3020, "_ptds"}},
    Entry<CUresult(CUdeviceptr, CUdeviceptr, std::size_t)>{
        {Verb::copy, "cuMemcpyDtoD_v2", "cuMemcpyDtoD", 3020, "_ptds"}},
    Entry<CUresult(void*, CUarray, std::size_t, std::size_t)>{
        {Verb::copy, "cuMemcpyAtoH_v2", "cuMemcpyAtoH", 3020, "_ptds"}},
    Entry<CUresult(CUarray, std::size_t, const void*, std::size_t)>{
        {Verb::copy, "cuMemcpyHtoA_v2", "cuMemcpyHtoA", 3020, "_ptds"}},
    Entry<CUresult(CUdeviceptr, CUarray, std::size_t, std::size_t)>{
        {Verb::copy, "cuMemcpyAtoD_v2", "cuMemcpyAtoD", 3020, "_ptds"}},
    Entry<CUresult(CUarray, std::size_t, CUdeviceptr, std::size_t)>{
        {Verb::copy, "cuMemcpyDtoA_v2", "cuMemcpyDtoA", 3020, "_ptds"}},
    Entry<CUresult(CUarray, std::size_t, CUarray, std::size_t, std::size_t)>{
        {Verb::copy, "cuMemcpyAtoA_v2", "cuMemcpyAtoA", 3020, "_ptds"}},
    Entry<CUresult(CUdeviceptr, unsigned char, std::size_t)>{
        {Verb::copy, "cuMemsetD8_v2", "cuMemsetD8", 3020, "_ptds"}},
    Entry<CUresult(CUdeviceptr, unsigned short, std::size_t)>{
        {Verb::copy, "cuMemsetD16_v2", "cuMemsetD16", 3020, "_ptds"}},
    Entry<CUresult(CUdeviceptr, unsigned, std::size_t)>{
        {Verb::copy, "cuMemsetD32_v2", "cuMemsetD32", 3020, "_ptds"}},
    Entry<CUresult(CUmodule*, const void*)>{
        {Verb::other, "cuModuleLoadData", "cuModuleLoadData", 2000, nullptr}},
    Entry<CUresult(CUmodule)>{{Verb::other, "cuModuleUnload", "cuModuleUnload", 2000, nullptr}},
    Entry<CUresult(CUmodule*, const char*)>{{Verb::other, "cuModuleLoad", "cuModuleLoad", 2000, nullptr}},
    Entry<CUresult(CUmodule*, const void*, unsigned, CUjit_option*, void**)>{
        {Verb::other, "cuModuleLoadDataEx", "cuModuleLoadDataEx", 2010, nullptr}},
    Entry<CUresult(CUmodule*, const void*)>{
        {Verb::other, "cuModuleLoadFatBinary", "cuModuleLoadFatBinary", 2000, nullptr}},
    Entry<CUresult(CUlibrary*, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                   unsigned)>{{Verb::other, "cuLibraryLoadData", "cuLibraryLoadData", 12000, nullptr}},
    Entry<CUresult(CUlibrary*, const char*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                   unsigned)>{
        {Verb::other, "cuLibraryLoadFromFile", "cuLibraryLoadFromFile", 12000, nullptr}},
    Entry<CUresult(CUlibrary)>{{Verb::other, "cuLibraryUnload", "cuLibraryUnload", 12000, nullptr}},
    Entry<CUresult(CUdeviceptr, std::size_t)>{{Verb::other, "cuMemUnmap", "cuMemUnmap", 10020, nullptr}},
    Entry<CUresult(CUmemoryPool)>{{Verb::other, "cuMemPoolDestroy", "cuMemPoolDestroy", 11020, nullptr}},
    Entry<CUresult(CUmemoryPool, std::size_t)>{
        {Verb::other, "cuMemPoolTrimTo", "cuMemPoolTrimTo", 11020, nullptr}},
    Entry<CUresult(CUarray)>{{Verb::other, "cuArrayDestroy", "cuArrayDestroy", 2000, nullptr}});

inline constexpr const auto& entry_data = entries.data;
inline constexpr std::size_t entry_count = entry_data.size();

/// Whether this is a default stream. The null stream is one too.
inline bool is_default_stream(std::uint64_t handle) {
  return handle <= reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD);
}

/// Whether the capture is over after cuStreamEndCapture has returned this.
constexpr bool ends_capture(CUresult result) {
  return result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
         result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED || result == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

} // namespace watch
