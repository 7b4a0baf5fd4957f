// SPDX-License-Identifier: MIT
// What calls of the simulated driver cost, in instructions, while the work of each is done in the next call.
// bench/count-instructions runs this program, and uses the names and the number of rounds.

#include <cuda.h>
#include <cuevent/sim.hpp>

#include <cstdio>
#include <cstdlib>

namespace sim = cuevent::sim;

namespace {

constexpr int rounds = 1000;
constexpr char code[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry step() { ret; }\n";

void require(CUresult result) {
  if (result != CUDA_SUCCESS) std::abort();
}

template <class Function>
void find(Function& function, const char* name, int version) {
  require(sim::get_proc_address(name, reinterpret_cast<void**>(&function), version, 0, nullptr));
}

CUresult (*record)(CUevent, CUstream);
CUresult (*query)(CUevent);
CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                   void**, void**);
CUresult (*synchronize)(CUstream);

} // namespace

extern "C" {

[[gnu::noinline]] void sim_record(CUevent event, CUstream stream) {
  for (int i = 0; i < rounds; ++i)
    require(record(event, stream));
}

[[gnu::noinline]] void sim_query(CUevent event) {
  for (int i = 0; i < rounds; ++i)
    require(query(event));
}

[[gnu::noinline]] void sim_launch(CUfunction kernel, CUstream stream) {
  for (int i = 0; i < rounds; ++i)
    require(launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
}
}

int main() {
  sim::Machine machine; // stepped, so that each run is the same
  CUresult (*init)(unsigned);
  CUresult (*retain)(CUcontext*, CUdevice);
  CUresult (*set)(CUcontext);
  CUresult (*create_stream)(CUstream*, unsigned);
  CUresult (*create_event)(CUevent*, unsigned);
  CUresult (*load)(CUmodule*, const void*);
  CUresult (*get)(CUfunction*, CUmodule, const char*);
  find(init, "cuInit", 2000);
  find(retain, "cuDevicePrimaryCtxRetain", 7000);
  find(set, "cuCtxSetCurrent", 4000);
  find(create_stream, "cuStreamCreate", 2000);
  find(create_event, "cuEventCreate", 2000);
  find(load, "cuModuleLoadData", 2000);
  find(get, "cuModuleGetFunction", 2000);
  find(record, "cuEventRecord", 2000);
  find(query, "cuEventQuery", 2000);
  find(launch, "cuLaunchKernel", 4000);
  find(synchronize, "cuStreamSynchronize", 2000);

  CUcontext context = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  require(init(0));
  require(retain(&context, 0));
  require(set(context));
  require(create_stream(&stream, CU_STREAM_NON_BLOCKING));
  require(create_event(&event, CU_EVENT_DISABLE_TIMING));
  require(load(&module, code));
  require(get(&kernel, module, "step"));
  for (int i = 0; i < 100; ++i) {
    require(record(event, stream));
    require(launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  }
  require(synchronize(stream));
  require(record(event, stream));
  require(synchronize(stream));
  sim_query(event);
  sim_record(event, stream);
  require(synchronize(stream));
  sim_launch(kernel, stream);
  return 0;
}
