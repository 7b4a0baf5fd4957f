// SPDX-License-Identifier: MIT
// Data that two processes share, in memory that both GPUs or both contexts can reach.
#pragma once

#include "participant.h"

#include <gpu.hpp>

#include <cstdint>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace test {

class DataPage {
public:
  DataPage(const gpu::Gpu& gpu, int descriptor)
      : memory_(mmap(nullptr, data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)),
        unregister_(gpu.driver, "cuMemHostUnregister", 4000) {
    if (memory_ == MAP_FAILED) throw std::runtime_error("no memory for the data");
    const gpu::Call<PFN_cuMemHostRegister_v6050> pin(gpu.driver, "cuMemHostRegister", 6050);
    pin(memory_, data_bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  }
  DataPage(const DataPage&) = delete;
  DataPage& operator=(const DataPage&) = delete;
  ~DataPage() {
    unregister_.or_report(memory_);
    munmap(memory_, data_bytes);
  }

  CUdeviceptr address() const { return reinterpret_cast<std::uintptr_t>(memory_); }

private:
  void* memory_;
  gpu::Call<PFN_cuMemHostUnregister_v4000> unregister_;
};

} // namespace test
