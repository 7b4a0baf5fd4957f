// SPDX-License-Identifier: MIT
// The code that nvcc registers becomes a library of the driver when it is first used. A launch is one of the
// simulated driver, which takes time and computes nothing.
#include "kernels.hpp"
#include "unmodelled.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace cuevent::sim::runtime {
namespace {

struct Size { // dim3
  unsigned x, y, z;
};

/// The program has its address as the handle of the code.
struct Binary {
  const void* code;
  CUlibrary library = nullptr;
};

struct Kernel {
  Binary* binary;
  std::string name;
  CUkernel kernel = nullptr;
};

struct Variable {
  Binary* binary;
  std::string name;
};

struct Configuration {
  Size grid, block;
  std::size_t shared;
  CUstream stream;
};

thread_local std::vector<Configuration> configurations;

class Code {
public:
  ~Code() { cueventTellKernels(); }

  Binary* add(const void* code) {
    const std::lock_guard lock(mutex_);
    return binaries_.emplace_back(std::make_unique<Binary>(Binary{code})).get();
  }

  void remove(const Binary* binary) {
    const std::lock_guard lock(mutex_);
    std::erase_if(kernels_, [=](const auto& each) { return each.second.binary == binary; });
    std::erase_if(variables_, [=](const auto& each) { return each.second.binary == binary; });
    if (binary->library != nullptr) cuLibraryUnload(binary->library);
    std::erase_if(binaries_, [=](const auto& each) { return each.get() == binary; });
  }

  void add(const void* host, Kernel kernel) {
    const std::lock_guard lock(mutex_);
    kernels_.insert_or_assign(host, std::move(kernel));
  }

  void add(const void* host, Variable variable) {
    const std::lock_guard lock(mutex_);
    variables_.insert_or_assign(host, std::move(variable));
  }

  void add_handle(const void* handle, Handle kind) {
    const std::lock_guard lock(mutex_);
    handles_.insert_or_assign(handle, kind);
  }

  Error kernel(const void* host, CUkernel& kernel) {
    const std::lock_guard lock(mutex_);
    const auto found = kernels_.find(host);
    if (found == kernels_.end()) return host == nullptr ? invalid_device_function : unknown_kernel;
    CUkernel& known = found->second.kernel;
    CUresult result = CUDA_SUCCESS;
    if (known == nullptr) {
      result = load(*found->second.binary);
      const CUlibrary library = found->second.binary->library;
      if (result == CUDA_SUCCESS) result = cuLibraryGetKernel(&known, library, found->second.name.c_str());
      if (result == CUDA_ERROR_NOT_FOUND) return invalid_device_function;
      if (result == CUDA_SUCCESS) handles_.insert_or_assign(known, Handle::kernel);
    }
    kernel = known;
    return result;
  }

  bool is(const void* handle, Handle kind) {
    const std::lock_guard lock(mutex_);
    const auto found = handles_.find(handle);
    return found != handles_.end() && found->second == kind;
  }

  /// No lock is held during the call, which may wait.
  Error variable(const void* host, CUdeviceptr* address, std::size_t* bytes) {
    std::unique_lock lock(mutex_);
    const auto found = variables_.find(host);
    if (found == variables_.end()) return invalid_symbol;
    if (const CUresult result = load(*found->second.binary); result != CUDA_SUCCESS) return result;
    const CUlibrary library = found->second.binary->library;
    const std::string name = found->second.name;
    lock.unlock();
    const CUresult result = cuLibraryGetGlobal(address, bytes, library, name.c_str());
    return result == CUDA_ERROR_NOT_FOUND ? invalid_symbol : static_cast<Error>(result);
  }

private:
  static CUresult load(Binary& binary) {
    if (binary.library != nullptr) return CUDA_SUCCESS;
    return cuLibraryLoadData(&binary.library, binary.code, nullptr, nullptr, 0, nullptr, nullptr, 0);
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Binary>> binaries_;
  std::map<const void*, Kernel> kernels_;     ///< by the address of the host's function
  std::map<const void*, Variable> variables_; ///< by the address of the host's variable
  std::map<const void*, Handle> handles_;     ///< of the driver, that the program has
};

/// Made by the first registration, so that it ends after the program's own objects.
Code& code() {
  static Code all;
  return all;
}

} // namespace

Error launchable(const void* kernel, CUfunction& function) {
  CUkernel found = nullptr;
  Error error = code().kernel(kernel, found);
  function = reinterpret_cast<CUfunction>(found); // the driver's launches take both
  if (error != unknown_kernel || !(code().is(kernel, Handle::kernel) || code().is(kernel, Handle::function)))
    return error;
  function = static_cast<CUfunction>(const_cast<void*>(kernel));
  return CUDA_SUCCESS;
}

Error function_of(const void* kernel, CUfunction& function) {
  const Error error = launchable(kernel, function);
  if (error != CUDA_SUCCESS || code().is(kernel, Handle::function)) return error;
  return cuKernelGetFunction(&function, reinterpret_cast<CUkernel>(function));
}

void handle_is_known(const void* handle, Handle kind) { code().add_handle(handle, kind); }

Error variable(const void* symbol, CUdeviceptr* address, std::size_t* bytes) {
  return code().variable(symbol, address, bytes);
}

RUNTIME void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(code().add(wrapper));
}
RUNTIME void __cudaRegisterFatBinaryEnd(void**) {}
RUNTIME void __cudaUnregisterFatBinary(void** binary) { code().remove(reinterpret_cast<Binary*>(binary)); }
RUNTIME char __cudaInitModule(void**) { return 1; }

RUNTIME void __cudaRegisterVar(void** binary, char* host, char*, const char* name, int, std::size_t, int,
                               int) {
  code().add(host, Variable{reinterpret_cast<Binary*>(binary), name});
}

RUNTIME void __cudaRegisterFunction(void** binary, const char* host, char*, const char* name, int, void*,
                                    void*, void*, void*, int*) {
  code().add(host, Kernel{reinterpret_cast<Binary*>(binary), name});
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

} // namespace cuevent::sim::runtime
