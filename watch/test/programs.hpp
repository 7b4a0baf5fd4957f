// SPDX-License-Identifier: MIT
// What the programs of the rules share: a context of each device, and streams.
#pragma once

#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

/// Ends the program if the call gives another result.
inline void expect(CUresult result, CUresult wanted = CUDA_SUCCESS) {
  if (result == wanted) return;
  std::fprintf(stderr, "a call returned %d instead of %d\n", static_cast<int>(result),
               static_cast<int>(wanted));
  std::exit(3);
}

/// The first device, its primary context, and two streams.
class Gpu {
public:
  Gpu() {
    expect(cuInit(0));
    expect(cuDevicePrimaryCtxRetain(&context, 0));
    expect(cuCtxSetCurrent(context));
    a = stream(), b = stream();
    expect(cuMemAlloc(&memory, 4096));
  }

  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) const {
    CUstream made = nullptr;
    expect(cuStreamCreate(&made, flags));
    return made;
  }
  CUevent event(unsigned flags = CU_EVENT_DISABLE_TIMING) const {
    CUevent made = nullptr;
    expect(cuEventCreate(&made, flags));
    return made;
  }
  void work(CUstream on) const { expect(cuMemsetD8Async(memory, 1, 64, on)); }

  /// Another context of the same device. It becomes current.
  CUcontext other_context() const {
    CUcontext made = nullptr;
#if CUDA_VERSION >= 13000
    expect(cuCtxCreate(&made, nullptr, 0, 0));
#else
    expect(cuCtxCreate(&made, 0, 0));
#endif
    return made;
  }

  CUcontext context = nullptr;
  CUstream a = nullptr, b = nullptr;
  CUdeviceptr memory = 0;
};

/// The two programs of a rule.
struct Programs {
  const char* rule;
  void (*mistake)(Gpu&);
  void (*near)(Gpu&);
  const char* option = ""; // of `cuevent watch`, with which the rule is checked
};

const std::vector<Programs>& event_programs();
const std::vector<Programs>& capture_programs();
const std::vector<Programs>& cost_programs();

inline std::vector<Programs> all_programs() {
  std::vector<Programs> all = event_programs();
  all.insert(all.end(), capture_programs().begin(), capture_programs().end());
  all.insert(all.end(), cost_programs().begin(), cost_programs().end());
  return all;
}
