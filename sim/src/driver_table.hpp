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

/// A call by a host function, a callback of a stream, or the destructor of a user object. A device answered
/// the three alike: host_calls in the transcript.
enum class InCallback {
  made,    ///< as by another thread without a context; what needs one returns CUDA_ERROR_NOT_PERMITTED
  refused, ///< with CUDA_ERROR_NOT_PERMITTED
  unknown, ///< nobody asked a device
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
