// SPDX-License-Identifier: MIT
#pragma once

#include "cuda_headers.hpp"

#include <string>

namespace cuevent::sim {

/// Thrown inside a driver call to leave it with this result; never crosses the driver's interface.
struct Refusal {
  CUresult result;
};

[[noreturn]] inline void refuse(CUresult result) { throw Refusal{result}; }
inline void refuse_if(bool refused, CUresult result) {
  if (refused) refuse(result);
}

/// What is undefined on a device: prints the report, with the call that was under way, and aborts.
[[noreturn]] void undefined(const std::string& report);

/// What was measured to crash a process on a device: prints the report, and crashes by the same signal.
[[noreturn]] void crash(const std::string& report);

/// What the simulator does not model: aborts with the name of the call.
[[noreturn]] void not_modelled(const std::string& what);

/// The call this thread is in, for reports.
struct CallUnderWay {
  const char* name = nullptr;
  unsigned long long number = 0;
  int process = 0;
};
inline thread_local CallUnderWay call_under_way{};

} // namespace cuevent::sim
