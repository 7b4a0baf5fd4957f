// SPDX-License-Identifier: MIT
// Waste and leaks, in several shapes.
#include "../driver_calls.hpp"

#include <memory>
#include <utility>
#include <vector>

namespace {

MISTAKE("created-in-a-loop", events_made_by_a_pool_of_threads,
        "each task of each thread creates an event for one wait", "--cost") {
  for (int thread = 0; thread < 3; ++thread)
    on_another_thread([&] {
      expect(cuCtxSetCurrent(gpu.context));
      CUevent once = nullptr;
      for (int i = 0; i < 60; ++i) {
        if (once == nullptr || !corrected) cuEventCreate(&once, CU_EVENT_DISABLE_TIMING); //!
        order(gpu.a, once, gpu.b);
        if (!corrected) destroy(once);
      }
    });
}

MISTAKE("blocking-in-a-loop", waits_after_each_launch,
        "the host waits after each submission, though the next needs no result", "--cost") {
  CUevent done = gpu.event();
  for (int i = 0; i < 120; ++i) {
    slow(gpu.a);
    record(done, gpu.a);
    if (!corrected) cuEventSynchronize(done); //!
  }
}

MISTAKE("query-of-completed", polls_what_is_done,
        "a thread asks again and again for an event that is known to be done", "--cost") {
  CUevent done = gpu.event();
  record(done, gpu.a);
  expect(cuEventSynchronize(done));
  on_another_thread([&] {
    for (int i = 0; i < (corrected ? 1 : 150); ++i)
      cuEventQuery(done); //!
  });
}

MISTAKE("legacy-between-streams", default_stream_between_blocking_ones,
        "the default stream separates two streams", "--cost --stacks all") {
  CUstream blocking = gpu.stream(corrected ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
  for (int i = 0; i < 150; ++i) {
    gpu.work(blocking);
    gpu.work(nullptr); //!
  }
  finish(blocking);
}

MISTAKE("created-in-a-loop", instantiates_in_each_step, "each step captures and instantiates the same graph",
        "--cost") {
  CUgraphExec exec = nullptr;
  for (int i = 0; i < 120; ++i) {
    begin(gpu.a);
    gpu.work(gpu.a);
    CUgraph graph = end(gpu.a);
    CUgraphExecUpdateResultInfo info;
    if (exec != nullptr) expect(cuGraphExecUpdate(exec, graph, &info));
    if (exec == nullptr) cuGraphInstantiate(&exec, graph, 0); //!
    launch(exec, gpu.a);
    if (!corrected) expect(cuGraphExecDestroy(std::exchange(exec, nullptr)));
    expect(cuGraphDestroy(graph));
  }
}

MISTAKE("created-in-a-loop", stream_for_each_task, "each task creates a stream and destroys it", "--cost") {
  CUstream own = nullptr;
  for (int i = 0; i < 120; ++i) {
    if (own == nullptr) cuStreamCreate(&own, CU_STREAM_NON_BLOCKING); //!
    gpu.work(own);
    if (!corrected) expect(cuStreamDestroy(std::exchange(own, nullptr)));
  }
}

MISTAKE("pageable-copy", batches_in_pageable_memory,
        "a thread hands over batches of new[], by copies that name no direction", "--cost") {
  const auto batch = std::make_unique<char[]>(4096);
  const auto from = reinterpret_cast<CUdeviceptr>(batch.get());
  if (corrected) expect(cuMemHostRegister(batch.get(), 4096, 0));
  on_another_thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    for (int i = 0; i < 120; ++i) {
      slow(gpu.a);
      cuMemcpyAsync(from, gpu.memory, 4096, gpu.a); //!
      gpu.work(gpu.b);
    }
  });
  finish(gpu.a);
}

MISTAKE("pageable-copy", rows_of_pageable_memory, "a picture in pageable memory is filled by rows",
        "--cost") {
  std::vector<char> picture(4096);
  if (corrected) expect(cuMemHostRegister(picture.data(), picture.size(), 0));
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = gpu.memory;
  rows.dstMemoryType = CU_MEMORYTYPE_HOST;
  rows.dstHost = picture.data();
  rows.srcPitch = rows.dstPitch = rows.WidthInBytes = 64;
  rows.Height = 8;
  for (int i = 0; i < 120; ++i) {
    slow(gpu.a);
    cuMemcpy2DAsync(&rows, gpu.a); //!
  }
  finish(gpu.a);
}

MISTAKE("allocated-in-a-loop", pinned_buffer_for_each_task, "each task pins a buffer of its own", "--cost") {
  void* buffer = nullptr;
  const auto task = [&] {
    if (buffer == nullptr) cuMemHostAlloc(&buffer, 4096, 0); //!
    gpu.work(gpu.a);
    if (!corrected) cuMemFreeHost(std::exchange(buffer, nullptr)); //!
  };
  for (int i = 0; i < 120; ++i)
    task();
}

MISTAKE("allocated-in-a-loop", registers_what_it_gets, "each message is pinned and released again",
        "--cost") {
  std::vector<char> message(4096);
  for (int i = 0; i < 120; ++i) {
    if (i == 0 || !corrected) cuMemHostRegister(message.data(), message.size(), 0); //!
    gpu.work(gpu.a);
    if (!corrected) cuMemHostUnregister(message.data()); //!
  }
}

MISTAKE("serial-host-functions", callbacks_that_work,
        "callbacks of three streams write files, one after another", "--cost") {
  const auto write = [](CUstream, CUresult, void*) { sleep_ms(1); };
  const CUstream streams[] = {gpu.a, gpu.b, gpu.stream()};
  for (int i = 0; i < 60; ++i)
    for (CUstream stream : streams)
      cuStreamAddCallback(corrected ? gpu.a : stream, write, nullptr, 0); //!
  for (CUstream stream : streams)
    finish(stream);
}

MISTAKE("leaked", leaked_exec_of_each_shape, "a new exec replaces the old one, which is not destroyed",
        "--leaks") {
  CUgraphExec exec = nullptr;
  for (int i = 0; i < 4; ++i) {
    begin(gpu.a);
    gpu.work(gpu.a);
    CUgraph graph = end(gpu.a);
    if (corrected && i > 0) expect(cuGraphExecDestroy(exec));
    cuGraphInstantiate(&exec, graph, 0); //!
    expect(cuGraphDestroy(graph));
  }
  expect(cuGraphExecDestroy(exec));
  destroy_streams(gpu);
}

MISTAKE("leaked", leaked_graph_of_a_capture,
        "the graph of a capture is not destroyed once it is instantiated", "--leaks") {
  begin(gpu.a, relaxed);
  gpu.work(gpu.a);
  CUgraph graph = end(gpu.a); //!
  expect(cuGraphExecDestroy(instantiate(graph)));
  if (corrected) expect(cuGraphDestroy(graph));
  destroy_streams(gpu);
}

MISTAKE("leaked", leaked_context, "a context is left when its library is unloaded", "--leaks") {
  CUcontext own = gpu.other_context(); //!
  if (corrected) expect(cuCtxDestroy(own));
  expect(cuCtxSetCurrent(gpu.context));
  destroy_streams(gpu);
}

} // namespace
