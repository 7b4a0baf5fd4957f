// SPDX-License-Identifier: MIT
// A driver that is the library of CONTRARY_TO, except for cuStreamGetPriority: CONTRARY says what that does.
// With CONTRARY=strangers, events of other processes can be opened, but are events of their own.
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

CUresult open_event(CUevent* event, CUipcEventHandle) {
  constexpr unsigned flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  void* create = nullptr;
  cuGetProcAddress_v2("cuEventCreate", &create, 2000, 0, nullptr);
  return reinterpret_cast<decltype(&cuEventCreate)>(create)(event, flags);
}

} // namespace

extern "C" CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                                cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  using Function = decltype(&cuGetProcAddress_v2);
  static const auto other = reinterpret_cast<Function>(
      dlsym(dlopen(std::getenv("CONTRARY_TO"), RTLD_NOW | RTLD_LOCAL), "cuGetProcAddress_v2"));
  const CUresult result = other(symbol, function, version, flags, status);
  const auto is = [symbol](const char* name) { return std::strcmp(symbol, name) == 0; };
  if (std::strcmp(std::getenv("CONTRARY"), "strangers") != 0) {
    if (is("cuStreamGetPriority")) *function = reinterpret_cast<void*>(&get_priority);
    return result;
  }
  if (is("cueventOtherProcess")) *function = nullptr;
  if (is("cuIpcOpenEventHandle")) *function = reinterpret_cast<void*>(&open_event);
  return result;
}
