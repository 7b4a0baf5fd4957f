// SPDX-License-Identifier: MIT
// Prints what the CUDA runtime answers. nvcc compiles this file too, with kernels. runtime_answers.txt has
// the answers of an H200 (runtime and driver of CUDA 13.0, 2026-11-29).

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#ifdef __CUDACC__
#include <cuda_runtime_api.h>
using Result = cudaError_t;
using Stream = cudaStream_t;
using Event = cudaEvent_t;
constexpr auto direction = [](int number) { return static_cast<cudaMemcpyKind>(number); };
__global__ void step(int*) {}
#else
using Result = int;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
constexpr int direction(int number) { return number; }
extern "C" {
Result cudaGetLastError();
Result cudaPeekAtLastError();
const char* cudaGetErrorName(Result);
const char* cudaGetErrorString(Result);
Result cudaGetDeviceCount(int*);
Result cudaGetDevice(int*);
Result cudaSetDevice(int);
Result cudaDeviceSynchronize();
Result cudaDeviceReset();
Result cudaMalloc(void**, std::size_t);
Result cudaFree(void*);
Result cudaMallocHost(void**, std::size_t);
Result cudaHostAlloc(void**, std::size_t, unsigned);
Result cudaFreeHost(void*);
Result cudaHostGetDevicePointer(void**, void*, unsigned);
Result cudaMemcpy(void*, const void*, std::size_t, int);
Result cudaMemcpyAsync(void*, const void*, std::size_t, int, Stream);
Result cudaMemset(void*, int, std::size_t);
Result cudaMemsetAsync(void*, int, std::size_t, Stream);
Result cudaStreamCreate(Stream*);
Result cudaStreamCreateWithFlags(Stream*, unsigned);
Result cudaStreamDestroy(Stream);
Result cudaStreamQuery(Stream);
Result cudaStreamSynchronize(Stream);
Result cudaStreamWaitEvent(Stream, Event, unsigned);
Result cudaLaunchHostFunc(Stream, void (*)(void*), void*);
Result cudaEventCreate(Event*);
Result cudaEventCreateWithFlags(Event*, unsigned);
Result cudaEventDestroy(Event);
Result cudaEventRecord(Event, Stream);
Result cudaEventQuery(Event);
Result cudaEventSynchronize(Event);
Result cudaEventElapsedTime(float*, Event, Event);
}
#endif

namespace {

std::atomic<bool> open{false};
void wait_at_gate(void*) {
  while (!open)
    ;
}

void is(const char* name, Result result) { std::printf("%s = %d\n", name, static_cast<int>(result)); }
void shows(const char* name, int value) { std::printf("%s: %d\n", name, value); }
/// The result of the call, and what it leaves for cudaGetLastError.
void leaves(const char* name, Result result) {
  const Result left = cudaGetLastError();
  std::printf("%s = %d, leaves %d\n", name, static_cast<int>(result), static_cast<int>(left));
}

void errors() {
  leaves("set_device.minus_one", cudaSetDevice(-1));
  is("set_device.99", cudaSetDevice(99));
  is("peek", cudaPeekAtLastError());
  is("last", cudaGetLastError());
  is("then_last", cudaGetLastError());
  for (const int code : {0,   1,   2,   3,   4,   9,   21,  52,  98,  100, 101, 200, 201, 209,  400,
                         401, 500, 600, 700, 709, 719, 801, 900, 901, 906, 907, 910, 999, 12345})
    std::printf("%d: %s: %s\n", code, cudaGetErrorName(static_cast<Result>(code)),
                cudaGetErrorString(static_cast<Result>(code)));
}

void devices() {
  int number = -1;
  is("device_count", cudaGetDeviceCount(&number));
  shows("a_device", number > 0);
  leaves("device_count.null", cudaGetDeviceCount(nullptr));
  is("device", cudaGetDevice(&number));
  shows("device", number);
  leaves("device.null", cudaGetDevice(nullptr));
  is("set_device", cudaSetDevice(0));
  is("synchronize", cudaDeviceSynchronize());
}

void memory() {
  void *device = nullptr, *host = nullptr, *other = &other;
  int value = 7;
  leaves("malloc.null", cudaMalloc(nullptr, 4));
  is("malloc.nothing", cudaMalloc(&other, 0));
  shows("malloc.nothing.null", other == nullptr);
  other = &other;
  leaves("malloc.too_much", cudaMalloc(&other, std::size_t{1} << 50));
  is("malloc", cudaMalloc(&device, 4));
  is("memset", cudaMemset(device, 0, 4));
  is("copy_in", cudaMemcpy(device, &value, 4, direction(1)));
  value = 0;
  is("copy_out", cudaMemcpy(&value, device, 4, direction(2)));
  shows("copy_out", value);
  is("memset.one", cudaMemset(device, 1, 4));
  is("copy_default", cudaMemcpy(&value, device, 4, direction(4)));
  shows("copy_default", value);
  leaves("copy.no_direction", cudaMemcpy(&value, device, 4, direction(5)));
  is("copy.nothing", cudaMemcpy(nullptr, nullptr, 0, direction(1)));
  leaves("copy.to_null", cudaMemcpy(nullptr, device, 4, direction(4)));
  leaves("memset.null", cudaMemset(nullptr, 0, 4));
  is("memset.nothing", cudaMemset(nullptr, 0, 0));
  is("host", cudaMallocHost(&host, 4));
  std::memcpy(host, &value, 4);
  is("host.device_pointer", cudaHostGetDevicePointer(&other, host, 0));
  shows("host.same", other == host);
  leaves("host.flags", cudaHostAlloc(&other, 4, 0x100));
  leaves("host.nothing", cudaMallocHost(&other, 0));
  leaves("host.null", cudaMallocHost(nullptr, 4));
  is("free_host", cudaFreeHost(host));
  is("free_host.null", cudaFreeHost(nullptr));
  leaves("free_host.other", cudaFreeHost(&value));
  is("free", cudaFree(device));
  is("free.null", cudaFree(nullptr));
  leaves("free.twice", cudaFree(device));
}

void streams_and_events() {
  Stream stream = nullptr;
  Event event = nullptr, end = nullptr;
  float milliseconds = -1;
  void *device = nullptr, *host = nullptr;
  leaves("stream.null", cudaStreamCreate(nullptr));
  leaves("stream.flags", cudaStreamCreateWithFlags(&stream, 0x10));
  is("stream", cudaStreamCreateWithFlags(&stream, 1));
  leaves("event.null", cudaEventCreate(nullptr));
  leaves("event.flags", cudaEventCreateWithFlags(&event, 0x100));
  is("event", cudaEventCreate(&event));
  is("event.end", cudaEventCreate(&end));
  leaves("query.null", cudaEventQuery(nullptr));
  is("query.never", cudaEventQuery(event));
  leaves("elapsed.never", cudaEventElapsedTime(&milliseconds, event, end));
  is("malloc", cudaMalloc(&device, 4));
  is("host", cudaMallocHost(&host, 4));
  is("record", cudaEventRecord(event, stream));
  is("gate", cudaLaunchHostFunc(stream, wait_at_gate, nullptr));
  is("memset_async", cudaMemsetAsync(device, 1, 4, stream));
  is("copy_async", cudaMemcpyAsync(host, device, 4, direction(2), stream));
  is("record.end", cudaEventRecord(end, stream));
  leaves("stream_query.pending", cudaStreamQuery(stream));
  leaves("query.pending", cudaEventQuery(end));
  is("wait", cudaStreamWaitEvent(nullptr, event, 0));
  leaves("wait.null", cudaStreamWaitEvent(stream, nullptr, 0));
  leaves("record.null", cudaEventRecord(nullptr, stream));
  open = true;
  is("synchronize", cudaEventSynchronize(end));
  is("query", cudaEventQuery(end));
  is("elapsed", cudaEventElapsedTime(&milliseconds, event, end));
  shows("elapsed.positive", milliseconds > 0);
  shows("copied", *static_cast<int*>(host));
  is("stream_synchronize", cudaStreamSynchronize(stream));
  is("stream_query", cudaStreamQuery(stream));
  leaves("stream_destroy.null", cudaStreamDestroy(nullptr));
  is("stream_destroy", cudaStreamDestroy(stream));
  leaves("event_destroy.null", cudaEventDestroy(nullptr));
  is("event_destroy", cudaEventDestroy(event));
  is("event_destroy.end", cudaEventDestroy(end));
  is("free", cudaFree(device));
  is("free_host", cudaFreeHost(host));
}

/// What was made before is gone, and the next call begins anew.
void reset() {
  void *device = nullptr, *host = nullptr;
  Event event = nullptr;
  int number = -1;
  is("reset.malloc", cudaMalloc(&device, 4));
  is("reset.host", cudaMallocHost(&host, 4));
  is("reset.event", cudaEventCreate(&event));
  cudaSetDevice(99);
  leaves("reset", cudaDeviceReset());
  leaves("reset.event", cudaEventQuery(event));
  leaves("reset.again", cudaDeviceReset());
  is("reset.device", cudaGetDevice(&number));
  shows("reset.device", number);
  leaves("reset.copy", cudaMemcpy(device, &number, 4, direction(1)));
  leaves("reset.free", cudaFree(device));
  leaves("reset.free_host", cudaFreeHost(host));
  is("reset.then.malloc", cudaMalloc(&device, 4));
  is("reset.then.copy", cudaMemcpy(device, &number, 4, direction(1)));
  is("reset.then.free", cudaFree(device));
}

#ifdef __CUDACC__
void kernels() {
  Stream stream = nullptr;
  is("kernels.stream", cudaStreamCreate(&stream));
  step<<<1, 1>>>(nullptr);
  is("launch", cudaGetLastError());
  step<<<2, 32, 0, stream>>>(nullptr);
  is("launch.stream", cudaGetLastError());
  step<<<1, 5000>>>(nullptr);
  is("launch.too_many_threads", cudaGetLastError());
  step<<<0, 1>>>(nullptr);
  is("launch.no_blocks", cudaGetLastError());
  is("launch.not_a_kernel",
     cudaLaunchKernel(reinterpret_cast<const void*>(&kernels), dim3(1), dim3(1), nullptr, 0, stream));
  is("launch.last", cudaGetLastError());
  is("launch.synchronize", cudaDeviceSynchronize());
}
#endif

} // namespace

int main() {
  errors();
  devices();
  memory();
  streams_and_events();
#ifdef __CUDACC__
  kernels();
#endif
  reset();
#ifdef __CUDACC__
  kernels();
#endif
  return 0;
}
