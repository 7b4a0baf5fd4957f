// SPDX-License-Identifier: MIT
// What cuevent adds to a program: after each submission but a wait, a callback of a CompletionQueue, and
// after kernels and memory operations, the ticket of a TimelineFence. Neither may change an answer.
// - Each callback runs exactly once, in order per stream, and with a documented result.
// - Each ticket is reached once the program's work is done, and is one more than the ticket before.
// - A capture refuses both, and is unharmed.
//
// What would change answers of the program is left out:
// - A ticket after a record or the launch of a graph. These can leave a stream idle that is held by
//   cuCtxWaitEvent alone, and the write of the ticket makes the stream busy.
// - Both after a wait. A wait for a complete event puts nothing on the stream. The record of a callback would
//   be held by the legacy stream, and on the legacy stream make the blocking streams wait for each other.
#pragma once

#include "through_cuevent.hpp"

#include <cstdint>

namespace on_cuevent {

/// The functions below, and those that submit work followed by what cuevent adds.
transcript::Api work_through_cuevent(const transcript::Api& below);

void work_begins(std::uint64_t seed); ///< of a program
void work_ends();           ///< reports callbacks that did not run, and tickets that are not reached
void poll_as_a_neighbour(); ///< with queues_and_pools held
void print_work();          ///< how much there was

} // namespace on_cuevent
