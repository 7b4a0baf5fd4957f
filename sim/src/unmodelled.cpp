// SPDX-License-Identifier: MIT
#include "driver_table.hpp"
#include "refusal.hpp"

namespace cuevent::sim {

namespace {

// A struct, so that the static library gets no global names.
struct Stubs {
#define UNMODELLED(symbol, name, version, per_thread)                                                        \
  static CUresult symbol() { return unmodelled_function(#symbol, __builtin_return_address(0)); }
#include "unmodelled.inc"
#undef UNMODELLED
};

} // namespace

std::span<UnmodelledRow> unmodelled_table() {
  static UnmodelledRow rows[] = {
#define UNMODELLED(symbol, name, version, per_thread)                                                        \
  {#name, version, per_thread, reinterpret_cast<void*>(&Stubs::symbol)},
#include "unmodelled.inc"
#undef UNMODELLED
  };
  return rows;
}

} // namespace cuevent::sim
