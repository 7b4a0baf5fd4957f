// SPDX-License-Identifier: MIT
#include "auditor/after_fork.hpp"

#include "auditor/kernel_calls.hpp"

#include <sys/mman.h>

namespace watch {

Bases bases{};

bool prepare_cleared_by_fork() {
  cleared_by_fork = static_cast<ClearedByFork*>(memory_cleared_by_fork(sizeof(ClearedByFork)));
  return cleared_by_fork != nullptr; // of zeros, which are valid values
}

void* memory_cleared_by_fork(std::size_t size) {
  void* const place = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  if (madvise(place, size, MADV_WIPEONFORK) == 0) return place;
  munmap(place, size);
  return nullptr;
}

Locked::Locked(std::atomic<std::uint32_t>& lock) : lock_(lock) {
  for (unsigned tries = 0; lock_.exchange(1, std::memory_order_acquire) != 0; ++tries)
    if (tries > 100) sleep_microseconds(20);
}

TryLocked::TryLocked(std::atomic<std::uint32_t>& lock, long patience_us) : lock_(lock), holds_(true) {
  constexpr long pause_us = 20;
  for (unsigned tries = 0; lock_.exchange(1, std::memory_order_acquire) != 0; ++tries) {
    if (tries <= 100) continue;
    if ((patience_us -= pause_us) < 0) {
      holds_ = false;
      return;
    }
    sleep_microseconds(pause_us);
  }
}

} // namespace watch
