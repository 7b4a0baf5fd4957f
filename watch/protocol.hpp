// SPDX-License-Identifier: MIT
// The file in which a watched process tells `cuevent watch` about its calls. Both map it. The process makes
// it in the folder that CUEVENT_WATCH names when it loads libcuda, and makes another one after a fork.
#pragma once

#include <atomic>
#include <cstdint>

namespace watch {

inline constexpr std::uint32_t protocol_version = 2; // changes with any type of this file and with calls.hpp

inline constexpr std::uint32_t folder_limit = 200; // bytes of the name of the folder, with its end
inline constexpr std::uint32_t thread_limit = 4096;
inline constexpr std::uint32_t module_limit = 4096;
inline constexpr std::uint32_t record_limit = 1U << 18; // a power of two
inline constexpr std::uint32_t stack_limit = 1U << 16;  // a power of two
inline constexpr std::uint32_t frame_limit = 1U << 21;  // of all stacks together
inline constexpr std::uint32_t depth_limit = 48;        // frames of one stack
inline constexpr std::uint32_t text_limit = 2048;       // bytes of the Python frames of one stack

/// Which calls get a stack.
enum class Stacks : std::uint32_t { none, usual, all };

/// What happened in a call, and what does not fit in the other numbers of a record.
enum Mark : std::uint8_t {
  per_thread = 1, // the variant for per-thread default streams
  refused = 2,    // the driver was not called, because it would have crashed
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

struct Record {
  std::atomic<std::uint32_t> stamp; // the number of the record + 1 when it is complete
  std::uint32_t reserved;
  CallData call;
};

/// The call that a thread is in.
struct ThreadSlot {
  std::atomic<std::uint32_t> thread; // its number in the system, 0 for a free slot
  std::atomic<std::uint32_t> inside; // whether `call` is under way
  CallData call;
};

/// A file that is mapped into the process. `closed` is 0 while it is.
struct Module {
  std::uint64_t base;
  std::uint32_t opened, closed; // the number of the next record at that time + 1
  char path[240];
};

struct Region {
  std::uint32_t version;
  std::uint32_t process;
  Stacks stacks;
  std::uint32_t python; // not 0: Python frames for all stacks, and not only for those of failed calls
  std::atomic<std::uint32_t> abandoned; // nobody reads any more: the process stops writing
  std::atomic<std::uint32_t> lost;      // records that found no room
  std::atomic<std::uint32_t> module_count;
  std::atomic<std::uint32_t> stack_count;
  std::atomic<std::uint32_t> frame_count;
  alignas(64) std::atomic<std::uint64_t> written; // records begun
  alignas(64) std::atomic<std::uint64_t> read;    // records taken out
  ThreadSlot threads[thread_limit];
  Module modules[module_limit];
  std::atomic<std::uint32_t> stacks_by_hash[stack_limit]; // where each begins in `frames`, + 1; 0 for none
  // Of each stack: the number of its addresses + 2^32 times the number of words of its Python frames; then
  // both.
  std::uint64_t frames[frame_limit];
  Record records[record_limit];
};

} // namespace watch
