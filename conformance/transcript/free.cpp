// SPDX-License-Identifier: MIT
// Which calls that free memory, or make it, wait for work of which streams. And what a driver tells about the
// memory that kernels, copies and nodes of graphs use.

#include "lab.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <sys/mman.h>

namespace transcript {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t bytes = 2 << 20; // what cuMemCreate can map

// A call that is ready to be made, and the memory that it frees, or 0.
struct Ready {
  std::function<CUresult()> call;
  CUdeviceptr memory = 0;
};
using Prepare = Ready (*)(Lab&);

CUmemPoolProps pool_properties(Lab& lab, std::size_t most = 0) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = lab.device;
#if CUDA_VERSION >= 12020
  properties.maxSize = most;
#endif
  return properties;
}

CUmemoryPool new_pool(Lab& lab, std::size_t most = 0) {
  const CUmemPoolProps properties = pool_properties(lab, most);
  CUmemoryPool pool = nullptr;
  lab.must(lab.cu.MemPoolCreate(&pool, &properties), "cuMemPoolCreate");
  return pool;
}

// Memory of the default pool, or of this one, whose allocation is complete.
CUdeviceptr from_pool(Lab& lab, CUmemoryPool pool = nullptr) {
  Stream stream(lab);
  CUdeviceptr memory = 0;
  lab.must(pool == nullptr ? lab.cu.MemAllocAsync(&memory, bytes, stream)
                           : lab.cu.MemAllocFromPoolAsync(&memory, bytes, pool, stream),
           "cuMemAllocAsync");
  lab.must(lab.cu.StreamSynchronize(stream), "synchronize");
  return memory;
}

CUdeviceptr allocated(Lab& lab) {
  CUdeviceptr memory = 0;
  lab.must(lab.cu.MemAlloc(&memory, bytes), "cuMemAlloc");
  return memory;
}

struct Kind {
  const char* name;
  Prepare prepare;
};

constexpr Kind kinds[] = {
    {"mem_free",
     [](Lab& lab) {
       const CUdeviceptr memory = allocated(lab);
       return Ready{[&lab, memory] { return lab.cu.MemFree(memory); }, memory};
     }},
    {"mem_free.small", // a part of a larger block of the driver
     [](Lab& lab) {
       CUdeviceptr memory = 0;
       lab.must(lab.cu.MemAlloc(&memory, 512), "cuMemAlloc");
       return Ready{[&lab, memory] { return lab.cu.MemFree(memory); }, memory};
     }},
    {"mem_free.managed",
     [](Lab& lab) {
       CUdeviceptr memory = 0;
       lab.must(lab.cu.MemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
       return Ready{[&lab, memory] { return lab.cu.MemFree(memory); }, memory};
     }},
    {"mem_free.of_pool",
     [](Lab& lab) {
       const CUdeviceptr memory = from_pool(lab);
       return Ready{[&lab, memory] { return lab.cu.MemFree(memory); }, memory};
     }},
    {"free_async",
     [](Lab& lab) {
       const CUdeviceptr memory = from_pool(lab);
       const auto stream = std::make_shared<Stream>(lab);
       return Ready{[&lab, memory, stream] { return lab.cu.MemFreeAsync(memory, *stream); }, memory};
     }},
    {"free_async.of_mem_alloc",
     [](Lab& lab) {
       const CUdeviceptr memory = allocated(lab);
       const auto stream = std::make_shared<Stream>(lab);
       return Ready{[&lab, memory, stream] { return lab.cu.MemFreeAsync(memory, *stream); }, memory};
     }},
    {"free_host",
     [](Lab& lab) {
       void* memory = nullptr;
       lab.must(lab.cu.MemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
       return Ready{[&lab, memory] { return lab.cu.MemFreeHost(memory); },
                    reinterpret_cast<std::uintptr_t>(memory)};
     }},
    {"free_host.not_portable",
     [](Lab& lab) {
       void* memory = nullptr;
       lab.must(lab.cu.MemHostAlloc(&memory, bytes, 0), "cuMemHostAlloc");
       return Ready{[&lab, memory] { return lab.cu.MemFreeHost(memory); },
                    reinterpret_cast<std::uintptr_t>(memory)};
     }},
    {"unregister",
     [](Lab& lab) {
       void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
       lab.must(lab.cu.MemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE), "cuMemHostRegister");
       return Ready{[&lab, memory] { return lab.cu.MemHostUnregister(memory); },
                    reinterpret_cast<std::uintptr_t>(memory)};
     }},
    {"pool_destroy",
     [](Lab& lab) {
       const CUmemoryPool pool = new_pool(lab);
       lab.cu.MemFree(from_pool(lab, pool));
       return Ready{[&lab, pool] { return lab.cu.MemPoolDestroy(pool); }};
     }},
    {"pool_destroy.with_memory", // which lives on
     [](Lab& lab) {
       const CUmemoryPool pool = new_pool(lab);
       const CUdeviceptr memory = from_pool(lab, pool);
       return Ready{[&lab, pool] { return lab.cu.MemPoolDestroy(pool); }, memory};
     }},
    {"pool_trim",
     [](Lab& lab) {
       const CUmemoryPool pool = new_pool(lab);
       Stream stream(lab);
       lab.cu.MemFreeAsync(from_pool(lab, pool), stream);
       return Ready{[&lab, pool] { return lab.cu.MemPoolTrimTo(pool, 0); }};
     }},
    {"module_unload",
     [](Lab& lab) {
       CUmodule module = nullptr;
       static constexpr char image[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                                       ".visible .global .align 8 .b8 data[4096];\n";
       lab.must(lab.cu.ModuleLoadData(&module, image), "cuModuleLoadData");
       return Ready{[&lab, module] { return lab.cu.ModuleUnload(module); }};
     }},
    {"context_destroy", // of a context without work
     [](Lab& lab) {
       CUcontext made = nullptr, popped = nullptr;
       lab.must(lab.cu.CtxCreate(&made, 0, lab.device), "cuCtxCreate");
       lab.must(lab.cu.CtxPopCurrent(&popped), "cuCtxPopCurrent");
       return Ready{[&lab, made] { return lab.cu.CtxDestroy(made); }};
     }},
    {"primary_release",
     [](Lab& lab) {
       CUcontext made = nullptr;
       lab.must(lab.cu.DevicePrimaryCtxRetain(&made, lab.device), "cuDevicePrimaryCtxRetain");
       return Ready{[&lab] { return lab.cu.DevicePrimaryCtxRelease(lab.device); }};
     }},
    {"primary_reset",
     [](Lab& lab) {
       CUcontext made = nullptr;
       lab.must(lab.cu.DevicePrimaryCtxRetain(&made, lab.device), "cuDevicePrimaryCtxRetain");
       return Ready{[&lab] { return lab.cu.DevicePrimaryCtxReset(lab.device); }};
     }},
    // Calls that make memory, and others without a stream.
    {"mem_alloc",
     [](Lab& lab) {
       return Ready{[&lab] {
         CUdeviceptr memory = 0;
         return lab.cu.MemAlloc(&memory, 64 << 20);
       }};
     }},
    {"host_alloc",
     [](Lab& lab) {
       return Ready{[&lab] {
         void* memory = nullptr;
         return lab.cu.MemHostAlloc(&memory, 64 << 20, 0);
       }};
     }},
    {"alloc_async",
     [](Lab& lab) {
       const auto stream = std::make_shared<Stream>(lab);
       return Ready{[&lab, stream] {
         CUdeviceptr memory = 0;
         return lab.cu.MemAllocAsync(&memory, 64 << 20, *stream);
       }};
     }},
    {"module_load",
     [](Lab& lab) {
       return Ready{[&lab] {
         lab.kernel("step");
         return CUDA_SUCCESS;
       }};
     }},
    {"stream_destroy",
     [](Lab& lab) {
       const CUstream stream = Stream(lab).release();
       return Ready{[&lab, stream] { return lab.cu.StreamDestroy(stream); }};
     }},
    {"memset_without_stream",
     [](Lab& lab) {
       const CUdeviceptr memory = allocated(lab);
       return Ready{[&lab, memory] { return lab.cu.MemsetD8(memory, 1, bytes); }, memory};
     }},
    {"copy_without_stream",
     [](Lab& lab) {
       const CUdeviceptr from = allocated(lab), to = allocated(lab);
       return Ready{[&lab, from, to] { return lab.cu.Memcpy(to, from, bytes); }, to};
     }},
    // The simulator does not model these.
    {"unmap",
     [](Lab& lab) {
       const CUdeviceptr memory = mapped_memory(lab, bytes);
       return Ready{[&lab, memory] { return lab.cu.MemUnmap(memory, bytes); }, memory};
     }},
    {"release", // while it is mapped
     [](Lab& lab) {
       CUmemGenericAllocationHandle handle = 0;
       mapped_memory(lab, bytes, &handle);
       return Ready{[&lab, handle] { return lab.cu.MemRelease(handle); }};
     }},
    {"array_destroy",
     [](Lab& lab) {
       CUarray array = nullptr;
       const CUDA_ARRAY_DESCRIPTOR description{1024, 64, CU_AD_FORMAT_FLOAT, 1};
       lab.must(lab.cu.ArrayCreate(&array, &description), "cuArrayCreate");
       return Ready{[&lab, array] { return lab.cu.ArrayDestroy(array); }};
     }},
    {"map",
     [](Lab& lab) {
       return Ready{[&lab] {
         mapped_memory(lab, bytes);
         return CUDA_SUCCESS;
       }};
     }},
};

// Whether the call returns while the stream is held.
void hold(Lab& lab, const std::string& name, CUstream stream, const Ready& ready) {
  Gate gate(lab, stream);
  Background call(lab, ready.call);
  lab.shows(name + ".returns", call.returns_within(1s));
  gate.open();
  lab.is(name, call.join());
  lab.is(name + ".stream", lab.cu.StreamSynchronize(stream));
}

void in_same_context(Lab& lab, unsigned flags, const char* what) {
  for (const auto& [kind, prepare] : kinds) {
    const Ready ready = prepare(lab);
    Stream stream(lab, flags);
    hold(lab, std::string(kind) + what, stream, ready);
  }
}

void with_context(Lab& lab, CUcontext context, const char* what) {
  for (const auto& [kind, prepare] : kinds) {
    const Ready ready = prepare(lab);
    std::optional<Stream> stream;
    {
      const Current guard(lab, context);
      stream.emplace(lab);
    }
    hold(lab, std::string(kind) + what, *stream, ready);
  }
}

void same_context(Lab& lab) { in_same_context(lab, CU_STREAM_NON_BLOCKING, ""); }
void blocking_stream(Lab& lab) { in_same_context(lab, CU_STREAM_DEFAULT, ""); }
void other_context(Lab& lab) { with_context(lab, lab.second_context(), ""); }
void other_device(Lab& lab) {
  CUdevice device = 0;
  CUcontext context = nullptr, popped = nullptr;
  lab.must(lab.cu.DeviceGet(&device, 1), "cuDeviceGet");
  lab.must(lab.cu.CtxCreate(&context, 0, device), "cuCtxCreate");
  lab.must(lab.cu.CtxPopCurrent(&popped), "cuCtxPopCurrent");
  with_context(lab, context, "");
}

// The context that ends has the held stream.
void context_with_work(Lab& lab) {
  CUcontext made = nullptr, popped = nullptr;
  lab.must(lab.cu.CtxCreate(&made, 0, lab.device), "cuCtxCreate");
  CUstream stream = Stream(lab).release();
  lab.must(lab.cu.CtxPopCurrent(&popped), "cuCtxPopCurrent");
  Gate gate(lab, stream);
  Background call(lab, [&] { return lab.cu.CtxDestroy(made); });
  lab.shows("returns", call.returns_within(1s));
  gate.open();
  lab.is("destroy", call.join());
}

template <bool resets>
void primary_with_work(Lab& lab) {
  CUcontext made = nullptr;
  lab.must(lab.cu.DevicePrimaryCtxRetain(&made, lab.device), "cuDevicePrimaryCtxRetain");
  CUstream stream = nullptr;
  {
    const Current guard(lab, made);
    stream = Stream(lab).release();
  }
  Gate gate(lab, stream);
  Background call(lab, [&] {
    return resets ? lab.cu.DevicePrimaryCtxReset(lab.device) : lab.cu.DevicePrimaryCtxRelease(lab.device);
  });
  lab.shows("returns", call.returns_within(1s));
  gate.open();
  lab.is("end", call.join());
}

// The held stream is about to write to the memory. May end in a fault, so each kind has a process.
template <std::size_t Index>
void used(Lab& lab) {
  const Ready ready = kinds[Index].prepare(lab);
  if (ready.memory == 0) return;
  Stream stream(lab);
  Gate gate(lab, stream);
  lab.is("memset", lab.cu.MemsetD8Async(ready.memory, 1, 512, stream));
  Background call(lab, ready.call);
  lab.shows("returns", call.returns_within(1s));
  gate.open();
  lab.is("free", call.join());
  lab.is("synchronize", lab.cu.StreamSynchronize(stream));
}

// Pageable memory: which copies return while their stream is held.
void pageable(Lab& lab) {
  const Api& cu = lab.cu;
  constexpr std::size_t largest = 32 << 20;
  CUdeviceptr memory = 0;
  lab.must(cu.MemAlloc(&memory, largest), "cuMemAlloc");
  const auto host = std::make_unique<char[]>(largest);
  const CUdeviceptr address = reinterpret_cast<std::uintptr_t>(host.get());
  for (const std::size_t size : {4UL, 65536UL, 65540UL, 1UL << 20, largest}) {
    const std::string name = std::to_string(size);
    Stream stream(lab);
    hold(lab, "to_host." + name, stream,
         {[&] { return cu.MemcpyDtoHAsync(host.get(), memory, size, stream); }});
    hold(lab, "to_device." + name, stream,
         {[&] { return cu.MemcpyHtoDAsync(memory, host.get(), size, stream); }});
    hold(lab, "unified.to_host." + name, stream,
         {[&] { return cu.MemcpyAsync(address, memory, size, stream); }});
    hold(lab, "unified.to_device." + name, stream,
         {[&] { return cu.MemcpyAsync(memory, address, size, stream); }});
    const std::size_t half = std::min(size, largest / 2); // both ends are in the buffer
    hold(lab, "host_to_host." + name, stream,
         {[&] { return cu.MemcpyAsync(address, address + half, half, stream); }});
  }
}

// Memory that one stream has freed behind a gate, and another one allocates. `most` is the size of the pool.
void reuse(Lab& lab, const std::string& name, std::size_t most, int follow, int opportunistic, int internal,
           bool event_between) {
  const Api& cu = lab.cu;
  const CUmemoryPool pool = new_pool(lab, most);
  constexpr std::size_t size = 24 << 20;
  for (auto [attribute, value] : {std::pair{CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, follow},
                                  std::pair{CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, opportunistic},
                                  std::pair{CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, internal}})
    lab.must(cu.MemPoolSetAttribute(pool, attribute, &value), "cuMemPoolSetAttribute");
  cuuint64_t keep = 1ULL << 30;
  lab.must(cu.MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), "cuMemPoolSetAttribute");
  Stream freeing(lab), allocating(lab);
  Event freed(lab), done(lab);
  CUdeviceptr first = 0, second = 0;
  lab.is(name + ".first", cu.MemAllocFromPoolAsync(&first, size, pool, freeing));
  lab.must(cu.StreamSynchronize(freeing), "synchronize");
  Gate gate(lab, freeing);
  lab.must(cu.MemsetD8Async(first, 1, size, freeing), "memset");
  lab.is(name + ".free", cu.MemFreeAsync(first, freeing));
  cu.EventRecord(freed, freeing);
  if (event_between) lab.must(cu.StreamWaitEvent(allocating, freed, 0), "wait");
  Background call(lab, [&] { return cu.MemAllocFromPoolAsync(&second, size, pool, allocating); });
  lab.shows(name + ".returns", call.returns_within(1s));
  if (call.returns_within(0s)) {
    cu.EventRecord(done, allocating);
    std::this_thread::sleep_for(20ms);
    lab.is(name + ".event_after_allocation", cu.EventQuery(done));
    lab.shows(name + ".same_address", second == first);
  }
  gate.open();
  lab.is(name + ".second", call.join());
  lab.shows(name + ".same_address_at_last", second == first);
  lab.is(name + ".synchronize", cu.StreamSynchronize(allocating));
  // The free has completed by now, and nothing tells the allocating stream.
  CUdeviceptr third = 0;
  Stream other(lab);
  if (second != 0) lab.is(name + ".free_second", cu.MemFreeAsync(second, allocating));
  std::this_thread::sleep_for(20ms);
  lab.is(name + ".third", cu.MemAllocFromPoolAsync(&third, size, pool, other));
  lab.shows(name + ".third_has_the_address", third == second);
  cu.StreamSynchronize(other);
}

void reuse_in_pool(Lab& lab) {
  for (const std::size_t most : {std::size_t{0}, std::size_t{32} << 20}) {
    const std::string name = most == 0 ? "roomy" : "full";
    reuse(lab, name + ".default", most, 1, 1, 1, false);
    reuse(lab, name + ".event", most, 1, 0, 0, true);
    reuse(lab, name + ".internal", most, 0, 0, 1, false);
    reuse(lab, name + ".none", most, 0, 0, 0, false);
  }
}

// Memory of cuMemFree, made again while a stream that used it is still held (if the free did not wait).
void reuse_of_mem_alloc(Lab& lab) {
  CUdeviceptr first = allocated(lab), second = 0;
  lab.is("free", lab.cu.MemFree(first));
  lab.is("alloc", lab.cu.MemAlloc(&second, bytes));
  lab.shows("same_address", first == second);
}

constexpr char with_parameters[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry three(.param .u64 a, .param .u32 b, .param .align 8 .b8 c[24]) { ret; }
.visible .entry nothing() { ret; }
)";

#if CUDA_VERSION >= 12040
template <class Function>
void show_parameters(Lab& lab, const std::string& name, Function function,
                     CUresult (*ask)(Function, std::size_t, std::size_t*, std::size_t*)) {
  for (std::size_t i = 0; i < 5; ++i) {
    std::size_t offset = 0, size = 0;
    lab.is(name + "." + std::to_string(i), ask(function, i, &offset, &size));
    lab.shows(name + "." + std::to_string(i) + ".offset", offset);
    lab.shows(name + "." + std::to_string(i) + ".size", size);
  }
  std::size_t offset = 0;
  lab.is(name + ".no_size", ask(function, 0, &offset, nullptr));
  lab.is(name + ".no_offset", ask(function, 0, nullptr, &offset));
}
#endif

void parameters(Lab& lab) {
#if CUDA_VERSION >= 12040
  const Api& cu = lab.cu;
  CUmodule module = nullptr;
  CUfunction three = nullptr, nothing = nullptr, of_kernel = nullptr;
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  lab.must(cu.ModuleLoadData(&module, with_parameters), "cuModuleLoadData");
  lab.must(cu.ModuleGetFunction(&three, module, "three"), "cuModuleGetFunction");
  lab.must(cu.ModuleGetFunction(&nothing, module, "nothing"), "cuModuleGetFunction");
  lab.must(cu.LibraryLoadData(&library, with_parameters, nullptr, nullptr, 0, nullptr, nullptr, 0),
           "cuLibraryLoadData");
  lab.must(cu.LibraryGetKernel(&kernel, library, "three"), "cuLibraryGetKernel");
  lab.must(cu.KernelGetFunction(&of_kernel, kernel), "cuKernelGetFunction");
  lab.shows("kernel_is_its_function", reinterpret_cast<void*>(kernel) == reinterpret_cast<void*>(of_kernel));
  show_parameters(lab, "function", three, cu.FuncGetParamInfo);
  show_parameters(lab, "no_parameters", nothing, cu.FuncGetParamInfo);
  show_parameters(lab, "function_of_kernel", of_kernel, cu.FuncGetParamInfo);
  show_parameters(lab, "kernel", kernel, cu.KernelGetParamInfo);
  show_parameters(lab, "kernel_as_function", reinterpret_cast<CUfunction>(kernel), cu.FuncGetParamInfo);
  lab.is("null.function", cu.FuncGetParamInfo(nullptr, 0, nullptr, nullptr));
  lab.is("null.kernel", cu.KernelGetParamInfo(nullptr, 0, nullptr, nullptr));
  {
    const Current none(lab, nullptr);
    std::size_t offset = 0, size = 0;
    lab.is("no_context.function", cu.FuncGetParamInfo(three, 0, &offset, &size));
    lab.is("no_context.kernel", cu.KernelGetParamInfo(kernel, 0, &offset, &size));
  }
  const Current other(lab, lab.second_context());
  std::size_t offset = 0, size = 0;
  lab.is("other_context.function", cu.FuncGetParamInfo(three, 0, &offset, &size));
#else
  (void)lab;
#endif
}

// The wrong kind of handle: it may crash.
void function_as_kernel(Lab& lab) {
#if CUDA_VERSION >= 12040
  std::size_t offset = 0, size = 0;
  lab.is("answer",
         lab.cu.KernelGetParamInfo(reinterpret_cast<CUkernel>(lab.kernel("touch")), 0, &offset, &size));
#else
  (void)lab;
#endif
}

// During a capture in global mode of the same thread.
void parameters_in_capture(Lab& lab) {
#if CUDA_VERSION >= 12040
  Stream stream(lab);
  const CUfunction touch = lab.kernel("touch");
  std::size_t offset = 0, size = 0;
  lab.must(lab.cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
  lab.is("answer", lab.cu.FuncGetParamInfo(touch, 0, &offset, &size));
  lab.shows("then_capture", capture_state(lab, stream));
  lab.is("end", end_capture(lab, stream));
#else
  (void)lab;
#endif
}

void show_kernel_node(Lab& lab, const std::string& name, CUgraph graph, CUdeviceptr argument) {
  const Api& cu = lab.cu;
  CUgraphNode node = nullptr;
  std::size_t count = 1;
  lab.must(cu.GraphGetNodes(graph, &node, &count), "cuGraphGetNodes");
  CUDA_KERNEL_NODE_PARAMS found{};
  lab.is(name, cu.GraphKernelNodeGetParams(node, &found));
  lab.shows(name + ".func", found.func != nullptr);
  lab.shows(name + ".kern", found.kern != nullptr);
  lab.shows(name + ".extra", found.extra != nullptr);
  lab.shows(name + ".kernelParams", found.kernelParams != nullptr);
  if (found.kernelParams == nullptr) return;
  CUdeviceptr value = 0;
  std::memcpy(&value, found.kernelParams[0], sizeof value);
  lab.shows(name + ".value", value == argument);
  std::size_t offset = 0, size = 0;
#if CUDA_VERSION >= 12040
  lab.is(name + ".parameters", cu.FuncGetParamInfo(found.func, 0, &offset, &size));
#endif
}

void kernel_nodes(Lab& lab) {
  const Api& cu = lab.cu;
  const CUfunction touch = lab.kernel("touch");
  CUdeviceptr memory = allocated(lab);
  void* values[] = {&memory};
  std::size_t size = sizeof memory;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &memory, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  Stream stream(lab);
  for (const bool with_extra : {false, true}) {
    CUgraph graph = nullptr;
    lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
    lab.must(cu.LaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, stream, with_extra ? nullptr : values,
                             with_extra ? extra : nullptr),
             "launch");
    lab.must(cu.StreamEndCapture(stream, &graph), "end");
    show_kernel_node(lab, with_extra ? "captured.extra" : "captured.values", graph, memory);
    CUgraph clone = nullptr;
    lab.must(cu.GraphClone(&clone, graph), "clone");
    show_kernel_node(lab, with_extra ? "clone.extra" : "clone.values", clone, memory);
    graph = nullptr;
    lab.must(cu.GraphCreate(&graph, 0), "create");
    CUDA_KERNEL_NODE_PARAMS parameters{};
    parameters.func = touch;
    parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
    parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
    (with_extra ? parameters.extra : parameters.kernelParams) = with_extra ? extra : values;
    CUgraphNode node = nullptr;
    lab.must(cu.GraphAddKernelNode(&node, graph, nullptr, 0, &parameters), "add");
    show_kernel_node(lab, with_extra ? "added.extra" : "added.values", graph, memory);
  }
}

// What captured copies, memsets, allocations and memory operations look like.
void other_nodes(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  CUdeviceptr memory = allocated(lab), to = allocated(lab);
  void* host = nullptr;
  lab.must(cu.MemHostAlloc(&host, bytes, 0), "cuMemHostAlloc");
  lab.must(cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "begin");
  lab.is("copy", cu.MemcpyAsync(to, memory, 4096, stream));
  lab.is("to_device", cu.MemcpyHtoDAsync(to, host, 4096, stream));
  lab.is("to_host", cu.MemcpyDtoHAsync(host, memory, 4096, stream));
  lab.is("memset", cu.MemsetD8Async(memory, 1, 4096, stream));
  CUdeviceptr of_graph = 0;
  lab.is("alloc", cu.MemAllocAsync(&of_graph, 4096, stream));
  lab.is("free", cu.MemFreeAsync(of_graph, stream));
  CUgraph graph = nullptr;
  lab.must(cu.StreamEndCapture(stream, &graph), "end");
  lab.shows("nodes", node_types(lab, graph));
  std::array<CUgraphNode, 16> nodes{};
  std::size_t count = nodes.size();
  lab.must(cu.GraphGetNodes(graph, nodes.data(), &count), "cuGraphGetNodes");
  for (std::size_t i = 0; i < count; ++i) {
    CUgraphNodeType type{};
    cu.GraphNodeGetType(nodes[i], &type);
    const std::string name = std::to_string(i);
    if (type == CU_GRAPH_NODE_TYPE_MEMCPY) {
      CUDA_MEMCPY3D found{};
      lab.is(name, cu.GraphMemcpyNodeGetParams(nodes[i], &found));
      lab.shows(name + ".src", static_cast<int>(found.srcMemoryType));
      lab.shows(name + ".dst", static_cast<int>(found.dstMemoryType));
      lab.shows(name + ".size", std::to_string(found.WidthInBytes) + "x" + std::to_string(found.Height) +
                                    "x" + std::to_string(found.Depth));
      lab.shows(name + ".srcDevice", found.srcDevice == memory);
      lab.shows(name + ".dstDevice", found.dstDevice == to);
      lab.shows(name + ".srcHost", found.srcHost == host);
      lab.shows(name + ".dstHost", found.dstHost == host);
    } else if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
      CUDA_MEMSET_NODE_PARAMS found{};
      lab.is(name, cu.GraphMemsetNodeGetParams(nodes[i], &found));
      lab.shows(name + ".dst", found.dst == memory);
      lab.shows(name + ".size", std::to_string(found.elementSize) + "*" + std::to_string(found.width) + "x" +
                                    std::to_string(found.height) + " pitch " + std::to_string(found.pitch));
    }
  }
  CUgraphExec exec = nullptr;
  lab.is("instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
  CUdeviceptr base = 0;
  std::size_t size = 0;
  lab.is("range_of_graph_memory", cu.MemGetAddressRange(&base, &size, of_graph));
}

// Whether a stream on which memory was freed can be destroyed while it is held.
void destroyed_stream(Lab& lab) {
  const Api& cu = lab.cu;
  const auto plain = [&] {
    CUdeviceptr memory = 0;
    lab.must(cu.MemAlloc(&memory, bytes), "cuMemAlloc");
    return memory;
  };
  const auto foreign = [&] {
    const Current guard(lab, lab.second_context());
    return plain();
  };
  const auto pooled = [&] {
    Stream other(lab);
    CUdeviceptr memory = 0;
    lab.must(cu.MemAllocAsync(&memory, bytes, other), "cuMemAllocAsync");
    lab.must(cu.StreamSynchronize(other), "synchronize");
    return memory;
  };
  const std::pair<const char*, std::function<CUdeviceptr()>> allocations[] = {
      {"nothing", [] { return CUdeviceptr{0}; }}, {"own", plain}, {"foreign", foreign}, {"pooled", pooled}};
  for (const unsigned flags : {CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING})
    for (const auto& [kind, allocate] : allocations)
      for (const char* const then : {"held", "synchronized", "after_a_gate", "legacy_record"}) {
        const std::string how = then;
        Stream stream(lab, flags);
        Event event(lab);
        const CUdeviceptr memory = allocate();
        std::optional<Gate> gate;
        if (how == "after_a_gate") gate.emplace(lab, stream);
        const CUresult freed = memory == 0 ? CUDA_SUCCESS : cu.MemFreeAsync(memory, stream);
        if (how == "synchronized") lab.must(cu.StreamSynchronize(stream), "synchronize");
        if (!gate) gate.emplace(lab, stream);
        if (how == "legacy_record") lab.must(cu.EventRecord(event, CU_STREAM_LEGACY), "record");
        Background background(lab, [&] { return cu.StreamDestroy(stream.release()); });
        const bool returns = background.returns_within(200ms);
        gate->open();
        lab.shows(std::string(flags == 0 ? "blocking." : "non_blocking.") + kind + "." + how,
                  "free " + lab.name_of(freed) + ", " + (returns ? "returns " : "waits ") +
                      lab.name_of(background.join()));
        lab.must(cu.CtxSynchronize(), "synchronize");
      }
}

template <std::size_t... Index>
void add_used(std::vector<Scenario>& all, std::index_sequence<Index...>) {
  (all.push_back({std::string("free.used.") + kinds[Index].name, used<Index>, Place::child}), ...);
}

} // namespace

std::vector<Scenario> free_scenarios() {
  std::vector<Scenario> all = {{"free.same_context", same_context, Place::alone, 1, 12},
                               {"free.blocking_stream", blocking_stream, Place::alone, 1, 11},
                               {"free.other_context", other_context, Place::alone},
                               {"free.destroyed_stream", destroyed_stream, Place::alone, 1, 5},
                               {"free.other_device", other_device, Place::child, 2},
                               {"free.context_with_work", context_with_work, Place::child},
                               {"free.primary_with_work.reset", primary_with_work<true>, Place::alone},
                               {"free.primary_with_work.release", primary_with_work<false>, Place::alone},
                               {"free.pageable", pageable, Place::child, 1, 17},
                               {"free.reuse", reuse_in_pool, Place::child},
                               {"free.reuse_of_mem_alloc", reuse_of_mem_alloc, Place::child},
                               {"free.parameters", parameters, Place::child},
                               {"free.parameters.function_as_kernel", function_as_kernel, Place::child},
                               {"free.parameters.in_capture", parameters_in_capture, Place::child},
                               {"free.kernel_nodes", kernel_nodes, Place::child},
                               {"free.other_nodes", other_nodes, Place::child}};
  add_used(all, std::make_index_sequence<std::size(kinds)>());
  return all;
}

} // namespace transcript
