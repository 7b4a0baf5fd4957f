// SPDX-License-Identifier: MIT
// The streams that may be held, and the words that hold them.
#pragma once

#include "auditor/lock.hpp"

#include <atomic>
#include <cstdint>

namespace watch {

inline constexpr std::uint32_t held_stream_limit = 512;
inline constexpr std::uint32_t words_limit = 16;    // contexts, one after another or at once
inline constexpr std::uint32_t waits_limit = 32;    // of ours that are pending on a stream
inline constexpr std::uint32_t pending_limit = 500; // submissions that are pending on a stream

/// Two words of host memory that the device reaches. A stream waits for `open`, and then writes to `passed`.
struct alignas(32) StreamWords {
  std::atomic<std::uint32_t> open, passed;
};

/// The words of a context. Its own memory, so that they stay mapped when the context has ended.
struct ContextWords {
  std::atomic<std::uint64_t> context; // 0: it has ended, or was never made
  StreamWords* words;
  std::uint64_t address; // for the device
  int device;            // of a primary context, else -1
  std::atomic<std::uint32_t> used;
};

struct HeldStream {
  std::atomic<std::uint64_t> handle; // 0 for a free place
  std::uint64_t context;             // that it belongs to
  std::uint32_t thread;              // of a per-thread stream, else 0
  std::uint32_t number;
  Lock lock; // the holder submits, and changes what follows
  std::uint32_t submissions;
  StreamWords* words;                // null: there is no room
  std::uint64_t address;             // for the device
  std::atomic<std::uint32_t> issued; // writes to `passed`, most of them behind a wait
  std::atomic<std::uint32_t> opened; // of these
  std::uint32_t submissions_at[waits_limit];
  std::atomic<std::int64_t> due_us[waits_limit]; // when the wait is opened
};

struct HeldStreams {
  Lock lock;                            // of the table, and of what opens words
  std::atomic<std::uint32_t> count;     // of the places that are or were in use
  std::atomic<std::uint32_t> numbers;   // of streams
  std::atomic<std::uint32_t> ended;     // nothing is held any more
  std::atomic<std::uint32_t> waiting;   // threads in calls that can wait
  std::atomic<std::uint32_t> holding;   // threads that are submitting a wait
  std::atomic<std::uint32_t> closed;    // a futex: how often words were closed
  std::atomic<std::uint32_t> started;   // the thread that opens them
  std::atomic<std::int64_t> begun_us;   // when the first context was made
  std::atomic<std::int64_t> held_us;    // how long anything was held
  std::atomic<std::int64_t> waited_us;  // how long threads have waited for their submissions
  std::atomic<std::int64_t> held_up_to; // the time up to which something is held
  Lock contexts_lock;
  ContextWords contexts[words_limit];
  HeldStream streams[held_stream_limit];
};

/// Null if there is no room.
HeldStream* held_stream(std::uint64_t handle, std::uint64_t context, std::uint32_t thread);
void forget_held_streams(std::uint64_t handle, std::uint64_t context); // 0 for any

/// Opens the words whose time has come, or all. Returns when the next one is due, or 0 if all are open.
std::int64_t open_words(bool all);

std::int64_t microseconds_now();

} // namespace watch
