// SPDX-License-Identifier: MIT
// Exports the functions that the simulator does not model, so that a program that loads every name
// starts. They have names of their own here, because the driver's headers declare parameters for them.

namespace cuevent::sim {

[[noreturn]] void unmodelled_function(const char* name);

} // namespace cuevent::sim

#define UNMODELLED(symbol, name, version, per_thread)                                                        \
  extern "C"                                                                                                 \
      [[noreturn]] __attribute__((visibility("default"))) void unmodelled_##symbol() __asm__(#symbol);       \
  void unmodelled_##symbol() { cuevent::sim::unmodelled_function(#symbol); }
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
