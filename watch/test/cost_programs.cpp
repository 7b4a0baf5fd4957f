// SPDX-License-Identifier: MIT
// Programs that waste, and programs that leak.
#include "programs.hpp"

#include <chrono>
#include <thread>

namespace {

constexpr int many = 200;

void record_and_query(Gpu& gpu, CUevent event, int queries) {
  expect(cuEventRecord(event, gpu.a));
  expect(cuEventSynchronize(event));
  for (int i = 0; i < queries; ++i)
    expect(cuEventQuery(event));
}

/// The events of a step, and their destruction.
void use_briefly(Gpu& gpu, int events) {
  std::vector<CUevent> made;
  for (int i = 0; i < events; ++i) {
    made.push_back(gpu.event());
    expect(cuEventRecord(made.back(), gpu.a));
    expect(cuStreamWaitEvent(gpu.b, made.back(), 0));
  }
  for (const CUevent event : made)
    expect(cuEventDestroy(event));
}

void take_a_while(void*) { std::this_thread::sleep_for(std::chrono::microseconds(100)); }

void alternate(Gpu& gpu, CUstream other) {
  for (int i = 0; i < many; ++i) {
    gpu.work(other);
    gpu.work(CU_STREAM_LEGACY);
  }
}

void wait_for_itself(Gpu& gpu, int times) {
  const CUevent event = gpu.event();
  for (int i = 0; i < times; ++i) {
    gpu.work(gpu.a);
    expect(cuEventRecord(event, gpu.a));
    expect(cuStreamWaitEvent(gpu.a, event, 0));
  }
}

CUgraph captured(Gpu& gpu) {
  CUgraph graph = nullptr;
  expect(cuStreamBeginCapture(gpu.a, CU_STREAM_CAPTURE_MODE_RELAXED));
  gpu.work(gpu.a);
  expect(cuStreamEndCapture(gpu.a, &graph));
  return graph;
}

/// One object of each kind, in addition to the streams of the Gpu.
struct Objects {
  explicit Objects(Gpu& gpu) : made_by_capture(captured(gpu)), event(gpu.event()) {
    expect(cuGraphCreate(&empty, 0));
    expect(cuGraphClone(&clone, made_by_capture));
    expect(cuGraphInstantiateWithFlags(&exec, clone, 0));
  }
  void destroy() const {
    expect(cuGraphExecDestroy(exec));
    for (const CUgraph graph : {made_by_capture, empty, clone})
      expect(cuGraphDestroy(graph));
    expect(cuEventDestroy(event));
  }

  CUgraph made_by_capture = nullptr, empty = nullptr, clone = nullptr;
  CUgraphExec exec = nullptr;
  CUevent event = nullptr;
};

} // namespace

const std::vector<Programs>& cost_programs() {
  static const std::vector<Programs> programs = {
      {"timed-never-read",
       [](Gpu& gpu) {
         const CUevent event = gpu.event(CU_EVENT_DEFAULT);
         for (int i = 0; i < many; ++i)
           expect(cuEventRecord(event, gpu.a));
       },
       [](Gpu& gpu) { // the time is read, though late; the other event measures none
         const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT);
         const CUevent untimed = gpu.event();
         for (int i = 0; i < many; ++i)
           for (const CUevent event : {start, end, untimed})
             expect(cuEventRecord(event, gpu.a));
         float milliseconds = 0;
         expect(cuStreamSynchronize(gpu.a));
         expect(cuEventElapsedTime(&milliseconds, start, end));
       },
       "--cost"},
      {"created-in-a-loop",
       [](Gpu& gpu) {
         for (int i = 0; i < many; ++i)
           use_briefly(gpu, 2);
       },
       [](Gpu& gpu) { use_briefly(gpu, many); }, // all at once: no event could serve twice
       "--cost"},
      {"blocking-in-a-loop",
       [](Gpu& gpu) {
         for (int i = 0; i < many; ++i) {
           expect(cuLaunchHostFunc(gpu.a, take_a_while, nullptr));
           expect(cuStreamSynchronize(gpu.a));
         }
       },
       [](Gpu& gpu) { // a wait for all steps
         for (int i = 0; i < many; ++i)
           expect(cuLaunchHostFunc(gpu.a, take_a_while, nullptr));
         expect(cuStreamSynchronize(gpu.a));
       },
       "--cost"},
      {"query-of-completed", [](Gpu& gpu) { record_and_query(gpu, gpu.event(), many); },
       [](Gpu& gpu) { // each record is queried twice
         const CUevent event = gpu.event();
         for (int i = 0; i < many; ++i)
           record_and_query(gpu, event, 2);
       },
       "--cost"},
      {"legacy-between-streams", [](Gpu& gpu) { alternate(gpu, gpu.stream(CU_STREAM_DEFAULT)); },
       [](Gpu& gpu) { // one stream does not block, and the blocking one has work only once
         gpu.work(gpu.stream(CU_STREAM_DEFAULT));
         alternate(gpu, gpu.a);
       },
       "--cost"},
      {"wait-for-own-stream", [](Gpu& gpu) { wait_for_itself(gpu, many); },
       [](Gpu& gpu) { wait_for_itself(gpu, 20); }, "--cost"},
      {"leaked", [](Gpu& gpu) { Objects{gpu}; },
       [](Gpu& gpu) { // both contexts end with all that belongs to them
         Objects(gpu).destroy();
         const CUcontext other = gpu.other_context();
         gpu.stream(), gpu.event();
         expect(cuCtxDestroy(other));
         expect(cuDevicePrimaryCtxRelease(0));
       },
       "--leaks"},
  };
  return programs;
}
