// SPDX-License-Identifier: MIT
// Driver calls by host functions, stream callbacks and destructors of user objects.

#include "everywhere.hpp"

#include <atomic>
#include <chrono>
#include <iterator>
#include <thread>

namespace transcript {
namespace {

// Where calls leave what nobody reads.
int number_found = 0;
unsigned long long id_found = 0;
const char* name_found = nullptr;

struct Asked {
  Lab* lab;
  CUstream other; // another stream than the one of the host function, if there is one
  CUevent event, recorded;
  CUdeviceptr memory, pooled;
  void* host;
  CUfunction kernel;
  CUgraph graph;
  CUgraphExec exec;
  CUuserObject object;
};

struct Call {
  const char* name;
  CUresult (*make)(const Asked&, const Api&);
};

// A driver may wait for itself in some of them.
const Call calls[] = {
    {"driver_version", [](const Asked&, const Api& cu) { return cu.DriverGetVersion(&number_found); }},
    {"error_name", [](const Asked&, const Api& cu) { return cu.GetErrorName(CUDA_SUCCESS, &name_found); }},
    {"entry_point",
     [](const Asked&, const Api& cu) {
       void* found = nullptr;
       return cu.GetProcAddress("cuEventQuery", &found, 12000, 0, nullptr);
     }},
    {"init", [](const Asked&, const Api& cu) { return cu.Init(0); }},
    {"device", [](const Asked&, const Api& cu) { return cu.DeviceGet(&number_found, 0); }},
    {"device_count", [](const Asked&, const Api& cu) { return cu.DeviceGetCount(&number_found); }},
    {"primary_state",
     [](const Asked& a, const Api& cu) {
       unsigned flags = 0;
       return cu.DevicePrimaryCtxGetState(a.lab->device, &flags, &number_found);
     }},
    {"primary_retain",
     [](const Asked& a, const Api& cu) {
       CUcontext c = nullptr;
       return cu.DevicePrimaryCtxRetain(&c, a.lab->device);
     }},
    {"current",
     [](const Asked&, const Api& cu) {
       CUcontext c = nullptr;
       return cu.CtxGetCurrent(&c);
     }},
    {"set_current", [](const Asked& a, const Api& cu) { return cu.CtxSetCurrent(a.lab->home); }},
    {"push", [](const Asked& a, const Api& cu) { return cu.CtxPushCurrent(a.lab->home); }},
    {"pop",
     [](const Asked&, const Api& cu) {
       CUcontext c = nullptr;
       return cu.CtxPopCurrent(&c);
     }},
    {"device_of_current", [](const Asked&, const Api& cu) { return cu.CtxGetDevice(&number_found); }},
    {"context_id", [](const Asked& a, const Api& cu) { return cu.CtxGetId(a.lab->home, &id_found); }},
    {"event_query", [](const Asked& a, const Api& cu) { return cu.EventQuery(a.event); }},
    {"event_create",
     [](const Asked&, const Api& cu) {
       CUevent e = nullptr;
       return cu.EventCreate(&e, 0);
     }},
    {"event_record", [](const Asked& a, const Api& cu) { return cu.EventRecord(a.event, a.other); }},
    {"event_record_default", [](const Asked& a, const Api& cu) { return cu.EventRecord(a.event, nullptr); }},
    {"event_elapsed",
     [](const Asked& a, const Api& cu) {
       float ms = 0;
       return cu.EventElapsedTime(&ms, a.recorded, a.recorded);
     }},
    {"event_synchronize", [](const Asked& a, const Api& cu) { return cu.EventSynchronize(a.recorded); }},
    {"stream_query", [](const Asked& a, const Api& cu) { return cu.StreamQuery(a.other); }},
    {"stream_synchronize", [](const Asked& a, const Api& cu) { return cu.StreamSynchronize(a.other); }},
    {"stream_wait", [](const Asked& a, const Api& cu) { return cu.StreamWaitEvent(a.other, a.recorded, 0); }},
    {"stream_context",
     [](const Asked& a, const Api& cu) {
       CUcontext c = nullptr;
       return cu.StreamGetCtx(a.other, &c);
     }},
    {"stream_flags",
     [](const Asked& a, const Api& cu) {
       unsigned flags = 0;
       return cu.StreamGetFlags(a.other, &flags);
     }},
    {"stream_id", [](const Asked& a, const Api& cu) { return cu.StreamGetId(a.other, &id_found); }},
    {"stream_is_capturing",
     [](const Asked& a, const Api& cu) {
       CUstreamCaptureStatus status{};
       return cu.StreamIsCapturing(a.other, &status);
     }},
    {"stream_create",
     [](const Asked&, const Api& cu) {
       CUstream s = nullptr;
       return cu.StreamCreate(&s, CU_STREAM_NON_BLOCKING);
     }},
    {"kernel", [](const Asked& a, const Api&) { return a.lab->launch(a.kernel, a.other, {}); }},
    {"host_function",
     [](const Asked& a, const Api& cu) {
       return cu.LaunchHostFunc(
           a.other, [](void*) {}, nullptr);
     }},
    {"write_value",
     [](const Asked& a, const Api& cu) { return cu.StreamWriteValue32(a.other, a.memory, 1, 0); }},
    {"fill", [](const Asked& a, const Api& cu) { return cu.MemsetD8Async(a.memory, 1, 4, a.other); }},
    {"copy",
     [](const Asked& a, const Api& cu) { return cu.MemcpyDtoDAsync(a.memory, a.memory + 32, 4, a.other); }},
    {"copy_from_host",
     [](const Asked& a, const Api& cu) { return cu.MemcpyHtoDAsync(a.memory, a.host, 4, a.other); }},
    {"copy_by_address",
     [](const Asked& a, const Api& cu) { return cu.MemcpyAsync(a.memory, a.memory + 32, 4, a.other); }},
    {"default_pool",
     [](const Asked& a, const Api& cu) {
       CUmemoryPool pool = nullptr;
       return cu.DeviceGetDefaultMemPool(&pool, a.lab->device);
     }},
    {"alloc",
     [](const Asked&, const Api& cu) {
       CUdeviceptr p = 0;
       return cu.MemAlloc(&p, 64);
     }},
    {"alloc_async",
     [](const Asked& a, const Api& cu) {
       CUdeviceptr p = 0;
       return cu.MemAllocAsync(&p, 64, a.other);
     }},
    {"alloc_host",
     [](const Asked&, const Api& cu) {
       void* p = nullptr;
       return cu.MemHostAlloc(&p, 64, 0);
     }},
    {"free_memory",
     [](const Asked&, const Api& cu) {
       std::size_t unused = 0, all = 0;
       return cu.MemGetInfo(&unused, &all);
     }},
    {"pointer",
     [](const Asked& a, const Api& cu) {
       return cu.PointerGetAttribute(&number_found, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a.memory);
     }},
    {"range",
     [](const Asked& a, const Api& cu) {
       CUdeviceptr base = 0;
       std::size_t bytes = 0;
       return cu.MemGetAddressRange(&base, &bytes, a.memory);
     }},
    {"function",
     [](const Asked& a, const Api& cu) {
       return cu.FuncGetAttribute(&number_found, CU_FUNC_ATTRIBUTE_NUM_REGS, a.kernel);
     }},
    {"module",
     [](const Asked& a, const Api& cu) {
       CUmodule m = nullptr;
       return cu.FuncGetModule(&m, a.kernel);
     }},
    {"graph_create",
     [](const Asked&, const Api& cu) {
       CUgraph g = nullptr;
       return cu.GraphCreate(&g, 0);
     }},
    {"graph_add",
     [](const Asked& a, const Api& cu) {
       CUgraphNode n = nullptr;
       return cu.GraphAddEmptyNode(&n, a.graph, nullptr, 0);
     }},
    {"graph_instantiate",
     [](const Asked& a, const Api& cu) {
       CUgraphExec x = nullptr;
       return cu.GraphInstantiateWithFlags(&x, a.graph, 0);
     }},
    {"graph_launch", [](const Asked& a, const Api& cu) { return cu.GraphLaunch(a.exec, a.other); }},
    {"graph_exec_destroy", [](const Asked& a, const Api& cu) { return cu.GraphExecDestroy(a.exec); }},
    {"graph_destroy", [](const Asked& a, const Api& cu) { return cu.GraphDestroy(a.graph); }},
    {"object_create",
     [](const Asked&, const Api& cu) {
       CUuserObject o = nullptr;
       return cu.UserObjectCreate(
           &o, nullptr, [](void*) {}, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
     }},
    {"object_retain", [](const Asked& a, const Api& cu) { return cu.UserObjectRetain(a.object, 1); }},
    {"object_release", [](const Asked& a, const Api& cu) { return cu.UserObjectRelease(a.object, 1); }},
    {"free_async", [](const Asked& a, const Api& cu) { return cu.MemFreeAsync(a.pooled, a.other); }},
    {"free", [](const Asked& a, const Api& cu) { return cu.MemFree(a.memory); }},
    {"free_host", [](const Asked& a, const Api& cu) { return cu.MemFreeHost(a.host); }},
    {"event_destroy", [](const Asked& a, const Api& cu) { return cu.EventDestroy(a.event); }},
    {"stream_destroy", [](const Asked& a, const Api& cu) { return cu.StreamDestroy(a.other); }},
};

struct Answers {
  Asked asked;
  CUresult of[std::size(calls)];
  std::atomic<std::size_t> made{0};
};

void make_calls(void* data) {
  Answers& answers = *static_cast<Answers*>(data);
  for (std::size_t i = 0; i < std::size(calls); ++i) {
    answers.of[i] = calls[i].make(answers.asked, answers.asked.lab->cu);
    ++answers.made;
  }
}

void print(Lab& lab, const Answers& answers) {
  for (int waited = 0; waited < 200 && answers.made < std::size(calls); ++waited)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  for (std::size_t i = 0; i < answers.made; ++i)
    lab.is(calls[i].name, answers.of[i]);
  if (answers.made < std::size(calls)) lab.shows("hangs_in", calls[answers.made].name);
}

// An object that is not destroyed: a call that hangs uses it.
Answers& fresh(Lab& lab) {
  auto& answers = *new Answers;
  const Api& cu = lab.cu;
  Asked& asked = answers.asked;
  asked.lab = &lab;
  lab.must(cu.StreamCreate(&asked.other, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  lab.must(cu.EventCreate(&asked.event, 0), "cuEventCreate");
  lab.must(cu.EventCreate(&asked.recorded, 0), "cuEventCreate");
  lab.must(cu.EventRecord(asked.recorded, asked.other), "cuEventRecord");
  lab.must(cu.MemAlloc(&asked.memory, 64), "cuMemAlloc");
  lab.must(cu.MemAllocAsync(&asked.pooled, 64, asked.other), "cuMemAllocAsync");
  lab.must(cu.MemHostAlloc(&asked.host, 64, 0), "cuMemHostAlloc");
  lab.must(cu.StreamSynchronize(asked.other), "cuStreamSynchronize");
  asked.kernel = lab.kernel("step");
  asked.graph = make_graph(lab);
  asked.exec = make_exec(lab, asked.graph);
  lab.must(cu.UserObjectCreate(
               &asked.object, nullptr, [](void*) {}, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
           "cuUserObjectCreate");
  return answers;
}

void host_function(Lab& lab) {
  Answers& answers = fresh(lab);
  CUstream stream = nullptr;
  lab.must(lab.cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  lab.is("enqueue", lab.cu.LaunchHostFunc(stream, make_calls, &answers));
  print(lab, answers);
}

void callback(Lab& lab) {
  Answers& answers = fresh(lab);
  CUstream stream = nullptr;
  lab.must(lab.cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  const CUstreamCallback call = [](CUstream, CUresult, void* data) { make_calls(data); };
  lab.is("enqueue", lab.cu.StreamAddCallback(stream, call, &answers, 0));
  print(lab, answers);
}

void destructor(Lab& lab) {
  Answers& answers = fresh(lab);
  CUuserObject object = nullptr;
  lab.must(lab.cu.UserObjectCreate(&object, &answers, make_calls, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
           "cuUserObjectCreate");
  lab.is("release", lab.cu.UserObjectRelease(object, 1));
  print(lab, answers);
}

} // namespace

std::vector<Scenario> host_calls_scenarios() {
  return {{"host_calls.host_function", host_function, Place::alone},
          {"host_calls.callback", callback, Place::alone},
          {"host_calls.destructor", destructor, Place::alone}};
}

} // namespace transcript
