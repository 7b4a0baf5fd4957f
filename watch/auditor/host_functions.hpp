// SPDX-License-Identifier: MIT
// With Feature::costs, how long functions of the program run on streams, and wait for each other.
#pragma once

#include "protocol/calls.hpp"
#include "protocol/protocol.hpp"

#include <atomic>
#include <cstdint>

namespace watch {

/// A function of the program that the driver will call: it calls one of the auditor's, which calls this one.
struct HostFunction {
  std::atomic<std::uint32_t> used;
  std::uint32_t stack; // of the submission
  std::uint16_t entry;
  std::uint8_t marks;
  CUhostFn function; // or, for cuStreamAddCallback:
  CUstreamCallback callback;
  void* data;
  std::uint64_t stream, context, submitted; // the tick
};

struct HostFunctions {
  HostFunction all[256]; // that are submitted and have not run. Further ones are not measured
};

/// A place for the function that `call` submits, or null.
HostFunction* take_host_function(const CallData& call);

inline void give_back(HostFunction* function) { function->used.store(0, std::memory_order_release); }

/// What the driver calls in its place.
void CUDA_CB run_host_function(void* place);
void CUDA_CB run_stream_callback(CUstream stream, CUresult result, void* place);

} // namespace watch
