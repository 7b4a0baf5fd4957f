// SPDX-License-Identifier: MIT
// The streams on which the auditor records probes, and the events of these probes. Region::streams shows them
// to the reader. What only this process needs is here.
#pragma once

#include "auditor/libraries.hpp"
#include "auditor/lock.hpp"
#include "protocol/protocol.hpp"

namespace watch {

inline constexpr std::uint64_t ring_size = 64; // probes of one stream that can be under way

/// A stream as a call names it. The null stream has the handle of its default stream.
struct StreamName {
  std::uint64_t handle;
  std::uint64_t context; // of default streams, else 0
  std::uint32_t thread;  // of per-thread streams, else 0
};

struct alignas(64) Stream {
  // What every call uses, in one line of the cache.
  std::atomic<std::uint64_t> handle, context;
  std::atomic<std::uint32_t> thread;
  std::atomic<std::uint32_t> has_work, has_wait; // since the last probe
  std::atomic<std::uint32_t> next;               // stream of the same bucket, + 1
  std::atomic<std::uint64_t> calls;              // that submitted work
  std::atomic<std::uint64_t> probed_calls;       // those before the last probe
  std::atomic<std::uint64_t> reached_calls;      // those before the last probe that is known to be reached

  std::atomic<std::uint64_t> asked_calls; // those before the last query by the program's threads
  Lock lock;                              // whoever records, queries or destroys the events holds it
  std::atomic<std::uint32_t> creating;    // the holder creates events, and then looks again at everything
  unsigned library;                       // index of the copy of libcuda
  bool stopped;                           // no more probes: the driver refused one
  std::uint32_t late_probe_in;            // the last look that has recorded a probe
  CUevent events[ring_size];              // all or none
  std::uint64_t calls_at[ring_size];      // those before the probe of this event

  bool is(const StreamName& name) const {
    return handle.load(std::memory_order_seq_cst) == name.handle &&
           context.load(std::memory_order_relaxed) == name.context &&
           thread.load(std::memory_order_relaxed) == name.thread;
  }
};

struct Streams {
  static constexpr std::uint32_t bucket_count = 2048;

  std::atomic<std::uint64_t> probes_used_up_to;     // a tick: see probes.cpp
  Lock lock;                                        // of the buckets, for changes
  std::atomic<std::uint32_t> count;                 // of the places that are or were in use
  std::atomic<std::uint32_t> full;                  // no place was found
  std::atomic<std::uint32_t> buckets[bucket_count]; // first stream, + 1
  Stream places[stream_limit];
};

/// Null if it is not known. Takes a few nanoseconds and no lock.
[[gnu::hot]] Stream* find_stream(const StreamName& name);

/// Null if there is no room, or if others keep the table busy.
Stream* add_stream(const StreamName& name, std::uint64_t context, unsigned library);

/// The place of the stream in Region::streams.
std::uint32_t place_of(const Stream& stream);
ProbedStream& shown(const Stream& stream);

/// Asks the driver about a probe, and notes what it says. The caller holds the lock of the stream, and is in
/// relaxed capture mode.
CUresult query_probe(Stream& stream, std::uint64_t number);

/// Which streams: those that have every number that is given.
struct Selection {
  std::uint64_t handle = 0;         // 0 for any
  std::uint64_t context = 0;        // 0 for any
  unsigned library = library_limit; // library_limit for any
};

/// After the return, nobody uses these streams or their events.
void forget_streams(const Selection& which, bool destroy_events);

/// Returns when each probe that others were recording is recorded.
void wait_for_recorders();

} // namespace watch
