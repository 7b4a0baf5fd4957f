// SPDX-License-Identifier: MIT
// How lifetimes end: a context destroyed or reset while it has events, a process that exits, a fork.

#include "lab.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace transcript {
namespace {

void destroyed_context(Lab& lab) {
  const Api& cu = lab.cu;
  Stream home_stream(lab);
  CUcontext context = nullptr, popped = nullptr;
  lab.must(cu.CtxCreate(&context, 0, lab.device), "create");
  CUstream stream = nullptr;
  CUevent done = nullptr, end = nullptr, never = nullptr;
  cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  cu.EventCreate(&done, CU_EVENT_DEFAULT);
  cu.EventCreate(&end, CU_EVENT_DEFAULT);
  cu.EventCreate(&never, CU_EVENT_DEFAULT);
  cu.EventRecord(done, stream);
  cu.EventRecord(end, stream);
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  cu.CtxPopCurrent(&popped);
  lab.is("ctx_destroy", cu.CtxDestroy(context));

  float ms = 0;
  unsigned long long id = 0;
  lab.is("query", cu.EventQuery(done));
  lab.is("query.never_recorded", cu.EventQuery(never));
  lab.is("synchronize", cu.EventSynchronize(done));
  lab.is("elapsed", cu.EventElapsedTime(&ms, done, end));
  lab.is("record", cu.EventRecord(done, home_stream));
  lab.is("wait", cu.StreamWaitEvent(home_stream, done, 0));
  lab.is("ctx_get_id", cu.CtxGetId(context, &id));
#if CUDA_VERSION >= 12050
  if (cu.CtxRecordEvent != nullptr) {
    Event event(lab);
    lab.is("ctx_record_event", cu.CtxRecordEvent(context, event));
    lab.is("ctx_wait_event", cu.CtxWaitEvent(context, event));
    lab.is("ctx_record_event.its_own", cu.CtxRecordEvent(context, done));
  }
#endif
#if CUDA_VERSION >= 13000
  CUdevice device = 0;
  if (cu.CtxGetDeviceOf != nullptr) lab.is("ctx_get_device_of", cu.CtxGetDeviceOf(&device, context));
#endif
  lab.is("destroy", cu.EventDestroy(done));
  lab.is("destroy.never_recorded", cu.EventDestroy(never));
  lab.is("graph_add_record_node", [&] {
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    cu.GraphCreate(&graph, 0);
    const CUresult result = cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, end);
    cu.GraphDestroy(graph);
    return result;
  }());
  lab.is("in_capture.query", [&] {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cu.StreamBeginCapture(home_stream, mode);
    return cu.EventQuery(end);
  }());
  lab.is("in_capture.wait", cu.StreamWaitEvent(home_stream, end, 0));
  lab.is("in_capture.end", end_capture(lab, home_stream));
  lab.is("then_create_at_home", [&] {
    CUevent event = nullptr;
    const CUresult result = cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
    cu.EventDestroy(event);
    return result;
  }());
}

// Exports an event of a dead context: seen to crash.
void destroyed_context_export(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext context = nullptr, popped = nullptr;
  CUevent shared = nullptr;
  CUipcEventHandle handle;
  lab.must(cu.CtxCreate(&context, 0, lab.device), "create");
  cu.EventCreate(&shared, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  cu.CtxPopCurrent(&popped);
  lab.must(cu.CtxDestroy(context), "destroy");
  lab.is("ipc_get_handle", cu.IpcGetEventHandle(&handle, shared));
}

// A dead context can be made current, but popping it was seen to crash.
void destroyed_context_push(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext context = nullptr, current = nullptr;
  lab.must(cu.CtxCreate(&context, 0, lab.device), "create");
  cu.CtxPopCurrent(&current);
  lab.must(cu.CtxDestroy(context), "destroy");
  lab.is("push", cu.CtxPushCurrent(context));
  lab.is("get_current", cu.CtxGetCurrent(&current));
  lab.shows("get_current.is_it", current == context);
  lab.is("pop", cu.CtxPopCurrent(&current));
  lab.is("set", cu.CtxSetCurrent(context));
  lab.is("set_home", cu.CtxSetCurrent(lab.home));
}

void destroyed_context_streams(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext context = nullptr, current = nullptr;
  lab.must(cu.CtxCreate(&context, 0, lab.device), "create");
  CUstream stream = nullptr;
  cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  cu.CtxPopCurrent(&current);
  lab.must(cu.CtxDestroy(context), "destroy");
  Event event(lab);
  lab.is("get_ctx", cu.StreamGetCtx(stream, &current));
  lab.is("query", cu.StreamQuery(stream));
  lab.is("record", cu.EventRecord(event, stream));
  lab.is("wait", cu.StreamWaitEvent(stream, event, 0));
  lab.shows("is_capturing", capture_state(lab, stream));
}

void destroyed_with_work(Lab& lab) {
  const Api& cu = lab.cu;
  Stream home_stream(lab);
  CUcontext context = nullptr, popped = nullptr;
  lab.must(cu.CtxCreate(&context, 0, lab.device), "create");
  CUstream stream = nullptr;
  CUevent event = nullptr;
  cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
  cu.EventRecord(event, stream);
  lab.is("wait_elsewhere", cu.StreamWaitEvent(home_stream, event, 0));
  cu.CtxPopCurrent(&popped);
  lab.is("ctx_destroy", cu.CtxDestroy(context));
  lab.is("waiter", cu.StreamSynchronize(home_stream));
  lab.is("query", cu.EventQuery(event));
}

struct RetainedPrimary {
  explicit RetainedPrimary(Lab& lab) {
    const Api& cu = lab.cu;
    CUcontext popped = nullptr;
    CUstream stream = nullptr;
    lab.must(cu.DevicePrimaryCtxRetain(&context, lab.device), "retain");
    lab.must(cu.CtxPushCurrent(context), "push");
    cu.EventCreate(&event, CU_EVENT_DEFAULT);
    cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cu.EventRecord(event, stream);
    cu.StreamSynchronize(stream);
    cu.CtxPopCurrent(&popped);
  }
  CUcontext context = nullptr;
  CUevent event = nullptr; // recorded and complete
};

void primary_reset(Lab& lab) {
  const Api& cu = lab.cu;
  const RetainedPrimary primary(lab);
  lab.is("reset", cu.DevicePrimaryCtxReset(lab.device));
  unsigned flags = 0;
  int active = -1;
  unsigned long long id = 0;
  lab.is("ctx_get_id", cu.CtxGetId(primary.context, &id));
  lab.is("state", cu.DevicePrimaryCtxGetState(lab.device, &flags, &active));
  lab.shows("state.active", active == 1);
  CUcontext again = nullptr;
  lab.is("retain_again", cu.DevicePrimaryCtxRetain(&again, lab.device));
  lab.shows("retain_again.same_handle", again == primary.context);
  lab.is("retain_again.ctx_get_id", cu.CtxGetId(again, &id));
}

/// Whether cuCtxGetId of null is the id of the current context, also if somebody resets that context.
void id_of_null(Lab& lab) {
  const Api& cu = lab.cu;
  const auto compare = [&](const std::string& name, CUcontext current) {
    unsigned long long of_null = 0, of_handle = 0;
    lab.is(name + ".of_null", cu.CtxGetId(nullptr, &of_null));
    lab.is(name + ".of_handle", cu.CtxGetId(current, &of_handle));
    lab.shows(name + ".same", of_null == of_handle);
  };
  CUcontext popped = nullptr, again = nullptr;
  compare("home", lab.home);
  cu.CtxPushCurrent(lab.second_context());
  compare("second", lab.second_context());
  cu.CtxPopCurrent(&popped);
  const RetainedPrimary primary(lab);
  cu.CtxPushCurrent(primary.context);
  compare("primary", primary.context);
  lab.is("reset", cu.DevicePrimaryCtxReset(lab.device));
  compare("after_reset", primary.context);
  lab.is("retain_again", cu.DevicePrimaryCtxRetain(&again, lab.device));
  compare("retained_again", again);
  cu.CtxPopCurrent(&popped);
}

// The calls read freed memory: the answer is usually CONTEXT_IS_DESTROYED, sometimes INVALID_CONTEXT.
void event_of_reset_primary(Lab& lab) {
  const Api& cu = lab.cu;
  const RetainedPrimary primary(lab);
  lab.is("reset", cu.DevicePrimaryCtxReset(lab.device));
  float ms = 0;
  lab.is("query", cu.EventQuery(primary.event));
  lab.is("synchronize", cu.EventSynchronize(primary.event));
  lab.is("elapsed", cu.EventElapsedTime(&ms, primary.event, primary.event));
  lab.is("destroy", cu.EventDestroy(primary.event));
}

// Destroying the exec was seen to crash, and to succeed.
void exec_of_reset_primary(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext context = nullptr, popped = nullptr;
  CUgraph graph = nullptr;
  lab.must(cu.DevicePrimaryCtxRetain(&context, lab.device), "retain");
  lab.must(cu.CtxPushCurrent(context), "push");
  cu.GraphCreate(&graph, 0);
  CUgraphExec exec = make_exec(lab, graph);
  cu.CtxPopCurrent(&popped);
  lab.is("reset", cu.DevicePrimaryCtxReset(lab.device));
  lab.is("retain_again", cu.DevicePrimaryCtxRetain(&context, lab.device));
  lab.is("graph_exec_destroy", cu.GraphExecDestroy(exec));
}

// Releases the last reference while the context is current on no thread.
void primary_released(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext context = nullptr, popped = nullptr;
  lab.must(cu.DevicePrimaryCtxRetain(&context, lab.device), "retain");
  lab.must(cu.CtxPushCurrent(context), "push");
  CUevent event = nullptr;
  cu.EventCreate(&event, CU_EVENT_DEFAULT);
  cu.CtxPopCurrent(&popped);
  lab.is("release", cu.DevicePrimaryCtxRelease(lab.device));
  lab.is("query", cu.EventQuery(event));
  lab.is("destroy", cu.EventDestroy(event));
  unsigned long long id = 0;
  lab.is("ctx_get_id", cu.CtxGetId(context, &id));
}

// Objects that destroy an event when the process exits.
struct AtExit {
  const char* name = nullptr;
  const Lab* lab = nullptr;
  CUevent event = nullptr;
  ~AtExit() { destroy_event(); }
  void destroy_event() {
    if (lab == nullptr) return;
    const CUresult query = lab->cu.EventQuery(event), destroy = lab->cu.EventDestroy(event);
    std::printf("%s.%s.query = %d\n%s.%s.destroy = %d\n", lab->scenario.c_str(), name,
                static_cast<int>(query), lab->scenario.c_str(), name, static_cast<int>(destroy));
    std::fflush(stdout);
    lab = nullptr;
  }
};

AtExit before_init; // constructed before cuInit, so destroyed after the driver's own exit handler
AtExit of_exit_handler;

void process_exit(Lab& lab) {
  const auto arm = [&lab](AtExit& object, const char* name) {
    object.name = name;
    object.lab = &lab;
    lab.must(lab.cu.EventCreate(&object.event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  };
  static AtExit after_init;
  static thread_local AtExit of_thread;
  arm(before_init, "static_built_before_init");
  arm(after_init, "static_built_after_init");
  arm(of_thread, "thread_local_of_main");
  arm(of_exit_handler, "exit_handler");
  std::atexit([] { of_exit_handler.destroy_event(); });
  std::exit(0); // while the lab is still alive on the stack of main
}

// Calls in a forked child, which cannot use its copy of the driver.
void in_forked_child(Lab& lab, const std::function<void(Event&)>& calls) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Event event(lab);
  cu.EventRecord(event, stream);
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  const pid_t pid = fork();
  if (pid == 0) {
    calls(event);
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  lab.shows("child", WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status))
                                         : "exited " + std::to_string(WEXITSTATUS(status)));
  lab.is("query_in_parent", cu.EventQuery(event));
}

void fork_with_event(Lab& lab) {
  in_forked_child(lab, [&lab](Event& event) {
    lab.is("query", lab.cu.EventQuery(event));
    lab.is("destroy", lab.cu.EventDestroy(event));
  });
}

void fork_and_begin_anew(Lab& lab) {
  in_forked_child(lab, [&lab](Event&) {
    CUcontext context = nullptr;
    CUevent made = nullptr;
    lab.is("init", lab.cu.Init(0));
    lab.is("ctx_get_current", lab.cu.CtxGetCurrent(&context));
    lab.is("create", lab.cu.EventCreate(&made, CU_EVENT_DISABLE_TIMING));
    lab.is("ctx_create", lab.cu.CtxCreate(&context, 0, 0));
    lab.is("primary_retain", lab.cu.DevicePrimaryCtxRetain(&context, 0));
  });
}

void fork_and_wait(Lab& lab) {
  in_forked_child(lab, [&lab](Event& event) {
    lab.is("synchronize", lab.cu.EventSynchronize(event));
    lab.is("record", lab.cu.EventRecord(event, CU_STREAM_LEGACY));
  });
}

enum class Ending { destroyed, reset, revived };

// What is left of memory whose context has ended, or has ended and begun anew.
template <Ending ending>
void memory(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext context = nullptr, popped = nullptr;
  if (ending == Ending::destroyed)
    lab.must(cu.CtxCreate(&context, 0, lab.device), "create");
  else
    lab.must(cu.DevicePrimaryCtxRetain(&context, lab.device), "retain");
  if (ending != Ending::destroyed) lab.must(cu.CtxPushCurrent(context), "push");
  constexpr std::size_t bytes = 2 << 20;
  CUdeviceptr device = 0, managed = 0, pooled = 0;
  void* host = nullptr;
  void* const registered = std::aligned_alloc(4096, bytes);
  lab.must(cu.MemAlloc(&device, bytes), "cuMemAlloc");
  lab.must(cu.MemHostAlloc(&host, bytes, 0), "cuMemHostAlloc");
  lab.must(cu.MemHostRegister(registered, bytes, 0), "cuMemHostRegister");
  lab.must(cu.MemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
  lab.must(cu.MemAllocAsync(&pooled, bytes, nullptr), "cuMemAllocAsync");
  const CUdeviceptr mapped = mapped_memory(lab, bytes);
  lab.must(cu.CtxSynchronize(), "synchronize");
  cu.CtxPopCurrent(&popped);
  lab.is("end", ending == Ending::destroyed ? cu.CtxDestroy(context) : cu.DevicePrimaryCtxReset(lab.device));
  if (ending == Ending::revived) {
    lab.must(cu.DevicePrimaryCtxRetain(&context, lab.device), "retain");
    lab.must(cu.CtxPushCurrent(context), "push");
  }
  const auto address = [](const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); };
  const std::pair<const char*, CUdeviceptr> all[] = {
      {"device", device}, {"host", address(host)}, {"managed", managed},
      {"pooled", pooled}, {"mapped", mapped},      {"registered", address(registered)}};
  for (const auto& [name, memory] : all) {
    const std::string kind = name;
    unsigned type = 77;
    CUdeviceptr base = 0;
    std::size_t size = 0;
    lab.is(kind + ".pointer", cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    lab.shows(kind + ".pointer.type", type);
    lab.is(kind + ".range", cu.MemGetAddressRange(&base, &size, memory));
    if (memory != address(host)) lab.is(kind + ".fill", cu.MemsetD8(memory, 1, 4)); // may be in use again
  }
  lab.is("device.free", cu.MemFree(device));
  lab.is("host.free", cu.MemFreeHost(host));
  lab.is("managed.free", cu.MemFree(managed));
  lab.is("registered.unregister", cu.MemHostUnregister(registered));
  lab.is("pooled.free", cu.MemFreeAsync(pooled, nullptr));
  lab.is("synchronize", cu.CtxSynchronize());
}

} // namespace

std::vector<Scenario> lifetime_scenarios() {
  return {{"lifetime.destroyed_context", destroyed_context, Place::last},
          {"lifetime.destroyed_with_work", destroyed_with_work, Place::last},
          {"lifetime.primary_reset", primary_reset, Place::alone},
          {"lifetime.exit", process_exit, Place::last},
          {"lifetime.fork", fork_with_event, Place::last},
          {"lifetime.fork_anew", fork_and_begin_anew, Place::last},
          {"lifetime.fork_and_wait", fork_and_wait, Place::last},
          {"lifetime.destroyed_context_export", destroyed_context_export, Place::alone},
          {"lifetime.destroyed_context_push", destroyed_context_push, Place::probe},
          {"lifetime.destroyed_context_streams", destroyed_context_streams, Place::alone},
          {"lifetime.event_of_reset_primary", event_of_reset_primary, Place::alone},
          {"lifetime.id_of_null", id_of_null, Place::alone},
          {"lifetime.exec_of_reset_primary", exec_of_reset_primary, Place::probe},
          {"lifetime.memory.destroyed", memory<Ending::destroyed>, Place::alone},
          {"lifetime.memory.reset", memory<Ending::reset>, Place::alone},
          {"lifetime.memory.revived", memory<Ending::revived>, Place::alone},
          {"lifetime.primary_released", primary_released, Place::child}};
}

} // namespace transcript
