// SPDX-License-Identifier: MIT
#include "lab.hpp"

#include <kernels.hpp>

#include <fstream>
#include <sstream>
#include <sys/syscall.h>
#include <unistd.h>

namespace transcript {
namespace {

constexpr std::size_t word_count = 1 << 16;

} // namespace

Lab::Lab(const Api& api, std::string library_name, std::function<void(std::string_view)> write)
    : cu(api), library(std::move(library_name)), write_(std::move(write)) {}

void Lab::initialize() {
  must(cu.Init(0), "cuInit");
  must(cu.DeviceGetCount(&device_count), "cuDeviceGetCount");
  must(cu.DeviceGet(&device, 0), "cuDeviceGet");
  must(cu.CtxCreate(&home, 0, device), "cuCtxCreate");
  void* memory = nullptr;
  must(cu.MemHostAlloc(&memory, word_count * sizeof(unsigned),
                       CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
       "cuMemHostAlloc");
  words_ = static_cast<unsigned*>(memory);
}

void Lab::restore() {
  for (CUcontext popped = nullptr; cu.CtxPopCurrent(&popped) == CUDA_SUCCESS && popped != nullptr;) {
  }
  cu.CtxPushCurrent(home);
}

bool Lab::as_found() const {
  CUcontext current = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (cu.CtxGetCurrent(&current) != CUDA_SUCCESS || current != home) return false;
  return cu.ThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS && mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

std::string Lab::name_of(CUresult result) const {
  const char* name = nullptr;
  if (cu.GetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr) return name;
  return "CUresult " + std::to_string(static_cast<int>(result));
}

void Lab::is(std::string_view name, CUresult answer) { shows(name, name_of(answer)); }

void Lab::shows(std::string_view name, const std::string& value) {
  write_(scenario + "." + std::string(name) + " = " + value);
}

void Lab::must(CUresult result, const char* what) const {
  if (result != CUDA_SUCCESS) throw SetUpFailure(std::string(what) + ": " + name_of(result));
}

CUcontext Lab::second_context() {
  if (second_ == nullptr) {
    must(cu.CtxCreate(&second_, 0, device), "cuCtxCreate");
    CUcontext popped = nullptr;
    must(cu.CtxPopCurrent(&popped), "cuCtxPopCurrent");
  }
  return second_;
}

CUfunction Lab::kernel(const char* name) {
  CUmodule module = nullptr; // lives for as long as its context
  CUfunction function = nullptr;
  must(cu.ModuleLoadData(&module, kernels), "cuModuleLoadData");
  must(cu.ModuleGetFunction(&function, module, name), "cuModuleGetFunction");
  return function;
}

CUresult Lab::launch(CUfunction kernel, CUstream stream, CUlaunchAttribute attribute,
                     void** parameters) const {
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cu.LaunchKernelEx(&config, kernel, parameters, nullptr);
}

unsigned* Lab::word() {
  if (next_word_ == word_count) throw SetUpFailure("out of pinned words");
  // Never used twice, so that a late write to an old word does no harm.
  unsigned* const word = words_ + next_word_++;
  *word = 0;
  return word;
}

#if CUDA_VERSION >= 12050
Green::Green(Lab& lab) {
  const Api& cu = lab.cu;
  CUdevResource resource{};
  CUdevResourceDesc description = nullptr;
  lab.must(cu.DevicePrimaryCtxRetain(&primary, lab.device), "cuDevicePrimaryCtxRetain");
  lab.must(cu.DeviceGetDevResource(lab.device, &resource, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
  lab.must(cu.DevResourceGenerateDesc(&description, &resource, 1), "cuDevResourceGenerateDesc");
  lab.must(cu.GreenCtxCreate(&green, description, lab.device, CU_GREEN_CTX_DEFAULT_STREAM),
           "cuGreenCtxCreate");
  lab.must(cu.CtxFromGreenCtx(&context, green), "cuCtxFromGreenCtx");
}
#endif

Stream::Stream(Lab& lab, unsigned flags) : Owned(lab) {
  lab.must(lab.cu.StreamCreate(&handle_, flags), "cuStreamCreate");
}

Event::Event(Lab& lab, unsigned flags) : Owned(lab) {
  lab.must(lab.cu.EventCreate(&handle_, flags), "cuEventCreate");
}

Graph::Graph(Lab& lab) : Owned(lab) { handle_ = make_graph(lab); }

CUgraph make_graph(Lab& lab) {
  CUgraph graph = nullptr;
  lab.must(lab.cu.GraphCreate(&graph, 0), "cuGraphCreate");
  return graph;
}

CUgraphExec make_exec(Lab& lab, CUgraph graph) {
  CUgraphExec exec = nullptr;
  lab.must(lab.cu.GraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
  return exec;
}

Gate::Gate(Lab& lab, CUstream stream) : word_(lab.word()) {
  lab.must(lab.cu.StreamWaitValue32(stream, Lab::address(word_), 1, CU_STREAM_WAIT_VALUE_GEQ),
           "cuStreamWaitValue32");
}

namespace {

// Whether the thread wants a processor and has not had one for this long: then it does not wait for work. A
// driver may wait without sleeping.
bool is_starved(pid_t thread, std::chrono::milliseconds patience) {
  if (thread == 0) return true; // it has not begun
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto name = text.rfind(')');
  if (name == std::string::npos) return false;
  std::istringstream fields(text.substr(name + 1));
  std::string state, skipped;
  long long user = 0, system = 0;
  fields >> state;
  for (int i = 0; i < 10; ++i)
    fields >> skipped;
  fields >> user >> system; // in ticks
  return state == "R" && (user + system) * 1000 / sysconf(_SC_CLK_TCK) < patience.count();
}

} // namespace

Background::Background(Lab& lab, std::function<CUresult()> call)
    : thread_([this, &lab, call = std::move(call)] {
        number_ = static_cast<pid_t>(syscall(SYS_gettid));
        lab.cu.CtxSetCurrent(lab.home);
        result_ = call();
        done_ = true;
      }) {}

bool Background::returns_within(std::chrono::milliseconds patience) const {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const auto last = deadline + std::chrono::seconds(20);
  for (auto now = deadline - patience; !done_ && now < last; now = std::chrono::steady_clock::now()) {
    if (now >= deadline && !is_starved(number_, patience)) break;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return done_;
}

CUresult on_other_thread(Lab& lab, const std::function<CUresult()>& call) {
  return Background(lab, call).join();
}

CUresult in_mode(Lab& lab, CUstreamCaptureMode mode, const std::function<CUresult()>& call) {
  lab.cu.ThreadExchangeStreamCaptureMode(&mode);
  const CUresult result = call();
  lab.cu.ThreadExchangeStreamCaptureMode(&mode);
  return result;
}

CUresult eventually(const std::function<CUresult()>& poll) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  CUresult result = poll();
  while (result == CUDA_ERROR_NOT_READY && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    result = poll();
  }
  return result;
}

bool captures(Lab& lab, CUstream stream) {
  return lab.cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS &&
         end_capture(lab, stream) == CUDA_SUCCESS;
}

std::string capture_state(Lab& lab, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = lab.cu.StreamIsCapturing(stream, &status);
  if (result != CUDA_SUCCESS) return lab.name_of(result);
  switch (status) {
  case CU_STREAM_CAPTURE_STATUS_NONE:
    return "none";
  case CU_STREAM_CAPTURE_STATUS_ACTIVE:
    return "active";
  case CU_STREAM_CAPTURE_STATUS_INVALIDATED:
    return "invalidated";
  default:
    return "unknown status";
  }
}

std::string node_types(Lab& lab, CUgraph graph) {
  static constexpr const char* names[] = {
      "kernel", "memcpy",     "memset",   "host",         "graph",       "empty",       "wait",
      "record", "sem_signal", "sem_wait", "memory_alloc", "memory_free", "batch_memop", "conditional"};
  std::size_t count = 0;
  if (const CUresult result = lab.cu.GraphGetNodes(graph, nullptr, &count); result != CUDA_SUCCESS) {
    return lab.name_of(result);
  }
  std::vector<CUgraphNode> nodes(count);
  if (count != 0) lab.must(lab.cu.GraphGetNodes(graph, nodes.data(), &count), "cuGraphGetNodes");
  std::string text;
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type{};
    lab.must(lab.cu.GraphNodeGetType(node, &type), "cuGraphNodeGetType");
    const auto index = static_cast<std::size_t>(type);
    text += (text.empty() ? "" : " ") + std::string(index < std::size(names) ? names[index] : "other");
  }
  return text.empty() ? "no nodes" : text;
}

CUresult end_capture(Lab& lab, CUstream stream) {
  CUgraph graph = nullptr;
  const CUresult result = lab.cu.StreamEndCapture(stream, &graph);
  if (graph != nullptr) lab.cu.GraphDestroy(graph);
  return result;
}

CUdeviceptr mapped_memory(Lab& lab, std::size_t bytes, CUmemGenericAllocationHandle* handle,
                          CUmemAllocationHandleType shared) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = shared;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = lab.device;
  CUmemGenericAllocationHandle made = 0;
  CUdeviceptr memory = 0;
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  lab.must(lab.cu.MemCreate(&made, bytes, &properties, 0), "cuMemCreate");
  lab.must(lab.cu.MemAddressReserve(&memory, bytes, 0, 0, 0), "cuMemAddressReserve");
  lab.must(lab.cu.MemMap(memory, bytes, 0, made, 0), "cuMemMap");
  lab.must(lab.cu.MemSetAccess(memory, bytes, &access, 1), "cuMemSetAccess");
  if (handle != nullptr) *handle = made;
  return memory;
}

} // namespace transcript
