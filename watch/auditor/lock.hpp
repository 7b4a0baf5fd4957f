// SPDX-License-Identifier: MIT
// Locks that never sleep in the C library. They are in memory that a forked child finds cleared, because no
// thread of the child would release them.
#pragma once

#include <atomic>
#include <cstdint>

namespace watch {

using Lock = std::atomic<std::uint32_t>; // 0: nobody holds it

class Locked {
public:
  explicit Locked(Lock& lock);
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() { lock_.store(0, std::memory_order_release); }

private:
  Lock& lock_;
};

/// The same, but it gives up if the lock stays taken for too long.
class TryLocked {
public:
  TryLocked(Lock& lock, long patience_us);
  TryLocked(const TryLocked&) = delete;
  TryLocked& operator=(const TryLocked&) = delete;
  ~TryLocked() {
    if (holds_) lock_.store(0, std::memory_order_release);
  }
  explicit operator bool() const { return holds_; }

private:
  Lock& lock_;
  bool holds_;
};

} // namespace watch
