// SPDX-License-Identifier: MIT
// A job that hangs in the simulator's NCCL: nccl_ranks NAME RANKS. check-hang-nccl has the same jobs with
// PyTorch. Rank 1 makes the mistake. Its kernel `spin` is endless: the test names it in
// CUEVENT_SIM_ENDLESS_KERNEL.
#include "../../sim/nccl/nccl.hpp"
#include "../../watch/test/programs.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

void expect(ncclResult_t result) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "NCCL: %s: %s\n", ncclGetErrorString(result), ncclGetLastError(nullptr));
  std::exit(3);
}

constexpr const char* spin = "_Z4spinPjy";

class Rank {
public:
  Rank(int number, int ranks, const ncclUniqueId& id) {
    ::expect(cuInit(0));
    ::expect(cuDevicePrimaryCtxRetain(&context, number));
    ::expect(cuCtxSetCurrent(context));
    compute = stream(), communicator_ = stream();
    ::expect(cuEventCreate(&done_, CU_EVENT_DISABLE_TIMING));
    ::expect(cuMemAlloc(&memory_, 4096));
    const std::string code = std::string(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry ") +
                             spin + "() { ret; }\n";
    CUmodule module = nullptr;
    ::expect(cuModuleLoadData(&module, code.c_str()));
    ::expect(cuModuleGetFunction(&spin_, module, spin));
    expect(ncclCommInitRank(&comm_, ranks, id, number));
  }

  CUstream stream() const {
    CUstream made = nullptr;
    ::expect(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    return made;
  }
  void reduce() const {
    collective([&] { return ncclAllReduce(at(), at(), 256, nccl_float32, nccl_sum, comm_, communicator_); });
  }
  void gather() const {
    collective([&] { return ncclAllGather(at(), at(), 32, nccl_float32, comm_, communicator_); });
  }
  /// As PyTorch does: on the stream of the computation.
  void barrier() const {
    expect(ncclAllReduce(at(), at(), 1, nccl_float32, nccl_sum, comm_, compute));
    synchronize();
  }
  void compute_without_end(CUstream on) const {
    ::expect(cuLaunchKernel(spin_, 1, 1, 1, 1, 1, 1, 0, on, nullptr, nullptr));
  }
  void compute_without_end() const { compute_without_end(compute); }
  void synchronize() const { ::expect(cuStreamSynchronize(compute)); }

  CUcontext context = nullptr;
  CUstream compute = nullptr;

private:
  void* at() const { return reinterpret_cast<void*>(memory_); }
  void wait(CUstream waiting, CUstream stream) const {
    ::expect(cuEventRecord(done_, stream));
    ::expect(cuStreamWaitEvent(waiting, done_, 0));
  }
  /// As PyTorch does: on a stream of the communicator, after the computation.
  template <class Submit>
  void collective(Submit submit) const {
    wait(communicator_, compute);
    expect(submit());
    wait(compute, communicator_);
  }

  CUstream communicator_ = nullptr;
  CUevent done_ = nullptr;
  CUdeviceptr memory_ = 0;
  CUfunction spin_ = nullptr;
  ncclComm_t comm_ = nullptr;
};

[[gnu::noinline]] void load_batch(const Rank& rank) {
  ::expect(cuStreamSynchronize(rank.compute));
  std::this_thread::sleep_for(60s);
}

[[gnu::noinline]] void stuck_kernel(const Rank& rank) {
  rank.compute_without_end();
  rank.reduce();
  ::expect(cuStreamSynchronize(rank.compute));
}

[[gnu::noinline]] void finish_early(const Rank& rank) { rank.barrier(); }

std::mutex lock;

[[gnu::noinline]] void hold_lock(const Rank& rank) {
  const std::lock_guard held(lock);
  ::expect(cuCtxSetCurrent(rank.context));
  const CUstream own = rank.stream();
  rank.compute_without_end(own);
  ::expect(cuStreamSynchronize(own));
}

void run(const Rank& rank, bool makes_mistake, const std::string& cause) {
  for (int i = 0; i < 3; ++i) {
    rank.reduce();
    rank.gather();
    rank.synchronize();
  }
  if (makes_mistake && cause == "late") {
    load_batch(rank);
  } else if (makes_mistake && cause == "stuck_kernel") {
    stuck_kernel(rank);
  } else if (makes_mistake && cause == "barrier") {
    finish_early(rank);
  } else if (makes_mistake && cause == "host_deadlock") {
    std::thread([&] { hold_lock(rank); }).detach();
    std::this_thread::sleep_for(500ms);
    lock.lock();
  } else if (!makes_mistake || cause != "skipped") {
    rank.reduce();
  }
  rank.gather();
  rank.synchronize();
}

} // namespace

int main(int argc, char** argv) {
  std::thread([] {
    std::this_thread::sleep_for(60s);
    _exit(1);
  }).detach();
  ncclUniqueId id{};
  if (argc < 3) return 2;
  const int ranks = std::atoi(argv[2]);
  if (argc == 5) { // this is a rank
    std::strncpy(id.internal, argv[4], sizeof id.internal - 1);
    const int rank = std::atoi(argv[3]);
    run(Rank(rank, ranks, id), rank == 1, argv[1]);
    return 0;
  }
  expect(ncclGetUniqueId(&id));
  for (int rank = 0; rank < ranks; ++rank)
    if (fork() == 0) {
      const std::string number = std::to_string(rank);
      setenv("RANK", number.c_str(), 1);
      setenv("WORLD_SIZE", argv[2], 1);
      execl("/proc/self/exe", argv[0], argv[1], argv[2], number.c_str(), id.internal, nullptr);
      _exit(127);
    }
  while (wait(nullptr) > 0) {
  }
}
