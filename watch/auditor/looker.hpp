// SPDX-License-Identifier: MIT
// A thread of the auditor in the program's process. It sleeps until the reader wants a look; then it asks the
// driver how far each stream is, and takes the Python frames of threads that wait.
#pragma once

#include "auditor/recorder.hpp"
#include "protocol/verbs.hpp"

namespace watch {

/// False if there is no memory.
bool prepare_looker();

/// Starts the thread. To be called if ClearedByFork::looker_started is 0, and not from inside the loader.
void start_looker();

/// The calls during which a thread may wait for the device, or for room in a launch queue.
constexpr bool offers_python_frames(Verb verb) { return can_block(verb) || submits_work(verb); }

/// Around such a call, outside of `begin_call` and `end_call`: the Python frames of this thread may
/// be taken in between.
void offer_python_frames(const Thread& thread);
void withdraw_python_frames(const Thread& thread);

} // namespace watch
