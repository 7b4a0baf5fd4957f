// SPDX-License-Identifier: MIT
// Data-parallel training: one process for each GPU, started by mpirun. Each rank computes gradients in
// buckets, and sums each bucket over all ranks while it computes the next one. Rank 0 prepares the batches in
// memory that all ranks share, and hands them over with a TimelineSemaphore. Each rank writes a report, and
// `cuevent merge` shows the whole job:
//
//     mpirun -n 2 data_parallel --folder reports --straggler 1
//     cuevent merge reports
//
// The straggler computes several times as long as the others. If a rank dies, the others end, and their
// reports say why. Exit code 1: a sum or a batch was wrong, or a rank was lost; 77: there are fewer GPUs than
// ranks.
#include "../support/gpu.hpp"
#include "../support/shared_memory.hpp"
#include "mpi_ranks.hpp"
#include "rank_file.hpp"
#include "sum_over_ranks.hpp"

#include <cuevent/stage_timer.hpp>
#include <cuevent/timeline_semaphore.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using cuevent::DriverEvent;
using cuevent::StageId;
using cuevent::StageScope;
using cuevent::StageTimer;
using cuevent::TimelineSemaphore;

namespace {

constexpr std::size_t buckets = 4;
constexpr std::size_t batch_bytes = 64 << 10;
constexpr auto patience = 20s; // for another rank

struct Options {
  std::string folder = ".";
  int steps = 20;
  int straggler = -1; // a rank, or none
  int slower = 4;     // how many times as long the straggler computes
  int kill = -1;      // a rank that dies in the middle
};

Options read(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw std::runtime_error(name + " needs a value");
    if (name == "--folder")
      options.folder = argv[i + 1];
    else if (name == "--steps")
      options.steps = std::stoi(argv[i + 1]);
    else if (name == "--straggler")
      options.straggler = std::stoi(argv[i + 1]);
    else if (name == "--slower")
      options.slower = std::stoi(argv[i + 1]);
    else if (name == "--kill")
      options.kill = std::stoi(argv[i + 1]);
    else
      throw std::runtime_error("there is no option " + name +
                               ": use --folder, --steps, --straggler, --slower or --kill");
  }
  return options;
}

/// Two batches in memory that all ranks share, and the number of the newest one that is ready.
class Batches {
public:
  Batches(const ranks::Mpi& mpi, const gpu::Gpu& gpu) : gpu_(gpu) {
    ranks::Sockets sockets(mpi);
    int memory = -1;
    if (mpi.rank() == 0) {
      ready_ = TimelineSemaphore(gpu.context);
      memory = gpu::SharedMemory::create(2 * batch_bytes);
      for (std::size_t other = 0; other < sockets.others(); ++other) {
        const int handle = ready_.export_handle();
        sockets.send(other, handle);
        close(handle);
        sockets.send(other, memory);
      }
    } else {
      ready_ = TimelineSemaphore::import(gpu.context, sockets.receive());
      memory = sockets.receive();
    }
    memory_.emplace(gpu, memory, 2 * batch_bytes);
    close(memory);
    MPI_Barrier(MPI_COMM_WORLD); // the handles are imported
    ready_.abandon_on_death();
  }

  /// Each byte of the batch.
  static unsigned char content(int step) { return static_cast<unsigned char>(step + 1); }

  /// Rank 0: fills the batch of this step. The batch of two steps before must be consumed.
  void prepare(int step, CUstream stream) {
    gpu_.fill(memory(step), content(step), batch_bytes, stream);
    ready_.signal(stream, static_cast<std::uint64_t>(step) + 1);
  }
  /// Makes the stream wait for the batch, and copies it.
  void copy(int step, CUdeviceptr to, CUstream stream) {
    if (!ready_.wait_when_submitted(stream, static_cast<std::uint64_t>(step) + 1, patience))
      throw std::runtime_error("rank 0 has prepared no batch for 20 s");
    copy_(to, memory(step), batch_bytes, stream);
  }

private:
  CUdeviceptr memory(int step) const {
    return memory_->address() + static_cast<std::size_t>(step % 2) * batch_bytes;
  }

  const gpu::Gpu& gpu_;
  const gpu::Call<PFN_cuMemcpyAsync_v4000> copy_{gpu_.driver, "cuMemcpyAsync", 4000};
  TimelineSemaphore ready_;
  std::optional<gpu::SharedMemory> memory_;
};

class Trainer {
public:
  Trainer(const ranks::Mpi& mpi, const gpu::Gpu& gpu, const Options& options)
      : gpu_(gpu), rank_(mpi.rank()), size_(mpi.size()),
        launches_(10 * (rank_ == options.straggler ? options.slower : 1)),
        count_(gpu.simulated() ? 16 << 10 : 8 << 20), sum_(mpi, gpu, count_), batches_(mpi, gpu),
        gradients_(gpu.device_memory(buckets * count_)),
        batch_(gpu.device_memory(batch_bytes / sizeof(int))) {
    timer_.add_stream(computing_, "computing");
    timer_.add_stream(reducing_, "reducing");
  }

  /// Submits a step. Waits only for the step before the last one.
  void step(int step) {
    DriverEvent& done = done_[static_cast<std::size_t>(step % 2)];
    if (!done.synchronize_for(patience)) throw std::runtime_error("a step takes longer than 20 s");
    if (rank_ == 0)
      batches_.prepare(step, preparing_); // all ranks have used the batch of the step before the last
    {
      const StageScope scope(timer_, computing_, forward_);
      batches_.copy(step, batch_, computing_);
      compute();
    }
    for (std::size_t i = 0; i < buckets; ++i) {
      {
        const StageScope scope(timer_, computing_, backward_);
        compute();
        gpu_.fill(bucket(i), gradient(step, rank_), count_ * sizeof(int), computing_);
      }
      timer_.record(computed_[i], computing_);
      timer_.wait(computed_[i], reducing_);
      {
        const StageScope scope(timer_, reducing_, all_reduce_);
        sum_.submit(bucket(i), count_, reducing_);
      }
      timer_.record(reduced_[i], reducing_);
    }
    for (const DriverEvent& event : reduced_)
      timer_.wait(event, computing_);
    {
      const StageScope scope(timer_, computing_, optimizer_);
      kernel_.launch(kernel_time, computing_);
    }
    done.record(computing_);
  }

  void finish() {
    for (const DriverEvent& done : done_)
      if (!done.synchronize_for(patience)) throw std::runtime_error("the last step takes longer than 20 s");
    timer_.collect();
  }

  /// Whether the sums and the batch of the last step are correct.
  bool is_right(int last_step) {
    std::uint32_t expected = 0;
    for (int rank = 0; rank < size_; ++rank)
      expected += 0x01010101U * gradient(last_step, rank);
    std::vector<std::uint32_t> numbers(buckets * count_);
    gpu_.copy_to_host(numbers.data(), gradients_, numbers.size() * sizeof numbers[0], computing_);
    std::vector<unsigned char> batch(batch_bytes);
    gpu_.copy_to_host(batch.data(), batch_, batch_bytes, computing_);
    DriverEvent copied(gpu_.context);
    copied.record(computing_);
    copied.synchronize();
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](std::uint32_t each) { return each == expected; }) &&
           std::all_of(batch.begin(), batch.end(),
                       [&](unsigned char each) { return each == Batches::content(last_step); });
  }

  StageTimer& timer() { return timer_; }
  const char* how() const { return sum_.name(); }

private:
  static constexpr auto kernel_time = 20us; // 10 us on the simulated driver

  static unsigned char gradient(int step, int rank) {
    return static_cast<unsigned char>((step + rank) % 50 + 1);
  }
  CUdeviceptr bucket(std::size_t i) const { return gradients_ + i * count_ * sizeof(int); }
  void compute() {
    for (int i = 0; i < launches_; ++i)
      kernel_.launch(kernel_time, computing_);
  }

  const gpu::Gpu& gpu_;
  const int rank_, size_, launches_;
  const std::size_t count_; // numbers in a bucket
  gpu::BusyKernel kernel_{gpu_};
  ranks::SumOverRanks sum_;
  Batches batches_;
  gpu::DeviceMemory gradients_, batch_;
  // The few blocks of NCCL go first.
  gpu::Stream preparing_ = gpu_.stream(), computing_ = gpu_.stream(), reducing_ = gpu_.urgent_stream();
  std::array<DriverEvent, buckets> computed_ = events<buckets>(), reduced_ = events<buckets>();
  std::array<DriverEvent, 2> done_ = events<2>();
  StageTimer timer_{gpu_.context};
  StageId forward_ = timer_.stage("forward"), backward_ = timer_.stage("backward"),
          all_reduce_ = timer_.stage("all-reduce"), optimizer_ = timer_.stage("optimizer");

  template <std::size_t Count>
  std::array<DriverEvent, Count> events() const {
    std::array<DriverEvent, Count> events;
    for (DriverEvent& event : events)
      event = DriverEvent(gpu_.context);
    return events;
  }
};

constexpr int warm_up = 2; // steps; the first launch of a kernel also loads it

/// Returns when the work of all ranks is complete.
void train(const ranks::Mpi& mpi, const gpu::Gpu& gpu, const Options& options, Trainer& trainer,
           ranks::RankFile& file) {
  for (int step = 0; step < warm_up; ++step)
    trainer.step(step);
  trainer.finish();
  trainer.timer().clear();
  const auto add_clock = [&] {
    const cuevent::ClockSample sample = ranks::compare_clocks(mpi, gpu.driver);
    if (mpi.rank() != 0) file.add(sample);
  };
  add_clock();
  MPI_Barrier(MPI_COMM_WORLD);
  // From here to finish(), only the sums on the host may call MPI.
  for (int step = warm_up; step < warm_up + options.steps; ++step) {
    trainer.step(step);
    if (mpi.rank() == options.kill && step == options.steps / 2) std::raise(SIGKILL);
    trainer.timer().poll();
    file.add(trainer.timer().report());
    trainer.timer().clear();
  }
  trainer.finish();
  file.add(trainer.timer().report());
  add_clock();
  MPI_Barrier(MPI_COMM_WORLD); // no rank leaves the semaphore while others use it
}

int run(const ranks::Mpi& mpi, const gpu::Gpu& gpu, const Options& options, ranks::RankFile& file) {
  if (mpi.size_of_host() != mpi.size())
    throw std::runtime_error("the ranks are on several hosts: use one host");
  Trainer trainer(mpi, gpu, options);
  try {
    train(mpi, gpu, options, trainer, file);
  } catch (const cuevent::SemaphoreAbandoned&) {
    file.fail("another rank was lost: it died without leaving the semaphore of the batches");
  } catch (const std::exception& error) {
    file.fail(error.what()); // here, because the trainer's streams may wait for a lost rank
  }
  const bool right = trainer.is_right(warm_up + options.steps - 1);
  if (!right) file.fail("a sum or a batch is WRONG");
  file.end();
  if (mpi.rank() == 0)
    std::printf("%d ranks, %d steps of %zu buckets, summed by %s\n", mpi.size(), options.steps, buckets,
                trainer.how());
  return 0;
}

} // namespace

int main(int argc, char** argv) try {
  ranks::RankFile::hold_signals();
  const Options options = read(argc, argv);
  const cuevent::Driver& driver = cuevent::Driver::instance();
  const cuevent::RankIdentity identity =
      cuevent::RankIdentity::from_environment().value_or(cuevent::RankIdentity{});
  int devices = 0;
  gpu::Call<PFN_cuDeviceGetCount_v2000>(driver, "cuDeviceGetCount", 2000)(&devices);
  const bool simulated = gpu::Gpu().simulated();
  if (!simulated && static_cast<int>(identity.size) > devices) {
    std::printf("skipped: %u ranks need %u GPUs, and there are %d\n", identity.size, identity.size, devices);
    return 77;
  }
  // Each process has a simulated driver of its own.
  const gpu::Gpu gpu(driver, simulated ? 0 : static_cast<int>(identity.local_rank));
  ranks::RankFile file(options.folder, identity, gpu.name());
  const ranks::Mpi mpi; // is not ended after an error, because that could wait for a lost rank
  try {
    return run(mpi, gpu, options, file);
  } catch (const std::exception& error) {
    file.fail(error.what());
  }
} catch (const cuevent::DriverUnavailable& error) {
  std::puts(error.what());
  return 77;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
