// SPDX-License-Identifier: MIT
// How late examples/scheduler.cpp learns of the ends of its kernels.
#pragma once

#include "../support/gpu.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace scheduler {

/// The number of streams.
inline constexpr std::size_t lanes = 4;

/// Measures when the host could first see the end of each kernel. Each stream writes the number of its
/// completed kernels to a word of pinned memory, and a separate thread reads these words. Only the
/// measurement needs this, not the executor.
class KernelObserver {
public:
  KernelObserver(const gpu::Gpu& gpu, std::size_t kernels) : gpu_(gpu) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      called_[lane].reserve(kernels);
      __atomic_store_n(word(lane), 0, __ATOMIC_RELAXED);
    }
    thread_ = std::thread([this] { observe(); });
  }
  KernelObserver(const KernelObserver&) = delete;
  KernelObserver& operator=(const KernelObserver&) = delete;
  ~KernelObserver() { stop(); }

  /// Submits the count after a kernel in the stream.
  void mark(std::size_t lane, CUstream stream) {
    const auto address = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(word(lane)));
    gpu_.write_value(stream, address, ++marks_[lane], CU_STREAM_WRITE_VALUE_DEFAULT);
  }
  /// The callback of the lane's next kernel has begun.
  void called(std::size_t lane) { called_[lane].push_back(Clock::now()); }

  /// The sorted times, in microseconds, from when the host could see the end of a kernel until its callback
  /// began; 0 if the callback began before the observer saw the end.
  std::vector<double> latencies() {
    stop();
    std::vector<double> all;
    for (std::size_t lane = 0; lane < lanes; ++lane)
      for (std::size_t i = 0; i < called_[lane].size(); ++i) {
        const std::chrono::duration<double, std::micro> late = called_[lane][i] - seen_[lane].at(i);
        all.push_back(std::max(late.count(), 0.0));
      }
    std::sort(all.begin(), all.end());
    return all;
  }

private:
  using Clock = std::chrono::steady_clock;

  int* word(std::size_t lane) const noexcept { return words_ + 64 * lane; } // far apart
  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void observe() {
    while (true) {
      const bool last = stopped_;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const auto ended = static_cast<std::size_t>(__atomic_load_n(word(lane), __ATOMIC_ACQUIRE));
        while (seen_[lane].size() < ended)
          seen_[lane].push_back(Clock::now());
      }
      if (last) return;
      if (shares_processor_) std::this_thread::yield();
    }
  }

  const gpu::Gpu& gpu_;
  gpu::PinnedMemory words_ = gpu_.pinned_memory(64 * lanes);
  const bool shares_processor_ = gpu_.simulated(); // with the device
  std::array<std::uint32_t, lanes> marks_{};
  std::array<std::vector<Clock::time_point>, lanes> seen_, called_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

} // namespace scheduler
