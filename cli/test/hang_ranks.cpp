// SPDX-License-Identifier: MIT
// One rank of a job that hangs, or that is healthy and still at the moment: hang_ranks NAME, with RANK and
// WORLD_SIZE. It is linked with libcuda, and its kernels have the names of NCCL's. Rank 3 makes the mistake.
// On the simulated driver, `stuck` is the kernel of a collective that never ends: the test names it in
// CUEVENT_SIM_ENDLESS_KERNEL. A rank ends when nobody reads its output any more.

#include "../../watch/test/programs.hpp"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

constexpr const char* reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
constexpr const char* gather = "ncclDevKernel_AllGather_RING_LL";
constexpr const char* exchange = "ncclDevKernel_SendRecv";

/// Another symbol with the same name: "_Z22ncclDevKernel_SendRecvv" is ncclDevKernel_SendRecv().
std::string stuck(const char* kernel) { return "_Z" + std::to_string(std::strlen(kernel)) + kernel + "v"; }

class Rank : public Gpu {
public:
  explicit Rank(int number) : rank(number), makes_mistake(number == 3) {
    std::string image = ".version 7.0\n.target sm_75\n.address_size 64\n";
    for (const char* kernel : {reduce, gather, exchange, "step", "_Z4spinPjy"})
      for (const std::string& symbol : {std::string(kernel), stuck(kernel)})
        image += ".visible .entry " + symbol + "() { ret; }\n";
    CUmodule module = nullptr;
    expect(cuModuleLoadData(&module, image.c_str()));
    for (const char* kernel : {reduce, gather, exchange, "step", "_Z4spinPjy"})
      for (const std::string& symbol : {std::string(kernel), stuck(kernel)})
        expect(cuModuleGetFunction(&functions_[symbol], module, symbol.c_str()));
    done_ = event();
    expect(cuMemHostAlloc(reinterpret_cast<void**>(&word_), sizeof *word_, 0));
    *word_ = 0;
    std::thread([] {
      pollfd output{STDOUT_FILENO, 0, 0};
      while (poll(&output, 1, -1) < 0 && errno == EINTR) {
      }
      _exit(0);
    }).detach();
  }

  void launch(const std::string& kernel, CUstream stream) const {
    expect(cuLaunchKernel(functions_.at(kernel), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  }
  void wait(CUstream waiting, CUstream stream) const {
    expect(cuEventRecord(done_, stream));
    expect(cuStreamWaitEvent(waiting, done_, 0));
  }
  /// As PyTorch does: on a stream of the communicator, after the computation.
  void collective(const std::string& kernel) const {
    wait(communicator, compute);
    launch(kernel, communicator);
    wait(compute, communicator);
  }
  /// Numbers 1 to `count`: odd ones are all-reduces, and even ones all-gathers.
  void steps(int count) const {
    for (int i = 1; i <= count; ++i) {
      launch("step", compute);
      collective(i % 2 == 1 ? reduce : gather);
    }
    expect(cuStreamSynchronize(compute));
    std::this_thread::sleep_for(5ms); // so that the last collectives have places of their own
    tell_begun();
  }
  /// A test waits for this line of each rank.
  void tell_begun() const {
    if (!has_told_) std::puts("begun"), std::fflush(stdout);
    has_told_ = true;
  }
  void wait_for_gradients() const { expect(cuStreamSynchronize(compute)); }
  void close_gate(CUstream stream) const {
    expect(cuStreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(word_), 1, CU_STREAM_WAIT_VALUE_GEQ));
  }

  const int rank;
  const bool makes_mistake;
  const CUstream compute = a, communicator = b;

private:
  std::map<std::string, CUfunction> functions_;
  CUevent done_ = nullptr;
  mutable bool has_told_ = false;
  unsigned* word_ = nullptr;
};

void stay() {
  for (;;)
    pause();
}

[[gnu::noinline]] void load_batch(const Rank& rank) {
  expect(cuEventRecord(rank.event(), rank.compute));
  stay();
}

void late(const Rank& rank) {
  rank.steps(16);
  if (rank.makes_mistake) return load_batch(rank);
  rank.collective(stuck(reduce));
  rank.collective(gather);
  rank.wait_for_gradients();
}

[[gnu::noinline]] void skip_reduction(const Rank& rank) {
  rank.collective(stuck(gather));
  expect(cuStreamSynchronize(rank.compute));
}

void skipped(const Rank& rank) {
  if (!rank.makes_mistake) return late(rank);
  rank.steps(16);
  skip_reduction(rank);
}

[[gnu::noinline]] void swap_reductions(const Rank& rank) {
  rank.collective(stuck(gather));
  rank.collective(reduce);
  expect(cuStreamSynchronize(rank.compute));
}

void swapped(const Rank& rank) {
  if (!rank.makes_mistake) return late(rank);
  rank.steps(16);
  swap_reductions(rank);
}

[[gnu::noinline]] void compute_without_end(const Rank& rank) {
  rank.launch("_Z4spinPjy", rank.compute);
  rank.collective(reduce);
  expect(cuStreamSynchronize(rank.compute));
}

void stuck_kernel(const Rank& rank) {
  if (!rank.makes_mistake) return late(rank);
  rank.steps(16);
  compute_without_end(rank);
}

std::mutex callback_lock;

[[gnu::noinline]] void hold_lock(const Rank& rank) {
  const std::lock_guard lock(callback_lock);
  expect(cuCtxSetCurrent(rank.context));
  const CUstream own = rank.stream();
  rank.close_gate(own); // the main thread would open it
  expect(cuStreamSynchronize(own));
}

void host_deadlock(const Rank& rank) {
  if (!rank.makes_mistake) return late(rank);
  rank.steps(16);
  std::thread holder([&] { hold_lock(rank); });
  while (callback_lock.try_lock()) { // until the other thread has it
    callback_lock.unlock();
    std::this_thread::sleep_for(1ms);
  }
  const std::lock_guard lock(callback_lock);
  holder.join();
}

// Healthy jobs. Some stand still: the first stage loads data for a long time.

/// A stage has done more than the next one. All but the first wait for the stage before.
void pipeline(const Rank& rank) {
  rank.steps(16 - rank.rank);
  if (rank.rank == 0) return stay();
  rank.collective(stuck(exchange));
  rank.wait_for_gradients();
}

/// Pairs of ranks share their tensors. The pairs are the stages of a pipeline.
void tensor(const Rank& rank) {
  rank.steps(16 - rank.rank / 2);
  if (rank.rank < 2) return stay();
  rank.collective(stuck(exchange));
  rank.wait_for_gradients();
}

/// Each rank sends what another one receives.
void send_receive(const Rank& rank) {
  for (int i = 0; i < 5 + rank.rank; ++i)
    rank.collective(exchange);
  rank.wait_for_gradients();
  if (rank.rank == 0) return stay();
  rank.collective(stuck(exchange));
  rank.wait_for_gradients();
}

/// The ranks are in the middle of their steps, and move.
void data(const Rank& rank) {
  for (int i = 0;; ++i) {
    rank.steps(3 + rank.rank % 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + 7 * rank.rank));
  }
}

void replays(const Rank& rank) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  expect(cuStreamBeginCapture(rank.compute, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  rank.launch("step", rank.compute);
  rank.collective(reduce);
  rank.collective(gather);
  expect(cuStreamEndCapture(rank.compute, &graph));
  expect(cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int i = 0;; ++i) {
    expect(cuGraphLaunch(exec, rank.compute));
    if (i % 4 == 3) rank.wait_for_gradients();
    if (i == 20) rank.tell_begun();
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + 7 * rank.rank));
  }
}

constexpr struct {
  const char* name;
  void (*run)(const Rank&);
} jobs[] = {{"late", late},
            {"skipped", skipped},
            {"swapped", swapped},
            {"stuck-kernel", stuck_kernel},
            {"host-deadlock", host_deadlock},
            {"pipeline", pipeline},
            {"tensor", tensor},
            {"send-receive", send_receive},
            {"data", data},
            {"replays", replays}};

} // namespace

int main(int argc, char** argv) {
  const char* const number = std::getenv("RANK");
  for (const auto& job : jobs)
    if (argc == 2 && number != nullptr && std::strcmp(argv[1], job.name) == 0) {
      job.run(Rank(std::atoi(number)));
      return 0;
    }
  std::fprintf(stderr, "usage: RANK=N hang_ranks NAME\n");
  return 2;
}
