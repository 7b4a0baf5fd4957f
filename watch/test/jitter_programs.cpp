// SPDX-License-Identifier: MIT
// Programs with a missing wait that hardly ever shows, and the same programs with the wait. They print what
// the device has computed: watch_jitter NAME..., watch_jitter right NAME..., or --list.

#include "programs.hpp"

#include <cuevent/completion_queue.hpp>
#include <cuevent/timeline_fence.hpp>
#include <cuevent/timeline_semaphore.hpp>

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

constexpr struct {
  const char* name;
  void (*run)(Parts&, bool right);
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
};

} // namespace

int main(int argc, char** argv) {
  const bool right = argc > 2 && std::string(argv[1]) == "right";
  for (int i = right ? 2 : 1; i < argc; ++i)
    for (const auto& [name, run] : programs) {
      if (argv[i] == std::string("--list")) std::puts(name);
      if (argv[i] != std::string(name)) continue;
      Parts gpu;
      run(gpu, right);
    }
}
