// SPDX-License-Identifier: MIT
// A small CUDA runtime for tests, on top of the driver's functions that the drop-in exports. It needs no
// header of the runtime: it uses the streams, the events and most error codes of the driver.
#pragma once

#include <cuda.h>

#include <string>

/// The functions that are called by the name in front of the bracket; list_runtime.py reads these lines.
#define RUNTIME extern "C" __attribute__((visibility("default")))

namespace cuevent::sim::runtime {

using Error = int; ///< the numbers of cudaError_t and of CUresult agree, apart from these
inline constexpr Error invalid_configuration = 9;
inline constexpr Error invalid_pitch = 12;
inline constexpr Error invalid_symbol = 13;
inline constexpr Error invalid_copy_direction = 21;
inline constexpr Error missing_configuration = 52;
inline constexpr Error invalid_device_function = 98;

/// Remembers an error for cudaGetLastError, and returns it.
Error told(Error);

/// Initialises the driver.
CUresult start();

/// Initialises the driver, and makes the primary context of a device current unless the thread has a context,
/// which may have been reset.
CUresult ready_for_events();

/// The same, and a context that was reset begins anew.
CUresult ready();

/// The answer of a call that needs a context.
template <class Call>
Error with_context(Call call) {
  const CUresult prepared = ready();
  return told(prepared != CUDA_SUCCESS ? prepared : call());
}

/// The answer of a call for an event. A reset context stays as it is, so that the driver refuses its events.
template <class Call>
Error with_event(Call call) {
  const CUresult prepared = ready_for_events();
  return told(prepared != CUDA_SUCCESS ? prepared : call());
}

/// The answer of a call that needs no context.
template <class Call>
Error with_driver(Call call) {
  const CUresult started = start();
  return told(started != CUDA_SUCCESS ? started : call());
}

} // namespace cuevent::sim::runtime
