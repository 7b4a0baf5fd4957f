// SPDX-License-Identifier: MIT
// A thread that fills the launch queue of a stream.
#pragma once

#include "kernel.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace process {

/// Submits kernels to a stream that is held, until the thread is blocked or more than a full queue
/// is submitted.
class Filler {
public:
  Filler(const Kernel& kernel, CUstream stream)
      : thread_([this, &kernel, stream] {
          for (; submitted_ < more_than_fit; ++submitted_)
            kernel.launch(stream);
        }) {}
  ~Filler() { thread_.join(); }
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;

  /// Whether the thread is blocked: it stopped for `still` after it had filled most of the queue. Before
  /// that, it may only wait for a processor.
  bool blocks(std::chrono::milliseconds still = std::chrono::milliseconds(500)) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    for (int before = -1;
         before != submitted_ || (before < most_of_it && std::chrono::steady_clock::now() < deadline);) {
      before = submitted_;
      std::this_thread::sleep_for(still);
    }
    return submitted_ >= most_of_it && submitted_ < more_than_fit;
  }

private:
  static constexpr int most_of_it = 900, more_than_fit = 1'100;

  std::atomic<int> submitted_{0};
  std::thread thread_;
};

} // namespace process
