// SPDX-License-Identifier: MIT
// Short forms of the driver calls that many test programs make. They end the program if a call fails.
#pragma once

#include "programs.hpp"
#include <kernels.hpp>

#include <unistd.h>

/// Of the device or the host; for some milliseconds.
inline void sleep_ms(unsigned ms) { usleep(1000 * ms); }
inline void slow(CUstream on) {
  expect(cuLaunchHostFunc(
      on, [](void*) { sleep_ms(3); }, nullptr));
}

inline std::vector<CUevent> events(const Gpu& gpu, int count, unsigned flags = CU_EVENT_DISABLE_TIMING) {
  std::vector<CUevent> made;
  for (int i = 0; i < count; ++i)
    made.push_back(gpu.event(flags));
  return made;
}
inline void finish(CUstream on) { expect(cuStreamSynchronize(on)); }
inline void record(CUevent event, CUstream on) { expect(cuEventRecord(event, on)); }
inline void wait(CUstream on, CUevent event) { expect(cuStreamWaitEvent(on, event, 0)); }
/// Lets `second` wait for the work of `first`.
inline void order(CUstream first, CUevent event, CUstream second) {
  record(event, first), wait(second, event);
}
inline CUresult time_between(CUevent start, CUevent stop) {
  float milliseconds = 0;
  return cuEventElapsedTime(&milliseconds, start, stop);
}
inline void destroy(CUevent event) { expect(cuEventDestroy(event)); }

/// Returns when the thread has ended.
void run_on_another_thread(void (*body)(void*), void* data);
template <class Body>
void on_another_thread(Body body) {
  run_on_another_thread([](void* data) { (*static_cast<Body*>(data))(); }, &body);
}

constexpr CUstreamCaptureMode global = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr CUstreamCaptureMode thread_local_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

inline void begin(CUstream on, CUstreamCaptureMode mode = global) { expect(cuStreamBeginCapture(on, mode)); }
inline CUresult try_end(CUstream on, CUgraph* graph = nullptr) {
  CUgraph made = nullptr;
  return cuStreamEndCapture(on, graph != nullptr ? graph : &made);
}
inline CUgraph end(CUstream on) {
  CUgraph graph = nullptr;
  expect(try_end(on, &graph));
  return graph;
}
/// A capture that may be lost in between.
template <class Body>
void in_capture(CUstream on, CUstreamCaptureMode mode, Body body) {
  begin(on, mode);
  body();
  try_end(on);
}
inline void ask_for_capture(CUstream of) {
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
#if CUDA_VERSION >= 13000
  cuStreamGetCaptureInfo(of, &status, &id, nullptr, nullptr, nullptr, nullptr);
#else
  cuStreamGetCaptureInfo(of, &status, &id, nullptr, nullptr, nullptr);
#endif
}
inline CUgraphExec instantiate(CUgraph graph) {
  CUgraphExec exec = nullptr;
  expect(cuGraphInstantiate(&exec, graph, 0));
  return exec;
}
/// Of a graph that is not needed afterwards.
inline CUgraphExec exec_of(CUgraph graph) {
  CUgraphExec exec = instantiate(graph);
  expect(cuGraphDestroy(graph));
  return exec;
}
/// A captured graph of some work.
inline CUgraph graph_of_work(const Gpu& gpu, CUstream on, int count = 1) {
  begin(on, relaxed);
  for (int i = 0; i < count; ++i)
    gpu.work(on);
  return end(on);
}
/// A graph that was not captured, with a node that records the event.
inline CUgraph graph_of_record(CUevent event, CUgraphNode* node = nullptr) {
  CUgraph graph = nullptr;
  CUgraphNode made = nullptr;
  expect(cuGraphCreate(&graph, 0));
  expect(cuGraphAddEventRecordNode(node ? node : &made, graph, nullptr, 0, event));
  return graph;
}
inline CUfunction kernel(const char* name) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  expect(cuModuleLoadData(&module, kernels));
  expect(cuModuleGetFunction(&function, module, name));
  return function;
}
/// A kernel without parameters.
inline void run(CUfunction function, CUstream on) {
  expect(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, on, nullptr, nullptr));
}
inline void launch(CUgraphExec exec, CUstream on) { expect(cuGraphLaunch(exec, on)); }

inline void destroy_streams(const Gpu& gpu) {
  for (CUstream each : {gpu.a, gpu.b})
    expect(cuStreamDestroy(each));
}
/// Waits for the work of `gpu` and destroys what it has, and the graph, if there is one.
inline void clean(const Gpu& gpu, const std::vector<CUevent>& events = {}, CUgraphExec exec = nullptr) {
  expect(cuCtxSetCurrent(gpu.context));
  expect(cuCtxSynchronize());
  if (exec != nullptr) expect(cuGraphExecDestroy(exec));
  for (CUevent each : events)
    destroy(each);
  destroy_streams(gpu);
  expect(cuMemFree(gpu.memory));
  expect(cuDevicePrimaryCtxRelease(0));
}
