// SPDX-License-Identifier: MIT
// Which memory a call makes, frees, reads or writes. Records of it come before the record of the call, from
// the same thread. The overloads take the arguments of the driver's functions; other functions use no memory.
#pragma once

#include "auditor/libraries.hpp"
#include "protocol/protocol.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace watch {

/// For which call, whose words are complete.
struct Told {
  const Library& library;
  const CallData& call;
};

/// Tells the number of a copy's target that is guarded, or of its source that is looked at. 0: it has none.
void tell_number(const CallData& call, MemoryPart part, std::uint64_t number);

/// All allocations lie between them, so other numbers are no pointers. Both are 0 if there is none.
struct MemoryBounds {
  std::atomic<std::uint64_t> lowest, highest;
};

using Size = std::size_t;

/// Before the call, because its memory may belong to another thread as soon as it returns.
template <class... Arguments>
void tell_freed(const Told&, Arguments...) {}
void tell_freed(const Told& told, CUdeviceptr memory, CUstream = nullptr);
void tell_freed(const Told& told, void* memory);
void tell_freed(const Told& told, CUdeviceptr mapped, Size size);

/// Before a call whose work the host may see.
void tell_host_will_know(const Told& told);

/// After a call that has succeeded.
template <class... Arguments>
void tell_memory(const Told&, Arguments...) {}

// Allocations
void tell_memory(const Told& told, CUdeviceptr* made, Size size, CUstream = nullptr);
void tell_memory(const Told& told, CUdeviceptr* made, Size size, CUmemoryPool, CUstream);
void tell_memory(const Told& told, CUdeviceptr* made, Size size, unsigned managed);
void tell_memory(const Told& told, CUdeviceptr* made, Size* pitch, Size width, Size rows, unsigned);
void tell_memory(const Told& told, void** made, Size size, unsigned = 0);
void tell_memory(const Told& told, void* registered, Size size, unsigned);

// Memory that is mapped, of modules, or of others
void tell_memory(const Told& told, CUmemGenericAllocationHandle* made, Size,
                 const CUmemAllocationProp* properties, unsigned long long);
void tell_memory(const Told& told, CUmemGenericAllocationHandle* imported, void*, CUmemAllocationHandleType);
void tell_memory(const Told& told, CUdeviceptr at, Size size, Size, CUmemGenericAllocationHandle,
                 unsigned long long);
void tell_memory(const Told& told, CUdeviceptr* variable, Size* size, CUmodule, const char*);
void tell_memory(const Told& told, CUdeviceptr* variable, Size* size, CUlibrary, const char*);
void tell_memory(const Told& told, CUdeviceptr* opened, CUipcMemHandle, unsigned);
void tell_memory(const Told& told, CUdeviceptr* opened, CUmemoryPool, CUmemPoolPtrExportData*);
void tell_memory(const Told& told, CUdeviceptr* opened, CUexternalMemory,
                 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC*);
void tell_memory(const Told& told, CUdeviceptr* opened, Size*, CUgraphicsResource);

// Copies
void tell_memory(const Told& told, CUdeviceptr to, CUdeviceptr from, Size size, CUstream = nullptr);
void tell_memory(const Told& told, CUdeviceptr to, const void* from, Size size, CUstream = nullptr);
void tell_memory(const Told& told, void* to, CUdeviceptr from, Size size, CUstream = nullptr);
void tell_memory(const Told& told, CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, Size size,
                 CUstream = nullptr);
void tell_memory(const Told& told, const CUDA_MEMCPY2D* copy, CUstream = nullptr);
void tell_memory(const Told& told, const CUDA_MEMCPY3D* copy, CUstream = nullptr);
void tell_memory(const Told& told, const CUDA_MEMCPY3D_PEER* copy, CUstream = nullptr);
void tell_memory(const Told& told, void* to, CUarray, Size, Size size, CUstream = nullptr);
void tell_memory(const Told& told, CUarray, Size, const void* from, Size size, CUstream = nullptr);
void tell_memory(const Told& told, CUdeviceptr to, CUarray, Size, Size size);
void tell_memory(const Told& told, CUarray, Size, CUdeviceptr from, Size size);
void tell_memory(const Told& told, CUarray, Size, CUarray, Size, Size);
void tell_memory(const Told& told, CUdeviceptr* to, CUdeviceptr* from, Size* sizes, Size count,
                 Opaque attributes, Size*, Size attribute_count, Size*, CUstream);
void tell_memory(const Told& told, CUdeviceptr* to, CUdeviceptr* from, Size* sizes, Size count,
                 Opaque attributes, Size*, Size attribute_count, CUstream);

// Memsets
void tell_memory(const Told& told, CUdeviceptr to, unsigned char, Size count, CUstream = nullptr);
void tell_memory(const Told& told, CUdeviceptr to, unsigned short, Size count, CUstream = nullptr);
void tell_memory(const Told& told, CUdeviceptr to, unsigned, Size count, CUstream = nullptr);
void tell_memory(const Told& told, CUdeviceptr to, Size pitch, unsigned char, Size width, Size rows,
                 CUstream = nullptr);
void tell_memory(const Told& told, CUdeviceptr to, Size pitch, unsigned short, Size width, Size rows,
                 CUstream = nullptr);
void tell_memory(const Told& told, CUdeviceptr to, Size pitch, unsigned, Size width, Size rows,
                 CUstream = nullptr);

// Kernels
[[gnu::hot]] void tell_memory(const Told& told, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, unsigned, CUstream, void** values, void** extra);
void tell_memory(const Told& told, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                 unsigned, CUstream, void** values);
void tell_memory(const Told& told, const CUlaunchConfig*, CUfunction, void** values, void** extra);

// Nodes of graphs
void tell_after(const Told& told, const CUgraphNode* nodes, Size count);
template <class... Parameters>
void tell_node(const Told&, Parameters...) {}
void tell_node(const Told& told, const CUDA_KERNEL_NODE_PARAMS_v1* node);
void tell_node(const Told& told, const CUDA_KERNEL_NODE_PARAMS* node);
void tell_node(const Told& told, const CUDA_MEMCPY3D* copy, CUcontext = nullptr);
void tell_node(const Told& told, const CUDA_MEMSET_NODE_PARAMS* node, CUcontext = nullptr);
void tell_node(const Told& told, CUDA_MEM_ALLOC_NODE_PARAMS* node);

template <class... Parameters>
void tell_memory(const Told& told, CUgraphNode*, CUgraph, const CUgraphNode* after, Size count,
                 Parameters... parameters) {
  tell_after(told, after, count);
  tell_node(told, parameters...);
}
template <class... Parameters>
void tell_memory(const Told& told, CUgraphNode, Parameters... parameters) {
  tell_node(told, parameters...);
}
template <class... Parameters>
void tell_memory(const Told& told, CUgraphExec, CUgraphNode, Parameters... parameters) {
  tell_node(told, parameters...);
}
void tell_memory(const Told& told, CUgraph, const CUgraphNode* from, const CUgraphNode* to, Size count);
void tell_memory(const Told& told, CUgraph, const CUgraphNode* from, const CUgraphNode* to, const Opaque*,
                 Size count);

} // namespace watch
