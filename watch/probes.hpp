// SPDX-License-Identifier: MIT
// Probes: events of the auditor's own, recorded on the program's streams after work. A probe that is reached
// says that the work before it is done.
//
// A probe costs about as much as a call of cuEventRecord. On average, at most one is recorded in 20 us.
#pragma once

#include "calls.hpp"
#include "recorder.hpp"

namespace watch {

/// To be called around the driver's function, if the feature `probes` is on. `library` is the index of the
/// copy of libcuda.
void before_call(const Thread& thread, unsigned library, const CallData& call, Verb verb);
void after_success(const Thread& thread, const CallData& call, Verb verb);

/// Whether about half of the stream's launch queue may be full: a launch may block its thread soon.
bool has_long_queue(const CallData& call, Verb verb);

} // namespace watch
