// SPDX-License-Identifier: MIT
// Probes: events of the auditor's own, recorded on the program's streams after work. A probe that is reached
// says that the work before it is done.
//
// A probe takes 1 to 2 us. On average, at most one is recorded in 50 us, and in quiet mode in 2 ms.
#pragma once

#include "calls.hpp"
#include "recorder.hpp"

namespace watch {

/// To be called around the driver's function, if the feature `probes` is on. `library` is the index of the
/// copy of libcuda.
[[gnu::hot]] void before_call(Thread& thread, unsigned library, const CallData& call, Verb verb);
[[gnu::hot]] void after_success(Thread& thread, const CallData& call, Verb verb);

} // namespace watch
