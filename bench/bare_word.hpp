// SPDX-License-Identifier: MIT
#pragma once

#include <gpu.hpp>
#include <shared_memory.hpp>

#include <cuevent/timeline_semaphore.hpp>

#include <cstddef>
#include <cstdint>

/// A word of shared memory, with the bare calls, loads and stores that a semaphore is made of.
class BareWord {
public:
  static constexpr std::size_t bytes = 4096;

  BareWord(const gpu::Gpu& gpu, const gpu::SharedMemory& memory, int line)
      : address_(memory.address() + static_cast<CUdeviceptr>(line) * 64),
        write_(gpu.driver, "cuStreamWriteValue64", 11070), wait_(gpu.driver, "cuStreamWaitValue64", 11070) {}

  void signal(CUstream stream, std::uint64_t value) const { write_(stream, address_, value, 0); }
  void signal(std::uint64_t value) const { __atomic_store_n(word(), value, __ATOMIC_RELEASE); }
  void wait(CUstream stream, std::uint64_t value, cuevent::WaitOrder) const {
    wait_(stream, address_, value, CU_STREAM_WAIT_VALUE_GEQ);
  }
  bool reached(std::uint64_t value) const { return __atomic_load_n(word(), __ATOMIC_ACQUIRE) >= value; }

private:
  std::uint64_t* word() const { return reinterpret_cast<std::uint64_t*>(address_); }

  CUdeviceptr address_;
  gpu::Call<PFN_cuStreamWriteValue64_v11070> write_;
  gpu::Call<PFN_cuStreamWaitValue64_v11070> wait_;
};
