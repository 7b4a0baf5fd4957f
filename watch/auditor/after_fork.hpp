// SPDX-License-Identifier: MIT
// State that a forked child must not inherit: locks that no thread of the child will release, and the file of
// the parent. The kernel clears the page in the child.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace watch {

struct ClearedByFork {
  std::atomic<std::uint32_t> generation;          // 0: this process has no file yet, or has tried in vain
  std::atomic<std::uint32_t> captures;            // see captures.hpp
  std::atomic<std::uint64_t> context;             // see only_context.hpp
  std::atomic<std::uint32_t> starting;            // a lock: one thread makes the file
  std::atomic<std::uint32_t> stacks;              // a lock: of the table of stacks
  std::atomic<std::uint32_t> modules;             // a lock: of the table of modules
  std::atomic<std::uint32_t> events;              // a lock: of the table of interprocess events
  std::atomic<std::uint32_t> libraries;           // a lock: of the table of libcuda's functions
  std::atomic<std::uint32_t> failed;              // the file could not be made
  std::atomic<std::uint32_t> parameters;          // a lock: of the parameters of kernels
  std::atomic<std::uint32_t> names;               // a lock: of the names of kernels
  std::atomic<std::uint32_t> report_wanted;       // in quiet mode
  std::atomic<std::uint32_t> looker_started;      // or could not be
  std::atomic<std::uint64_t> capture_origins[64]; // streams on which the captures began; 0 for a free place
};

struct Region;

/// Where two things are that every call needs. So both pointers share a line of the cache.
struct alignas(128) Bases { // see meson.build
  ClearedByFork* cleared_by_fork;
  Region* region;
};
extern Bases bases;

/// Null before `prepare_cleared_by_fork`, and if the kernel is older than Linux 4.14.
inline constexpr ClearedByFork*& cleared_by_fork = bases.cleared_by_fork;

/// The file of this process. Valid after `this_thread` returned a thread.
inline constexpr Region*& region = bases.region;

bool prepare_cleared_by_fork();

/// Zeros that the kernel clears in a forked child. Null if there is no memory.
void* memory_cleared_by_fork(std::size_t size);

/// Holds a lock of the page above. It never sleeps in the C library.
class Locked {
public:
  explicit Locked(std::atomic<std::uint32_t>& lock);
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() { lock_.store(0, std::memory_order_release); }

private:
  std::atomic<std::uint32_t>& lock_;
};

/// The same, but it gives up if the lock stays taken for too long.
class TryLocked {
public:
  TryLocked(std::atomic<std::uint32_t>& lock, long patience_us);
  TryLocked(const TryLocked&) = delete;
  TryLocked& operator=(const TryLocked&) = delete;
  ~TryLocked() {
    if (holds_) lock_.store(0, std::memory_order_release);
  }
  explicit operator bool() const { return holds_; }

private:
  std::atomic<std::uint32_t>& lock_;
  bool holds_;
};

} // namespace watch
