// SPDX-License-Identifier: MIT
// Holds streams back, so that rare orders happen: `cuevent watch --jitter`. Before a submission, the stream
// gets a wait for a word in host memory, which a thread of the auditor opens after a drawn time. That thread
// only stores to memory. Nothing is held while a thread is in a call that can wait for the device.
#pragma once

#include "protocol/jitter_plan.hpp"
#include "protocol/protocol.hpp"
#include "protocol/verbs.hpp"

#include <cstdint>

namespace watch {

struct Thread;

/// Which submissions are held: those that a seed draws, or those of a list.
struct JitterPlan {
  std::uint64_t seed;
  bool is_listed;
  bool waits; // the host, after each submission
  std::uint32_t count;
  Hold holds[hold_limit];
};

/// Reads State::jitter_plan from CUEVENT_WATCH_JITTER. False if there is none.
bool prepare_jitter();

/// A context was made: registers memory for its words, if it has none. `device` is -1 if it is no primary
/// context.
void give_words(unsigned library, std::uint64_t context, int device);
void forget_words(std::uint64_t context);
/// The primary context of this device was reset, or released once.
void forget_primary_words(unsigned library, int device);
void forget_held_stream(std::uint64_t handle);

/// Before a submission: counts it, and may hold its stream. `address` and `above` are for its stack.
void hold_back(Thread& thread, unsigned library, const CallData& call, Verb verb, std::uintptr_t address,
               std::uintptr_t above);

/// After a submission, if the plan says so: returns when its stream is done, or after a bounded time, because
/// the stream may wait for the host.
void wait_for_submission(Thread& thread, unsigned library, const CallData& call, Verb verb);

/// Around a call that can wait. The first returns when nothing is held.
void begin_waiting();
void end_waiting();

/// Before a capture begins: returns when no thread is submitting a wait.
void wait_for_holders();

} // namespace watch
