// SPDX-License-Identifier: MIT
// Mistakes in code that a compiler inlines, often into functions of the C++ library. A line that ends with
// `//! RULE COUNT` has a row of its own in the table of findings, whatever the level of optimization.
#include <cuda.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <pthread.h>
#include <thread>
#include <vector>

namespace {

CUcontext context = nullptr;
CUstream stream = nullptr;

void expect(CUresult result) {
  if (result != CUDA_SUCCESS) std::exit(3);
}

void make(CUevent& event) { expect(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)); }

void in_a_thread() {
  std::thread thread([] {
    expect(cuCtxSetCurrent(context));
    for (int i = 0; i < 10; ++i) {
      CUevent kept = nullptr;
      expect(cuEventCreate(&kept, CU_EVENT_DISABLE_TIMING)); //! leaked 10
    }
    for (int i = 0; i < 200; ++i) {
      CUevent event = nullptr;
      expect(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)); //! created-in-a-loop 200
      expect(cuEventRecord(event, stream));
      expect(cuEventDestroy(event));
    }
  });
  thread.join();
}

void in_copies_of_a_loop() {
  CUevent kept = nullptr;
#ifdef __clang__
#pragma unroll
#else
#pragma GCC unroll 4
#endif
  for (int i = 0; i < 4; ++i)
    expect(cuEventCreate(&kept, CU_EVENT_DISABLE_TIMING)); //! leaked 4
}

void in_a_function_object(CUevent event) {
  const std::function<void(CUevent)> call = [](CUevent unrecorded) {
    expect(cuStreamWaitEvent(stream, unrecorded, 0)); //! wait-never-recorded 1
    CUevent other = nullptr;
    make(other);
    expect(cuStreamWaitEvent(stream, other, 0)); //! wait-never-recorded 1
    expect(cuEventDestroy(other));
  };
  call(event);
}

void in_an_algorithm(std::vector<CUstream>& streams) {
  std::for_each(streams.begin(), streams.end(), [](CUstream& made) {
    expect(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING)); //! leaked 3
  });
}

struct Destroy {
  void operator()(CUevent event) const {
    expect(cuStreamWaitEvent(stream, event, 0)); //! wait-never-recorded 1
    expect(cuEventDestroy(event));
  }
};

void in_a_deleter() {
  CUevent event = nullptr;
  make(event);
  const std::unique_ptr<CUevent_st, Destroy> owner(event);
}

void in_a_future() {
  std::async(std::launch::async, [] {
    expect(cuCtxSetCurrent(context));
    CUgraph graph = nullptr;
    expect(cuGraphCreate(&graph, 0)); //! leaked 1
  }).get();
}

void in_a_thread_of_c() {
  pthread_t thread{};
  const auto body = [](void*) -> void* {
    expect(cuCtxSetCurrent(context));
    CUstream made = nullptr;
    expect(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING)); //! leaked 1
    return nullptr;
  };
  if (pthread_create(&thread, nullptr, body, nullptr) != 0) std::exit(3);
  pthread_join(thread, nullptr);
}

} // namespace

// Their names are mangled names of types.
extern "C" {
__attribute__((noinline)) void f(CUevent event);
__attribute__((noinline)) void f(CUevent event) {
  expect(cuStreamWaitEvent(stream, event, 0)); //! wait-never-recorded 1
}
static void a(CUevent event) {
  expect(cuStreamWaitEvent(stream, event, 0)); //! wait-never-recorded 1
}
}

int main() {
  expect(cuInit(0));
  expect(cuDevicePrimaryCtxRetain(&context, 0));
  expect(cuCtxSetCurrent(context));
  expect(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUevent events[3] = {};
  for (CUevent& event : events)
    make(event);
  in_a_thread();
  in_copies_of_a_loop();
  in_a_function_object(events[0]);
  std::vector<CUstream> streams(3);
  in_an_algorithm(streams);
  in_a_deleter();
  in_a_future();
  in_a_thread_of_c();
  f(events[1]);
  a(events[2]);
  for (CUevent& event : events)
    expect(cuEventDestroy(event));
  expect(cuStreamDestroy(stream));
}
