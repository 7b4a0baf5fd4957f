// SPDX-License-Identifier: MIT
#include "products.hpp"

#include <algorithm>
#include <map>
#include <mutex>

namespace cuevent::sim::blas {
namespace {

constexpr int types[] = {f32, f64, f16, i8, c32, c64, bf16, f8_e4m3, f8_e5m2};
constexpr char letters[] = {'n', 't', 'c'}; // of the operations, in their order
/// What else has a kernel, for numbers of six types.
constexpr const char* others[] = {"gemv", "dot", "trsm"};
constexpr unsigned tile = 128; // rows and columns of a block, as in most kernels of cuBLAS for an H100
constexpr unsigned threads = 128;

std::string entry(const std::string& name) {
  std::string text = ".visible .entry " + name + "(";
  for (const char* pointer : {"a", "b", "c", "d", "bias", "auxiliary", "alpha", "beta"})
    text += std::string(".param .u64 ") + pointer + ", ";
  return text + ".param .u32 m, .param .u32 n, .param .u32 k, .param .u32 batches) { ret; }\n";
}

/// All kernels are in one library, which is loaded once: a library for each shape would wait for work, as the
/// first use of a library does.
std::string code() {
  std::string text = ".version 7.0\n.target sm_75\n.address_size 64\n";
  for (const int type : types)
    for (int a = no_transpose; a <= conjugate_transpose; ++a)
      for (int b = no_transpose; b <= conjugate_transpose; ++b)
        text += entry(product_name(type, a, b));
  for (const int type : {f16, bf16, f32, f64, c32, c64})
    for (const char* other : others)
      text += entry(std::string("cublas_") + other + '_' + name_of(type));
  return text;
}

class Kernels {
public:
  /// Null if there is none, or if the driver refused the code.
  CUkernel find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (library_ == nullptr && cuLibraryLoadData(&library_, code().c_str(), nullptr, nullptr, 0, nullptr,
                                                 nullptr, 0) != CUDA_SUCCESS)
      return nullptr;
    CUkernel& kernel = kernels_[name];
    if (kernel == nullptr && cuLibraryGetKernel(&kernel, library_, name.c_str()) != CUDA_SUCCESS)
      kernel = nullptr;
    return kernel;
  }

private:
  std::mutex mutex_;
  CUlibrary library_ = nullptr;
  std::map<std::string, CUkernel> kernels_;
};

Kernels& kernels() {
  static Kernels all;
  return all;
}

unsigned tiles(int size) { return (static_cast<unsigned>(size) + tile - 1) / tile; }

} // namespace

const char* name_of(int type) {
  switch (type) {
  case f32:
    return "f32";
  case f64:
    return "f64";
  case f16:
    return "f16";
  case i8:
    return "i8";
  case c32:
    return "c32";
  case c64:
    return "c64";
  case bf16:
    return "bf16";
  case f8_e4m3:
    return "f8e4m3";
  case f8_e5m2:
    return "f8e5m2";
  default:
    return nullptr;
  }
}

std::string product_name(int type, int operation_a, int operation_b) {
  return std::string("cublas_gemm_") + name_of(type) + '_' + letters[operation_a] + letters[operation_b];
}

Status load() {
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS) return not_initialized;
  if (cuCtxGetCurrent(&context) != CUDA_SUCCESS) return not_initialized;
  if (context == nullptr) { // as the runtime does, which cuBLAS calls
    CUdevice device = 0;
    if (cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS)
      return not_initialized;
  }
  const CUkernel kernel = kernels().find(product_name(f32, no_transpose, no_transpose));
  CUfunction function = nullptr;
  return kernel != nullptr && cuKernelGetFunction(&function, kernel) == CUDA_SUCCESS ? success
                                                                                     : not_initialized;
}

Status launch(const Launch& how, CUstream stream) {
  if (how.m == 0 || how.n == 0 || how.batches == 0) return success;
  const CUkernel kernel = kernels().find(how.kernel);
  if (kernel == nullptr) return execution_failed;
  Launch values = how;
  void* parameters[] = {&values.a,     &values.b,    &values.c, &values.d, &values.bias, &values.auxiliary,
                        &values.alpha, &values.beta, &values.m, &values.n, &values.k,    &values.batches};
  const unsigned most = 65535; // in the second and third direction
  const CUresult result = cuLaunchKernel(
      reinterpret_cast<CUfunction>(kernel), tiles(how.m), std::min(tiles(how.n), most),
      std::min(static_cast<unsigned>(how.batches), most), threads, 1, 1, 0, stream, parameters, nullptr);
  return result == CUDA_SUCCESS ? success : execution_failed;
}

} // namespace cuevent::sim::blas
