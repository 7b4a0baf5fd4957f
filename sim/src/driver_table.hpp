// SPDX-License-Identifier: MIT
#pragma once

#include "cuda_headers.hpp"

#include <array>
#include <span>

namespace cuevent::sim {

/// The check before a call.
enum class Gate {
  bare,   ///< no check: works before cuInit
  quiet,  ///< the driver is initialized; a lookup in the call may still find a fault
  forked, ///< like quiet, but also works in a forked child, as measured
  plain,  ///< the driver is initialized and the process has no fault
};

/// One driver function as listed by cuGetProcAddress.
struct TableRow {
  const char* name;
  int version;
  int thread_version;             ///< 0: no variant for per-thread default streams
  std::array<void*, 2> functions; ///< by simulated process
  std::array<void*, 2> thread_functions;
};

/// The rows are in the order of driver_functions.inc.
std::span<TableRow> driver_table();

/// One driver function that is not modelled: calling it aborts.
struct UnmodelledRow {
  const char* name;
  int version;
  bool per_thread; ///< a variant for per-thread default streams
  void* function;
};

/// The rows are in the order of unmodelled.inc.
std::span<UnmodelledRow> unmodelled_table();

} // namespace cuevent::sim
