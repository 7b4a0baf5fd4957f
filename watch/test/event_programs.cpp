// SPDX-License-Identifier: MIT
#include "programs.hpp"
#include <kernels.hpp>

#include <chrono>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

/// Graphs with one node that records the event.
CUgraphExec graph_that_records(CUevent event) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  expect(cuGraphCreate(&graph, 0));
  expect(cuGraphAddEventRecordNode(&node, graph, nullptr, 0, event));
  expect(cuGraphInstantiateWithFlags(&exec, graph, 0));
  expect(cuGraphDestroy(graph));
  return exec;
}

/// An event whose only record is part of a finished capture.
CUevent captured_event(Gpu& gpu) {
  const CUevent event = gpu.event();
  CUgraph graph = nullptr;
  expect(cuStreamBeginCapture(gpu.a, CU_STREAM_CAPTURE_MODE_RELAXED));
  gpu.work(gpu.a);
  expect(cuEventRecord(event, gpu.a));
  expect(cuStreamEndCapture(gpu.a, &graph));
  return event;
}

/// The executable graph of a captured graph's clone records another event than the graph.
void replace_captured_event(Gpu& gpu) {
  const CUevent first = gpu.event(), second = gpu.event();
  CUgraph graph = nullptr, clone = nullptr;
  expect(cuStreamBeginCapture(gpu.a, CU_STREAM_CAPTURE_MODE_RELAXED));
  expect(cuEventRecordWithFlags(first, gpu.a, CU_EVENT_RECORD_EXTERNAL));
  expect(cuStreamEndCapture(gpu.a, &graph));
  expect(cuGraphClone(&clone, graph));
  CUgraphNode node = nullptr;
  std::size_t count = 1;
  expect(cuGraphGetNodes(clone, &node, &count));
  CUgraphExec exec = nullptr;
  expect(cuGraphInstantiateWithFlags(&exec, clone, 0));
  expect(cuGraphExecEventRecordNodeSetEvent(exec, node, second));
  expect(cuGraphDestroy(graph));
  expect(cuGraphDestroy(clone));
  expect(cuEventDestroy(first));
  expect(cuGraphLaunch(exec, gpu.a));
}

#if CUDA_VERSION >= 12040
CUgreenCtx green_context() {
  CUdevResource processors{};
  CUdevResourceDesc description = nullptr;
  CUgreenCtx green = nullptr;
  expect(cuDeviceGetDevResource(0, &processors, CU_DEV_RESOURCE_TYPE_SM));
  expect(cuDevResourceGenerateDesc(&description, &processors, 1));
  expect(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  return green;
}
#endif

/// A green context on the device of the event's primary context can wait for an interprocess event too.
void wait_in_green_context([[maybe_unused]] CUevent event) {
#if CUDA_VERSION >= 12040
  expect(cuGreenCtxWaitEvent(green_context(), event));
#endif
}

/// The wait follows a record that no stream was named for.
void wait_for_record_of_green_context([[maybe_unused]] Gpu& gpu) {
#if CUDA_VERSION >= 12040
  const CUevent event = gpu.event();
  expect(cuGreenCtxRecordEvent(green_context(), event));
  expect(cuStreamWaitEvent(gpu.a, event, 0));
#endif
}

void time_slow_work(Gpu& gpu, CUevent start, CUevent end) {
  expect(cuEventRecord(start, gpu.a));
  const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  expect(cuLaunchHostFunc(gpu.a, sleep, nullptr));
  expect(cuEventRecord(end, gpu.a));
}

template <class Work>
void in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

void launch(CUstream stream, const char* kernel) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  expect(cuModuleLoadData(&module, kernels));
  expect(cuModuleGetFunction(&function, module, kernel));
  CUdeviceptr told = 0;
  unsigned long long bound = 0;
  void* arguments[] = {&told, &bound};
  expect(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
}

} // namespace

const std::vector<Programs>& event_programs() {
  static const std::vector<Programs> programs = {
      {"wait-never-recorded", [](Gpu& gpu) { expect(cuStreamWaitEvent(gpu.a, gpu.event(), 0)); },
       [](Gpu& gpu) { // it was recorded, though by a graph
         const CUevent event = gpu.event();
         expect(cuGraphLaunch(graph_that_records(event), gpu.b));
         expect(cuStreamWaitEvent(gpu.a, event, 0));
         expect(cuEventQuery(gpu.event())); // a query says "complete", which is no wait
         wait_for_record_of_green_context(gpu);
       }},
      {"wait-before-record",
       [](Gpu& gpu) {
         const CUevent event = gpu.event();
         expect(cuEventRecord(event, gpu.a));
         for (int i = 0; i < 3; ++i) {
           gpu.work(gpu.a);
           expect(cuStreamWaitEvent(gpu.b, event, 0));
           expect(cuEventRecord(event, gpu.a));
         }
       },
       [](Gpu& gpu) { // the wait is for the work of the step before
         const CUevent lagging = gpu.event();
         for (int i = 0; i < 5; ++i) {
           gpu.work(gpu.a);
           if (i > 0) expect(cuStreamWaitEvent(gpu.b, lagging, 0));
           expect(cuEventRecord(lagging, gpu.a));
           gpu.work(gpu.b);
         }
         const CUevent event = gpu.event();
         expect(cuEventRecord(event, gpu.a));
         for (int i = 0; i < 3; ++i) {
           gpu.work(gpu.a);
           expect(cuStreamWaitEvent(gpu.b, event, 0));
           gpu.work(gpu.b);
           expect(cuEventRecord(event, gpu.a));
         }
       }},
      {"recorded-in-capture-only",
       [](Gpu& gpu) { expect(cuEventQuery(captured_event(gpu)), CUDA_ERROR_INVALID_VALUE); },
       [](Gpu& gpu) {
         const CUevent event = captured_event(gpu);
         expect(cuEventRecord(event, gpu.a));
         expect(cuEventSynchronize(event));
       }},
      {"record-in-other-context",
       [](Gpu& gpu) {
         const CUevent event = gpu.event();
         gpu.other_context();
         expect(cuEventRecord(event, gpu.stream()), CUDA_ERROR_INVALID_HANDLE);
       },
       [](Gpu& gpu) { // a wait may cross contexts, and the current context does not matter
         const CUevent event = gpu.event();
         gpu.other_context();
         expect(cuEventRecord(event, gpu.a));
         expect(cuStreamWaitEvent(gpu.stream(), event, 0));
       }},
      {"use-after-destroy",
       [](Gpu& gpu) {
         const CUevent event = gpu.event();
         expect(cuEventDestroy(event));
         cuEventQuery(event);
       },
       [](Gpu& gpu) { // a new event may get the address of the old one
         for (int i = 0; i < 100; ++i) {
           const CUevent event = gpu.event();
           expect(cuEventRecord(event, gpu.a));
           expect(cuEventDestroy(event));
         }
       }},
      {"use-after-context",
       [](Gpu& gpu) {
         const CUcontext other = gpu.other_context();
         const CUevent event = gpu.event();
         expect(cuCtxDestroy(other));
         expect(cuCtxSetCurrent(gpu.context));
         expect(cuEventQuery(event), CUDA_ERROR_CONTEXT_IS_DESTROYED);
       },
       [](Gpu& gpu) { // the event of another context lives, and one is destroyed at the exit of the process
         const CUevent event = gpu.event();
         const CUcontext other = gpu.other_context();
         const CUevent old = gpu.event();
         expect(cuEventRecord(old, gpu.stream()));
         expect(cuCtxDestroy(other));
         expect(cuCtxSetCurrent(gpu.context));
         expect(cuEventRecord(event, gpu.a));
         expect(cuEventSynchronize(event));
         static CUevent destroyed_late = nullptr;
         destroyed_late = old;
         std::atexit([] { cuEventDestroy(destroyed_late); });
       }},
      {"interprocess-wait",
       [](Gpu& gpu) {
         const CUevent event = gpu.event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
         gpu.other_context();
         expect(cuStreamWaitEvent(gpu.stream(), event, 0), CUDA_ERROR_INVALID_HANDLE);
       },
       [](Gpu& gpu) {
         const CUevent event = gpu.event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
         expect(cuStreamWaitEvent(gpu.a, event, 0));
         gpu.other_context();
         expect(cuStreamWaitEvent(gpu.a, event, 0)); // the context of the stream counts, not the current one
         wait_in_green_context(event);
       }},
      {"destroyed-in-graph",
       [](Gpu& gpu) {
         const CUevent event = gpu.event();
         graph_that_records(event);
         expect(cuEventDestroy(event));
       },
       [](Gpu& gpu) {
         const CUevent event = gpu.event();
         expect(cuGraphExecDestroy(graph_that_records(event)));
         expect(cuEventDestroy(event));
         replace_captured_event(gpu);
       }},
      {"elapsed-without-timing",
       [](Gpu& gpu) {
         const CUevent start = gpu.event(), end = gpu.event(CU_EVENT_DEFAULT);
         expect(cuEventRecord(start, gpu.a));
         expect(cuEventRecord(end, gpu.a));
         float milliseconds = 0;
         expect(cuEventSynchronize(end));
         expect(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
       },
       [](Gpu& gpu) { // too early is no mistake
         const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT);
         expect(cuEventRecord(start, gpu.a));
         expect(cuEventRecord(end, gpu.a));
         float milliseconds = 0;
         while (cuEventElapsedTime(&milliseconds, start, end) == CUDA_ERROR_NOT_READY) {
         }
       }},
      {"elapsed-never-recorded",
       [](Gpu& gpu) {
         const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT);
         expect(cuEventRecord(end, gpu.a));
         float milliseconds = 0;
         expect(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
       },
       [](Gpu& gpu) {
         const CUevent event = gpu.event(CU_EVENT_DEFAULT);
         expect(cuEventRecord(event, gpu.a));
         expect(cuEventSynchronize(event));
         float milliseconds = 0;
         expect(cuEventElapsedTime(&milliseconds, event, event));
       }},
      {"elapsed-two-contexts",
       [](Gpu& gpu) {
         const CUevent start = gpu.event(CU_EVENT_DEFAULT);
         expect(cuEventRecord(start, gpu.a));
         gpu.other_context();
         const CUevent end = gpu.event(CU_EVENT_DEFAULT);
         expect(cuEventRecord(end, gpu.stream()));
         float milliseconds = 0;
         expect(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
       },
       [](Gpu& gpu) { // two streams of one context, while another is current
         const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT);
         gpu.other_context();
         expect(cuEventRecord(start, gpu.a));
         expect(cuEventRecord(end, gpu.b));
         expect(cuEventSynchronize(start));
         expect(cuEventSynchronize(end));
         float milliseconds = 0;
         expect(cuEventElapsedTime(&milliseconds, start, end));
       }},
      {"elapsed-too-early",
       [](Gpu& gpu) {
         const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT);
         time_slow_work(gpu, start, end);
         float milliseconds = 0;
         expect(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
       },
       [](Gpu& gpu) { // it is asked again
         const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT);
         time_slow_work(gpu, start, end);
         float milliseconds = 0;
         expect(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
         expect(cuEventSynchronize(end));
         expect(cuEventElapsedTime(&milliseconds, start, end));
       }},
      {"elapsed-reversed",
       [](Gpu& gpu) {
         const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT);
         time_slow_work(gpu, start, end);
         expect(cuEventSynchronize(end));
         float milliseconds = 0;
         expect(cuEventElapsedTime(&milliseconds, end, start));
       },
       [](Gpu& gpu) { // the next step records the start again, before the time of the last step is read
         const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT);
         for (int i = 0; i < 2; ++i)
           time_slow_work(gpu, start, end);
         expect(cuEventSynchronize(end));
         float milliseconds = 0;
         expect(cuEventElapsedTime(&milliseconds, start, end));
         expect(cuEventElapsedTime(&milliseconds, start, start));
       }},
      {"elapsed-without-work",
       [](Gpu& gpu) {
         const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT);
         expect(cuEventRecord(start, gpu.b));
         gpu.work(gpu.a);
         expect(cuEventRecord(end, gpu.b));
         expect(cuEventSynchronize(end));
         float milliseconds = 0;
         expect(cuEventElapsedTime(&milliseconds, start, end));
       },
       [](Gpu& gpu) { // the stream waits for the work of the other one, or a copy is measured
         const CUevent start = gpu.event(CU_EVENT_DEFAULT), end = gpu.event(CU_EVENT_DEFAULT);
         const CUevent done = gpu.event();
         float milliseconds = 0;
         for (const CUstream stream : {gpu.b, CUstream(nullptr)}) {
           expect(cuEventRecord(start, stream));
           gpu.work(gpu.a);
           expect(cuEventRecord(done, gpu.a));
           if (stream != nullptr) expect(cuStreamWaitEvent(stream, done, 0));
           unsigned char byte = 0;
           if (stream == nullptr) expect(cuMemcpyDtoH(&byte, gpu.memory, 1));
           expect(cuEventRecord(end, stream));
           expect(cuEventSynchronize(end));
           expect(cuEventElapsedTime(&milliseconds, start, end));
         }
       }},
      {"record-replaced",
       [](Gpu& gpu) {
         const CUevent event = gpu.event();
         const CUstream third = gpu.stream();
         for (const CUstream stream : {gpu.a, gpu.b, third}) {
           gpu.work(stream);
           expect(cuEventRecord(event, stream));
         }
         expect(cuEventSynchronize(event));
       },
       [](Gpu& gpu) { // the event is handed on, and the last stream has all work before it
         const CUevent event = gpu.event();
         const CUstream third = gpu.stream();
         gpu.work(gpu.a);
         expect(cuEventRecord(event, gpu.a));
         for (const CUstream stream : {gpu.b, third, gpu.a}) {
           expect(cuStreamWaitEvent(stream, event, 0));
           gpu.work(stream);
           expect(cuEventRecord(event, stream));
         }
         expect(cuEventSynchronize(event));
       }},
      {"use-after-error",
       [](Gpu& gpu) {
         const CUevent event = gpu.event();
         expect(cuEventRecordWithFlags(event, gpu.a, 64), CUDA_ERROR_INVALID_VALUE);
         expect(cuStreamWaitEvent(gpu.b, event, 0));
       },
       [](Gpu& gpu) {
         const CUevent event = gpu.event();
         expect(cuEventRecordWithFlags(event, gpu.a, 64), CUDA_ERROR_INVALID_VALUE);
         expect(cuEventRecord(event, gpu.a));
         expect(cuStreamWaitEvent(gpu.b, event, 0));
       }},
      {"refused-call",
       [](Gpu& gpu) {
         CUipcEventHandle handle;
         expect(cuIpcGetEventHandle(&handle, gpu.event()), CUDA_ERROR_INVALID_HANDLE);
       },
       [](Gpu& gpu) { // nobody makes a mistake who asks too early, or destroys nothing
         CUipcEventHandle handle;
         expect(cuIpcGetEventHandle(&handle, gpu.event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)));
         expect(cuEventDestroy(nullptr), CUDA_ERROR_INVALID_HANDLE);
       }},
      {"used-after-fork",
       [](Gpu& gpu) {
         const CUevent event = gpu.event();
         expect(cuEventRecord(event, gpu.a));
         in_child([&] { cuEventQuery(event); });
       },
       [](Gpu& gpu) {
         in_child([] {});
         expect(cuEventRecord(gpu.event(), gpu.a));
       }},
      {"device-fault",
       [](Gpu& gpu) { // each of the events tells of the one fault
         launch(gpu.a, "write_illegal_address");
         const CUevent event = gpu.event();
         cuEventRecord(event, gpu.a);
         expect(cuStreamSynchronize(gpu.a), CUDA_ERROR_ILLEGAL_ADDRESS);
         for (int i = 0; i < 20; ++i) {
           expect(cuEventRecord(event, gpu.b), CUDA_ERROR_ILLEGAL_ADDRESS);
           expect(cuStreamWaitEvent(gpu.a, event, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
         }
       },
       [](Gpu& gpu) {
         launch(gpu.a, "step");
         expect(cuStreamSynchronize(gpu.a));
       }},
  };
  return programs;
}
