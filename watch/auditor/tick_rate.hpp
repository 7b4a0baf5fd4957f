// SPDX-License-Identifier: MIT
// How fast the clock of ticks.hpp is.
#pragma once

#include <cstdint>

namespace watch {

/// The ticks of a time, to about a percent. Valid after `this_thread` returned a thread.
[[gnu::hot]] std::uint64_t ticks_in(std::uint64_t microseconds);

} // namespace watch
