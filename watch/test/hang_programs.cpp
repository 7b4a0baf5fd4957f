// SPDX-License-Identifier: MIT
// Programs that hang, for `cuevent watch --hang`: `watch_hangs NAME` hangs for up to 10 s, and `watch_hangs
// near NAME` does the same work without the mistake, and then nothing for 2.5 s. They are linked with libcuda
// and know nothing of cuevent. On the simulated driver, _Z4spinPjy has to be endless, and
// write_illegal_address has to fail.

#include "programs.hpp"
#include <kernels.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

/// A device, kernels, and words of host memory that streams and kernels wait for.
class Hang : public Gpu {
public:
  explicit Hang(bool is_hang) : hangs(is_hang) {
    expect(cuMemHostAlloc(reinterpret_cast<void**>(&words), 4 * sizeof *words, CU_MEMHOSTALLOC_PORTABLE));
    for (int i = 0; i < 4; ++i)
      words[i] = 0;
    expect(cuModuleLoadData(&module_, kernels));
    launch("step", a); // loads the kernel
    expect(cuStreamSynchronize(a));
    std::thread([this] {
      std::this_thread::sleep_for(8s);
      for (int i = 0; i < 4; ++i)
        words[i] = 1; // everything that waits goes on
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

/// A kernel does not end, and two streams wait for it.
void endless_kernel(Hang& gpu) {
  const CUstream far_behind = gpu.stream();
  gpu.spin(gpu.a);
  gpu.order(gpu.a, gpu.b);
  gpu.launch("step", gpu.b);
  gpu.order(gpu.b, far_behind);
  gpu.launch("step", far_behind);
  gpu.finish(far_behind);
}

/// The kernel of a collective waits for its peer, on the second device if there is one, which launches
/// nothing.
void missing_peer(Hang& gpu) {
  int devices = 0;
  expect(cuDeviceGetCount(&devices));
  CUcontext peer = nullptr;
  expect(cuDevicePrimaryCtxRetain(&peer, devices > 1 ? 1 : 0));
  expect(cuCtxSetCurrent(peer));
  const CUstream rank_1 = gpu.stream();
  CUdeviceptr memory = 0;
  expect(cuMemAlloc(&memory, 64));
  expect(cuMemsetD8Async(memory, 0, 64, rank_1));
  expect(cuCtxSetCurrent(gpu.context));
  gpu.launch("step", gpu.a);
  gpu.spin(gpu.a);
  gpu.order(gpu.a, gpu.b);
  gpu.launch("step", gpu.b);
  gpu.finish(gpu.b);
}

/// Each stream waits for what the other one does behind its own wait.
void deadlock(Hang& gpu) {
  if (!gpu.hangs) gpu.write(gpu.b, 0);
  gpu.wait(gpu.a, 0);
  gpu.wait(gpu.b, 1);
  gpu.write(gpu.a, 1);
  if (gpu.hangs) gpu.write(gpu.b, 0);
  const CUstream behind = gpu.stream();
  gpu.order(gpu.b, behind);
  gpu.launch("step", behind);
  gpu.finish(behind);
}

/// Nobody writes the value that a stream waits for.
void closed_gate(Hang& gpu) {
  gpu.words[0] = gpu.hangs ? 0 : 1;
  gpu.wait(gpu.a, 0);
  gpu.launch("step", gpu.a);
  const CUevent done = gpu.event();
  expect(cuEventRecord(done, gpu.a));
  expect(cuEventSynchronize(done));
  gpu.finish(gpu.a);
}

/// The program asks again and again, and never waits.
void polling(Hang& gpu) {
  gpu.words[0] = gpu.hangs ? 0 : 1;
  gpu.wait(gpu.a, 0);
  gpu.launch("step", gpu.a);
  const CUevent done = gpu.event();
  expect(cuEventRecord(done, gpu.a));
  while (cuEventQuery(done) == CUDA_ERROR_NOT_READY) {
  }
  gpu.finish(gpu.a);
}

void full_queue(Hang& gpu) {
  gpu.words[0] = gpu.hangs ? 0 : 1;
  gpu.wait(gpu.a, 0);
  for (int i = 0; i < 1'500; ++i)
    gpu.launch("step", gpu.a);
  gpu.finish(gpu.a);
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

void stuck_replay(Hang& gpu) {
  replay(gpu, 5'000, [&] { gpu.wait(gpu.a, 0); });
}

void stuck_kernel_in_replay(Hang& gpu) {
  // A simulated kernel reads no memory, so it is endless in the first replay.
  const bool simulated = std::getenv("CUEVENT_SIM_ENDLESS_KERNEL") != nullptr;
  replay(gpu, simulated ? 1 : 5'000, [&] { gpu.spin(gpu.a); });
}

void illegal_address(Hang& gpu) {
  gpu.launch("step", gpu.a);
  expect(cuStreamSynchronize(gpu.a));
  gpu.launch(gpu.hangs ? "write_illegal_address" : "step", gpu.b);
  if (!gpu.hangs) return gpu.finish(gpu.b);
  std::this_thread::sleep_for(9s);
}

struct Program {
  const char* name;
  void (*run)(Hang&);
};
constexpr std::array programs = {
    Program{"endless-kernel", endless_kernel},
    Program{"missing-peer", missing_peer},
    Program{"deadlock", deadlock},
    Program{"closed-gate", closed_gate},
    Program{"polling", polling},
    Program{"full-queue", full_queue},
    Program{"stuck-replay", stuck_replay},
    Program{"stuck-kernel-in-replay", stuck_kernel_in_replay},
    Program{"illegal-address", illegal_address},
};

} // namespace

int main(int argc, char** argv) {
  const bool near = argc == 3 && std::strcmp(argv[1], "near") == 0;
  if (argc != 2 && !near) return 2;
  for (const Program& program : programs) {
    if (std::strcmp(argv[1], "--list") == 0) std::puts(program.name);
    if (std::strcmp(argv[argc - 1], program.name) != 0) continue;
    static Hang gpu(!near);
    program.run(gpu);
    return 0;
  }
  return std::strcmp(argv[1], "--list") == 0 ? 0 : 2;
}
