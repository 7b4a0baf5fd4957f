// SPDX-License-Identifier: MIT
// Code that a program loads itself, and the variables of code.
#include "in_driver.hpp"
#include "kernels.hpp"

#include <cstddef>

namespace cuevent::sim::runtime {

// Libraries

RUNTIME Error cudaLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options, void** values,
                                  unsigned count, CUlibraryOption* more, void** more_values,
                                  unsigned more_count) {
  return with_context([=] {
    return cuLibraryLoadData(library, code, options, values, count, more, more_values, more_count);
  });
}

RUNTIME Error cudaLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* options,
                                      void** values, unsigned count, CUlibraryOption* more,
                                      void** more_values, unsigned more_count) {
  return with_context([=] {
    return cuLibraryLoadFromFile(library, path, options, values, count, more, more_values, more_count);
  });
}

RUNTIME Error cudaLibraryUnload(CUlibrary library) {
  return with_context([=] { return cuLibraryUnload(library); });
}

RUNTIME Error cudaLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return with_context([=] {
    const CUresult result = cuLibraryGetKernel(kernel, library, name);
    if (result == CUDA_SUCCESS) handle_is_known(*kernel, Handle::kernel);
    return result;
  });
}

RUNTIME Error cudaLibraryGetKernelCount(unsigned* count, CUlibrary library) {
  return with_context([=] {
    return in_driver<CUresult(unsigned*, CUlibrary)>("cuLibraryGetKernelCount", 12040, count, library);
  });
}

RUNTIME Error cudaLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library) {
  return with_context([=] {
    const CUresult result = in_driver<CUresult(CUkernel*, unsigned, CUlibrary)>(
        "cuLibraryEnumerateKernels", 12040, kernels, count, library);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count; ++i)
      handle_is_known(kernels[i], Handle::kernel);
    return result;
  });
}

RUNTIME Error cudaLibraryGetGlobal(void** address, std::size_t* bytes, CUlibrary library, const char* name) {
  return with_context(
      [=] { return cuLibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(address), bytes, library, name); });
}

RUNTIME Error cudaLibraryGetManaged(void** address, std::size_t* bytes, CUlibrary library, const char* name) {
  return with_context(
      [=] { return cuLibraryGetManaged(reinterpret_cast<CUdeviceptr*>(address), bytes, library, name); });
}

RUNTIME Error cudaLibraryGetUnifiedFunction(void** function, CUlibrary library, const char* name) {
  return with_context([=] { return cuLibraryGetUnifiedFunction(function, library, name); });
}

// Variables that nvcc registers

RUNTIME Error cudaGetSymbolAddress(void** address, const void* symbol) {
  if (address == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_context([=] { return variable(symbol, reinterpret_cast<CUdeviceptr*>(address), nullptr); });
}

RUNTIME Error cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  if (bytes == nullptr) return told(CUDA_ERROR_INVALID_VALUE);
  return with_context([=] { return variable(symbol, nullptr, bytes); });
}

namespace {

/// Calls copy(address) with a part of the variable.
template <class Copy>
Error with_part(const void* symbol, std::size_t bytes, std::size_t offset, Copy copy) {
  return with_context([=] {
    CUdeviceptr begin = 0;
    std::size_t all = 0;
    if (const Error found = variable(symbol, &begin, &all); found != CUDA_SUCCESS) return found;
    if (offset > all || bytes > all - offset) return static_cast<Error>(CUDA_ERROR_INVALID_VALUE);
    return static_cast<Error>(bytes == 0 ? CUDA_SUCCESS : copy(begin + offset));
  });
}

CUdeviceptr address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

constexpr int to_device = 1, to_host = 2, on_device = 3, by_address = 4; // cudaMemcpyKind

bool may_write_symbol(int direction) {
  return direction == to_device || direction == on_device || direction == by_address;
}
bool may_read_symbol(int direction) {
  return direction == to_host || direction == on_device || direction == by_address;
}

} // namespace

RUNTIME Error cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                                 int direction) {
  if (!may_write_symbol(direction)) return told(invalid_copy_direction);
  return with_part(symbol, bytes, offset, [=](CUdeviceptr to) { return cuMemcpy(to, address(from), bytes); });
}

RUNTIME Error cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes,
                                      std::size_t offset, int direction, CUstream stream) {
  if (!may_write_symbol(direction)) return told(invalid_copy_direction);
  return with_part(symbol, bytes, offset,
                   [=](CUdeviceptr to) { return cuMemcpyAsync(to, address(from), bytes, stream); });
}

RUNTIME Error cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                   int direction) {
  if (!may_read_symbol(direction)) return told(invalid_copy_direction);
  return with_part(symbol, bytes, offset,
                   [=](CUdeviceptr from) { return cuMemcpy(address(to), from, bytes); });
}

RUNTIME Error cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                        int direction, CUstream stream) {
  if (!may_read_symbol(direction)) return told(invalid_copy_direction);
  return with_part(symbol, bytes, offset,
                   [=](CUdeviceptr from) { return cuMemcpyAsync(address(to), from, bytes, stream); });
}

} // namespace cuevent::sim::runtime
