// SPDX-License-Identifier: MIT
// Several GPUs compute in chunks and sum each chunk over all GPUs with NCCL. The sums run on a separate
// stream, so the GPUs sum finished chunks while they compute the next ones. Only DriverEvents order the two
// streams. The host submits all steps and waits for nothing. The stage timer shows how much of the summing
// overlaps with the computation, compared with the same work in sequence. Exit code 1: a sum was wrong; 77:
// there are fewer than two GPUs.
#include "../support/gpu.hpp"

#include <cuevent/stage_timer.hpp>

#include <nccl.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using cuevent::DriverEvent;
using cuevent::StageId;
using cuevent::StageReport;
using cuevent::StageSpan;
using cuevent::StageTimer;

namespace {

constexpr std::size_t chunks = 8;
constexpr std::size_t count = 8 << 20; // numbers in a chunk: 32 MiB
constexpr std::uint32_t rounds = 512;  // of arithmetic for each number
constexpr int steps = 16;              // few enough that the host never has to wait for room in a stream

constexpr char ptx[] = R"(
.version 7.0
.target sm_50
.address_size 64

.visible .entry compute(.param .u64 numbers, .param .u32 rank, .param .u32 rounds) {
  .reg .pred %more;
  .reg .b32 %block, %block_size, %thread, %i, %x, %rank, %rounds;
  .reg .b64 %numbers, %offset;
  mov.u32 %block, %ctaid.x;
  mov.u32 %block_size, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %i, %block, %block_size, %thread;
  mul.wide.u32 %offset, %i, 4;
  ld.param.u64 %numbers, [numbers];
  cvta.to.global.u64 %numbers, %numbers;
  add.u64 %numbers, %numbers, %offset;
  ld.param.u32 %rank, [rank];
  ld.param.u32 %rounds, [rounds];
  ld.global.u32 %x, [%numbers];
  add.u32 %x, %x, %i;
again:
  mad.lo.u32 %x, %x, 3, %rank;
  sub.u32 %rounds, %rounds, 1;
  setp.ne.u32 %more, %rounds, 0;
  @%more bra again;
  st.global.u32 [%numbers], %x;
  ret;
}
)";

/// The result of the kernel for one number.
std::uint32_t computed(std::uint32_t x, std::uint32_t i, std::uint32_t rank) {
  x += i;
  for (std::uint32_t round = 0; round < rounds; ++round)
    x = x * 3 + rank;
  return x;
}

void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) throw std::runtime_error(std::string(call) + ": " + ncclGetErrorString(result));
}

enum class Order { in_sequence, overlapped };

/// The times of all steps together on one GPU, in ms.
struct Times {
  double computing = 0, reducing = 0;
  double elapsed = 0; // from the first start to the last end
};

Times times_of(const StageReport& report) {
  const auto ms = [](cuevent::DeviceTime time) { return time.count() / 1e6; };
  const auto begins = [](const StageSpan& a, const StageSpan& b) { return a.begin < b.begin; };
  const auto ends = [](const StageSpan& a, const StageSpan& b) { return a.end < b.end; };
  const std::vector<StageSpan>& spans = report.spans;
  return {.computing = ms(report.stages[0].total),
          .reducing = ms(report.stages[1].total),
          .elapsed = ms(std::max_element(spans.begin(), spans.end(), ends)->end -
                        std::min_element(spans.begin(), spans.end(), begins)->begin)};
}

/// A GPU and its part of the work. It belongs to one thread.
class Rank {
public:
  Rank(int rank, int ranks, ncclComm_t comm)
      : gpu_(cuevent::Driver::instance(), rank), rank_(static_cast<std::uint32_t>(rank)),
        ranks_(static_cast<std::uint32_t>(ranks)), comm_(comm) {
    gpu_.module_get_function(&compute_, module_, "compute");
    for (std::size_t i = 0; i < chunks; ++i) {
      computed_[i] = DriverEvent(gpu_.context);
      reduced_[i] = DriverEvent(gpu_.context);
    }
  }

  /// Submits all steps, waits until they are complete, and returns their times.
  Times run(Order order) {
    gpu_.fill(numbers_, 0, chunks * count * sizeof(std::uint32_t), computing_);
    StageTimer timer(gpu_.context);
    const StageId compute = timer.stage("compute"), reduce = timer.stage("all-reduce");
    timer.add_stream(computing_, "computing");
    timer.add_stream(reducing_, "reducing");
    for (int step = 0; step < steps; ++step)
      for (std::size_t i = 0; i < chunks; ++i) {
        const CUdeviceptr chunk = numbers_ + i * count * sizeof(std::uint32_t);
        reduced_[i].wait(computing_); // this step computes with the sum of the previous step
        timer.open(computing_, compute);
        launch(chunk);
        timer.close(computing_);
        computed_[i].record(computing_);

        computed_[i].wait(reducing_);
        timer.open(reducing_, reduce);
        all_reduce(chunk);
        timer.close(reducing_);
        reduced_[i].record(reducing_);
        if (order == Order::in_sequence) reduced_[i].wait(computing_);
      }
    for (const DriverEvent& event : reduced_)
      event.synchronize();
    timer.collect();
    return times_of(timer.report());
  }

  /// Whether the sums are correct after all steps. Each step uses the sums of the previous step.
  bool is_right() const {
    std::vector<std::uint32_t> sums(count);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      gpu_.copy_to_host(sums.data(), numbers_ + chunk * count * sizeof sums[0], count * sizeof sums[0],
                        computing_);
      DriverEvent copied(gpu_.context);
      copied.record(computing_);
      copied.synchronize();
      for (std::uint32_t i = 0; i < count; i += 9'973) {
        std::uint32_t expected = 0;
        for (int step = 0; step < steps; ++step) {
          std::uint32_t sum = 0;
          for (std::uint32_t rank = 0; rank < ranks_; ++rank)
            sum += computed(expected, i, rank);
          expected = sum;
        }
        if (sums[i] != expected) return false;
      }
    }
    return true;
  }

private:
  void launch(CUdeviceptr chunk) {
    constexpr unsigned block = 256;
    std::uint32_t work = rounds;
    void* arguments[] = {&chunk, &rank_, &work};
    gpu_.launch_kernel(compute_, count / block, 1, 1, block, 1, 1, 0, computing_, arguments, nullptr);
  }

  void all_reduce(CUdeviceptr chunk) {
    void* const numbers =
        reinterpret_cast<void*>(chunk); // NOLINT(performance-no-int-to-ptr): NCCL's type for it
    check(ncclAllReduce(numbers, numbers, count, ncclUint32, ncclSum, comm_, reducing_), "ncclAllReduce");
  }

  gpu::Gpu gpu_;
  std::uint32_t rank_;
  const std::uint32_t ranks_;
  ncclComm_t comm_;
  gpu::Module module_ = gpu_.module(ptx);
  CUfunction compute_ = nullptr;
  gpu::DeviceMemory numbers_ = gpu_.device_memory(chunks * count);
  // The few blocks of NCCL go first. Otherwise they would wait for the many blocks of the kernel.
  gpu::Stream computing_ = gpu_.stream(), reducing_ = gpu_.urgent_stream();
  std::array<DriverEvent, chunks> computed_, reduced_;
};

struct Outcome {
  Times in_sequence, overlapped;
  bool right = false;
};

Outcome run(int rank, int ranks, ncclComm_t comm, std::barrier<>& start) {
  Rank mine(rank, ranks, comm);
  Outcome outcome;
  outcome.right = true;
  for (const bool warm_up : {true, false})
    for (const Order order : {Order::in_sequence, Order::overlapped}) {
      start.arrive_and_wait();
      const Times times = mine.run(order);
      outcome.right = mine.is_right() && outcome.right;
      if (!warm_up) (order == Order::in_sequence ? outcome.in_sequence : outcome.overlapped) = times;
    }
  return outcome;
}

} // namespace

int main() try {
  const cuevent::Driver& driver = cuevent::Driver::instance();
  int ranks = 0;
  gpu::Call<PFN_cuDeviceGetCount_v2000>(driver, "cuDeviceGetCount", 2000)(&ranks);
  if (ranks < 2 || gpu::Gpu().simulated()) {
    std::puts("skipped: this needs two GPUs or more");
    return 77;
  }
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(ranks));
  check(ncclCommInitAll(comms.data(), ranks, nullptr), "ncclCommInitAll");

  std::vector<Outcome> outcomes(comms.size());
  std::barrier start(ranks);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < comms.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        outcomes[i] = run(static_cast<int>(i), ranks, comms[i], start);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "GPU %zu: %s\n", i, error.what());
        std::_Exit(1); // the other GPUs would wait for this one forever
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  for (ncclComm_t comm : comms)
    ncclCommDestroy(comm);

  std::printf("%d GPUs, a step: %zu chunks of %zu MiB, each computed and then summed over the GPUs; means of "
              "%d steps, in ms\n\n",
              ranks, chunks, count * sizeof(std::uint32_t) >> 20, steps);
  std::printf("  %-5s %12s %12s %12s %12s %12s\n", "", "computing", "all-reduce", "in sequence", "overlapped",
              "hidden");
  bool right = true;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const auto& [sequence, overlapped, mine_right] = outcomes[i];
    std::printf("  GPU %zu %12.3f %12.3f %12.3f %12.3f %10.1f %%\n", i, sequence.computing / steps,
                sequence.reducing / steps, sequence.elapsed / steps, overlapped.elapsed / steps,
                100 * (sequence.elapsed - overlapped.elapsed) / sequence.reducing);
    right = right && mine_right;
  }
  std::puts(right ? "\nAll sums are right." : "\nA sum is WRONG.");
  return right ? 0 : 1;
} catch (const cuevent::DriverUnavailable& error) {
  std::puts(error.what());
  return 77;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
