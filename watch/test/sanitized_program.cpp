// SPDX-License-Identifier: MIT
// Threads that use events, with a sanitizer in the program. Exits with 42: sanitized_program LIBCUDA.

#include <cuda.h>

#include <atomic>
#include <dlfcn.h>
#include <thread>
#include <vector>

namespace {

template <class... Arguments>
CUresult call(void* library, const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<CUresult (*)(Arguments...)>(dlsym(library, name));
  return function == nullptr ? CUDA_ERROR_NOT_FOUND : function(arguments...);
}

} // namespace

int main(int, char** argv) {
  void* const library = dlopen(argv[1], RTLD_NOW);
  if (library == nullptr || call(library, "cuInit", 0U) != CUDA_SUCCESS) return 3;
  CUcontext context = nullptr;
  call(library, "cuDevicePrimaryCtxRetain", &context, 0);
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      call(library, "cuCtxSetCurrent", context);
      for (int round = 0; round < 100; ++round) {
        CUevent event = nullptr;
        if (call(library, "cuEventCreate", &event, 2U) != CUDA_SUCCESS ||
            call(library, "cuEventDestroy_v2", event) != CUDA_SUCCESS)
          ++failed;
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  return failed == 0 ? 42 : 3;
}
