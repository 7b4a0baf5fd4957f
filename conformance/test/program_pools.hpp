// SPDX-License-Identifier: MIT
// The pools that the leases of all programs come from.
#pragma once

#include "through_cuevent.hpp"

#include <cuevent/event_pool.hpp>

namespace on_cuevent {

/// The flags of an event as cuevent has them.
cuevent::EventFlags flags_of(unsigned flags);

enum class Pools { of_a_context, of_all_contexts }; ///< EventPool, EventPools

/// A lease of the current context, of an event with these flags of the driver.
CUresult acquire(cuevent::PooledEvent& lease, unsigned flags, Pools);

void lease_as_a_neighbour(); ///< from each EventPool, for a moment, with queues_and_pools held
long idle_events();          ///< in all pools
void end_pools();

} // namespace on_cuevent
