// SPDX-License-Identifier: MIT
// What the measurements of sleeping waits share: work of a given length, the true time of its end, and the
// CPU time of threads.
#pragma once

#include "../driver_at_hand.hpp"

#include <gpu.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <pthread.h>
#include <string>
#include <thread>
#include <vector>

namespace sleeping {

using Nanoseconds = long long;

inline Nanoseconds read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}
inline Nanoseconds now() { return read_clock(CLOCK_MONOTONIC); }

/// The CPU time since the start of a measurement: of the calling thread, and of all other threads of the
/// process except the one that stamps.
class CpuTime {
public:
  explicit CpuTime(clockid_t stamper) : stamper_(stamper) {}

  Nanoseconds of_this_thread() const { return mine() - mine_; }
  Nanoseconds of_others() const { return others() - others_; }
  Nanoseconds wall() const { return now() - start_; }

private:
  static Nanoseconds mine() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }
  Nanoseconds others() const {
    const Nanoseconds stamper = read_clock(stamper_);
    return read_clock(CLOCK_PROCESS_CPUTIME_ID) - mine() - stamper;
  }

  clockid_t stamper_;
  Nanoseconds start_ = now(), mine_ = mine(), others_ = others();
};

/// Times in us, sorted.
class Distribution {
public:
  void add(Nanoseconds time) { times_.push_back(time); }
  std::size_t count() const { return times_.size(); }
  /// The time in us that the given part of all times does not exceed.
  double quantile(double part) {
    if (times_.empty()) return 0;
    const auto index = static_cast<std::ptrdiff_t>(part * static_cast<double>(times_.size() - 1));
    std::nth_element(times_.begin(), times_.begin() + index, times_.end());
    return static_cast<double>(times_[static_cast<std::size_t>(index)]) / 1000;
  }

private:
  std::vector<Nanoseconds> times_;
};

/// Kernels that write a number to pinned memory when they begin and when they end, and a thread that spins on
/// these words and stamps each change with the host's clock. The stamps are the truth. The spinning thread
/// makes no driver call.
class Testbed {
public:
  static constexpr std::size_t most_lanes = 64;

  Testbed() {
    std::fill_n(static_cast<int*>(words_), 4 * most_lanes, 0);
    stamper_ = std::thread([this] { stamp(); });
    pthread_getcpuclockid(stamper_.native_handle(), &stamper_clock_);
  }
  Testbed(const Testbed&) = delete;
  Testbed& operator=(const Testbed&) = delete;
  ~Testbed() {
    stop_ = true;
    stamper_.join();
  }

  const gpu::Gpu& gpu() const { return gpu_; }
  bool simulated() const { return simulated_; }
  CpuTime cpu_time() const { return CpuTime(stamper_clock_); }

  /// Submits a kernel that spins for `length`. A lane has one kernel at a time.
  void launch(std::size_t lane, CUstream stream, Nanoseconds length) {
    Lane& it = lanes_[lane];
    ++it.number;
    it.launched = now();
    if (simulated_) return emulate(lane, stream, length);
    CUdeviceptr words = reinterpret_cast<std::uintptr_t>(&begun(lane));
    auto nanoseconds = static_cast<std::uint64_t>(length);
    void* arguments[] = {&words, &it.number, &nanoseconds};
    gpu_.launch_kernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
  }

  /// When the newest kernel of the lane ended. Waits for the stamp, but not for the kernel.
  Nanoseconds end_of(std::size_t lane) const { return stamp_of(lanes_[lane].end, lanes_[lane].number); }
  /// The time from the launch of the newest kernel of the lane to its begin.
  Nanoseconds start_delay(std::size_t lane) const {
    return stamp_of(lanes_[lane].begin, lanes_[lane].number) - lanes_[lane].launched;
  }

private:
  struct Stamp {
    std::uint64_t number = 0;
    std::atomic<Nanoseconds> time{0};
    std::atomic<std::uint64_t> stamped{0};
  };
  struct alignas(64) Lane {
    std::uint64_t number = 0;
    Nanoseconds launched = 0;
    Stamp begin, end;
    std::uint64_t* words = nullptr; // for the simulated device
  };

  static Nanoseconds stamp_of(const Stamp& stamp, std::uint64_t number) {
    while (stamp.stamped.load(std::memory_order_acquire) < number) {
    }
    return stamp.time.load(std::memory_order_relaxed);
  }

  std::uint64_t& begun(std::size_t lane) const {
    return reinterpret_cast<std::uint64_t*>(static_cast<int*>(words_))[2 * lane];
  }
  std::uint64_t& ended(std::size_t lane) const { return (&begun(lane))[1]; }

  static void look(const std::uint64_t& word, Stamp& stamp) {
    const std::uint64_t number = __atomic_load_n(&word, __ATOMIC_ACQUIRE);
    if (number == stamp.number) return;
    stamp.time.store(now(), std::memory_order_relaxed);
    stamp.number = number;
    stamp.stamped.store(number, std::memory_order_release);
  }

  void stamp() {
    while (!stop_.load(std::memory_order_relaxed)) {
      for (std::size_t lane = 0; lane < most_lanes; ++lane) {
        look(begun(lane), lanes_[lane].begin);
        look(ended(lane), lanes_[lane].end);
      }
      if (simulated_) std::this_thread::yield(); // the simulated device needs the processor too
    }
  }

  /// Simulated kernels compute nothing, so host functions write the words.
  void emulate(std::size_t lane, CUstream stream, Nanoseconds length) {
    Lane& it = lanes_[lane];
    it.words = &begun(lane);
    gpu_.launch_host_function(
        stream, [](void* data) { ++*static_cast<Lane*>(data)->words; }, &it);
    cuevent::sim::set_kernel("work", {.duration = std::chrono::nanoseconds(length)});
    gpu_.launch_kernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
    gpu_.launch_host_function(
        stream, [](void* data) { ++static_cast<Lane*>(data)->words[1]; }, &it);
  }

  static constexpr char ptx[] = R"(
.version 7.0
.target sm_50
.address_size 64

.visible .entry work(.param .u64 words, .param .u64 number, .param .u64 time) {
  .reg .pred %early;
  .reg .b64 %now, %end, %time, %words, %number;

  mov.u64 %end, %globaltimer;
  ld.param.u64 %time, [time];
  add.u64 %end, %end, %time;
  ld.param.u64 %number, [number];
  ld.param.u64 %words, [words];
  cvta.to.global.u64 %words, %words;
  st.volatile.global.u64 [%words], %number;
again:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %early, %now, %end;
  @%early bra again;
  st.volatile.global.u64 [%words+8], %number;
  ret;
}
)";

  gpu::Gpu gpu_{driver_at_hand()};
  bool simulated_ = gpu_.simulated();
  gpu::Module module_ = gpu_.module(ptx);
  CUfunction kernel_ = [this] {
    CUfunction kernel = nullptr;
    gpu_.module_get_function(&kernel, module_, "work");
    return kernel;
  }();
  gpu::PinnedMemory words_ = gpu_.pinned_memory(4 * most_lanes);
  std::array<Lane, most_lanes> lanes_{};
  std::atomic<bool> stop_{false};
  std::thread stamper_;
  clockid_t stamper_clock_{};
};

} // namespace sleeping
