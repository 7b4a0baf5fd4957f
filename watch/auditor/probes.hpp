// SPDX-License-Identifier: MIT
// Probes: events of the auditor's own, recorded on the program's streams after work. A probe that is reached
// says that the work before it is done.
//
// A probe takes 1 to 3 us. On average, at most one is recorded in 100 us, or in 256 times what it takes, and
// in quiet mode in 2 ms.
//
// probe_before() and probe_after() are called around the driver's function, if the feature `probes` is on.
// `library` is the index of the copy of libcuda.
#pragma once

#include "auditor/recorder.hpp"
#include "auditor/state.hpp"
#include "protocol/calls.hpp"

namespace watch {

/// The stream of a call that has one.
inline std::uint64_t stream_of(const CallData& call, Verb verb) {
  return call.words[verb == Verb::graph_launch || verb == Verb::event_record ? 1 : 0];
}

/// A stream counts this many submissions of a thread at once, or fewer if a probe is due.
inline constexpr std::uint32_t calls_between_counts = 32;

/// Whether the submission under way is to be counted, or may get a probe.
inline bool is_due(const Thread& thread) {
  return thread.uncounted + 1 >= calls_between_counts || thread.slot->begun >= thread.no_probe_before;
}

/// Before a call that ends streams, or begins a capture.
void leave_streams(const Thread& thread, const CallData& call, Verb verb);

/// Before the call: makes its stream known, if that is possible now.
void know_stream(unsigned library, const CallData& call);

/// Records a probe on the stream that the call is about to submit to. Null if that is not possible now.
/// Waits a little while somebody asks about the stream.
Stream* record_probe(Thread& thread, unsigned library, const CallData& call, std::uint64_t& number);
/// The same behind what the call has submitted.
Stream* record_probe_behind(Thread& thread, const CallData& call, std::uint64_t& number);

/// What most submissions do not need.
void prepare_probe(Thread& thread, unsigned library, const CallData& call, Verb verb);
void note_call(Thread& thread, const CallData& call, Verb verb);

template <Verb verb>
void probe_before(Thread& thread, unsigned library, const CallData& call) {
  if constexpr (submits_work(verb)) thread.is_due = is_due(thread);
  if (!submits_work(verb) || verb == Verb::value_wait || thread.is_due ||
      stream_of(call, verb) != thread.uncounted_handle) [[unlikely]]
    prepare_probe(thread, library, call, verb);
}

/// Records a probe on a stream that has reached its last one, when nothing moves: the last submissions may
/// have got none. The looker calls it, and holds the lock. False if there is none.
bool add_late_probe(Stream& stream);

/// Whether the submission only adds one to a number of its thread: no capture is active, no probe is due, and
/// the stream is the one of the submission before.
inline bool is_routine(const Thread& thread, const CallData& call, Verb verb) {
  const std::uint64_t handle = stream_of(call, verb);
  return !cleared_by_fork->captures.are_active() && handle == thread.uncounted_handle &&
         (is_default_stream(handle) ? call.context : 0) == thread.uncounted_context && !thread.is_due;
}

/// After a call that has succeeded.
template <Verb verb>
void probe_after(Thread& thread, const CallData& call) {
  if constexpr (!submits_work(verb) && verb != Verb::stream_wait) return;
  if (submits_work(verb) && is_routine(thread, call, verb)) [[likely]]
    ++thread.uncounted;
  else
    note_call(thread, call, verb);
}

} // namespace watch
