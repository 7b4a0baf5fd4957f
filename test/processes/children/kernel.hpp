// SPDX-License-Identifier: MIT
// A kernel of support/kernels.hpp.
#pragma once

#include <gpu.hpp>
#include <kernels.hpp>

namespace process {

class Kernel {
public:
  Kernel(const gpu::Gpu& gpu, const char* name) : gpu_(gpu) {
    gpu.module_get_function(&kernel_, module_, name);
  }

  void launch(CUstream stream, void** arguments = nullptr) const {
    gpu_.launch_kernel(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
  }

private:
  const gpu::Gpu& gpu_;
  gpu::Module module_ = gpu_.module(kernels);
  CUfunction kernel_ = nullptr;
};

} // namespace process
