// SPDX-License-Identifier: MIT
// What a kernel waits for in addition to its stream: kernels of a collective wait for the other ranks.
#pragma once

#include <memory>

namespace cuevent::sim {

/// The scheduler asks `open` again and again, under the simulator's lock, once all work before the kernel is
/// complete. The kernel runs once `open` has not returned 0. `launch` belongs to one launch, also of a graph:
/// it is 0 at the first question, and `open` may change it. Neither function may call the driver.
struct KernelGate {
  int (*open)(void* state, unsigned long long* launch);
  void (*release)(void* state); ///< once nothing can ask any more
  void* state;

  KernelGate(int (*asked)(void*, unsigned long long*), void (*released)(void*), void* of)
      : open(asked), release(released), state(of) {}
  KernelGate(const KernelGate&) = delete;
  KernelGate& operator=(const KernelGate&) = delete;
  ~KernelGate() { release(state); }
};

/// Of the next kernel that this thread launches or captures, which takes it.
std::shared_ptr<KernelGate>& next_kernel_gate();

} // namespace cuevent::sim
