// SPDX-License-Identifier: MIT
// What the measurements of sleeping waits share: work of a given length, the true time of its end, and the
// CPU time of threads.
#pragma once

#include "../driver_at_hand.hpp"

#include <gpu.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <pthread.h>
#include <thread>

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

/// Kernels that write a number to pinned memory when they end, and a thread that spins on this word and
/// stamps each change with the host's clock. The stamps are the truth. The spinning thread makes no driver
/// call.
class Testbed {
public:
  Testbed() {
    std::fill_n(static_cast<int*>(words_), 2, 0);
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
  CpuTime cpu_time() const { return CpuTime(stamper_clock_); }

  /// Submits a kernel that spins for `length`. The one before it must have ended.
  void launch(CUstream stream, Nanoseconds length) {
    ++number_;
    if (gpu_.simulated()) return emulate(stream, length);
    CUdeviceptr word = reinterpret_cast<std::uintptr_t>(&ended());
    auto nanoseconds = static_cast<std::uint64_t>(length);
    void* arguments[] = {&word, &number_, &nanoseconds};
    gpu_.launch_kernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
  }

  /// When the newest kernel ended. Waits for the stamp, but not for the kernel.
  Nanoseconds end() const {
    while (stamped_.load(std::memory_order_acquire) < number_) {
    }
    return time_.load(std::memory_order_relaxed);
  }

private:
  std::uint64_t& ended() const { return *reinterpret_cast<std::uint64_t*>(static_cast<int*>(words_)); }

  void stamp() {
    for (std::uint64_t last = 0; !stop_.load(std::memory_order_relaxed);) {
      const std::uint64_t number = __atomic_load_n(&ended(), __ATOMIC_ACQUIRE);
      if (number != last) {
        time_.store(now(), std::memory_order_relaxed);
        stamped_.store(last = number, std::memory_order_release);
      }
      if (gpu_.simulated()) std::this_thread::yield(); // the simulated device needs the processor too
    }
  }

  /// Simulated kernels compute nothing, so a host function writes the word.
  void emulate(CUstream stream, Nanoseconds length) {
    cuevent::sim::set_kernel("work", {.duration = std::chrono::nanoseconds(length)});
    gpu_.launch_kernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
    gpu_.launch_host_function(
        stream, [](void* word) { ++*static_cast<std::uint64_t*>(word); }, &ended());
  }

  static constexpr char ptx[] = R"(
.version 7.0
.target sm_50
.address_size 64

.visible .entry work(.param .u64 word, .param .u64 number, .param .u64 time) {
  .reg .pred %early;
  .reg .b64 %now, %end, %time, %word, %number;

  mov.u64 %end, %globaltimer;
  ld.param.u64 %time, [time];
  add.u64 %end, %end, %time;
  ld.param.u64 %number, [number];
  ld.param.u64 %word, [word];
  cvta.to.global.u64 %word, %word;
again:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %early, %now, %end;
  @%early bra again;
  st.volatile.global.u64 [%word], %number;
  ret;
}
)";

  gpu::Gpu gpu_{driver_at_hand()};
  gpu::Module module_ = gpu_.module(ptx);
  CUfunction kernel_ = [this] {
    CUfunction kernel = nullptr;
    gpu_.module_get_function(&kernel, module_, "work");
    return kernel;
  }();
  gpu::PinnedMemory words_ = gpu_.pinned_memory(2);
  std::uint64_t number_ = 0;
  std::atomic<Nanoseconds> time_{0};
  std::atomic<std::uint64_t> stamped_{0};
  std::atomic<bool> stop_{false};
  std::thread stamper_;
  clockid_t stamper_clock_{};
};

} // namespace sleeping
