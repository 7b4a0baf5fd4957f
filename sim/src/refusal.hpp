// SPDX-License-Identifier: MIT
#pragma once

#include "cuda_headers.hpp"

#include <string>

namespace cuevent::sim {

/// Thrown inside a driver call to return this result. Never crosses the driver's interface.
struct Refusal {
  CUresult result;
};

[[noreturn]] inline void refuse(CUresult result) { throw Refusal{result}; }
inline void refuse_if(bool refused, CUresult result) {
  if (refused) refuse(result);
}

/// For calls that are undefined on a device. Prints the report with the current call, and aborts.
[[noreturn]] void undefined(const std::string& report);

/// For calls measured to crash a process on a device. Prints the report, and crashes with the same
/// signal.
[[noreturn]] void crash(const std::string& report);

/// For features that the simulator does not model. Aborts with the name of the call.
[[noreturn]] void not_modelled(const std::string& what);

/// For functions that the simulator does not model. Prints the name and the caller's stack, and aborts.
[[noreturn]] void unmodelled_function(const char* name);

/// The call that this thread is in, for reports.
struct CallUnderWay {
  const char* name = nullptr;
  unsigned long long number = 0;
  int process = 0;
};
inline thread_local CallUnderWay call_under_way{};

} // namespace cuevent::sim
