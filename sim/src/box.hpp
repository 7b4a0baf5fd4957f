// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

namespace cuevent::sim {

/// What one end of a copy is.
enum class Memory {
  device,
  managed,
  managed_as_host, ///< named as memory of the host, or prefers the host
  pinned,          ///< or registered
  pageable,
};

/// Whether an array has memory. Without it, a sparse array has nothing there, and of a deferred one, the work
/// fails.
enum class Backing { memory, sparse, deferred };

struct End {
  std::byte* start = nullptr;
  Memory kind = Memory::device;
  std::shared_ptr<const void> array{}; ///< keeps its bytes, if they are of an array
  bool by_address = false;             ///< the call does not say where it is
  Backing backing = Backing::memory;
};

/// A copy of `depth` layers of `height` rows of `width` bytes.
struct Box {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t width = 0, height = 1, depth = 1;
  std::size_t to_pitch = 0, to_layer = 0, from_pitch = 0, from_layer = 0;
  Memory source = Memory::device, target = Memory::device;
  bool by_address = false;                              ///< of a line: both ends
  std::shared_ptr<const void> from_array{}, to_array{}; ///< as in End
  Backing from_backing = Backing::memory, to_backing = Backing::memory;

  std::size_t bytes() const { return width * height * depth; }
  template <class Row>
  void for_each_row(Row row) const {
    for (std::size_t z = 0; z < depth; ++z)
      for (std::size_t y = 0; y < height; ++y)
        row(to + z * to_layer + y * to_pitch, from + z * from_layer + y * from_pitch);
  }
  void copy() const {
    for_each_row([this](std::byte* row, const std::byte* original) { std::memmove(row, original, width); });
  }
};

/// Without managed memory, which counts as a device's.
inline bool within_host(const Box& box) {
  return box.source >= Memory::pinned && box.target >= Memory::pinned;
}

} // namespace cuevent::sim
