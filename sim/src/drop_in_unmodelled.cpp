// SPDX-License-Identifier: MIT
// Exports the functions that the simulator does not model, so that a program that loads every name
// starts. They have names of their own here, because the driver's headers declare parameters for them.

#include "refusal.hpp"

#define UNMODELLED(symbol, name, version, per_thread)                                                        \
  extern "C" __attribute__((visibility("default"))) CUresult unmodelled_##symbol() __asm__(#symbol);         \
  CUresult unmodelled_##symbol() {                                                                           \
    return cuevent::sim::unmodelled_function(#symbol, __builtin_return_address(0));                          \
  }
#include "unmodelled.inc"
#undef UNMODELLED

namespace cuevent::sim {

/// In the order of unmodelled.inc.
extern void* const unmodelled_exports[];
void* const unmodelled_exports[] = {
#define UNMODELLED(symbol, name, version, per_thread) reinterpret_cast<void*>(&unmodelled_##symbol),
#include "unmodelled.inc"
#undef UNMODELLED
};

} // namespace cuevent::sim
