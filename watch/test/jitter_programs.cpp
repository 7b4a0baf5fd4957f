// SPDX-License-Identifier: MIT
// Programs with a missing wait that hardly ever shows, and the same programs with the wait. They print what
// the device has computed: watch_jitter NAME..., watch_jitter right NAME..., or --list.

#include "programs.hpp"

#include <cuevent/completion_queue.hpp>
#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_semaphore.hpp>
#include <kernels.hpp>

#include <cstring>
#include <string>
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

  Parts() { // whatever is found there is known
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

void copies(Parts& gpu, bool right) {
  gpu.upload(gpu.a);
  if (right) gpu.order(gpu.a, gpu.b);
  other_work();
  gpu.download(gpu.b);
  gpu.print();
}

void fill(Parts& gpu, bool right) {
  expect(cuMemsetD32Async(gpu.memory, 9, words, gpu.a));
  if (right) gpu.order(gpu.a, gpu.b);
  other_work();
  gpu.download(gpu.b);
  gpu.print();
}

void early_record(Parts& gpu, bool right) {
  const CUevent done = gpu.event();
  if (!right) expect(cuEventRecord(done, gpu.a));
  gpu.upload(gpu.a);
  if (right) expect(cuEventRecord(done, gpu.a));
  expect(cuStreamWaitEvent(gpu.b, done, 0));
  other_work();
  gpu.download(gpu.b);
  gpu.print();
}

void wrong_stream(Parts& gpu, bool right) {
  gpu.upload(gpu.a);
  gpu.order(right ? gpu.a : gpu.b, gpu.b);
  other_work();
  gpu.download(gpu.b);
  gpu.print();
}

void host_reads_early(Parts& gpu, bool right) {
  gpu.upload(gpu.a);
  gpu.download(gpu.a);
  other_work();
  if (right) expect(cuStreamSynchronize(gpu.a));
  gpu.tell();
}

void source_is_reused(Parts& gpu, bool right) {
  gpu.upload(gpu.a);
  other_work();
  if (right) expect(cuStreamSynchronize(gpu.a));
  std::memset(gpu.source, 0, words * sizeof(unsigned));
  gpu.download(gpu.a);
  gpu.print();
}

void graph(Parts& gpu, bool right) {
  CUgraph made = nullptr;
  CUgraphExec exec = nullptr;
  expect(cuStreamBeginCapture(gpu.a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  gpu.upload(gpu.a);
  expect(cuStreamEndCapture(gpu.a, &made));
  expect(cuGraphInstantiateWithFlags(&exec, made, 0));
  expect(cuGraphLaunch(exec, gpu.a));
  if (right) gpu.order(gpu.a, gpu.b);
  other_work();
  gpu.download(gpu.b);
  gpu.print();
}

void loop(Parts& gpu, bool right) {
  for (unsigned round = 1; round <= 20; ++round) {
    expect(cuMemsetD32Async(gpu.memory, round, words, gpu.a));
    if (right || round % 5 != 0) gpu.order(gpu.a, gpu.b);
    other_work();
    gpu.download(gpu.b);
    gpu.print();
    gpu.order(gpu.b, gpu.a);
  }
}

void overwritten(Parts& gpu, bool right) {
  gpu.upload(gpu.a);
  gpu.order(gpu.a, gpu.b);
  gpu.download(gpu.b);
  other_work();
  if (right) gpu.order(gpu.b, gpu.a);
  expect(cuMemsetD32Async(gpu.memory, 3, words, gpu.a)); // before it is read
  gpu.print();
}

void threads(Parts& gpu, bool right) {
  std::thread([&] {
    expect(cuCtxSetCurrent(gpu.context));
    gpu.upload(gpu.a);
    if (right) gpu.order(gpu.a, gpu.b);
  }).join();
  other_work();
  gpu.download(gpu.b);
  gpu.print();
}

void default_stream(Parts& gpu, bool right) {
  gpu.upload(nullptr);
  other_work();
  if (right) expect(cuCtxSynchronize());
  gpu.download(gpu.b); // which does not wait for the default stream
  gpu.print();
}

void fence(Parts& gpu, bool right) {
  cuevent::TimelineFence done(cuevent::Context::primary(0), gpu.a);
  const std::uint64_t early = done.signal();
  gpu.upload(gpu.a);
  const std::uint64_t uploaded = done.signal();
  done.wait(gpu.b, right ? uploaded : early);
  other_work();
  gpu.download(gpu.b);
  gpu.print();
}

void semaphore(Parts& gpu, bool right) {
  cuevent::TimelineSemaphore done(cuevent::Context::primary(0));
  done.signal(gpu.a, 1);
  gpu.upload(gpu.a);
  done.signal(gpu.a, 2);
  done.wait(gpu.b, right ? 2 : 1);
  other_work();
  gpu.download(gpu.b);
  gpu.print();
}

void queue(Parts& gpu, bool right) {
  cuevent::CompletionQueue done(cuevent::Context::primary(0));
  if (right) gpu.upload(gpu.a);
  done.when_complete(gpu.a, [&](CUresult) { gpu.download(gpu.b); });
  if (!right) gpu.upload(gpu.a);
  other_work();
  while (done.pending() != 0)
    done.poll();
  gpu.print();
}

/// Whatever a new context gets must not invalidate the capture.
void context_in_a_capture(Parts& gpu, bool) {
  CUgraph made = nullptr;
  expect(cuStreamBeginCapture(gpu.a, CU_STREAM_CAPTURE_MODE_GLOBAL));
  gpu.upload(gpu.a);
  gpu.other_context();
  expect(cuStreamEndCapture(gpu.a, &made));
  const CUstream there = gpu.stream();
  CUdeviceptr memory = 0;
  expect(cuMemAlloc(&memory, words * sizeof(unsigned)));
  expect(cuMemsetD32Async(memory, 5, words, there));
  expect(cuMemcpyDtoHAsync(gpu.result, memory, words * sizeof(unsigned), there));
  expect(cuStreamSynchronize(there));
  gpu.tell();
}

/// What is submitted after a fault is refused.
void fault(Parts& gpu, bool) {
  expect(cuLaunchKernel(kernel_named("write_illegal_address"), 1, 1, 1, 1, 1, 1, 0, gpu.a, nullptr, nullptr));
  CUresult result = CUDA_SUCCESS;
  for (unsigned i = 0; i < 10'000 && result == CUDA_SUCCESS; ++i) {
    result = cuMemsetD32Async(gpu.memory, i, words, i % 2 == 0 ? gpu.a : gpu.b);
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

/// A host function stands for what the kernel reads: a kernel of the simulated driver computes nothing.
void kernel(Parts& gpu, bool right) {
  SetAndLaunch memory;
  for (unsigned round = 1; round <= reported_after; ++round) {
    memory.fill(gpu.a, round);
    if (right) gpu.order(gpu.a, gpu.b);
    memory.launch(gpu.b);
    struct Read {
      const unsigned* from;
      unsigned* to;
    } read{memory.set + words / 2, gpu.result + round};
    expect(cuLaunchHostFunc(
        gpu.b, [](void* data) { *static_cast<Read*>(data)->to = *static_cast<Read*>(data)->from; }, &read));
    expect(cuStreamSynchronize(gpu.b));
    expect(cuStreamSynchronize(gpu.a));
  }
  gpu.tell();
}

/// The kernel does not use the memory.
void unused(Parts& gpu, bool) {
  SetAndLaunch memory;
  for (unsigned round = 1; round <= reported_after; ++round) {
    memory.fill(gpu.a, round);
    memory.launch(gpu.b);
    gpu.print();
  }
}

/// Nor here: the host waits for another stream, and not for the copy behind the fill.
void unused_and_read_early(Parts& gpu, bool) {
  SetAndLaunch memory;
  const CUstream other = gpu.stream();
  for (unsigned round = 1; round <= reported_after; ++round) {
    memory.fill(gpu.a, round);
    memory.launch(gpu.b);
    gpu.download(gpu.a);
    memory.launch(other);
    while (cuStreamQuery(other) != CUDA_SUCCESS)
      usleep(10);
    gpu.tell();
    expect(cuStreamSynchronize(gpu.a));
    expect(cuStreamSynchronize(gpu.b));
    std::memset(gpu.result, 0, words * sizeof(unsigned));
  }
}

constexpr struct {
  const char* name;
  void (*run)(Parts&, bool right);
  bool is_listed = true; // it is a pair: with the wait, it is right
} programs[] = {
    {"copies", copies},
    {"fill", fill},
    {"early-record", early_record},
    {"wrong-stream", wrong_stream},
    {"host-reads-early", host_reads_early},
    {"source-is-reused", source_is_reused},
    {"graph", graph},
    {"loop", loop},
    {"overwritten", overwritten},
    {"threads", threads},
    {"default-stream", default_stream},
    {"fence", fence},
    {"semaphore", semaphore},
    {"queue", queue},
    {"kernel", kernel},
    {"context-in-a-capture", context_in_a_capture, false},
    {"fault", fault, false},
    {"unused", unused, false},
    {"unused-and-read-early", unused_and_read_early, false},
};

} // namespace

int main(int argc, char** argv) {
  const bool right = argc > 2 && std::string(argv[1]) == "right";
  for (int i = right ? 2 : 1; i < argc; ++i)
    for (const auto& [name, run, is_listed] : programs) {
      if (is_listed && argv[i] == std::string("--list")) std::puts(name);
      if (argv[i] != std::string(name)) continue;
      Parts gpu;
      run(gpu, right);
    }
}
