// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstring>

namespace cuevent::sim {

/// A copy of `depth` layers of `height` rows of `width` bytes.
struct Box {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t width = 0, height = 1, depth = 1;
  std::size_t to_pitch = 0, to_layer = 0, from_pitch = 0, from_layer = 0;
  bool pageable_source = false, pageable_target = false;

  std::size_t bytes() const { return width * height * depth; }
  template <class Row>
  void for_each_row(Row row) const {
    for (std::size_t z = 0; z < depth; ++z)
      for (std::size_t y = 0; y < height; ++y)
        row(to + z * to_layer + y * to_pitch, from + z * from_layer + y * from_pitch);
  }
  void copy() const {
    for_each_row([this](std::byte* target, const std::byte* source) { std::memmove(target, source, width); });
  }
};

} // namespace cuevent::sim
