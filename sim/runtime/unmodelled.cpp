// SPDX-License-Identifier: MIT
// Exports the functions of the runtime that the stand-in lacks, so that a program that links them starts.

namespace cuevent::sim {

[[noreturn]] void unmodelled_function(const char* name); // in refusal.hpp, which needs the driver's header

} // namespace cuevent::sim

#define NAME(symbol)                                                                                         \
  extern "C" [[noreturn]] __attribute__((visibility("default"))) void symbol();                              \
  void symbol() { cuevent::sim::unmodelled_function(#symbol); }
#include "unmodelled.inc"
