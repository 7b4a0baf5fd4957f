// SPDX-License-Identifier: MIT
// A kernel whose length is known: it spins by the clock of the device, and can write down for how long.
#pragma once

#include <cuevent/driver_event.hpp>
#include <cuevent/sim.hpp>

#include <gpu.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace measuring {

using Length = std::chrono::nanoseconds;

/// Belongs to the context in which it was made.
class Spin {
public:
  explicit Spin(const gpu::Gpu& gpu) : gpu_(gpu) { gpu.module_get_function(&kernel_, module_, "spin"); }

  void launch(Length length, CUstream stream, unsigned blocks = 1) const {
    launch(length, stream, blocks, 0);
  }

  /// The same, and writes down its length. One stream at a time.
  void launch_logged(Length length, CUstream stream) const { launch(length, stream, 1, log_); }

  /// The lengths that were written down since the last time, up to `kept`, in us. None on a simulated device.
  std::vector<double> lengths(CUstream stream) const {
    std::vector<std::uint64_t> words(1 + kept);
    gpu_.copy_to_host(words.data(), log_, bytes, stream);
    gpu_.fill(log_, 0, bytes, stream);
    cuevent::DriverEvent done(gpu_.context);
    done.record(stream);
    done.synchronize();
    if (gpu_.simulated()) return {};
    std::vector<double> lengths;
    for (std::size_t i = 1; i <= std::min<std::size_t>(words[0], kept); ++i)
      lengths.push_back(static_cast<double>(words[i]) / 1000);
    return lengths;
  }

private:
  static constexpr std::size_t kept = 4096, bytes = (1 + kept) * sizeof(std::uint64_t);
  static constexpr char ptx[] = R"(
.version 7.0
.target sm_50
.address_size 64

.visible .entry spin(.param .u64 log, .param .u64 length) {
  .reg .pred %more, %none;
  .reg .b64 %start, %now, %spun, %length, %log, %count, %place;

  ld.param.u64 %length, [length];
  mov.u64 %start, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %spun, %now, %start;
  setp.lt.u64 %more, %spun, %length;
  @%more bra again;

  ld.param.u64 %log, [log];
  setp.eq.u64 %none, %log, 0;
  @%none bra done;
  cvta.to.global.u64 %log, %log;
  ld.global.u64 %count, [%log];
  and.b64 %place, %count, 4095;
  shl.b64 %place, %place, 3;
  add.u64 %place, %place, %log;
  st.global.u64 [%place + 8], %spun;
  add.u64 %count, %count, 1;
  st.global.u64 [%log], %count;
done:
  ret;
}
)";

  void launch(Length length, CUstream stream, unsigned blocks, CUdeviceptr log) const {
    if (simulated_) cuevent::sim::set_kernel("spin", {length});
    auto nanoseconds = static_cast<std::uint64_t>(length.count());
    void* arguments[] = {&log, &nanoseconds};
    gpu_.launch_kernel(kernel_, blocks, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr);
  }

  const gpu::Gpu& gpu_;
  bool simulated_ = gpu_.simulated();
  gpu::Module module_ = gpu_.module(ptx);
  CUfunction kernel_ = nullptr;
  gpu::DeviceMemory log_ = gpu_.device_memory(bytes / sizeof(int));
};

} // namespace measuring
