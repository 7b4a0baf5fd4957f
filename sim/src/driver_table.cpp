// SPDX-License-Identifier: MIT
#include "driver_table.hpp"

#include "functions.hpp"

#include <algorithm>
#include <string_view>
#include <type_traits>

namespace cuevent::sim {

namespace {

void pass_usual(Gate gate, Process& process) {
  refuse_if(!process.initialized, CUDA_ERROR_NOT_INITIALIZED);
  // A forked child has the handles but no driver.
  refuse_if(process.forked && gate != Gate::forked, CUDA_ERROR_NOT_INITIALIZED);
  if (gate == Gate::plain) meet_fault(process, FaultNews::of_a_submission);
}

/// Whether the symbol is some version of the function: cuMemAlloc_v2 is one of cuMemAlloc.
bool is_version_of(std::string_view symbol, std::string_view function) {
  if (!symbol.starts_with(function)) return false;
  const std::string_view rest = symbol.substr(function.size());
  return rest.empty() || rest.starts_with("_v") || rest.starts_with("_pt");
}

/// A control call has changed what this process is told.
void pass_unusual(Gate gate, Process& process) {
  refuse_if(process.deinitialized, CUDA_ERROR_DEINITIALIZED);
  pass_usual(gate, process);
  const auto found = std::ranges::find_if(process.failing, [](const FailingCall& call) {
    return is_version_of(call_under_way.name, call.function);
  });
  if (found == process.failing.end()) return;
  const CUresult result = found->result;
  process.failing.erase(found);
  process.unusual = !process.failing.empty();
  refuse(result);
}

} // namespace

void pass(Gate gate, Process& process) {
  if (gate == Gate::bare) return;
  if (process.unusual) return pass_unusual(gate, process);
  pass_usual(gate, process);
}

namespace {

// Each row must have the type that the header gives to this name and version.
#define ENTRY(gate, in_callbacks, name, version, symbol, parameters, arguments)                              \
  static_assert(std::is_same_v<PFN_##name##_v##version, decltype(&Functions<0>::symbol)>);
#define STREAM_ENTRY(gate, in_callbacks, name, version, thread_version, suffix, symbol, parameters,          \
                     arguments)                                                                              \
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
#define ENTRY(gate, in_callbacks, name, version, symbol, parameters, arguments)                              \
  {#name, version, 0, {address(&Functions<0>::symbol), address(&Functions<1>::symbol)}, {}},
#define STREAM_ENTRY(gate, in_callbacks, name, version, thread_version, suffix, symbol, parameters,          \
                     arguments)                                                                              \
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
