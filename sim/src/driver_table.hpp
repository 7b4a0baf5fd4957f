// SPDX-License-Identifier: MIT
#pragma once

#include "cuda_headers.hpp"

#include <array>
#include <span>

namespace cuevent::sim {

/// What stands before a call.
enum class Gate {
  bare,   ///< nothing: works before cuInit
  quiet,  ///< the driver is initialized; what the call looks up may still find a fault
  forked, ///< the same, but works in a forked child, too, as was measured
  plain,  ///< the driver is initialized and the process has no fault
};

/// One driver function as cuGetProcAddress knows it.
struct TableRow {
  const char* name;
  int version;
  int thread_version;             ///< 0: no twin for per-thread default streams
  std::array<void*, 2> functions; ///< by simulated process
  std::array<void*, 2> thread_functions;
};

/// In the order of entries.inc.
std::span<TableRow> driver_table();

} // namespace cuevent::sim
