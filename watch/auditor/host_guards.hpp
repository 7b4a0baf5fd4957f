// SPDX-License-Identifier: MIT
// Guards, with Feature::host_uses: pages of pinned memory that the host must not use yet, because a pending
// copy writes or reads them. The kernel forbids the use, and so the program's thread gets a SIGSEGV, which
// segv_handler.cpp takes, or it is about to pass the memory to the kernel, which c_library.cpp sees. Either
// gives the pages back at once, and the looker then asks whether the copy was still pending.
//
// A guard has whole pages of the copy's range only. It is given back as soon as the copy is known to be done.
// Giving back needs no lock: a signal handler does it, and any thread of a forked child.
#pragma once

#include "auditor/lock.hpp"
#include "auditor/pending_sources.hpp"
#include "auditor/probed_streams.hpp"
#include "auditor/taken_stack.hpp"
#include "protocol/protocol.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace watch {

struct Thread;

enum class GuardKind : std::uint32_t {
  target = 1, // of a copy that is not done: the host neither reads nor writes it
  source,     // of a copy that has not begun: the host does not write it
};

struct Guard {
  std::atomic<std::uint64_t> number;     // of the copy, counted for its kind; 0 for a free place
  std::atomic<std::uint64_t> begin, end; // equal: nothing is forbidden yet
  std::atomic<GuardKind> kind;
  std::atomic<Stream*> stream;
  std::atomic<std::uint64_t> handle; // of the stream
  std::atomic<std::uint64_t> probe;  // that is reached when the guard is not needed any more
  // A thread is about to forbid the use, and gives the guard back itself if somebody else wants to.
  std::atomic<std::uint32_t> is_changing, is_unwanted;
};

/// A forked child has the same pages, and may use them.
struct Guards {
  static constexpr std::uint32_t limit = 64;

  std::atomic<std::uint32_t> count; // of `places` that are in use
  Guard places[limit];              // taken under HostUses::lock
};

/// The host has used what was guarded.
struct HostUse {
  enum State : std::uint32_t { none, in_work, taken };
  std::atomic<std::uint32_t> state;
  GuardKind kind;
  std::uint32_t thread;
  bool is_write;
  std::uint64_t number, handle, probe;
  Stream* stream;
  TakenStack stack;
};

struct HostUses {
  static constexpr std::uint32_t limit = 16;

  Lock lock;
  std::atomic<std::uint64_t> last;     // number of a copy whose target is guarded
  std::atomic<std::uint32_t> is_on;    // in this process, and not in its forked children
  std::atomic<std::uint32_t> is_over;  // nothing is guarded any more
  std::atomic<std::uint32_t> is_fork;  // threads that are in fork()
  std::atomic<std::uint32_t> news;     // wakes the looker
  std::atomic<std::uint32_t> unjudged; // uses
  HostUse uses[limit];
};

/// What the device writes of the host's memory, as one row.
struct Target {
  std::uint64_t begin = 0, size = 0;
};

// The overloads take the arguments of the driver's functions.
template <class... Arguments>
Target target_of(Arguments...) {
  return {};
}
Target target_of(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream);
Target target_of(void* to, CUdeviceptr from, std::size_t size, CUstream);
Target target_of(void* to, CUarray, std::size_t, std::size_t size, CUstream);
Target target_of(const CUDA_MEMCPY2D* copy, CUstream);

/// What becomes a guard when the call is recorded.
struct GuardedTarget {
  Target pages = {}; // size 0: the target has none that can be guarded
  Guard* guard = nullptr;
  std::uint64_t number = 0;
};

/// Before the copy.
GuardedTarget begin_target(unsigned library, const CallData& call, const Target& target);
/// After it has succeeded, before its record.
void note_target(Thread& thread, GuardedTarget& target, const CallData& call);
/// After its record.
void guard_target(const GuardedTarget& target);
/// The same for the source that has this number among the pending ones.
void guard_source(const SourceProbe& probe, std::uint64_t number);

/// After a call from which the program may know that copies are done. Asks the driver.
void give_back_reached();
void give_back_all();
void give_back_in(std::uint64_t begin, std::uint64_t end);
void give_back_source(std::uint64_t number);
void give_back_guards_of(const Stream& stream);
/// Nothing is guarded from now on.
void end_guards();
/// Whether a read of this memory would fail.
bool is_target_guarded(std::uint64_t begin, std::uint64_t end);

/// From the looker, whose calls of this library are in relaxed mode. Returns whether there are any.
bool look_at_guards(bool (&is_relaxed)[library_limit]);
/// Whether the looker has something to look at.
bool has_host_uses();

/// Where the program uses memory.
struct UsePlace {
  std::uintptr_t pc;
  bool is_interrupted;   // there; otherwise a call returns there
  bool has_room_to_walk; // on the stack of this thread
};

/// Gives back the guards that have a byte of the range and forbid the use. Tells the use, unless the place is
/// null. Returns whether there were any. Signal handlers may call it.
bool note_host_use(std::uint64_t begin, std::uint64_t end, bool is_write, const UsePlace* place);

/// Around fork(): the child's memory is not guarded.
void begin_fork();
void end_fork();

} // namespace watch
