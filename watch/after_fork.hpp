// SPDX-License-Identifier: MIT
// State that a forked child must not inherit: locks that no thread of the child will release, and the file of
// the parent. The kernel clears the page in the child.
#pragma once

#include <atomic>
#include <cstdint>

namespace watch {

struct ClearedByFork {
  std::atomic<std::uint32_t> generation; // 0: this process has no file yet, or has tried in vain
  std::atomic<std::uint32_t> starting;   // a lock: one thread makes the file
  std::atomic<std::uint32_t> stacks;     // a lock: of the table of stacks
  std::atomic<std::uint32_t> modules;    // a lock: of the table of modules
  std::atomic<std::uint32_t> events;     // a lock: of the table of interprocess events
  std::atomic<std::uint32_t> libraries;  // a lock: of the table of libcuda's functions
  std::atomic<std::uint32_t> captures;   // that are active
  std::atomic<std::uint32_t> failed;     // the file could not be made
};

/// Null before `prepare_cleared_by_fork`, and if the kernel is older than Linux 4.14.
extern ClearedByFork* cleared_by_fork;

bool prepare_cleared_by_fork();

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

} // namespace watch
