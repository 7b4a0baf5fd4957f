// SPDX-License-Identifier: MIT
// Fills of lines and of rows.

#include "api.hpp"
#include "box.hpp"
#include "timing.hpp"

#include <cstring>

namespace cuevent::sim {

/// A device takes any address in a capture. It refuses to instantiate a graph that fills memory that was not
/// allocated, unless the memory has been freed.
Work Api::fill_work(const CUDA_MEMSET_NODE_PARAMS& fill, bool captured) {
  const std::size_t size = fill.elementSize;
  refuse_if(size != 1 && size != 2 && size != 4, CUDA_ERROR_INVALID_VALUE);
  if (fill.width == 0 || fill.height == 0) return {}; // nothing else is looked at
  const auto address = static_cast<std::uintptr_t>(fill.dst);
  const std::size_t row = fill.width * size;
  const std::size_t bytes = fill.height == 0 ? 0 : (fill.height - 1) * fill.pitch + row;
  refuse_if(address % size != 0 || (fill.height > 1 && (fill.pitch % size != 0 || fill.pitch < row)),
            CUDA_ERROR_INVALID_VALUE);
  auto* const target = captured ? reinterpret_cast<std::byte*>(address)
                                : reachable(address, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEMSET;
  work.text = "fill " + std::to_string(row * fill.height) + " bytes";
  work.duration = timing::fill(row * fill.height);
  work.gone = unmapped_later(address, bytes);
  remember_memory(work, address, bytes);
  if (!work.gone) work.gone = released_later(address);
  const bool allocated = pinned(target, bytes);
  work.fills_nothing = !allocated && !last_freed(address);
  work.effect = [=] {
    if (!allocated) undefined("a graph fills memory that was not allocated"); // in an exec that was updated
    for (std::size_t y = 0; y < fill.height; ++y)
      if (size == 1)
        std::memset(target + y * fill.pitch, static_cast<int>(fill.value), row);
      else
        for (std::size_t x = 0; x < row; x += size)
          std::memcpy(target + y * fill.pitch + x, &fill.value, size); // the lowest bytes of the value
  };
  return work;
}

/// Without a stream, a fill of pinned or managed memory returns when it is done. Unlike a copy, a fill of
/// memory of another context waits for nothing there.
CUresult Api::fill(const CUDA_MEMSET_NODE_PARAMS& what, const CopyStream& where) {
  Work work = fill_work(what, where.stream->capture != nullptr);
  if (!work.effect) return CUDA_SUCCESS;
  if (where.stream->capture && what.height == 1) {
    auto kept = std::make_shared<NodeParameters>();
    kept->fill = what;
    kept->captured = true;
    work.parameters = std::move(kept);
  }
  if (where.named) {
    submit(where.stream, std::move(work));
    return CUDA_SUCCESS;
  }
  const bool on_device = kind_of(reinterpret_cast<const void*>(what.dst)) == Memory::device;
  const auto operation = enqueue(where.stream, std::move(work), {});
  if (!on_device) wait_for(operation, "its own fill of memory that the host sees");
  return CUDA_SUCCESS;
}

#define FILLS(bits, Value)                                                                                   \
  CUresult Api::cuMemsetD##bits##_v2(CUdeviceptr to, Value value, size_t count) {                            \
    return fill({to, 0, value, bits / 8, count, 1}, copy_stream());                                          \
  }                                                                                                          \
  CUresult Api::cuMemsetD##bits##Async(CUdeviceptr to, Value value, size_t count, CUstream where) {          \
    return fill({to, 0, value, bits / 8, count, 1}, copy_stream(where));                                     \
  }                                                                                                          \
  CUresult Api::cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, Value value, size_t width,              \
                                       size_t height) {                                                      \
    return fill({to, pitch, value, bits / 8, width, height}, copy_stream());                                 \
  }                                                                                                          \
  CUresult Api::cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, Value value, size_t width,            \
                                         size_t height, CUstream where) {                                    \
    return fill({to, pitch, value, bits / 8, width, height}, copy_stream(where));                            \
  }
FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned int)
#undef FILLS

} // namespace cuevent::sim
