// SPDX-License-Identifier: MIT
// Exports the functions that the stand-ins lack, so that a program that links them starts. A call aborts, or
// returns CUBLAS_STATUS_NOT_SUPPORTED, as CUEVENT_SIM_UNMODELLED says.
#include "products.hpp"

#include "../runtime/unmodelled.hpp"

#include <cstdlib>

#define NAME(symbol)                                                                                         \
  BLAS int symbol();                                                                                         \
  int symbol() {                                                                                             \
    cueventUnmodelled(#symbol, __builtin_return_address(0));                                                 \
    return cuevent::sim::blas::not_supported;                                                                \
  }
/// A function of the first interface, which returns no status.
#define WITHOUT_STATUS(symbol)                                                                               \
  BLAS void symbol();                                                                                        \
  void symbol() {                                                                                            \
    cueventUnmodelled(#symbol, __builtin_return_address(0));                                                 \
    std::abort();                                                                                            \
  }
#include UNMODELLED_NAMES
