// SPDX-License-Identifier: MIT
// What real programs do with contexts, threads and processes, and is right.
#include "../driver_calls.hpp"

#include <cstring>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

HARMLESS(context_created_again, "a context with its events is ended, and the next may get the same handles") {
  for (int i = 0; i < 4; ++i) {
    CUcontext context = gpu.other_context();
    CUstream stream = gpu.stream();
    CUevent done = gpu.event();
    record(done, stream);
    expect(cuEventSynchronize(done));
    destroy(done);
    expect(cuStreamDestroy(stream));
    expect(cuCtxDestroy(context));
  }
  clean(gpu);
}

HARMLESS(context_ends_with_its_objects, "a context is destroyed with events and streams in it", "--cost") {
  for (int i = 0; i < 3; ++i) {
    CUcontext context = gpu.other_context();
    CUstream stream = gpu.stream();
    record(gpu.event(), stream);
    expect(cuCtxDestroy(context));
  }
}

HARMLESS(event_of_a_second_context_lives_on,
         "one context ends, and the events of the other are used further") {
  CUevent done = gpu.event();
  record(done, gpu.a);
  expect(cuCtxDestroy(gpu.other_context()));
  expect(cuEventSynchronize(done));
  record(done, gpu.a);
  clean(gpu, {done});
}

/// With the function that CUDA 13's runtime uses. An older driver has one that ignores the second argument.
bool a_context_is_current() {
  void* found = nullptr;
  expect(cuGetProcAddress("cuCtxGetDevice", &found, 13000, 0, nullptr));
  CUdevice device = 0;
  return reinterpret_cast<CUresult (*)(CUdevice*, CUcontext)>(found)(&device, nullptr) == CUDA_SUCCESS;
}

HARMLESS(asks_for_a_context, "a library asks whether a context is current, and makes one current if not") {
  CUcontext none = nullptr;
  CUdevice device = 0;
  while (cuCtxPopCurrent(&none) == CUDA_SUCCESS) {
  }
  if (cuCtxGetDevice(&device) != CUDA_SUCCESS && !a_context_is_current())
    expect(cuCtxSetCurrent(gpu.context));
  gpu.event();
  clean(gpu);
}

HARMLESS(waits_in_another_way, "a wait on the stream is refused, and the host waits instead", "--cost") {
  CUevent done = gpu.event();
  gpu.work(gpu.a);
  record(done, gpu.a);
  if (cuStreamWaitEvent(gpu.b, done, 0x40) != CUDA_SUCCESS) expect(cuEventSynchronize(done));
  gpu.work(gpu.b);
}

HARMLESS(blocks_that_stay, "many blocks of memory and pinned buffers live until the end") {
  std::vector<CUdeviceptr> blocks(120);
  std::vector<void*> buffers(120);
  for (CUdeviceptr& block : blocks)
    expect(cuMemAlloc(&block, 64));
  for (void*& buffer : buffers)
    expect(cuMemHostAlloc(&buffer, 64, 0));
  for (CUdeviceptr block : blocks)
    expect(cuMemFree(block));
  for (void* buffer : buffers)
    expect(cuMemFreeHost(buffer));
  clean(gpu);
}

HARMLESS(short_host_functions, "functions of two streams count, and return at once") {
  static int count = 0;
  for (int i = 0; i < 40; ++i) // with 100 cases, 1 ms for another process would count as a wait
    for (CUstream stream : {gpu.a, gpu.b})
      expect(cuLaunchHostFunc(
          stream, [](void*) { ++count; }, nullptr));
  clean(gpu);
}

HARMLESS(primary_reset_and_used_again, "everything is made anew after the reset of the primary context", "") {
  for (int i = 0; i < 2; ++i) {
    CUevent done = gpu.event();
    record(done, gpu.a);
    finish(gpu.a);
    expect(cuDevicePrimaryCtxRelease(0));
    expect(cuDevicePrimaryCtxReset(0));
    gpu = Gpu();
  }
}

HARMLESS(primary_of_two_libraries, "one of two users of the primary context releases it") {
  CUcontext second = nullptr;
  expect(cuDevicePrimaryCtxRetain(&second, 0));
  CUevent done = gpu.event();
  record(done, gpu.a);
  expect(cuDevicePrimaryCtxRelease(0));
  expect(cuEventSynchronize(done));
  clean(gpu, {done});
}

HARMLESS(waits_across_contexts, "a stream waits for an event of another context") {
  CUevent done = gpu.event();
  record(done, gpu.a);
  CUcontext other = gpu.other_context();
  CUstream stream = gpu.stream();
  wait(stream, done);
  finish(stream);
  expect(cuStreamDestroy(stream));
  expect(cuCtxDestroy(other));
  clean(gpu, {done});
}

#if CUDA_VERSION >= 12050
HARMLESS(records_whole_contexts, "an event of all work of a context, and a context that waits for it") {
  CUcontext other = gpu.other_context();
  CUstream stream = gpu.stream();
  CUevent all = gpu.event();
  slow(stream);
  expect(cuCtxRecordEvent(other, all));
  expect(cuCtxWaitEvent(gpu.context, all));
  gpu.work(gpu.a);
  finish(gpu.a);
  destroy(all);
  expect(cuStreamDestroy(stream));
  expect(cuCtxDestroy(other));
  clean(gpu);
}
#endif

HARMLESS(no_context_is_current, "events are recorded, waited for and destroyed while no context is current") {
  CUevent done = gpu.event();
  expect(cuCtxSetCurrent(nullptr));
  order(gpu.a, done, gpu.b);
  expect(cuEventSynchronize(done));
  destroy(done);
  clean(gpu);
}

HARMLESS(context_pushed_for_creation, "a library pushes its context around a creation") {
  CUcontext other = gpu.other_context(), popped = nullptr;
  expect(cuCtxPushCurrent(gpu.context));
  CUevent done = gpu.event();
  expect(cuCtxPopCurrent(&popped));
  record(done, gpu.a);
  expect(cuEventSynchronize(done));
  expect(cuCtxDestroy(other));
  clean(gpu, {done});
}

HARMLESS(threads_with_their_own_events, "each thread of a pool has its own stream and event until it ends") {
  std::vector<std::thread> pool;
  for (int i = 0; i < 4; ++i)
    pool.emplace_back([&] {
      expect(cuCtxSetCurrent(gpu.context));
      CUstream stream = gpu.stream();
      CUevent done = gpu.event();
      for (int step = 0; step < 5; ++step) { // from 30 waits on, a busy machine makes them long
        gpu.work(stream);
        record(done, stream);
        expect(cuEventSynchronize(done));
      }
      destroy(done);
      expect(cuStreamDestroy(stream));
    });
  for (std::thread& each : pool)
    each.join();
  clean(gpu);
}

HARMLESS(per_thread_streams, "two threads use their default streams, ordered by an event") {
  CUevent done = gpu.event();
  on_another_thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    gpu.work(CU_STREAM_PER_THREAD);
    record(done, CU_STREAM_PER_THREAD);
  });
  wait(CU_STREAM_PER_THREAD, done);
  gpu.work(CU_STREAM_PER_THREAD);
  clean(gpu, {done});
}

HARMLESS(each_thread_records_the_event_in_turn,
         "threads record one event in turn, and each waits for it first") {
  CUevent turn = gpu.event();
  for (int i = 0; i < 4; ++i)
    on_another_thread([&] {
      expect(cuCtxSetCurrent(gpu.context));
      wait(CU_STREAM_PER_THREAD, turn);
      gpu.work(CU_STREAM_PER_THREAD);
      record(turn, CU_STREAM_PER_THREAD);
    });
  clean(gpu, {turn});
}

HARMLESS(works_after_fork, "a process forks before it uses the driver, and both use it", "--cost") {
  CUevent done = gpu.event();
  gpu.work(gpu.a);
  record(done, gpu.a);
  expect(cuEventSynchronize(done));
}

HARMLESS(starts_a_command, "a child of fork only starts another program") {
  CUevent done = gpu.event();
  record(done, gpu.a);
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/true", "true", nullptr);
    _exit(1);
  }
  waitpid(child, nullptr, 0);
  expect(cuEventSynchronize(done));
  clean(gpu, {done});
}

HARMLESS(exits_with_live_objects, "a program ends with events, a graph and pending work", "--cost") {
  CUevent done = gpu.event();
  begin(gpu.a);
  gpu.work(gpu.a);
  exec_of(end(gpu.a));
  slow(gpu.a);
  record(done, gpu.a);
}

HARMLESS(pool_destroyed_at_exit, "a static pool destroys its events before the driver ends", "--cost") {
  struct Pool {
    std::vector<CUevent> events;
    ~Pool() {
      for (CUevent each : events)
        cuEventDestroy(each);
    }
  };
  static Pool pool{events(gpu, 3)};
  for (CUevent each : pool.events)
    record(each, gpu.a);
  finish(gpu.a);
}

HARMLESS(event_of_two_processes, "one process exports an event, and another waits for it", "--cost") {
  CUipcEventHandle handle;
  if (const char* given = std::getenv("CUEVENT_TEST_HANDLE")) {
    for (std::size_t i = 0; i < sizeof handle.reserved; ++i) {
      unsigned byte = 0;
      std::sscanf(given + 2 * i, "%2x", &byte);
      handle.reserved[i] = static_cast<char>(byte);
    }
    CUevent imported = nullptr;
    expect(cuIpcOpenEventHandle(&imported, handle));
    wait(gpu.a, imported);
    gpu.work(gpu.a);
    finish(gpu.a);
    destroy(imported);
    return;
  }
  CUevent exported = gpu.event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  gpu.work(gpu.a);
  record(exported, gpu.a);
  expect(cuIpcGetEventHandle(&handle, exported));
  char text[2 * sizeof handle.reserved + 1];
  for (std::size_t i = 0; i < sizeof handle.reserved; ++i)
    std::snprintf(text + 2 * i, 3, "%02x", static_cast<unsigned char>(handle.reserved[i]));
  setenv("CUEVENT_TEST_HANDLE", text, 1);
  char program[] = "/proc/self/exe", name[] = "event-of-two-processes";
  char* const arguments[] = {program, name, nullptr};
  pid_t child = 0;
  posix_spawn(&child, program, nullptr, nullptr, arguments, environ);
  int status = 1;
  waitpid(child, &status, 0);
  if (status != 0) std::exit(4);
  destroy(exported);
}

HARMLESS(asks_new_streams_at_old_handles,
         "streams come and go, and each is asked whether it is being captured", "") {
  const CUgraphExec exec = exec_of(graph_of_work(gpu, gpu.a));
  for (int i = 0; i < 300; ++i) {
    const CUstream stream = gpu.stream();
    CUstreamCaptureStatus status{};
    expect(cuStreamIsCapturing(stream, &status));
    expect(cuGraphUpload(exec, stream));
    finish(stream);
    expect(cuStreamDestroy(stream));
  }
}

} // namespace
