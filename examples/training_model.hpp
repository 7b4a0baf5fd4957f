// SPDX-License-Identifier: MIT
// The model of the training loop: copy in, forward, backward and optimizer. Each is a real copy or kernel.
// They use two streams and two buffers, and each stage is timed.
#pragma once

#include "../support/gpu.hpp"

#include <cuevent/stage_timer.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace training {

using cuevent::DriverEvent;
using cuevent::StageId;
using cuevent::StageScope;
using cuevent::StageTimer;

inline constexpr std::size_t count = 4 << 20; // integers in a batch: 16 MiB
inline constexpr std::size_t bytes = count * sizeof(int);
inline constexpr int layers = 8;

/// The PTX of a kernel that sets each out[i] to %result. `operation` computes %result from %x = x[i] and
/// %y = y[i].
inline std::string kernel(const std::string& name, const std::string& operation) {
  return ".visible .entry " + name + R"((.param .u64 out, .param .u64 x, .param .u64 y) {
  .reg .b32 %block, %block_size, %thread, %i, %x, %y, %result;
  .reg .b64 %array, %offset;
  mov.u32 %block, %ctaid.x;
  mov.u32 %block_size, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %i, %block, %block_size, %thread;
  mul.wide.u32 %offset, %i, 4;
  ld.param.u64 %array, [x];
  cvta.to.global.u64 %array, %array;
  add.u64 %array, %array, %offset;
  ld.global.u32 %x, [%array];
  ld.param.u64 %array, [y];
  cvta.to.global.u64 %array, %array;
  add.u64 %array, %array, %offset;
  ld.global.u32 %y, [%array];
  )" + operation +
         R"(
  ld.param.u64 %array, [out];
  cvta.to.global.u64 %array, %array;
  add.u64 %array, %array, %offset;
  st.global.u32 [%array], %result;
  ret;
}
)";
}

inline const std::string ptx =
    ".version 7.0\n.target sm_50\n.address_size 64\n" + kernel("forward", "add.u32 %result, %x, %y;") +
    kernel("backward", "mad.lo.u32 %result, %x, 3, %y;") + kernel("optimizer", "add.u32 %result, %x, %y;");

/// A model with one weight for each number of a batch. The result is useless but easy to check.
class Model {
public:
  explicit Model(const gpu::Gpu& gpu, const cuevent::StageTimerOptions& options = {})
      : gpu_(gpu), timer_(gpu.context, options) {
    timer_.add_stream(copying_, "copying");
    timer_.add_stream(computing_, "computing");
    gpu.module_get_function(&forward_, module_, "forward");
    gpu.module_get_function(&backward_, module_, "backward");
    gpu.module_get_function(&optimizer_, module_, "optimizer");
    for (std::size_t i = 0; i < count; ++i) {
      batches_[0][i] = static_cast<int>(i);
      batches_[1][i] = static_cast<int>(7 * i + 1);
    }
  }

  void reset() { gpu_.fill(weights_, 0, bytes, computing_); }

  /// Submits one iteration and does not wait.
  void step(int iteration) {
    const auto buffer = static_cast<std::size_t>(iteration % 2);
    timer_.wait(consumed_[buffer], copying_); // the buffer is free
    {
      const StageScope scope(timer_, copying_, copy_in_);
      gpu_.copy_to_device(buffers_[buffer], batches_[buffer], bytes, copying_);
    }
    timer_.record(copied_[buffer], copying_);

    timer_.wait(copied_[buffer], computing_); // the batch has been copied
    timer_.open(computing_, forward_stage_);
    launch(forward_, activations_, buffers_[buffer], weights_);
    for (int layer = 1; layer < layers; ++layer)
      launch(forward_, activations_, activations_, weights_);
    timer_.next(computing_, backward_stage_);
    launch(backward_, gradients_, activations_, buffers_[buffer]);
    for (int layer = 1; layer < 2 * layers; ++layer) // for the activations and the weights
      launch(backward_, gradients_, gradients_, buffers_[buffer]);
    timer_.next(computing_, optimizer_stage_);
    timer_.record(consumed_[buffer], computing_);
    launch(optimizer_, weights_, weights_, gradients_);
    timer_.close(computing_);

    timer_.poll(); // reads the times of completed stages
  }

  StageTimer& timer() { return timer_; }

  /// Whether the weights are the result of this number of iterations.
  bool is_right(int steps) {
    std::vector<int> weights(count);
    gpu_.copy_to_host(weights.data(), weights_, bytes, computing_);
    DriverEvent copied(gpu_.context);
    copied.record(computing_);
    copied.synchronize();
    for (std::size_t i = 0; i < count; i += 997) {
      std::uint32_t weight = 0;
      for (int step = 0; step < steps; ++step) {
        const auto x = static_cast<std::uint32_t>(batches_[static_cast<std::size_t>(step % 2)][i]);
        std::uint32_t gradient = x + layers * weight;
        for (int layer = 0; layer < 2 * layers; ++layer)
          gradient = gradient * 3 + x;
        weight += gradient;
      }
      if (static_cast<std::uint32_t>(weights[i]) != weight) return false;
    }
    return true;
  }

private:
  void launch(CUfunction function, CUdeviceptr out, CUdeviceptr x, CUdeviceptr y) {
    constexpr unsigned block = 256;
    void* arguments[] = {&out, &x, &y};
    gpu_.launch_kernel(function, count / block, 1, 1, block, 1, 1, 0, computing_, arguments, nullptr);
  }

  const gpu::Gpu& gpu_;
  gpu::Module module_ = gpu_.module(ptx.c_str());
  CUfunction forward_ = nullptr, backward_ = nullptr, optimizer_ = nullptr;
  std::array<gpu::PinnedMemory, 2> batches_{gpu_.pinned_memory(count), gpu_.pinned_memory(count)};
  std::array<gpu::DeviceMemory, 2> buffers_{gpu_.device_memory(count), gpu_.device_memory(count)};
  gpu::DeviceMemory weights_ = gpu_.device_memory(count);
  gpu::DeviceMemory activations_ = gpu_.device_memory(count);
  gpu::DeviceMemory gradients_ = gpu_.device_memory(count);
  gpu::Stream copying_ = gpu_.stream(), computing_ = gpu_.stream();
  std::array<DriverEvent, 2> copied_{DriverEvent(gpu_.context), DriverEvent(gpu_.context)};
  std::array<DriverEvent, 2> consumed_{DriverEvent(gpu_.context), DriverEvent(gpu_.context)};
  StageTimer timer_;
  StageId copy_in_ = timer_.stage("copy in"), forward_stage_ = timer_.stage("forward"),
          backward_stage_ = timer_.stage("backward"), optimizer_stage_ = timer_.stage("optimizer");
};

} // namespace training
