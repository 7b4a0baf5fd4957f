// SPDX-License-Identifier: MIT
// The file in which a watched process tells `cuevent watch` about its calls. Both map it. The process makes
// it in the folder that CUEVENT_WATCH names when it loads libcuda, and makes another one after a fork.
#pragma once

#include "protocol/calls.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace watch {

inline constexpr std::uint32_t protocol_version = 17; // changes with any type of this file and with calls.hpp

inline constexpr std::uint32_t folder_limit = 200; // bytes of the name of the folder, with its end
/// A file in the folder that the reader has locked as long as it lives.
inline constexpr char reader_lock[] = "reader";
inline constexpr std::uint32_t thread_limit = 4096;
inline constexpr std::uint32_t module_limit = 4096;
inline constexpr std::uint32_t longest_path = 4096;  // with its end
inline constexpr std::uint32_t path_room = 1U << 20; // bytes of all paths of modules
// The records of a region: a power of two. Those that a reader takes out are few, for they take room that the
// program may need itself.
inline constexpr std::uint32_t record_limit = 1U << 18, records_taken_out = 1U << 16;
inline constexpr std::uint32_t launch_ring_limit = 64; // threads whose launches have records of their own
inline constexpr std::uint32_t launch_limit = 256;     // of each; a power of two
inline constexpr std::uint32_t stack_limit = 1U << 16; // a power of two
inline constexpr std::uint32_t frame_limit = 1U << 21; // of all stacks together
inline constexpr std::uint32_t depth_limit = 48;       // frames of one stack
inline constexpr std::uint32_t text_limit = 2048;      // bytes of the Python frames of one stack

inline constexpr std::uint32_t stream_limit = 1024;
inline constexpr std::uint32_t name_limit = 1U << 15; // a power of two
inline constexpr std::uint32_t name_room = 1U << 21;  // bytes of all names of kernels
inline constexpr std::uint32_t longest_name = 500;    // bytes of one name, with its end

/// The number that a probe has in place of an index into entry_data.
inline constexpr std::uint16_t probe_entry = 0xFFFF;
/// The number that tells of an event of a graph, before the graph is instantiated.
inline constexpr std::uint16_t graph_event_entry = 0xFFFE;
/// The number that tells of a submission that was held, or that overtook one: its stream, the number of that
/// stream + 2^32 times its own on it, the time in microseconds or 0, and the index into entry_data +
/// 2^32 times the time since the first context was made, in microseconds.
inline constexpr std::uint16_t hold_entry = 0xFFFD;
/// The number that tells which memory the next call of the same thread uses: see MemoryPart.
inline constexpr std::uint16_t memory_entry = 0xFFFC;
/// The number that tells how long a call of the thread took, with Feature::costs. Its words are the index
/// into entry_data + 2^16 times the ticks, and what the kind of the call has: the address of memory that was
/// made or freed; 1 for a copy of memory that is pageable; of a function of the program that has run on a
/// stream, the ticks when it began and when it was submitted, and the stream. The smallest.
inline constexpr std::uint16_t spent_entry = 0xFFFB;

/// In place of the entry in MemoryPart::source_changed: the stack is where the host writes.
inline constexpr std::uint64_t changed_here = 0xFFFE;

/// As what a copy names memory: a function or a structure says it, or the address decides.
enum class Named : std::uint8_t { of_device, of_host, by_address };

/// The first word of such a record, and what the others are.
enum class MemoryPart : std::uint8_t {
  allocated = 1,     // address, size
  allocated_host,    // the same, of memory that the host sees; 1 if it was the host's before
  freed,             // address, and the stream or 0
  read,              // address, width of a row, pitch << 32 | Named << 30 | rows
  written,           // the same
  pointers,          // up to three parameters of a kernel
  words_inside,      // up to three words of larger parameters
  unknown,           // nothing: a kernel whose parameters are not known
  place,             // the numbers of the stream and of the submission on the stream; with jitter only
  told_host,         // the stream: what the call is about to submit may tell the host how far the stream is
  after,             // up to three nodes that come before the one that the call adds to a graph
  dependency,        // two nodes of a graph: the second one comes after the first one
  allocated_managed, // address, size: the host sees it, and copies that name it as the host's wait
  mapped,            // address, size, handle
  handle,            // of memory that can be mapped, and 1 if somebody else sees it
  unmapped,          // address, size
  variable,          // of a module: address, size
  found,             // address, size: no watched call has allocated it, and the driver knows it
  array,             // nothing: the call uses an array
  // Of no call, but of PyTorch's allocator, with the stack: address, size; 0 if the usual pool has it
  block_allocated,
  block_freed,    // the same
  source,         // of a copy that is looked at until the copy begins: its number, or 0 if it is not
  source_changed, // the number, and the entry and the stack of the call that is about to be made, or 0xFFFF
  target,         // of a copy that the host must not use yet: its number, or 0 if nobody would see it
  target_used,    // the number, 1 if the host writes, and the stack
};

/// Which calls get a stack.
enum class Stacks : std::uint32_t { none, usual, all };

/// What the auditor does in addition to writing records; each is a bit of Region::features.
enum Feature : std::uint32_t {
  probes = 1,         // records events of its own on the program's streams
  blocking_calls = 2, // gives stacks to copies without a stream, which can block
  jitter = 4,         // holds streams back: see jitter_plan.hpp
  memory_use = 8,     // records which memory calls use, and gives these calls stacks
  costs = 16,         // records how long calls took that cost the host or a stream time: see spent_entry
  host_uses = 32,     // with memory_use: lets uses by the host fail that come too early: see host_guards.hpp
};

/// What happened in a call, and what does not fit in the other numbers of a record.
enum Mark : std::uint8_t {
  per_thread = 1, // the variant for per-thread default streams
  refused = 2,    // the driver was not called, because it would have crashed
  null_handle = 4 // times a HandleKind: the first handle of a failed call that is null
};

/// What a null handle would have been. A null stream is a default stream, and no mistake.
enum class HandleKind : std::uint8_t {
  none,
  event,
  graph,
  exec,
  node,
  context,
  green_context,
  function,
  module,
  library,
  kernel,
  pool,
  user_object,
  array,
  mipmapped_array,
  graphics_resource,
  external_semaphore,
};

struct CallData {
  std::uint16_t entry; // index into entry_data
  std::uint8_t marks;
  std::uint8_t count; // of words
  std::uint32_t thread;
  std::uint32_t result;
  std::uint32_t stack;   // number of the stack, 0 for none
  std::uint64_t context; // that was current; 0 if the call does not depend on it
  std::uint64_t words[4];
};

/// What a parent had done before it forked this process.
enum Forked : std::uint32_t { not_forked, had_loaded, had_initialized };

/// Fills a line of the cache.
struct alignas(64) Record {
  std::atomic<std::uint32_t> stamp; // the number of the record + 1 when it is complete
  std::uint32_t time;               // when the call returned: ticks since `first_tick`, >> coarse_shift
  CallData call;
};

/// The call that a thread is in.
struct alignas(64) ThreadSlot {
  std::atomic<std::uint32_t> thread; // its number in the system, 0 for a free slot
  std::atomic<std::uint32_t> inside; // whether `call` is under way
  CallData call;
  std::uint64_t begun;               // the tick at which the call began
  std::atomic<std::uint32_t> python; // a stack of Python frames, taken by the last look; 0 for none
  // Used by the thread alone: its launches in its LaunchRing, and how many there may be.
  std::uint64_t launches, launches_up_to;
};

/// Launches of one thread. Its records need no number among those of all threads, for which the processor
/// would have to wait until all that the driver has stored has left it. The last word of such a record is
/// `Region::written` when the launch returned: it comes before the record with that number.
struct LaunchRing {
  Record records[launch_limit];
  std::atomic<std::uint64_t> taken; // by the reader
};

/// A stream on which the auditor records events of its own, called probes. They are numbered from 1.
struct alignas(64) ProbedStream {
  std::atomic<std::uint32_t> used;     // 1 while the stream is known, 2 after it was destroyed
  std::uint32_t thread;                // of a per-thread stream, else 0
  std::uint64_t handle, context;       // of default streams: CU_STREAM_LEGACY or _PER_THREAD, and its context
  std::atomic<std::uint64_t> recorded; // the number of the last probe
  std::atomic<std::uint64_t> reached;  // the number of the last one that is known to be reached
  std::atomic<std::uint32_t> result;   // of the last query, if it was neither success nor "not ready"
  std::atomic<std::uint32_t> looked;   // the last look that asked this stream, see Region::look_done
  // Not 0: the next look records a probe too, for the reader knows of work behind the last one. Nobody knows
  // otherwise: most submissions get no probe.
  std::atomic<std::uint32_t> probe_wanted;
};

/// The name of a kernel, by its CUfunction or CUkernel.
struct Name {
  std::atomic<std::uint64_t> handle; // 0 for a free place
  std::atomic<std::uint32_t> text;   // where it begins in `name_text`
};

/// A file that is mapped into the process. `closed` is 0 while it is.
struct Module {
  std::uint64_t base;
  std::uint32_t opened, closed; // the number of the next record at that time + 1
  std::uint32_t path;           // where it begins in `path_text`
};

struct Region {
  std::uint32_t version;
  std::uint32_t process;           // its number in `name_space`
  std::atomic<std::uint32_t> lost; // records that found no room
  std::atomic<std::uint32_t> slots_used,
      slots_seen;                               // of `threads`: the next unused one, the next to be looked at
  std::atomic<std::uint32_t> lost_threads;      // calls of threads that found no slot
  std::atomic<std::uint32_t> lost_libraries;    // copies of libcuda whose calls are not watched
  std::atomic<std::uint8_t> newer[entry_count]; // not 0: the program has a newer version of this function
  std::atomic<std::uint32_t> module_count;
  std::atomic<std::uint32_t> stack_count;
  std::atomic<std::uint32_t> frame_count;
  std::uint32_t forked;     // of a forked child, else 0: what its parent had done, a Forked
  std::uint32_t parent;     // of a forked child: the number of its parent in `name_space`
  std::uint64_t name_space; // the inode of /proc/self/ns/pid, 0 if unknown
  std::int64_t first_time;  // of `first_tick`: ns of CLOCK_MONOTONIC
  // The reader adds 1 to `look_wanted` and wakes a thread of the auditor (futex), which then asks the driver
  // how far the streams are, and sets `look_done` to the number of the look that it has done.
  std::atomic<std::uint32_t> look_wanted, look_done;
  std::atomic<std::uint32_t> exited;      // not 0: the process has returned from main, or called exit
  std::atomic<std::uint32_t> cannot_hold; // not 0: nothing can be held in a context of this process
  // What every call uses, in one line of the cache.
  alignas(64) std::atomic<std::uint64_t> written; // records begun
  std::uint64_t first_tick;                       // of the clock of ticks.hpp
  Stacks stacks;
  std::uint32_t features;
  std::uint32_t overwrites;                    // not 0: records are overwritten if nobody reads them
  std::uint32_t launches_need_more;            // not 0: than a record, and a probe now and then
  std::uint64_t record_mask;                   // the number of records - 1
  std::atomic<std::uint32_t> abandoned;        // nobody reads any more: the process stops writing
  alignas(64) std::atomic<std::uint64_t> read; // records taken out
  ThreadSlot threads[thread_limit];
  ProbedStream streams[stream_limit];
  Name names[name_limit]; // by a hash of the handle
  std::atomic<std::uint32_t> name_size;
  Module modules[module_limit];
  std::atomic<std::uint32_t> path_size;
  std::atomic<std::uint32_t> stacks_by_hash[stack_limit]; // where each begins in `frames`, + 1; 0 for none
  LaunchRing launches[launch_ring_limit];                 // of the first slots
  // What grows. The file has no memory here until something is written: only the process itself may touch it,
  // and a reader reads it as a file.
  alignas(4096) char name_text[name_room];
  char path_text[path_room]; // begins with an empty path
  // Of each stack: the number of its addresses + 2^32 times the number of words of its Python frames; then
  // both.
  std::uint64_t frames[frame_limit];
  alignas(4096) Record records[record_limit]; // of which the file has the first ones only
};

/// Of the file, in bytes.
constexpr std::size_t region_size(std::uint64_t records) {
  return offsetof(Region, records) + static_cast<std::size_t>(records) * sizeof(Record);
}

} // namespace watch
