// SPDX-License-Identifier: MIT
#include "after_fork.hpp"

#include "kernel_calls.hpp"

#include <sys/mman.h>

namespace watch {

ClearedByFork* cleared_by_fork = nullptr;

bool prepare_cleared_by_fork() {
  void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  if (madvise(page, 4096, MADV_WIPEONFORK) != 0) {
    munmap(page, 4096);
    return false;
  }
  cleared_by_fork = static_cast<ClearedByFork*>(page); // of zeros, which are valid values
  return true;
}

Locked::Locked(std::atomic<std::uint32_t>& lock) : lock_(lock) {
  for (unsigned tries = 0; lock_.exchange(1, std::memory_order_acquire) != 0; ++tries)
    if (tries > 100) sleep_microseconds(20);
}

} // namespace watch
