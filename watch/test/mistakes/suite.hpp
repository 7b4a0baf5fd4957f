// SPDX-License-Identifier: MIT
// What the programs of the suite share. MISTAKE and HARMLESS define a program and add it to the list.
#pragma once

#include "../programs.hpp"

#include <chrono>
#include <initializer_list>
#include <thread>

/// One program: a mistake that a finding has to name, or none.
struct Program {
  const char* kind; // "mistake" or "harmless"
  const char* name;
  const char* what;    // what is wrong, or what looks wrong and is not
  const char* options; // of `cuevent watch`
  void (*run)(Gpu&);
};

inline std::vector<Program>& programs() {
  static std::vector<Program> all;
  return all;
}

struct Listed {
  explicit Listed(const Program& program) { programs().push_back(program); }
};

#define CUEVENT_PROGRAM(kind, name, what, options)                                                           \
  static void name(Gpu&);                                                                                    \
  static const Listed listed_##name({kind, #name, what, options, name});                                     \
  static void name([[maybe_unused]] Gpu& gpu)
/// A finding has to name every line that ends with `//!`.
#define MISTAKE(name, what) CUEVENT_PROGRAM("mistake", name, what, "")
#define MISTAKE_WITH(options, name, what) CUEVENT_PROGRAM("mistake", name, what, options)
#define HARMLESS(name, what) CUEVENT_PROGRAM("harmless", name, what, "--cost --leaks")
#define HARMLESS_WITH(options, name, what) CUEVENT_PROGRAM("harmless", name, what, options)

/// Work that runs for some milliseconds.
inline void slow(CUstream on) {
  const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(3)); };
  expect(cuLaunchHostFunc(on, sleep, nullptr));
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

template <class Body>
void on_another_thread(Body body) {
  std::thread(body).join();
}

constexpr CUstreamCaptureMode global = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr CUstreamCaptureMode thread_local_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

inline void begin(CUstream on, CUstreamCaptureMode mode = global) { expect(cuStreamBeginCapture(on, mode)); }
inline CUgraph end(CUstream on) {
  CUgraph graph = nullptr;
  expect(cuStreamEndCapture(on, &graph));
  return graph;
}
inline CUresult try_end(CUstream on) {
  CUgraph graph = nullptr;
  return cuStreamEndCapture(on, &graph);
}
/// A capture that may be lost in between.
template <class Body>
void in_capture(CUstream on, CUstreamCaptureMode mode, Body body) {
  begin(on, mode);
  body();
  try_end(on);
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
inline void launch(CUgraphExec exec, CUstream on) { expect(cuGraphLaunch(exec, on)); }

/// Waits for the work of `gpu` and destroys what it has, and the graph, if there is one.
inline void clean(const Gpu& gpu, const std::vector<CUevent>& events = {}, CUgraphExec exec = nullptr) {
  expect(cuCtxSetCurrent(gpu.context));
  expect(cuCtxSynchronize());
  if (exec != nullptr) expect(cuGraphExecDestroy(exec));
  for (CUevent each : events)
    destroy(each);
  for (CUstream each : {gpu.a, gpu.b})
    expect(cuStreamDestroy(each));
  expect(cuMemFree(gpu.memory));
  expect(cuDevicePrimaryCtxRelease(0));
}
