// SPDX-License-Identifier: MIT
// Memory that several processes share and that the GPU of each can reach.
#pragma once

#include "gpu.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace gpu {

/// The memory of a descriptor, mapped and pinned. All streams must be done with it before it ends.
class SharedMemory {
public:
  /// A descriptor of new memory, closed by exec.
  static int create(std::size_t bytes) {
    const int descriptor = memfd_create("shared memory", MFD_CLOEXEC);
    if (descriptor < 0 || ftruncate(descriptor, static_cast<off_t>(bytes)) != 0)
      throw std::runtime_error("no memory to share");
    return descriptor;
  }

  SharedMemory(const Gpu& gpu, int descriptor, std::size_t bytes)
      : memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)), bytes_(bytes),
        unregister_(gpu.driver, "cuMemHostUnregister", 4000) {
    if (memory_ == MAP_FAILED) throw std::runtime_error("the shared memory cannot be mapped");
    const Call<PFN_cuMemHostRegister_v6050> pin(gpu.driver, "cuMemHostRegister", 6050);
    pin(memory_, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() {
    unregister_.or_report(memory_);
    munmap(memory_, bytes_);
  }

  void* memory() const { return memory_; }
  CUdeviceptr address() const { return reinterpret_cast<std::uintptr_t>(memory_); }

private:
  void* memory_;
  std::size_t bytes_;
  Call<PFN_cuMemHostUnregister_v4000> unregister_;
};

} // namespace gpu
