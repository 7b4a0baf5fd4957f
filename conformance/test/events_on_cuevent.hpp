// SPDX-License-Identifier: MIT
// The events of a program, through cuevent. By turns, an event is a DriverEvent, a lease of an EventPool or a
// lease of EventPools, and some leases are shared. Leases bring back the events of earlier programs.
#pragma once

#include "through_cuevent.hpp"

#include <cstdint>

namespace on_cuevent {

/// The functions, with those of events made by cuevent. The others pass on the events that cuevent made.
transcript::Api events_through_cuevent();

void events_begin(std::uint64_t seed); ///< of a program
void events_end();                     ///< reports events that are left, apart from those idle in pools
void end_leases();                     ///< and what they were

} // namespace on_cuevent
