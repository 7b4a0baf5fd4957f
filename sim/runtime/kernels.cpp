// SPDX-License-Identifier: MIT
// Kernels: nvcc registers their names at the start of the program. A launch is one of the simulated driver,
// which takes time and computes nothing.
#include "runtime.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace cuevent::sim::runtime {
namespace {

struct Size { // dim3
  unsigned x, y, z;
};

struct Kernel {
  std::string name;
  std::size_t launches = 0;
  std::map<CUcontext, CUfunction> functions{};
};

struct Configuration {
  Size grid, block;
  std::size_t shared;
  CUstream stream;
};

thread_local std::vector<Configuration> configurations;

class Kernels {
public:
  ~Kernels() {
    for (const auto& [host, kernel] : kernels_) {
      if (kernel.launches == 0) continue;
      int status = 0;
      const std::unique_ptr<char, void (*)(void*)> plain(
          abi::__cxa_demangle(kernel.name.c_str(), nullptr, nullptr, &status), &std::free);
      std::fprintf(stderr, "cuevent sim: the kernel %s was launched %zu times and computed nothing\n",
                   plain ? plain.get() : kernel.name.c_str(), kernel.launches);
    }
  }

  void add(const void* host, const char* name) {
    const std::lock_guard lock(mutex_);
    kernels_.insert_or_assign(host, Kernel{name});
  }

  bool has(const void* host) {
    const std::lock_guard lock(mutex_);
    return kernels_.contains(host);
  }

  CUresult launch(const void* host, const Configuration& how) {
    CUfunction function = nullptr;
    CUresult result = function_of(host, function);
    if (result == CUDA_SUCCESS)
      result = cuLaunchKernel(function, how.grid.x, how.grid.y, how.grid.z, how.block.x, how.block.y,
                              how.block.z, static_cast<unsigned>(how.shared), how.stream, nullptr, nullptr);
    if (result != CUDA_SUCCESS) return result;
    const std::lock_guard lock(mutex_);
    ++kernels_.at(host).launches;
    return result;
  }

private:
  /// The kernel's function in the current context. No lock is held during the launch, which may block.
  CUresult function_of(const void* host, CUfunction& function) {
    const std::lock_guard lock(mutex_);
    Kernel& kernel = kernels_.at(host);
    CUcontext context = nullptr;
    CUresult result = cuCtxGetCurrent(&context);
    CUfunction& known = kernel.functions[context];
    if (result == CUDA_SUCCESS && known == nullptr) result = load(known, kernel.name);
    function = known;
    return result;
  }

  /// As far as the program can tell, its kernels were loaded when it started, so no capture forbids this.
  static CUresult load(CUfunction& function, const std::string& name) {
    const std::string code =
        ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry " + name + "() { ret; }\n";
    CUmodule module = nullptr;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&mode);
    CUresult result = cuModuleLoadData(&module, code.c_str());
    if (result == CUDA_SUCCESS) result = cuModuleGetFunction(&function, module, name.c_str());
    cuThreadExchangeStreamCaptureMode(&mode);
    return result;
  }

  std::mutex mutex_;
  std::map<const void*, Kernel> kernels_; ///< by the address of the host's function
};

/// Made by the first registration, so that it ends after the program's own objects.
Kernels& kernels() {
  static Kernels all;
  return all;
}

} // namespace

RUNTIME void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
RUNTIME void __cudaRegisterFatBinaryEnd(void**) {}
RUNTIME void __cudaUnregisterFatBinary(void**) {}
RUNTIME char __cudaInitModule(void**) { return 1; }
/// A function that copies to or from a variable aborts.
RUNTIME void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}

RUNTIME void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*,
                                    void*, void*, int*) {
  kernels().add(host, name);
}

RUNTIME unsigned __cudaPushCallConfiguration(Size grid, Size block, std::size_t shared, CUstream stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

RUNTIME Error __cudaPopCallConfiguration(Size* grid, Size* block, std::size_t* shared, void* stream) {
  if (configurations.empty()) return told(missing_configuration);
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<CUstream*>(stream) = last.stream;
  return CUDA_SUCCESS;
}

RUNTIME Error cudaLaunchKernel(const void* host, Size grid, Size block, void**, std::size_t shared,
                               CUstream stream) {
  if (!kernels().has(host)) return told(CUDA_ERROR_INVALID_HANDLE);
  return with_context([&] { return kernels().launch(host, {grid, block, shared, stream}); });
}

/// A kernel's handle is the address of its host function.
RUNTIME Error __cudaGetKernel(const void** kernel, const void* host) {
  if (!kernels().has(host)) return told(CUDA_ERROR_INVALID_HANDLE);
  *kernel = host;
  return CUDA_SUCCESS;
}

RUNTIME Error __cudaLaunchKernel(const void* kernel, Size grid, Size block, void** arguments,
                                 std::size_t shared, CUstream stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

} // namespace cuevent::sim::runtime
