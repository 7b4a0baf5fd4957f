// SPDX-License-Identifier: MIT
#include "driver_table.hpp"

#include "functions.hpp"

#include <type_traits>

namespace cuevent::sim {

void pass(Gate gate, Process& process) {
  if (gate == Gate::bare) return;
  refuse_if(process.deinitialized, CUDA_ERROR_DEINITIALIZED);
  refuse_if(!process.initialized, CUDA_ERROR_NOT_INITIALIZED);
  // A forked child has the handles but no driver.
  refuse_if(process.forked && gate != Gate::forked, CUDA_ERROR_NOT_INITIALIZED);
  if (gate == Gate::plain) meet_fault(process, FaultNews::of_a_submission);
}

namespace {

// Each row must have the type that the header gives to this name and version.
#define ENTRY(gate, name, version, symbol, parameters, arguments)                                            \
  static_assert(std::is_same_v<PFN_##name##_v##version, decltype(&Functions<0>::symbol)>);
#define STREAM_ENTRY(gate, name, version, thread_version, suffix, symbol, parameters, arguments)             \
  static_assert(std::is_same_v<PFN_##name##_v##version, decltype(&Functions<0>::symbol)>);                   \
  static_assert(std::is_same_v<PFN_##name##_v##thread_version##_##suffix,                                    \
                               decltype(&Functions<0>::symbol##_##suffix)>);
#include "driver_functions.inc"
#undef ENTRY
#undef STREAM_ENTRY

template <class Function>
void* address(Function function) {
  return reinterpret_cast<void*>(function);
}

} // namespace

std::span<TableRow> driver_table() {
  static TableRow rows[] = {
#define ENTRY(gate, name, version, symbol, parameters, arguments)                                            \
  {#name, version, 0, {address(&Functions<0>::symbol), address(&Functions<1>::symbol)}, {}},
#define STREAM_ENTRY(gate, name, version, thread_version, suffix, symbol, parameters, arguments)             \
  {#name,                                                                                                    \
   version,                                                                                                  \
   thread_version,                                                                                           \
   {address(&Functions<0>::symbol), address(&Functions<1>::symbol)},                                         \
   {address(&Functions<0>::symbol##_##suffix), address(&Functions<1>::symbol##_##suffix)}},
#include "driver_functions.inc"
#undef ENTRY
#undef STREAM_ENTRY
  };
  return rows;
}

} // namespace cuevent::sim
