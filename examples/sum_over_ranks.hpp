// SPDX-License-Identifier: MIT
// The sum of a buffer over all ranks, on a stream: with NCCL on a device, with MPI on the simulated driver.
#pragma once

#include "../support/gpu.hpp"
#include "mpi_ranks.hpp"

#ifdef WITH_NCCL
#include <nccl.h>
#endif

#include <memory>
#include <stdexcept>
#include <string>

namespace ranks {

class SumOverRanks {
public:
  /// `most` is the largest number of numbers in a buffer. All ranks make one.
  SumOverRanks(const Mpi& mpi, const gpu::Gpu& gpu, std::size_t most)
      : gpu_(gpu), host_(gpu.pinned_memory(most)) {
#ifdef WITH_NCCL
    if (gpu.simulated()) return;
    ncclUniqueId id{};
    if (mpi.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    check(ncclCommInitRank(&comm_, mpi.size(), id, mpi.rank()), "ncclCommInitRank");
#else
    static_cast<void>(mpi);
#endif
  }
  SumOverRanks(const SumOverRanks&) = delete;
  SumOverRanks& operator=(const SumOverRanks&) = delete;
  ~SumOverRanks() {
#ifdef WITH_NCCL
    if (comm_ != nullptr) ncclCommDestroy(comm_);
#endif
  }

  const char* name() const {
#ifdef WITH_NCCL
    if (comm_ != nullptr) return "NCCL";
#endif
    return "MPI on the host";
  }

  /// Submits the sum. All ranks call this in the same order, for one stream.
  void submit(CUdeviceptr numbers, std::size_t count, CUstream stream) {
#ifdef WITH_NCCL
    if (comm_ != nullptr) {
      void* const memory = reinterpret_cast<void*>(numbers); // NOLINT(performance-no-int-to-ptr): NCCL's type
      check(ncclAllReduce(memory, memory, count, ncclUint32, ncclSum, comm_, stream), "ncclAllReduce");
      return;
    }
#endif
    gpu_.copy_to_host(host_, numbers, count * sizeof(int), stream);
    gpu_.launch_host_function(stream, sum, std::make_unique<Buffer>(Buffer{host_, count}).release());
    gpu_.copy_to_device(numbers, host_, count * sizeof(int), stream);
  }

private:
  struct Buffer {
    int* numbers;
    std::size_t count;
  };
  static void CUDA_CB sum(void* data) {
    const std::unique_ptr<Buffer> buffer(static_cast<Buffer*>(data));
    MPI_Allreduce(MPI_IN_PLACE, buffer->numbers, static_cast<int>(buffer->count), MPI_UINT32_T, MPI_SUM,
                  MPI_COMM_WORLD);
  }
#ifdef WITH_NCCL
  static void check(ncclResult_t result, const char* call) {
    if (result != ncclSuccess)
      throw std::runtime_error(std::string(call) + ": " + ncclGetErrorString(result));
  }
  ncclComm_t comm_ = nullptr;
#endif
  const gpu::Gpu& gpu_;
  gpu::PinnedMemory host_;
};

} // namespace ranks
