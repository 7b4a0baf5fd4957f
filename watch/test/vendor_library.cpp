// SPDX-License-Identifier: MIT
// A test gives this library the name of one of CUDA's, which makes its mistakes its own.
#include <cuda.h>

#include <pthread.h>

namespace {

void* run(void* body) {
  reinterpret_cast<void (*)()>(body)();
  return nullptr;
}

void on_own_thread(void (*body)()) {
  pthread_t thread = 0;
  if (pthread_create(&thread, nullptr, run, reinterpret_cast<void*>(body)) == 0)
    pthread_join(thread, nullptr);
}

} // namespace

extern "C" {

/// Needs a current context.
void wait_for_nothing() {
  CUstream stream = nullptr;
  CUevent event = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  cuStreamWaitEvent(stream, event, 0);
  cuEventDestroy(event);
  cuStreamDestroy(stream);
}

/// Refused if no context is current.
void create() {
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

void create_on_own_thread() { on_own_thread(create); }

/// On a stream of this library, for which nobody waits.
void fill(CUdeviceptr memory) {
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  cuMemsetD8Async(memory, 0, 4, stream);
}

/// Invalidates a capture of the caller's thread that is not relaxed.
void wait_for(CUstream stream) { cuStreamSynchronize(stream); }
}
