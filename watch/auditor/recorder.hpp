// SPDX-License-Identifier: MIT
// Writes the calls of this process into its file.
#pragma once

#include "auditor/state.hpp"
#include "protocol/protocol.hpp"
#include "protocol/ticks.hpp"

#include <link.h>

namespace watch {

// What every call needs is inline here, and what it rarely needs is not: a call finds little of this code in
// the processor's caches.

/// Makes the file. `known` is any library of the namespace whose libraries are to be listed.
void start_recording(const link_map& known);

/// Gives the calling thread its place in the file, which is made if there is none yet. False if its calls are
/// not recorded.
bool adopt_thread();

/// Whether the thread has its place in the file of this process.
inline bool is_adopted(const Thread& thread) {
  return thread.generation != 0 &&
         thread.generation == cleared_by_fork->generation.load(std::memory_order_acquire);
}

/// The calling thread, or null if its calls are not recorded.
inline Thread* this_thread() {
  if (!is_adopted(current_thread)) [[unlikely]]
    if (!adopt_thread()) return nullptr;
  return region->abandoned.load(std::memory_order_relaxed) != 0 ? nullptr : &current_thread;
}

/// Announces the call, so that it is known if it never returns.
inline void begin_call(Thread& thread, const CallData& call) {
  thread.slot->call = call;
  thread.slot->inside.store(1, std::memory_order_release);
  // No cache holds the record that will be written. It comes while the driver's function runs.
  __builtin_prefetch(&region->records[region->written.load(std::memory_order_relaxed) & region->record_mask],
                     1);
}

/// The call has returned, or will not be made.
inline void end_call(Thread& thread) { thread.slot->inside.store(0, std::memory_order_release); }

/// Whether the reader has taken the record that was in the same place.
inline bool has_room_for(std::uint64_t number) {
  return number - region->read.load(std::memory_order_acquire) <= region->record_mask;
}

/// Returns when there is room for the record with this number. False if nobody reads any more.
bool wait_for_room(std::uint64_t number);

inline std::uint32_t coarse_time() {
  return static_cast<std::uint32_t>((ticks() - region->first_tick) >> coarse_shift);
}

/// Hands a call to the reader. It waits while the reader is too far behind, except in quiet mode.
inline void record(const CallData& call) {
  const std::uint64_t number = region->written.fetch_add(1, std::memory_order_relaxed);
  Record& place = region->records[number & region->record_mask];
  if (region->overwrites != 0) { // a reader sees that the record is changing
    place.stamp.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  } else if (!has_room_for(number)) [[unlikely]] {
    if (!wait_for_room(number)) return;
  }
  place.call = call;
  place.time = coarse_time();
  place.stamp.store(static_cast<std::uint32_t>(number) + 1, std::memory_order_release);
}

/// The same, not inline.
void record_apart(const CallData& call);

/// Whether the reader has made room in the thread's own records.
bool finds_room_for_launch(Thread& thread);

/// Hands a launch to the reader, whose record `write` writes, with three words at most.
template <class Write>
[[gnu::always_inline]] inline void record_launch(Thread& thread, Write write) {
  ThreadSlot& slot = *thread.slot;
  const std::uint64_t number = slot.launches;
  if (number >= slot.launches_up_to && !finds_room_for_launch(thread)) [[unlikely]] {
    CallData call{};
    write(call);
    return record_apart(call);
  }
  Record& place = thread.launches->records[number % launch_limit];
  write(place.call);
  place.call.words[3] = region->written.load(std::memory_order_relaxed);
  place.time = coarse_time();
  place.stamp.store(static_cast<std::uint32_t>(number) + 1, std::memory_order_release);
  slot.launches = number + 1;
}

/// Whether the command has ended. If so, nothing is recorded any more.
bool has_lost_reader();

/// The program has run its last destructor.
void note_exit();

/// Whether the region has memory for these bytes of what grows in it. Without it, a file system that is full
/// would end the program.
bool has_memory(const void* begin, std::size_t size);

void add_module(const link_map& module);
void close_module(const link_map& module);

} // namespace watch
