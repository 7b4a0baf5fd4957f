// SPDX-License-Identifier: MIT
#include "stage.hpp"

#include <algorithm>

namespace neighbours {
namespace {

constexpr std::size_t bytes = 4096;

constexpr const char* ptx = R"(.version 7.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 counter;
.visible .global .attribute(.managed) .align 4 .u32 shared;
.visible .entry step() { ret; }
.visible .entry taking(.param .u64 address, .param .u32 number) { ret; }
)";

void CUDA_CB nothing(void*) {}

} // namespace

void Stage::must(CUresult result, const char* what) const {
  if (result == CUDA_SUCCESS) return;
  const char* name = "?";
  cu.GetErrorName(result, &name);
  throw SetUpFailure(std::string(what) + ": " + name);
}

void Stage::initialize() {
  must(cu.Init(0), "cuInit");
  must(cu.CtxCreate(&home, 0, 0), "cuCtxCreate");
}

void Stage::next() {
  fresh_.clear();
  nodes_.clear();
  rooms_.clear();
}

void* Stage::room(std::size_t size) {
  rooms_.push_back(std::make_unique<char[]>(size + 64));
  const auto address = (reinterpret_cast<std::uintptr_t>(rooms_.back().get()) + 63) & ~std::uintptr_t{63};
  return reinterpret_cast<void*>(address);
}

CUresult Stage::settle() {
  CUcontext context = nullptr;
  for (int i = 0; i < 16 && cu.CtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr; ++i)
    cu.CtxPopCurrent(&context);
  cu.CtxSetCurrent(home);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  cu.ThreadExchangeStreamCaptureMode(&mode);
  for (CUstream stream : captures_) {
    CUgraph graph = nullptr;
    cu.StreamEndCapture(stream, &graph);
  }
  captures_.clear();
  for (const auto& [of, end] : ends_) {
    if (of != nullptr && cu.CtxPushCurrent(of) != CUDA_SUCCESS) continue;
    end();
    if (of != nullptr) cu.CtxPopCurrent(&context);
  }
  ends_.clear();
  for (const char* key : {"other", "green_context"}) { // their work uses the room of the question, too
    const auto made = lasting_.find(key);
    if (made == lasting_.end() || cu.CtxPushCurrent((CUcontext)made->second) != CUDA_SUCCESS) continue;
    cu.CtxSynchronize();
    cu.CtxPopCurrent(&context);
  }
  mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  cu.ThreadExchangeStreamCaptureMode(&mode);
  return cu.CtxSynchronize();
}

void Stage::later(std::function<void()> end) {
  CUcontext current = nullptr;
  must(cu.CtxGetCurrent(&current), "cuCtxGetCurrent");
  ends_.push_back({current, std::move(end)});
}

CUcontext Stage::other() {
  return once<CUcontext>(lasting_, "other", [this] { return fresh_context(); });
}
CUcontext Stage::destroyed_context() {
  return once<CUcontext>(lasting_, "destroyed", [this] {
    const CUcontext context = fresh_context();
    must(cu.CtxDestroy(context), "cuCtxDestroy");
    return context;
  });
}
CUcontext Stage::fresh_context() {
  CUcontext context = nullptr, popped = nullptr;
  must(cu.CtxCreate(&context, 0, 0), "cuCtxCreate");
  must(cu.CtxPopCurrent(&popped), "cuCtxPopCurrent");
  return context;
}

CUdevResourceDesc Stage::description() {
  return once<CUdevResourceDesc>(lasting_, "description", [this] {
    CUdevResource resource{};
    must(cu.DeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
    CUdevResourceDesc made = nullptr;
    must(cu.DevResourceGenerateDesc(&made, &resource, 1), "cuDevResourceGenerateDesc");
    return made;
  });
}
CUgreenCtx Stage::fresh_green() {
  CUgreenCtx made = nullptr;
  must(cu.GreenCtxCreate(&made, description(), 0, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
  return made;
}
CUgreenCtx Stage::green() {
  return once<CUgreenCtx>(lasting_, "green", [this] { return fresh_green(); });
}
CUcontext Stage::green_context() {
  return once<CUcontext>(lasting_, "green_context", [this] {
    CUcontext context = nullptr;
    must(cu.CtxFromGreenCtx(&context, green()), "cuCtxFromGreenCtx");
    return context;
  });
}

const char* Stage::code() const { return ptx; }

CUmodule Stage::fresh_module() {
  CUmodule made = nullptr;
  must(cu.ModuleLoadData(&made, ptx), "cuModuleLoadData");
  return made;
}
CUmodule Stage::module() {
  return once<CUmodule>(lasting_, "module", [this] { return fresh_module(); });
}
CUfunction Stage::function() {
  return once<CUfunction>(lasting_, "function", [this] {
    CUfunction made = nullptr;
    must(cu.ModuleGetFunction(&made, module(), "step"), "cuModuleGetFunction");
    return made;
  });
}
CUfunction Stage::with_parameters() {
  return once<CUfunction>(lasting_, "with_parameters", [this] {
    CUfunction made = nullptr;
    must(cu.ModuleGetFunction(&made, module(), "taking"), "cuModuleGetFunction");
    return made;
  });
}
CUlibrary Stage::fresh_library() {
  CUlibrary made = nullptr;
  must(cu.LibraryLoadData(&made, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0), "cuLibraryLoadData");
  return made;
}
CUlibrary Stage::library() {
  return once<CUlibrary>(lasting_, "library", [this] { return fresh_library(); });
}
CUkernel Stage::kernel() {
  return once<CUkernel>(lasting_, "kernel", [this] {
    CUkernel made = nullptr;
    must(cu.LibraryGetKernel(&made, library(), "taking"), "cuLibraryGetKernel");
    return made;
  });
}
void* Stage::other_memory() {
  return once<void*>(fresh_, "other_memory", [this] {
    return in_other_context([this] {
      CUdeviceptr made = 0;
      must(cu.MemAlloc(&made, bytes), "cuMemAlloc");
      must(cu.MemsetD32(made, 1, bytes / 4), "cuMemsetD32");
      return reinterpret_cast<void*>(made);
    });
  });
}

CUstream Stage::new_stream(unsigned flags) {
  CUstream made = nullptr;
  must(cu.StreamCreate(&made, flags), "cuStreamCreate");
  return made;
}
CUstream Stage::stream() {
  return once<CUstream>(fresh_, "stream", [this] { return new_stream(); });
}
CUstream Stage::second_stream() {
  return once<CUstream>(fresh_, "second_stream", [this] { return new_stream(); });
}
CUstream Stage::begun(CUstream stream, CUstreamCaptureMode mode) {
  must(cu.StreamBeginCapture(stream, mode), "cuStreamBeginCapture");
  captures_.push_back(stream);
  return stream;
}
CUstream Stage::capturing() {
  return once<CUstream>(fresh_, "capturing", [this] {
    const CUstream made = begun(new_stream(), CU_STREAM_CAPTURE_MODE_RELAXED);
    must(cu.LaunchHostFunc(made, nothing, nullptr), "cuLaunchHostFunc in a capture");
    return made;
  });
}
void Stage::forget(CUstream stream) {
  captures_.erase(std::remove(captures_.begin(), captures_.end(), stream), captures_.end());
}

CUevent Stage::new_event(unsigned flags, bool recorded) {
  CUevent made = nullptr;
  must(cu.EventCreate(&made, flags), "cuEventCreate");
  if (recorded) {
    must(cu.EventRecord(made, second_stream()), "cuEventRecord");
    must(cu.EventSynchronize(made), "cuEventSynchronize");
  }
  return made;
}
CUevent Stage::event() {
  return once<CUevent>(fresh_, "event", [this] { return new_event(0, true); });
}
CUevent Stage::second_event() {
  return once<CUevent>(fresh_, "second_event", [this] { return new_event(0, true); });
}

CUdeviceptr Stage::memory() {
  return once<CUdeviceptr>(fresh_, "memory", [this] {
    CUdeviceptr made = 0;
    must(cu.MemAlloc(&made, bytes), "cuMemAlloc");
    must(cu.MemsetD32(made, 1, bytes / 4), "cuMemsetD32");
    return made;
  });
}
CUdeviceptr Stage::target() {
  return once<CUdeviceptr>(fresh_, "target", [this] {
    CUdeviceptr made = 0;
    must(cu.MemAlloc(&made, bytes), "cuMemAlloc");
    must(cu.MemsetD32(made, 1, bytes / 4), "cuMemsetD32");
    return made;
  });
}
CUdeviceptr Stage::freed() {
  return once<CUdeviceptr>(fresh_, "freed", [this] {
    CUdeviceptr made = 0; // large, so that its pages are gone
    must(cu.MemAlloc(&made, std::size_t{64} << 20), "cuMemAlloc");
    must(cu.MemFree(made), "cuMemFree");
    return made;
  });
}
CUdeviceptr Stage::managed() {
  return once<CUdeviceptr>(fresh_, "managed", [this] {
    CUdeviceptr made = 0;
    must(cu.MemAllocManaged(&made, bytes, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
    must(cu.MemsetD32(made, 1, bytes / 4), "cuMemsetD32");
    return made;
  });
}
CUdeviceptr Stage::pooled() {
  return once<CUdeviceptr>(fresh_, "pooled", [this] {
    CUdeviceptr made = 0;
    must(cu.MemAllocAsync(&made, bytes, stream()), "cuMemAllocAsync");
    must(cu.MemsetD8Async(made, 1, bytes, stream()), "cuMemsetD8Async");
    must(cu.StreamSynchronize(stream()), "cuStreamSynchronize");
    return made;
  });
}
void* Stage::pinned() {
  return once<void*>(fresh_, "pinned", [this] {
    void* made = nullptr;
    must(cu.MemHostAlloc(&made, bytes, 0), "cuMemHostAlloc");
    std::fill_n(static_cast<unsigned*>(made), bytes / 4, 1u);
    return made;
  });
}
CUmemoryPool Stage::fresh_pool() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool made = nullptr;
  must(cu.MemPoolCreate(&made, &properties), "cuMemPoolCreate");
  return made;
}
CUmemoryPool Stage::pool() {
  return once<CUmemoryPool>(fresh_, "pool", [this] { return fresh_pool(); });
}

CUgraph Stage::new_graph(std::map<std::string, CUgraphNode>* nodes) {
  CUgraph made = nullptr;
  must(cu.GraphCreate(&made, 0), "cuGraphCreate");
  if (nodes == nullptr) return made;
  auto& all = *nodes;
  must(cu.GraphAddEmptyNode(&all["empty"], made, nullptr, 0), "cuGraphAddEmptyNode");
  must(cu.GraphAddEmptyNode(&all["second"], made, &all["empty"], 1), "cuGraphAddEmptyNode");
  CUDA_HOST_NODE_PARAMS host{};
  host.fn = nothing;
  must(cu.GraphAddHostNode(&all["host"], made, nullptr, 0, &host), "cuGraphAddHostNode");
  CUDA_KERNEL_NODE_PARAMS kernel{};
  kernel.func = function();
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  must(cu.GraphAddKernelNode(&all["kernel"], made, nullptr, 0, &kernel), "cuGraphAddKernelNode");
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = target();
  fill.elementSize = 1;
  fill.width = 256;
  fill.height = 1;
  must(cu.GraphAddMemsetNode(&all["fill"], made, nullptr, 0, &fill, home), "cuGraphAddMemsetNode");
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = memory();
  copy.dstDevice = target();
  copy.srcPitch = copy.dstPitch = 256;
  copy.srcHeight = copy.dstHeight = 4;
  copy.WidthInBytes = 64;
  copy.Height = 4;
  copy.Depth = 2;
  must(cu.GraphAddMemcpyNode(&all["copy"], made, &all["fill"], 1, &copy, home), "cuGraphAddMemcpyNode");
  must(cu.GraphAddEventRecordNode(&all["record"], made, nullptr, 0, second_event()),
       "cuGraphAddEventRecordNode");
  must(cu.GraphAddEventWaitNode(&all["wait"], made, nullptr, 0, second_event()), "cuGraphAddEventWaitNode");
  CUgraph child = nullptr;
  CUgraphNode inner = nullptr;
  must(cu.GraphCreate(&child, 0), "cuGraphCreate");
  must(cu.GraphAddEmptyNode(&inner, child, nullptr, 0), "cuGraphAddEmptyNode");
  must(cu.GraphAddChildGraphNode(&all["child"], made, nullptr, 0, child), "cuGraphAddChildGraphNode");
  return made;
}
CUgraph Stage::graph() {
  return once<CUgraph>(fresh_, "graph", [this] { return new_graph(&nodes_); });
}
CUgraphNode Stage::node(const std::string& kind) {
  graph();
  const auto found = nodes_.find(kind);
  if (found == nodes_.end()) throw SetUpFailure("no node " + kind);
  return found->second;
}
CUgraphExec Stage::new_exec(CUgraph of) {
  CUgraphExec made = nullptr;
  must(cu.GraphInstantiateWithFlags(&made, of, 0), "cuGraphInstantiateWithFlags");
  return made;
}
CUgraphExec Stage::exec() {
  return once<CUgraphExec>(fresh_, "exec", [this] { return new_exec(graph()); });
}
CUuserObject Stage::user_object() {
  return once<CUuserObject>(fresh_, "user_object", [this] {
    CUuserObject made = nullptr;
    must(cu.UserObjectCreate(&made, nullptr, nothing, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
         "cuUserObjectCreate");
    return made;
  });
}
CUuserObject Stage::owned_object() {
  return once<CUuserObject>(fresh_, "owned_object", [this] {
    const CUuserObject made = user_object();
    must(cu.GraphRetainUserObject(graph(), made, 1, 0), "cuGraphRetainUserObject");
    return made;
  });
}

} // namespace neighbours
