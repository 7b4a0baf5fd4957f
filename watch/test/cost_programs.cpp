// SPDX-License-Identifier: MIT
// Programs that waste, and programs that leak. What is corrected comes as close to it as it may.
#include "driver_calls.hpp"

namespace {

constexpr int many = 200;

MISTAKE("timed-never-read", timed_never_read, "the time is never read", "--cost") {
  const CUevent timed = gpu.event(CU_EVENT_DEFAULT); //!
  const CUevent end = corrected ? gpu.event(CU_EVENT_DEFAULT) : nullptr;
  const CUevent untimed = gpu.event();
  for (int i = 0; i < many; ++i) {
    record(timed, gpu.a);
    if (corrected) record(end, gpu.a);
    record(untimed, gpu.a);
  }
  finish(gpu.a);
  if (corrected) expect(time_between(timed, end)); // though late
}

MISTAKE("created-in-a-loop", created_in_a_loop, "each step has its own events", "--cost") {
  for (int step = 0; step < (corrected ? 1 : many); ++step) {
    std::vector<CUevent> made;
    for (int i = 0; i < (corrected ? many : 2); ++i) { // all at once: no event could serve twice
      made.push_back(gpu.event());                     //!
      order(gpu.a, made.back(), gpu.b);
    }
    for (const CUevent event : made)
      destroy(event);
  }
}

MISTAKE("blocking-in-a-loop", blocking_in_a_loop, "the host waits in each step", "--cost") {
  for (int i = 0; i < many; ++i) {
    expect(cuLaunchHostFunc(
        gpu.a, [](void*) { usleep(100); }, nullptr));
    if (!corrected) finish(gpu.a); //!
  }
  finish(gpu.a); // for all steps
}

MISTAKE("query-of-completed", query_of_completed, "what is known is asked again and again", "--cost") {
  const CUevent event = gpu.event();
  for (int step = 0; step < (corrected ? many : 1); ++step) {
    record(event, gpu.a);
    expect(cuEventSynchronize(event));
    for (int i = 0; i < (corrected ? 2 : many); ++i)
      expect(cuEventQuery(event)); //!
  }
}

MISTAKE("legacy-between-streams", legacy_between_streams, "a blocking stream waits for the default stream",
        "--cost --stacks all") {
  const CUstream blocking = gpu.stream(CU_STREAM_DEFAULT);
  gpu.work(blocking); // only once, in what is corrected
  for (int i = 0; i < many; ++i) {
    gpu.work(corrected ? gpu.a : blocking);
    gpu.work(CU_STREAM_LEGACY); //!
  }
}

MISTAKE("wait-for-own-stream", wait_for_own_stream, "a stream waits for its own work", "--cost") {
  const CUevent event = gpu.event();
  for (int i = 0; i < (corrected ? 20 : many); ++i) {
    gpu.work(gpu.a);
    record(event, gpu.a);
    wait(gpu.a, event); //!
  }
}

MISTAKE("pageable-copy", pageable_copy, "the host copies into memory that is pageable, and waits", "--cost") {
  std::vector<char> pageable(4096);
  void* pinned = nullptr;
  expect(cuMemHostAlloc(&pinned, pageable.size(), 0));
  for (int i = 0; i < many; ++i) {
    expect(cuLaunchHostFunc(
        gpu.a, [](void*) { usleep(100); }, nullptr));
    cuMemcpyDtoHAsync(corrected ? pinned : pageable.data(), gpu.memory, pageable.size(), gpu.a); //!
  }
  finish(gpu.a);
}

MISTAKE("allocated-in-a-loop", allocated_in_a_loop, "each step allocates memory and frees it", "--cost") {
  std::vector<CUdeviceptr> kept;
  CUdeviceptr memory = 0;
  for (int i = 0; i < many; ++i) {
    cuMemAlloc(&memory, 4096); //!
    kept.push_back(memory);
    expect(cuMemsetD8Async(memory, 0, 4096, gpu.a));
    if (!corrected) cuMemFree(memory); //!
  }
  for (const CUdeviceptr each : kept)
    if (corrected) cuMemFree(each);
}

MISTAKE("serial-host-functions", serial_host_functions, "a slow function of one stream holds another one up",
        "--cost") {
  const auto sleep = [](void*) { usleep(300); };
  for (int i = 0; i < many; ++i)
    for (const CUstream stream : {gpu.a, gpu.b})
      cuLaunchHostFunc(corrected ? gpu.a : stream, sleep, nullptr); //!
  for (const CUstream stream : {gpu.a, gpu.b})
    finish(stream);
}

MISTAKE("leaked", leaked, "an object of each kind is left", "--leaks") {
  const CUgraph captured = graph_of_work(gpu, gpu.a);
  const CUevent event = gpu.event(); //!
  CUgraph empty = nullptr, clone = nullptr;
  expect(cuGraphCreate(&empty, 0));
  expect(cuGraphClone(&clone, captured));
  const CUgraphExec exec = instantiate(clone);
  if (!corrected) return;
  expect(cuGraphExecDestroy(exec));
  for (const CUgraph graph : {captured, empty, clone})
    expect(cuGraphDestroy(graph));
  destroy(event);
  const CUcontext other = gpu.other_context();
  gpu.stream(), gpu.event();
  expect(cuCtxDestroy(other)); // both contexts end with all that belongs to them
  expect(cuDevicePrimaryCtxRelease(0));
}

} // namespace
