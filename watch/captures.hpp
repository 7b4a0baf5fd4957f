// SPDX-License-Identifier: MIT
// How many stream captures are active in this process.
#pragma once

#include "calls.hpp"

#include <cstdint>

namespace watch {

/// A capture counts from before its beginning until after its end.
[[gnu::hot]] bool captures_are_active();

/// To be called around the driver's function. `stream` is the first word of the call.
[[gnu::hot]] void count_capture_before(Verb verb);
[[gnu::hot]] void count_capture_after(Verb verb, CUresult result, std::uint64_t stream);

} // namespace watch
