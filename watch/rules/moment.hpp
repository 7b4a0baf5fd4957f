// SPDX-License-Identifier: MIT
// What a process says about itself at one moment, apart from its records.
#pragma once

#include "rules/finding.hpp"
#include "rules/objects.hpp"

#include <chrono>
#include <vector>

namespace watch {

/// How far a stream with probes is.
struct ProbedState {
  std::uint32_t place = 0; // in Region::streams
  StreamKey key;
  bool destroyed = false;          // nobody asks its probes any more
  std::uint64_t recorded = 0;      // the number of the last probe
  std::uint64_t reached = 0;       // the number of the last probe that is known to be reached
  bool exact = true;               // false: the last look could not ask this stream
  bool can_get_late_probe = false; // when nothing moves, by a look
};

/// A call that a thread is in.
struct CallUnderWay {
  Call call;
  std::chrono::nanoseconds age{};
  std::uint32_t python = 0; // a stack of Python frames, 0 for none
};

struct Moment {
  std::chrono::nanoseconds time{}; // on CLOCK_MONOTONIC
  CUresult fault = CUDA_SUCCESS;   // that ended the device work of the process
  std::vector<ProbedState> streams;
  std::vector<CallUnderWay> calls;
};

} // namespace watch
