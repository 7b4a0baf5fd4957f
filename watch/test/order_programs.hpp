// SPDX-License-Identifier: MIT
// What the programs of `cuevent watch --order` share: memory, and graphs that calls build.
#pragma once

#include "driver_calls.hpp"

#include <cstddef>

constexpr const char* with_order = "--order=all";
constexpr std::size_t block = 4096;

inline CUdeviceptr on_device(std::size_t bytes = block) {
  CUdeviceptr memory = 0;
  expect(cuMemAlloc(&memory, bytes));
  return memory;
}
inline char* pinned(std::size_t bytes = block) {
  void* memory = nullptr;
  expect(cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE));
  return static_cast<char*>(memory);
}
inline CUdeviceptr from_pool(CUstream on, std::size_t bytes = block) {
  CUdeviceptr memory = 0;
  expect(cuMemAllocAsync(&memory, bytes, on));
  return memory;
}

/// Memory at addresses of its own, in two pieces, as allocators with segments that grow map it.
struct Segment {
  CUdeviceptr begin = 0;
  std::size_t piece = 0;

  Segment() {
    CUmemAllocationProp kind{};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    expect(cuMemGetAllocationGranularity(&piece, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    expect(cuMemAddressReserve(&begin, 2 * piece, 0, 0, 0));
    for (const CUdeviceptr at : {begin, begin + piece}) {
      CUmemGenericAllocationHandle memory = 0;
      expect(cuMemCreate(&memory, piece, &kind, 0));
      expect(cuMemMap(at, piece, 0, memory, 0));
      expect(cuMemRelease(memory));
    }
    const CUmemAccessDesc access{kind.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    expect(cuMemSetAccess(begin, 2 * piece, &access, 1));
  }
};

inline void zero(CUdeviceptr memory, CUstream on) { expect(cuMemsetD8Async(memory, 0, block, on)); }

/// `later` waits for what `earlier` has got so far.
inline void order(const Gpu& gpu, CUstream earlier, CUstream later) {
  const CUevent event = gpu.event();
  order(earlier, event, later);
  destroy(event);
}

/// A graph that calls build.
class BuiltGraph {
public:
  BuiltGraph() { expect(cuGraphCreate(&graph_, 0)); }

  CUgraphNode memset(const Gpu& gpu, CUdeviceptr to, const std::vector<CUgraphNode>& after = {}) const {
    CUDA_MEMSET_NODE_PARAMS parameters{};
    parameters.dst = to;
    parameters.elementSize = 1;
    parameters.width = block;
    parameters.height = 1;
    CUgraphNode node = nullptr;
    expect(cuGraphAddMemsetNode(&node, graph_, after.data(), after.size(), &parameters, gpu.context));
    return node;
  }
  CUgraphNode copy(const Gpu& gpu, CUdeviceptr to, CUdeviceptr from,
                   const std::vector<CUgraphNode>& after = {}) const {
    const CUDA_MEMCPY3D parameters = copy_of(to, from);
    CUgraphNode node = nullptr;
    expect(cuGraphAddMemcpyNode(&node, graph_, after.data(), after.size(), &parameters, gpu.context));
    return node;
  }
  CUgraphNode launch(CUfunction function, CUdeviceptr argument) const {
    void* arguments[] = {&argument};
    const CUDA_KERNEL_NODE_PARAMS parameters = launch_of(function, arguments);
    CUgraphNode node = nullptr;
    expect(cuGraphAddKernelNode(&node, graph_, nullptr, 0, &parameters));
    return node;
  }
  void add_dependency(CUgraphNode from, CUgraphNode to) const {
#if CUDA_VERSION >= 13000
    expect(cuGraphAddDependencies(graph_, &from, &to, nullptr, 1));
#else
    expect(cuGraphAddDependencies(graph_, &from, &to, 1));
#endif
  }
  CUgraph get() const { return graph_; }

  static CUDA_MEMCPY3D copy_of(CUdeviceptr to, CUdeviceptr from) {
    CUDA_MEMCPY3D parameters{};
    parameters.srcMemoryType = parameters.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    parameters.dstDevice = to;
    parameters.srcDevice = from;
    parameters.WidthInBytes = block;
    parameters.Height = parameters.Depth = 1;
    return parameters;
  }
  static CUDA_KERNEL_NODE_PARAMS launch_of(CUfunction function, void** arguments) {
    CUDA_KERNEL_NODE_PARAMS parameters{};
    parameters.func = function;
    parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
    parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
    parameters.kernelParams = arguments;
    return parameters;
  }

private:
  CUgraph graph_ = nullptr;
};

/// What the calls of `body` submit to the stream.
template <class Body>
CUgraphExec captured(CUstream on, Body body) {
  begin(on, relaxed);
  body();
  return instantiate(end(on));
}
