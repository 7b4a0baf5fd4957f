// SPDX-License-Identifier: MIT
// All that the auditor remembers. There are no other variables: watch/test/check-watch looks for them.
//
// What becomes of it in a forked child depends on where it is:
// - ClearedByFork: the child finds zeros, because the kernel clears the memory. Here is what belongs to one
//   process: its threads; locks, which no thread of the child would release; and whatever is found by a
//   handle of the driver, because the child has none of its parent's objects.
// - State: the child keeps it. Here is what is true of the program: its environment, libraries, functions.
// - Region: the child has its parent's until its first call. Then it makes its own: start() of recorder.cpp.
// - Thread: the child's thread keeps it. Its `generation` is of the parent's file, so the next call begins
//   with adopt_thread(), which sets all of it.
#pragma once

#include "auditor/asked_memory.hpp"
#include "auditor/c_library.hpp"
#include "auditor/captures.hpp"
#include "auditor/first_launches.hpp"
#include "auditor/gone_streams.hpp"
#include "auditor/held_streams.hpp"
#include "auditor/host_functions.hpp"
#include "auditor/host_guards.hpp"
#include "auditor/interprocess_events.hpp"
#include "auditor/jitter.hpp"
#include "auditor/kernel_parameters.hpp"
#include "auditor/launch_numbers.hpp"
#include "auditor/libraries.hpp"
#include "auditor/lock.hpp"
#include "auditor/looker.hpp"
#include "auditor/memory.hpp"
#include "auditor/only_context.hpp"
#include "auditor/options.hpp"
#include "auditor/pending_sources.hpp"
#include "auditor/pinned_memory.hpp"
#include "auditor/probed_streams.hpp"
#include "auditor/program_functions.hpp"
#include "auditor/python_frames.hpp"
#include "auditor/quiet_mode.hpp"
#include "auditor/segv_handler.hpp"
#include "auditor/torch_allocator.hpp"
#include "protocol/protocol.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <link.h>

namespace watch {

struct CachedStack;

/// A use of memory that nobody has explained.
struct LastFault {
  std::uintptr_t place = 0, address = 0;
  std::uint64_t tick = 0;
};

/// Zeros are valid: nothing is known, and nobody holds a lock.
struct ClearedByFork {
  // What every launch needs comes first.
  std::atomic<std::uint32_t> generation; // 0: this process has no file yet, or has tried in vain
  std::atomic<std::uint32_t> failed;     // the file could not be made
  OnlyContext context;
  Captures captures;
  FirstLaunches first_launches;
  struct {
    Lock starting;  // one thread makes the file
    Lock stacks;    // Region::stacks_by_hash
    Lock modules;   // Region::modules
    Lock names;     // Region::names
    Lock libraries; // State::libraries
    Lock segv;      // State::segv
  } locks;
  std::atomic<std::uint32_t> report_wanted; // in quiet mode
  MemoryBounds memory;
  AskedAddresses asked;
  InterprocessEvents interprocess_events;
  LaunchNumbers launch_numbers;
  KernelParameters parameters;
  Streams streams;
  Looker looker;
  HeldStreams held;
  HostFunctions host_functions;
  PinnedMemory pinned;
  PendingSources sources;
  HostUses uses;
  GoneStreams gone_streams;
};

/// What stacks.cpp knows of the unwinder.
struct Unwinder {
  std::atomic<std::uint32_t> known; // 0: not yet asked
  std::uint64_t own_table[16];      // of the unwinder, which no version fills
};

/// The file of this process. Before the first call of a forked child, of its parent.
struct OwnFile {
  char published[folder_limit + 60]; // its name, which the reader removes
  bool grows;                        // it has memory only for what was written
  std::uint32_t last_generation;     // of this process and its ancestors
};

/// Of zeros when the library is loaded, so that it takes no room in the file. What every call needs comes
/// first, and has a large alignment: see meson.build.
struct alignas(128) State {
  ClearedByFork* cleared_by_fork = nullptr;
  Region* region = nullptr;
  alignas(64) Library libraries[library_limit];
  ProgramFunctions program_functions;
  Options options{};
  JitterPlan jitter_plan{};
  const link_map* some_library = nullptr; // from which the other libraries are found
  OwnFile file{};
  std::atomic<std::uint32_t> initialized; // not 0: cuInit has succeeded here, or in an ancestor
  QuietMode quiet{};
  Python python;
  TorchAllocator torch_allocator{};
  CLibrary c_library{};
  SegvHandler segv{};
  Guards guards{}; // of this process, or of the one that has forked it
  Unwinder unwinder{};
  std::atomic<CachedStack*> stacks[thread_limit]{}; // by slot; whoever gets the slot gets the memory
  std::atomic<std::uint64_t> tick_rate{};           // ticks in 2^20 ns, or 0
};
extern State state;

/// Null before `prepare_state`, and if the kernel is older than Linux 4.14.
inline constexpr ClearedByFork*& cleared_by_fork = state.cleared_by_fork;

/// The memory that the reader sees. Valid after `this_thread` returned a thread.
inline constexpr Region*& region = state.region;

/// What the auditor knows of one thread of the program.
struct Thread {
  std::uint32_t generation = 0; // of the file that `slot` is in
  std::uint32_t number = 0;
  ThreadSlot* slot = nullptr;
  LaunchRing* launches = nullptr; // null for some threads
  // For stacks.cpp.
  CachedStack* stacks = nullptr;
  std::uint32_t next_way = 0;
  // For probes.hpp.
  std::uint32_t uncounted = 0; // submissions that their stream has not counted yet, and that stream
  std::uint64_t uncounted_handle = 0, uncounted_context = 0;
  std::uint64_t no_probe_before = 0; // this tick
  Stream* last_stream = nullptr;     // that was found
  bool is_due = false;               // the submission under way is to be counted, and may get a probe
  bool has_long_queue = false;       // the stream that has counted last may be about half full
  LastFault last_fault;              // for segv_handler.cpp
};

// With an alignment of 64, for a line of the cache, the loader of arm64 would refuse the auditor.
static_assert(alignof(Thread) <= 16);

/// Initialised for each thread by the loader; needs no call when it is used.
extern __thread Thread current_thread __attribute__((tls_model("initial-exec")));

/// False if there is no memory.
bool prepare_state();

/// Zeros that the kernel clears in a forked child. Null if there is no memory.
void* memory_cleared_by_fork(std::size_t size);

} // namespace watch
