// SPDX-License-Identifier: MIT
// A thread that fills the launch queue of a stream.
#pragma once

#include <gpu.hpp>

#include <atomic>
#include <chrono>
#include <thread>

namespace process {

class EmptyKernel {
public:
  explicit EmptyKernel(const gpu::Gpu& gpu) : gpu_(gpu) {
    gpu.module_get_function(&kernel_, module_, "nothing");
  }

  void launch(CUstream stream) const {
    gpu_.launch_kernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  }

private:
  static constexpr char ptx[] =
      ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";

  const gpu::Gpu& gpu_;
  gpu::Module module_ = gpu_.module(ptx);
  CUfunction kernel_ = nullptr;
};

/// Submits kernels to a stream that is held, until the thread is blocked or more than a full queue
/// is submitted.
class Filler {
public:
  Filler(const EmptyKernel& kernel, CUstream stream)
      : thread_([this, &kernel, stream] {
          for (; submitted_ < more_than_fit; ++submitted_)
            kernel.launch(stream);
        }) {}
  ~Filler() { thread_.join(); }
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;

  /// Whether the thread is blocked: it stopped for `still` before it was done.
  bool blocks(std::chrono::milliseconds still = std::chrono::milliseconds(500)) const {
    for (int before = -1; before != submitted_;) {
      before = submitted_;
      std::this_thread::sleep_for(still);
    }
    return submitted_ > 0 && submitted_ < more_than_fit;
  }

private:
  static constexpr int more_than_fit = 1'100;

  std::atomic<int> submitted_{0};
  std::thread thread_;
};

} // namespace process
