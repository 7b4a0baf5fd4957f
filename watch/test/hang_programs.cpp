// SPDX-License-Identifier: MIT
// Programs that hang for up to 10 s, for `cuevent watch --hang`, each with the kind of its cause. What is
// corrected does the same work, and then nothing for 2.5 s. On the simulated driver, _Z4spinPjy has to be
// endless, and write_illegal_address has to fail.

#include "programs.hpp"
#include <kernels.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

/// A device, kernels, and words of host memory that streams and kernels wait for.
class Hang : public Gpu {
public:
  Hang(const Gpu& gpu, bool corrected) : Gpu(gpu), hangs(!corrected) {
    expect(cuMemHostAlloc(reinterpret_cast<void**>(&words), 4 * sizeof *words, CU_MEMHOSTALLOC_PORTABLE));
    for (int i = 0; i < 4; ++i)
      words[i] = 0;
    expect(cuModuleLoadData(&module_, kernels));
    launch("step", a); // loads the kernel
    expect(cuStreamSynchronize(a));
    std::thread([all = words] {
      std::this_thread::sleep_for(8s);
      for (int i = 0; i < 4; ++i)
        all[i] = 1; // everything that waits goes on
      std::this_thread::sleep_for(2s);
      _exit(0);
    }).detach();
  }

  CUdeviceptr address(int word) const { return reinterpret_cast<CUdeviceptr>(words + word); }
  void launch(const char* kernel, CUstream stream) const {
    CUfunction function = nullptr;
    expect(cuModuleGetFunction(&function, module_, kernel));
    CUdeviceptr told = address(0);
    std::uint64_t bound = 20'000'000'000;
    void* arguments[] = {&told, &bound};
    expect(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  }
  void spin(CUstream stream) const { launch(hangs ? "_Z4spinPjy" : "step", stream); }
  void wait(CUstream stream, int word) const {
    expect(cuStreamWaitValue32(stream, address(word), 1, CU_STREAM_WAIT_VALUE_GEQ));
  }
  void write(CUstream stream, int word) const { expect(cuStreamWriteValue32(stream, address(word), 1, 0)); }
  /// The second stream waits for the first one.
  void order(CUstream first, CUstream second) const {
    const CUevent done = event();
    expect(cuEventRecord(done, first));
    expect(cuStreamWaitEvent(second, done, 0));
  }
  /// The main thread waits in the driver.
  void finish(CUstream stream) const {
    expect(cuStreamSynchronize(stream));
    if (!hangs) std::this_thread::sleep_for(2500ms);
  }

  const bool hangs;
  std::atomic<std::uint32_t>* words = nullptr;

private:
  CUmodule module_ = nullptr;
};

MISTAKE("unfinished", endless_kernel, "a kernel does not end, and two streams wait for it") {
  Hang hang(gpu, corrected);
  const CUstream far_behind = hang.stream();
  hang.spin(hang.a);
  hang.order(hang.a, hang.b);
  hang.launch("step", hang.b);
  hang.order(hang.b, far_behind);
  hang.launch("step", far_behind);
  hang.finish(far_behind);
}

/// Rounds of a pipeline from the first stream to the second one: more of them than get probes.
void rounds(const Hang& hang, int count, std::chrono::microseconds pause) {
  const CUevent uploaded = hang.event();
  for (int i = 0; i < count; ++i) {
    hang.work(hang.a);
    expect(cuEventRecord(uploaded, hang.a));
    expect(cuStreamWaitEvent(hang.b, uploaded, 0));
    hang.work(hang.b);
    std::this_thread::sleep_for(pause);
  }
}

MISTAKE("unfinished", steady_pipeline, "after many rounds of a pipeline, a kernel does not end") {
  Hang hang(gpu, corrected);
  rounds(hang, 200, 1ms);
  hang.spin(hang.a);
  hang.order(hang.a, hang.b);
  hang.finish(hang.b);
}

MISTAKE("unfinished", burst, "after a burst of work, a kernel does not end, and no thread waits for it") {
  Hang hang(gpu, corrected);
  rounds(hang, 400, 0us);
  hang.spin(hang.a);
  hang.order(hang.a, hang.b);
  hang.work(hang.b);
  if (!hang.hangs) return hang.finish(hang.b);
  std::this_thread::sleep_for(9s);
}

void put_back(void* word) {
  while (static_cast<std::atomic<std::uint32_t>*>(word)->load() == 0)
    std::this_thread::sleep_for(1ms);
}

MISTAKE("unfinished", host_function,
        "a host function does not end, and a thread that frees memory waits for it") {
  Hang hang(gpu, corrected);
  CUdeviceptr memory = 0;
  expect(cuMemAlloc(&memory, 64));
  hang.words[0] = hang.hangs ? 0 : 1;
  hang.work(hang.a);
  expect(cuLaunchHostFunc(hang.a, &put_back, hang.words));
  expect(cuMemFree(memory));
  hang.finish(hang.a);
}

MISTAKE("unfinished", missing_peer,
        "a collective waits for its peer on another device, which launches nothing") {
  Hang hang(gpu, corrected);
  int devices = 0;
  expect(cuDeviceGetCount(&devices));
  CUcontext peer = nullptr;
  expect(cuDevicePrimaryCtxRetain(&peer, devices > 1 ? 1 : 0));
  expect(cuCtxSetCurrent(peer));
  const CUstream rank_1 = hang.stream();
  CUdeviceptr memory = 0;
  expect(cuMemAlloc(&memory, 64));
  expect(cuMemsetD8Async(memory, 0, 64, rank_1));
  expect(cuCtxSetCurrent(hang.context));
  hang.launch("step", hang.a);
  hang.spin(hang.a);
  hang.order(hang.a, hang.b);
  hang.launch("step", hang.b);
  hang.finish(hang.b);
}

MISTAKE("deadlock", deadlock, "each stream waits for what the other one does behind its own wait") {
  Hang hang(gpu, corrected);
  if (!hang.hangs) hang.write(hang.b, 0);
  hang.wait(hang.a, 0);
  hang.wait(hang.b, 1);
  hang.write(hang.a, 1);
  if (hang.hangs) hang.write(hang.b, 0);
  const CUstream behind = hang.stream();
  hang.order(hang.b, behind);
  hang.launch("step", behind);
  hang.finish(behind);
}

/// Closes the gate unless the program is corrected, and submits a step behind it. Returns the event of its
/// end.
CUevent step_behind_gate(Hang& hang) {
  hang.words[0] = hang.hangs ? 0 : 1;
  hang.wait(hang.a, 0);
  hang.launch("step", hang.a);
  const CUevent done = hang.event();
  expect(cuEventRecord(done, hang.a));
  return done;
}

MISTAKE("no_signal", closed_gate, "nobody writes the value that a stream waits for") {
  Hang hang(gpu, corrected);
  expect(cuEventSynchronize(step_behind_gate(hang)));
  hang.finish(hang.a);
}

MISTAKE("no_signal", polling, "the program asks again and again, and never waits") {
  Hang hang(gpu, corrected);
  const CUevent done = step_behind_gate(hang);
  while (cuEventQuery(done) == CUDA_ERROR_NOT_READY) {
  }
  hang.finish(hang.a);
}

MISTAKE("no_signal", full_queue, "the launch queue of a stream that waits is full") {
  Hang hang(gpu, corrected);
  hang.words[0] = hang.hangs ? 0 : 1;
  hang.wait(hang.a, 0);
  for (int i = 0; i < 1'500; ++i)
    hang.launch("step", hang.a);
  hang.finish(hang.a);
}

/// Replays a graph that `capture` fills. The last replay finds its word closed.
template <class Capture>
void replay(Hang& gpu, int count, const Capture& capture) {
  gpu.words[0] = 1;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  expect(cuStreamBeginCapture(gpu.a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  gpu.launch("step", gpu.a);
  capture();
  gpu.launch("step", gpu.a);
  expect(cuStreamEndCapture(gpu.a, &graph));
  expect(cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int i = 1; i <= count; ++i) {
    if (i == count && gpu.hangs) gpu.words[0] = 0;
    expect(cuGraphLaunch(exec, gpu.b));
    if (i % 10 == 9) expect(cuStreamSynchronize(gpu.b));
  }
  gpu.finish(gpu.b);
}

MISTAKE("unfinished", stuck_replay, "the last replay of a graph waits for a value that nobody writes") {
  Hang hang(gpu, corrected);
  replay(hang, 5'000, [&] { hang.wait(hang.a, 0); });
}

MISTAKE("unfinished", stuck_kernel_in_replay, "a kernel of a graph does not end") {
  Hang hang(gpu, corrected);
  // A simulated kernel reads no memory, so it is endless in the first replay.
  const bool simulated = std::getenv("CUEVENT_SIM_ENDLESS_KERNEL") != nullptr;
  replay(hang, simulated ? 1 : 5'000, [&] { hang.spin(hang.a); });
}

MISTAKE("fault", illegal_address, "a kernel writes to an illegal address") {
  Hang hang(gpu, corrected);
  hang.launch("step", hang.a);
  expect(cuStreamSynchronize(hang.a));
  hang.launch(hang.hangs ? "write_illegal_address" : "step", hang.b);
  if (!hang.hangs) return hang.finish(hang.b);
  std::this_thread::sleep_for(9s);
}

} // namespace
