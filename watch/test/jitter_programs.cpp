// SPDX-License-Identifier: MIT
// Programs with a missing wait that hardly ever shows. They print what the device has computed.

#include "programs.hpp"

#include <cuevent/completion_queue.hpp>
#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_semaphore.hpp>
#include <kernels.hpp>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <unistd.h>

namespace {

constexpr unsigned words = 256;

/// Pinned memory, filled with a value.
unsigned* pinned(unsigned value) {
  void* memory = nullptr;
  expect(cuMemAllocHost(&memory, words * sizeof(unsigned)));
  auto* const made = static_cast<unsigned*>(memory);
  for (unsigned i = 0; i < words; ++i)
    made[i] = value;
  return made;
}

CUfunction kernel_named(const char* name) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  expect(cuModuleLoadData(&module, kernels));
  expect(cuModuleGetFunction(&function, module, name));
  return function;
}

/// What the host does in between. It usually gives the device the time that a wait would guarantee.
void other_work() { usleep(150); }

struct Parts : Gpu {
  unsigned *source = pinned(7), *result = pinned(0);

  explicit Parts(const Gpu& gpu) : Gpu(gpu) { // whatever is found there is known
    expect(cuMemsetD32(memory, 1, words));
    expect(cuCtxSynchronize()); // a fill without a stream does not wait on a device
  }
  void upload(CUstream on) const { expect(cuMemcpyHtoDAsync(memory, source, words * sizeof(unsigned), on)); }
  void download(CUstream on) const {
    expect(cuMemcpyDtoHAsync(result, memory, words * sizeof(unsigned), on));
  }
  void order(CUstream first, CUstream then) const {
    const CUevent done = event();
    expect(cuEventRecord(done, first));
    expect(cuStreamWaitEvent(then, done, 0));
    expect(cuEventDestroy(done));
  }
  void print() const {
    expect(cuStreamSynchronize(a));
    expect(cuStreamSynchronize(b));
    tell();
  }
  void tell() const { // without waiting
    unsigned long sum = 0;
    for (unsigned i = 0; i < words; ++i)
      sum += result[i];
    std::printf("%lu\n", sum);
  }
};

MISTAKE("another-result", copies, "the download does not wait for the upload") {
  Parts parts(gpu);
  parts.upload(parts.a);
  if (corrected) parts.order(parts.a, parts.b);
  other_work();
  parts.download(parts.b);
  parts.print();
}

MISTAKE("another-result", fill, "the download does not wait for the memset") {
  Parts parts(gpu);
  expect(cuMemsetD32Async(parts.memory, 9, words, parts.a));
  if (corrected) parts.order(parts.a, parts.b);
  other_work();
  parts.download(parts.b);
  parts.print();
}

MISTAKE("another-result", early_record, "the event is recorded before the upload") {
  Parts parts(gpu);
  const CUevent done = parts.event();
  if (!corrected) expect(cuEventRecord(done, parts.a));
  parts.upload(parts.a);
  if (corrected) expect(cuEventRecord(done, parts.a));
  expect(cuStreamWaitEvent(parts.b, done, 0));
  other_work();
  parts.download(parts.b);
  parts.print();
}

MISTAKE("another-result", wrong_stream, "the stream waits for itself") {
  Parts parts(gpu);
  parts.upload(parts.a);
  parts.order(corrected ? parts.a : parts.b, parts.b);
  other_work();
  parts.download(parts.b);
  parts.print();
}

MISTAKE("another-result", host_reads_early, "the host reads the result before it is there") {
  Parts parts(gpu);
  parts.upload(parts.a);
  parts.download(parts.a);
  other_work();
  if (corrected) expect(cuStreamSynchronize(parts.a));
  parts.tell();
}

MISTAKE("another-result", source_is_reused, "the host changes the source of a copy") {
  Parts parts(gpu);
  parts.upload(parts.a);
  other_work();
  if (corrected) expect(cuStreamSynchronize(parts.a));
  std::memset(parts.source, 0, words * sizeof(unsigned));
  parts.download(parts.a);
  parts.print();
}

MISTAKE("another-result", graph, "the download does not wait for the launch of a graph") {
  Parts parts(gpu);
  CUgraph made = nullptr;
  CUgraphExec exec = nullptr;
  expect(cuStreamBeginCapture(parts.a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  parts.upload(parts.a);
  expect(cuStreamEndCapture(parts.a, &made));
  expect(cuGraphInstantiateWithFlags(&exec, made, 0));
  expect(cuGraphLaunch(exec, parts.a));
  if (corrected) parts.order(parts.a, parts.b);
  other_work();
  parts.download(parts.b);
  parts.print();
}

MISTAKE("another-result", loop, "a wait is missing in every fifth round") {
  Parts parts(gpu);
  for (unsigned round = 1; round <= 20; ++round) {
    expect(cuMemsetD32Async(parts.memory, round, words, parts.a));
    if (corrected || round % 5 != 0) parts.order(parts.a, parts.b);
    other_work();
    parts.download(parts.b);
    parts.print();
    parts.order(parts.b, parts.a);
  }
}

MISTAKE("another-result", overwritten, "the next memset does not wait for the download") {
  Parts parts(gpu);
  parts.upload(parts.a);
  parts.order(parts.a, parts.b);
  parts.download(parts.b);
  other_work();
  if (corrected) parts.order(parts.b, parts.a);
  expect(cuMemsetD32Async(parts.memory, 3, words, parts.a)); // before it is read
  parts.print();
}

MISTAKE("another-result", threads, "the upload of another thread is not waited for") {
  Parts parts(gpu);
  std::thread([&] {
    expect(cuCtxSetCurrent(parts.context));
    parts.upload(parts.a);
    if (corrected) parts.order(parts.a, parts.b);
  }).join();
  other_work();
  parts.download(parts.b);
  parts.print();
}

MISTAKE("another-result", default_stream, "a non-blocking stream does not wait for the default stream") {
  Parts parts(gpu);
  parts.upload(nullptr);
  other_work();
  if (corrected) expect(cuCtxSynchronize());
  parts.download(parts.b); // which does not wait for the default stream
  parts.print();
}

MISTAKE("another-result", fence, "the stream waits for the point before the upload") {
  Parts parts(gpu);
  cuevent::TimelineFence done(cuevent::Context::primary(0), parts.a);
  const std::uint64_t early = done.signal();
  parts.upload(parts.a);
  const std::uint64_t uploaded = done.signal();
  done.wait(parts.b, corrected ? uploaded : early);
  other_work();
  parts.download(parts.b);
  parts.print();
}

MISTAKE("another-result", semaphore, "the stream waits for the value before the upload") {
  Parts parts(gpu);
  cuevent::TimelineSemaphore done(cuevent::Context::primary(0));
  done.signal(parts.a, 1);
  parts.upload(parts.a);
  done.signal(parts.a, 2);
  done.wait(parts.b, corrected ? 2 : 1);
  other_work();
  parts.download(parts.b);
  parts.print();
}

MISTAKE("another-result", queue, "the callback is set before the upload") {
  Parts parts(gpu);
  cuevent::CompletionQueue done(cuevent::Context::primary(0));
  if (corrected) parts.upload(parts.a);
  done.when_complete(parts.a, [&](CUresult) { parts.download(parts.b); });
  if (!corrected) parts.upload(parts.a);
  other_work();
  while (done.pending() != 0)
    done.poll();
  parts.print();
}

HARMLESS(context_in_a_capture, "whatever a new context gets must not invalidate the capture") {
  Parts parts(gpu);
  CUgraph made = nullptr;
  expect(cuStreamBeginCapture(parts.a, CU_STREAM_CAPTURE_MODE_GLOBAL));
  parts.upload(parts.a);
  parts.other_context();
  expect(cuStreamEndCapture(parts.a, &made));
  const CUstream there = parts.stream();
  CUdeviceptr memory = 0;
  expect(cuMemAlloc(&memory, words * sizeof(unsigned)));
  expect(cuMemsetD32Async(memory, 5, words, there));
  expect(cuMemcpyDtoHAsync(parts.result, memory, words * sizeof(unsigned), there));
  expect(cuStreamSynchronize(there));
  parts.tell();
}

HARMLESS(fault, "what is submitted after a fault is refused") {
  Parts parts(gpu);
  expect(
      cuLaunchKernel(kernel_named("write_illegal_address"), 1, 1, 1, 1, 1, 1, 0, parts.a, nullptr, nullptr));
  CUresult result = CUDA_SUCCESS;
  for (unsigned i = 0; i < 10'000 && result == CUDA_SUCCESS; ++i) {
    result = cuMemsetD32Async(parts.memory, i, words, i % 2 == 0 ? parts.a : parts.b);
    usleep(200);
  }
  std::printf("%d\n", static_cast<int>(result));
}

constexpr unsigned reported_after = 3; // rounds of what may be a mistake

/// A stream sets memory, and another stream launches a kernel that gets a pointer to it.
struct SetAndLaunch {
  unsigned* set = pinned(0);
  CUfunction touch = kernel_named("touch");

  void fill(CUstream on, unsigned value) const {
    expect(cuMemsetD32Async(reinterpret_cast<std::uintptr_t>(set), value, words, on));
  }
  void launch(CUstream on) {
    void* arguments[] = {&set};
    expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, on, arguments, nullptr));
  }
};

// A host function stands for what the kernel reads: a kernel of the simulated driver computes nothing.
MISTAKE("another-result", kernel, "a kernel does not wait for the memset of what it reads") {
  Parts parts(gpu);
  SetAndLaunch memory;
  for (unsigned round = 1; round <= reported_after; ++round) {
    memory.fill(parts.a, round);
    if (corrected) parts.order(parts.a, parts.b);
    memory.launch(parts.b);
    struct Read {
      const unsigned* from;
      unsigned* to;
    } read{memory.set + words / 2, parts.result + round};
    expect(cuLaunchHostFunc(
        parts.b, [](void* data) { *static_cast<Read*>(data)->to = *static_cast<Read*>(data)->from; }, &read));
    expect(cuStreamSynchronize(parts.b));
    expect(cuStreamSynchronize(parts.a));
  }
  parts.tell();
}

struct Value {
  unsigned *first, *second;
};

/// Two kernels that get the same memory. The host functions stand for what the first kernel writes, and the
/// second one reads.
void launch_two(const Parts& parts, CUdeviceptr memory, Value& value, bool in_order) {
  static const CUfunction touch = kernel_named("touch");
  void* arguments[] = {&memory};
  expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, parts.a, arguments, nullptr));
  if (in_order) parts.order(parts.a, parts.b);
  expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, parts.b, arguments, nullptr));
  expect(cuLaunchHostFunc(
      parts.a, [](void* data) { *static_cast<Value*>(data)->first = 5; }, &value));
  if (in_order) parts.order(parts.a, parts.b);
  expect(cuLaunchHostFunc(
      parts.b,
      [](void* data) {
        usleep(400);
        const Value& told = *static_cast<Value*>(data);
        *told.second = *told.first;
      },
      &value));
  expect(cuStreamSynchronize(parts.b));
  expect(cuStreamSynchronize(parts.a));
}

MISTAKE("another-result", kernels, "a kernel does not wait for the kernel that writes what it reads") {
  Parts parts(gpu);
  unsigned written = 0;
  Value value{&written, parts.result};
  launch_two(parts, parts.memory, value, corrected);
  parts.tell();
}

/// Rounds in which two kernels read the same memory, and nothing depends on their order.
void read_twice(const Parts& parts, unsigned rounds) {
  const CUfunction touch = kernel_named("touch");
  for (unsigned round = 0; round < rounds; ++round) {
    CUdeviceptr memory = 0;
    expect(cuMemAlloc(&memory, words * sizeof(unsigned)));
    void* arguments[] = {&memory};
    for (const CUstream on : {parts.a, parts.b})
      expect(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, on, arguments, nullptr));
    expect(cuCtxSynchronize());
  }
}

HARMLESS(only_read, "two kernels read the same memory") {
  Parts parts(gpu);
  read_twice(parts, 5);
  parts.print();
}

MISTAKE("another-result", kernels_among_others, "of many pairs of kernels, one lacks a wait") {
  Parts parts(gpu);
  read_twice(parts, 3);
  unsigned written = 0;
  Value value{&written, parts.result};
  launch_two(parts, parts.memory, value, corrected);
  parts.tell();
}

HARMLESS(unused, "the kernel does not use the memory") {
  Parts parts(gpu);
  SetAndLaunch memory;
  for (unsigned round = 1; round <= reported_after; ++round) {
    memory.fill(parts.a, round);
    memory.launch(parts.b);
    parts.print();
  }
}

HARMLESS(unused_and_read_early, "nor here, though the host does not wait for a copy") {
  Parts parts(gpu);
  SetAndLaunch memory;
  const CUstream other = parts.stream();
  for (unsigned round = 1; round <= reported_after; ++round) {
    memory.fill(parts.a, round);
    memory.launch(parts.b);
    parts.download(parts.a);
    memory.launch(other);
    while (cuStreamQuery(other) != CUDA_SUCCESS)
      usleep(10);
    parts.tell();
    expect(cuStreamSynchronize(parts.a));
    expect(cuStreamSynchronize(parts.b));
    std::memset(parts.result, 0, words * sizeof(unsigned));
  }
}

// The machine gets busy when the file has so many bytes: then the second copy comes after any hold.
HARMLESS(busy_later, "the host is late in later runs, so that nothing is overtaken") {
  constexpr std::streamoff busy_from = 13;
  const char* const path = std::getenv("CUEVENT_TEST_BUSY");
  const bool is_busy = path != nullptr && std::ifstream(path, std::ios::ate).tellg() >= busy_from;
  Parts parts(gpu);
  parts.upload(parts.a);
  usleep(is_busy ? 20'000 : 150);
  parts.download(parts.b);
  parts.print();
}

HARMLESS(wrong_in_every_run, "the download never waits for the upload, which is always late") {
  Parts parts(gpu);
  expect(cuLaunchHostFunc(
      parts.a, [](void*) { usleep(30'000); }, nullptr));
  parts.upload(parts.a);
  parts.download(parts.b);
  parts.print();
}

} // namespace
