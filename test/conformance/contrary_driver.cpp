// SPDX-License-Identifier: MIT
// A driver that is the library of CONTRARY_TO, but for cuStreamGetPriority: CONTRARY says what that does.
#include <cuda.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

namespace {

CUresult get_priority(CUstream, int*) {
  const char* const what = std::getenv("CONTRARY");
  if (std::strcmp(what, "crash") == 0) {
    std::signal(SIGSEGV, SIG_DFL); // a sanitizer's handler would end the process another way
    std::raise(SIGSEGV);
  }
  while (std::strcmp(what, "hang") == 0)
    pause();
  return CUDA_ERROR_INVALID_DEVICE; // no driver says that
}

} // namespace

extern "C" CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                                cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  using Function = decltype(&cuGetProcAddress_v2);
  static const auto other = reinterpret_cast<Function>(
      dlsym(dlopen(std::getenv("CONTRARY_TO"), RTLD_NOW | RTLD_LOCAL), "cuGetProcAddress_v2"));
  const CUresult result = other(symbol, function, version, flags, status);
  if (std::strcmp(symbol, "cuStreamGetPriority") == 0) *function = reinterpret_cast<void*>(&get_priority);
  return result;
}
