// SPDX-License-Identifier: MIT
// PyTorch's native allocator divides memory of the driver into blocks, and gives them away again without a
// call of the driver. It tells its observers about each block, and the auditor is one of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <link.h>

namespace watch {

/// Where PyTorch is. Null if this process has none, or one whose observers are not known.
struct TorchAllocator {
  std::atomic<void*>* current = nullptr; // the allocator that the program uses: an object of C++
  // The functions of another allocator, whose places in its table are those of every allocator.
  void* const* table = nullptr;
  std::size_t table_size = 0; // words
  void* add_observer = nullptr;
  void* is_initialized = nullptr;
  bool tells_pool = false;                // an event has the pool of its block
  std::atomic<std::uint32_t> is_observed; // not 0: the auditor is an observer, or has failed to become one
};

/// The loader has mapped a library of the program.
void find_torch_allocator(const link_map& map);

/// Before a call that allocates memory: becomes an observer once the allocator exists.
void observe_torch_allocator();

} // namespace watch
