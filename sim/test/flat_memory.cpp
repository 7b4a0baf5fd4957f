// SPDX-License-Identifier: MIT
// The simulator's memory stays flat over a million calls. The warm-up fills the history of the last 100,000
// handles, which is for reports.

#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <unistd.h>

namespace {

constexpr char code[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry step() { ret; }\n";
constexpr int calls = 1'000'000, calls_per_round = 10, warm_up_rounds = 120'000;
constexpr long flat_kib = 1024;

void require(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "a call returned %d\n", static_cast<int>(result));
  std::exit(2);
}

long resident_kib() {
  std::ifstream file("/proc/self/statm");
  long size = 0, resident = 0;
  file >> size >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

struct Work {
  CUstream stream = nullptr;
  CUfunction kernel = nullptr;
  CUgraphExec exec = nullptr;
  CUdeviceptr memory = 0;
  CUevent kept = nullptr;

  /// Ten calls. The last one leaves the stream idle.
  void round() {
    CUevent event = nullptr;
    CUdeviceptr block = 0;
    require(cuEventCreate(&event, CU_EVENT_DEFAULT));
    require(cuMemAllocAsync(&block, 256, stream));
    require(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    require(cuMemsetD8Async(memory, 1, 64, stream));
    require(cuGraphLaunch(exec, stream));
    require(cuEventRecord(event, stream));
    const CUresult done = cuEventQuery(event);
    if (done != CUDA_ERROR_NOT_READY) require(done);
    require(cuMemFreeAsync(block, stream));
    require(cuEventDestroy(event));
    require(cuStreamSynchronize(stream));
  }
};

} // namespace

int main() {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUgraph graph = nullptr;
  Work work;
  require(cuInit(0));
  require(cuDevicePrimaryCtxRetain(&context, 0));
  require(cuCtxSetCurrent(context));
  require(cuStreamCreate(&work.stream, CU_STREAM_NON_BLOCKING));
  require(cuModuleLoadData(&module, code));
  require(cuModuleGetFunction(&work.kernel, module, "step"));
  require(cuMemAlloc(&work.memory, 64));
  require(cuEventCreate(&work.kept, CU_EVENT_DISABLE_TIMING));
  require(cuStreamBeginCapture(work.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  require(cuLaunchKernel(work.kernel, 1, 1, 1, 1, 1, 1, 0, work.stream, nullptr, nullptr));
  require(cuEventRecordWithFlags(work.kept, work.stream, CU_EVENT_RECORD_EXTERNAL));
  require(cuStreamEndCapture(work.stream, &graph));
  require(cuGraphInstantiate(&work.exec, graph, 0));

  for (int i = 0; i < warm_up_rounds; ++i)
    work.round();
  const long before = resident_kib();
  for (int i = 0; i < calls / calls_per_round; ++i)
    work.round();
  const long after = resident_kib();
  std::printf("%d calls: %ld KiB before, %ld KiB after\n", calls, before, after);
  return after - before <= flat_kib ? 0 : 1;
}
