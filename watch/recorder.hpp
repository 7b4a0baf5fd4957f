// SPDX-License-Identifier: MIT
// Writes the calls of this process into its file.
#pragma once

#include "protocol.hpp"

#include <link.h>

namespace watch {

struct CachedStack;

/// What the auditor knows of one thread of the program.
struct Thread {
  std::uint32_t generation = 0; // of the file that `slot` is in
  std::uint32_t number = 0;
  ThreadSlot* slot = nullptr;
  CachedStack* stacks = nullptr;
  std::uint32_t next_way = 0; // for stacks.cpp
  // For probes.cpp.
  std::uint32_t uncounted = 0; // submissions that their stream has not counted yet, and that stream
  std::uint64_t uncounted_handle = 0, uncounted_context = 0;
  bool is_due = false;         // the submission under way is to be counted, and may get a probe
  bool has_long_queue = false; // the stream that has counted last may be about half full
};

/// The file of this process. Valid after `this_thread` returned a thread.
extern Region* region;

/// Remembers the options of the environment. False if there is nothing to do.
bool read_environment();

/// Makes the file. `known` is any library of the namespace whose libraries are to be listed.
void start_recording(const link_map& known);

/// The calling thread, or null if its calls are not recorded.
[[gnu::hot]] Thread* this_thread();

/// Announces the call, so that it is known if it never returns.
[[gnu::hot]] void begin_call(Thread& thread, const CallData& call);

/// The call has returned, or will not be made.
[[gnu::hot]] void end_call(Thread& thread);

/// Hands a call to the reader. It waits while the reader is too far behind, except in quiet mode.
[[gnu::hot]] void record(const CallData& call);

/// The program has run its last destructor.
void note_exit();

void add_module(const link_map& module);
void close_module(const link_map& module);

} // namespace watch
