// SPDX-License-Identifier: MIT
#include "auditor/state.hpp"

#include <sys/mman.h>

namespace watch {

constinit State state{};
constinit __thread Thread current_thread __attribute__((tls_model("initial-exec")));

bool prepare_state() {
  state.cleared_by_fork = static_cast<ClearedByFork*>(memory_cleared_by_fork(sizeof(ClearedByFork)));
  return state.cleared_by_fork != nullptr;
}

void* memory_cleared_by_fork(std::size_t size) {
  void* const place = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  if (madvise(place, size, MADV_WIPEONFORK) != 0) {
    munmap(place, size);
    return nullptr;
  }
  madvise(place, size, MADV_NOHUGEPAGE); // most of it is never used
  return place;
}

} // namespace watch
