// SPDX-License-Identifier: MIT
// A kernel that writes to an illegal address.
#pragma once

#include <gpu.hpp>

namespace process {

class FaultyKernel {
public:
  explicit FaultyKernel(const gpu::Gpu& gpu) : gpu_(gpu) {
    gpu.module_get_function(&kernel_, module_, "write_illegal_address");
  }

  void launch(CUstream stream) const {
    gpu_.launch_kernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  }

private:
  static constexpr char ptx[] = R"(
.version 7.0
.target sm_50
.address_size 64
.visible .entry write_illegal_address() {
  .reg .u64 %where;
  .reg .u32 %one;
  mov.u64 %where, 16;
  mov.u32 %one, 1;
  st.global.u32 [%where], %one;
  ret;
}
)";

  const gpu::Gpu& gpu_;
  gpu::Module module_ = gpu_.module(ptx);
  CUfunction kernel_ = nullptr;
};

} // namespace process
