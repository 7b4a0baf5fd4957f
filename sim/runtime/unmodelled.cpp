// SPDX-License-Identifier: MIT
// Exports the functions of the runtime that the stand-in lacks, so that a program that links them starts.

#include "unmodelled.hpp"

#define NAME(symbol)                                                                                         \
  extern "C" __attribute__((visibility("default"))) int symbol();                                            \
  int symbol() { return cueventUnmodelled(#symbol, __builtin_return_address(0)); }
#include "unmodelled.inc"
