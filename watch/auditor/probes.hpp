// SPDX-License-Identifier: MIT
// Probes: events of the auditor's own, recorded on the program's streams after work. A probe that is reached
// says that the work before it is done.
//
// A probe takes 1 to 3 us. On average, at most one is recorded in 100 us, or in 256 times what it takes, and
// in quiet mode in 2 ms.
//
// All functions are to be called around the driver's function, if the feature `probes` is on. `library` is
// the index of the copy of libcuda.
#pragma once

#include "auditor/captures.hpp"
#include "auditor/recorder.hpp"

namespace watch {

/// Before a call that is not a submission, and before a wait for a value, which is one.
void before_call(Thread& thread, unsigned library, const CallData& call, Verb verb);

/// After a successful cuStreamWaitEvent.
void after_wait(const CallData& call);

/// The stream of a call that has one.
inline std::uint64_t stream_of(const CallData& call, Verb verb) {
  return call.words[verb == Verb::graph_launch || verb == Verb::event_record ? 1 : 0];
}

/// A stream counts this many submissions of a thread at once, or fewer if a probe is due.
inline constexpr std::uint32_t calls_between_counts = 32;

/// The rare parts of the two functions below.
void prepare_probe(Thread& thread, unsigned library, const CallData& call, Verb verb);
void count_submissions(Thread& thread);
void count_and_probe(Thread& thread, const CallData& call, Verb verb);
void note_work_beside_capture(const CallData& call, Verb verb);

/// Whether the submission under way is to be counted, or may get a probe.
inline bool is_due(const Thread& thread) {
  return thread.uncounted + 1 >= calls_between_counts || thread.slot->begun >= thread.no_probe_before;
}

/// Around a call that submits work. Most such calls only add one to a number of their thread.
inline void before_submission(Thread& thread, unsigned library, const CallData& call, Verb verb) {
  thread.is_due = is_due(thread);
  if (thread.is_due) [[unlikely]]
    prepare_probe(thread, library, call, verb);
}

inline void after_submission(Thread& thread, const CallData& call, Verb verb) {
  if (captures_are_active()) [[unlikely]]
    return note_work_beside_capture(call, verb);
  const std::uint64_t handle = stream_of(call, verb);
  const std::uint64_t context = is_default_stream(handle) ? call.context : 0;
  if (handle != thread.uncounted_handle || context != thread.uncounted_context) [[unlikely]] {
    count_submissions(thread);
    thread.uncounted_handle = handle;
    thread.uncounted_context = context;
  }
  ++thread.uncounted;
  if (thread.is_due) [[unlikely]]
    count_and_probe(thread, call, verb);
}

} // namespace watch
