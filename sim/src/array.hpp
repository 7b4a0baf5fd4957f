// SPDX-License-Identifier: MIT
#pragma once

#include "context.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace cuevent::sim {

/// The bytes of an array. A device orders them as it likes. Here, they are one row behind the other.
class ArrayMemory {
public:
  explicit ArrayMemory(std::size_t bytes) : bytes_(bytes) {}
  std::size_t bytes() const { return bytes_; }
  std::byte* start(); ///< allocates them: many arrays are made and never copied to

private:
  std::size_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

struct Array : Object {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  Birthplace home;
  bool level = false;                  ///< of a mipmapped array
  std::shared_ptr<ArrayMemory> memory; ///< null for a deferred or sparse array: nothing is mapped there
};

struct MipmappedArray : Object {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  Birthplace home;
  std::vector<std::shared_ptr<Array>> levels;
};

/// What a texture or surface object was made from.
struct BoundMemory {
  bool surface = false;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  std::optional<CUDA_RESOURCE_VIEW_DESC> view{};
};

/// A format of three channels of ten bits, and one of two: CU_AD_FORMAT_UNORM_INT_101010_2, since CUDA 12.8.
inline constexpr int ten_bits = 0x50;

/// Whether the format is one of blocks of 4 x 4 elements.
bool is_compressed(CUarray_format);

/// The bytes of one element. Zero for compressed blocks, and if no array has this format with this number of
/// channels.
std::size_t element_bytes(CUarray_format, unsigned channels);

} // namespace cuevent::sim
