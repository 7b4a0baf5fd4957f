// SPDX-License-Identifier: MIT
// Which calls need a current context, in which context they act, and how they change the context stack.

#include "lab.hpp"

namespace transcript {
namespace {

struct DefaultStream {
  const char* name;
  CUstream handle;
};
const DefaultStream default_streams[] = {
    {"stream_0", nullptr}, {"legacy", CU_STREAM_LEGACY}, {"per_thread", CU_STREAM_PER_THREAD}};

// The context that the call returns: the home context, the second one, or none.
std::string owner(Lab& lab, const std::function<CUresult(CUcontext*)>& call) {
  CUcontext context = nullptr;
  const CUresult result = call(&context);
  if (result != CUDA_SUCCESS) return lab.name_of(result);
  if (context == nullptr) return "none";
  return context == lab.home ? "home" : context == lab.second_context() ? "second" : "other";
}

// Calls with every kind of object of the home context, while `current` is current.
void calls(Lab& lab, CUcontext current) {
  const Api& cu = lab.cu;
  Stream stream(lab), doomed_stream(lab);
  Event event(lab), doomed_event(lab), start(lab, CU_EVENT_DEFAULT);
  Event end(lab, CU_EVENT_DEFAULT);
  Event shared(lab, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  const CUfunction nothing = lab.kernel("step");
  unsigned* const word = lab.word();
  lab.must(cu.EventRecord(event, stream), "record");
  lab.must(cu.EventRecord(start, stream), "record");
  lab.must(cu.EventRecord(end, stream), "record");
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  lab.second_context();

  const Current guard(lab, current);

  CUevent made = nullptr;
  lab.is("event_create", cu.EventCreate(&made, CU_EVENT_DISABLE_TIMING));
  if (made != nullptr) {
    lab.is("event_create.then_record_on_home_stream", cu.EventRecord(made, stream));
    lab.is("event_create.then_destroy", cu.EventDestroy(made));
  }
  lab.is("record.real_stream", cu.EventRecord(event, stream));
  lab.is("record_with_flags.real_stream", cu.EventRecordWithFlags(event, stream, 0));
  for (const auto& [name, handle] : default_streams) {
    lab.is(std::string("record.") + name, cu.EventRecord(event, handle));
  }
  lab.is("query", eventually([&] { return cu.EventQuery(event); }));
  lab.is("synchronize", cu.EventSynchronize(event));
  float ms = 0;
  lab.is("elapsed", cu.EventElapsedTime(&ms, start, end));
  lab.is("event_destroy", cu.EventDestroy(doomed_event.release()));
  lab.is("wait.real_stream", cu.StreamWaitEvent(stream, event, 0));
  for (const auto& [name, handle] : default_streams) {
    lab.is(std::string("wait.") + name, cu.StreamWaitEvent(handle, event, 0));
  }
  CUipcEventHandle exported;
  if (current != lab.second_context()) lab.is("ipc_get_handle", cu.IpcGetEventHandle(&exported, shared));
#if CUDA_VERSION >= 12050
  if (cu.CtxRecordEvent != nullptr) {
    lab.is("ctx_record_event", cu.CtxRecordEvent(lab.home, event));
    lab.is("ctx_wait_event", cu.CtxWaitEvent(lab.home, event));
    lab.is("ctx_record_event.null_context", cu.CtxRecordEvent(nullptr, event));
    lab.is("ctx_wait_event.null_context", cu.CtxWaitEvent(nullptr, event));
  }
#endif

  lab.shows("capture_state.real_stream", capture_state(lab, stream));
  for (const auto& [name, handle] : default_streams) {
    lab.shows(std::string("capture_state.") + name, capture_state(lab, handle));
  }
  lab.shows("stream_get_ctx.real_stream",
            owner(lab, [&](CUcontext* of) { return cu.StreamGetCtx(stream, of); }));
  for (const auto& [name, handle] : default_streams) {
    lab.shows(std::string("stream_get_ctx.") + name,
              owner(lab, [&, h = handle](CUcontext* of) { return cu.StreamGetCtx(h, of); }));
  }
  unsigned long long id = 0;
  lab.is("stream_get_id.real_stream", cu.StreamGetId(stream, &id));
  for (const auto& [name, handle] : default_streams) {
    lab.is(std::string("stream_get_id.") + name, cu.StreamGetId(handle, &id));
  }
  lab.is("begin_capture", cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CUstreamCaptureStatus status{};
  lab.is("capture_info", cu.StreamGetCaptureInfo(stream, &status, nullptr, nullptr, nullptr, nullptr));
  lab.is("capture_info.null_status",
         cu.StreamGetCaptureInfo(stream, nullptr, nullptr, nullptr, nullptr, nullptr));
  lab.is("end_capture", end_capture(lab, stream));
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  lab.is("exchange_mode", cu.ThreadExchangeStreamCaptureMode(&mode));
  lab.is("exchange_mode.back", cu.ThreadExchangeStreamCaptureMode(&mode));

  lab.is("stream_query", eventually([&] { return cu.StreamQuery(stream); }));
  lab.is("stream_query.stream_0", eventually([&] { return cu.StreamQuery(nullptr); }));
  lab.is("stream_synchronize", cu.StreamSynchronize(stream));
  lab.is("stream_write_value", cu.StreamWriteValue32(stream, Lab::address(word), 7, 0));
  lab.is("launch_host_func", cu.LaunchHostFunc(
                                 stream, [](void*) {}, nullptr));
  lab.is("launch_kernel", cu.LaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  CUstream made_stream = nullptr;
  lab.is("stream_create", cu.StreamCreate(&made_stream, CU_STREAM_NON_BLOCKING));
  if (made_stream != nullptr) cu.StreamDestroy(made_stream);
  lab.is("stream_destroy", cu.StreamDestroy(doomed_stream.release()));

  void* host = nullptr;
  lab.is("mem_host_alloc", cu.MemHostAlloc(&host, 64, 0));
  if (host != nullptr) cu.MemFreeHost(host);
  CUdeviceptr memory = 0;
  lab.is("mem_alloc", cu.MemAlloc(&memory, 64));
  if (memory != 0) cu.MemFree(memory);

  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  lab.is("graph_create", cu.GraphCreate(&graph, 0));
  lab.is("graph_add_record_node", cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, event));
  lab.is("graph_instantiate", cu.GraphInstantiateWithFlags(&exec, graph, 0));
  if (exec != nullptr) {
    lab.is("graph_launch.real_stream", cu.GraphLaunch(exec, stream));
    lab.is("graph_launch.stream_0", cu.GraphLaunch(exec, nullptr));
    lab.is("graph_launch.then_synchronize", cu.StreamSynchronize(stream));
    lab.is("graph_exec_destroy", cu.GraphExecDestroy(exec));
  }
  lab.is("graph_destroy", cu.GraphDestroy(graph));

  lab.is("ctx_get_id.of_home", cu.CtxGetId(lab.home, &id));
  lab.is("ctx_get_id.of_null", cu.CtxGetId(nullptr, &id));
  lab.shows("ctx_get_current", owner(lab, cu.CtxGetCurrent));
  CUdevice device = -1;
  lab.is("ctx_get_device", cu.CtxGetDevice(&device));
#if CUDA_VERSION >= 13000
  if (cu.CtxGetDeviceOf != nullptr) {
    device = -1;
    lab.is("ctx_get_device_of.home", cu.CtxGetDeviceOf(&device, lab.home));
    lab.shows("ctx_get_device_of.home.device", device);
    lab.is("ctx_get_device_of.null", cu.CtxGetDeviceOf(&device, nullptr));
  }
#endif
  lab.is("ctx_synchronize", cu.CtxSynchronize());
  lab.shows("ctx_get_current.afterwards", owner(lab, cu.CtxGetCurrent));
}

void none(Lab& lab) {
  calls(lab, nullptr);
  const Current guard(lab, nullptr);
  CUcontext context = nullptr;
  lab.is("ctx_pop", lab.cu.CtxPopCurrent(&context));
}

void second(Lab& lab) { calls(lab, lab.second_context()); }

void own(Lab& lab) { calls(lab, lab.home); }

// The context of a new object, and of the objects used with it.
void mixed(Lab& lab) {
  const Api& cu = lab.cu;
  Stream stream(lab);
  Event start(lab, CU_EVENT_DEFAULT), event(lab);
  cu.EventRecord(start, stream);
  cu.EventRecord(event, stream);
  lab.must(cu.StreamSynchronize(stream), "synchronize");
  const Current guard(lab, lab.second_context());
  Stream theirs(lab);
  Event their_event(lab), their_end(lab, CU_EVENT_DEFAULT);
  lab.is("record", cu.EventRecord(event, theirs));
  lab.is("record.then_query", cu.EventQuery(event));
  lab.is("record.reversed", cu.EventRecord(their_event, stream));
  lab.is("wait", cu.StreamWaitEvent(theirs, event, 0));
  lab.is("record_end", cu.EventRecord(their_end, theirs));
  lab.is("synchronize", cu.EventSynchronize(their_end));
  float ms = 0;
  lab.is("elapsed", cu.EventElapsedTime(&ms, start, their_end));
#if CUDA_VERSION >= 12050
  if (cu.CtxRecordEvent != nullptr) {
    lab.is("ctx_record_event", cu.CtxRecordEvent(lab.home, their_event));
    lab.is("ctx_wait_event", cu.CtxWaitEvent(lab.home, their_event));
  }
#endif
  {
    const Gate gate(lab, theirs);
    cu.EventRecord(their_event, theirs);
    lab.is("wait.orders.wait", cu.StreamWaitEvent(stream, their_event, 0));
    lab.is("wait.orders.before", cu.StreamQuery(stream));
  }
  lab.is("wait.orders.after", cu.StreamSynchronize(stream));
}

// The context stack of the thread.
void stack(Lab& lab) {
  const Api& cu = lab.cu;
  const CUcontext second = lab.second_context();
  CUcontext current = nullptr, made = nullptr;
  const auto show_current = [&](const char* name) {
    cu.CtxGetCurrent(&current);
    lab.shows(name, current != nullptr && current == made ? "made" : owner(lab, cu.CtxGetCurrent));
  };

  lab.is("create", cu.CtxCreate(&made, 0, lab.device));
  show_current("create.then_current");
  lab.is("push_twice", cu.CtxPushCurrent(made));
  lab.is("pop", cu.CtxPopCurrent(&current));
  show_current("pop.then_current");
  lab.is("set_second", cu.CtxSetCurrent(second));
  show_current("set_second.then_current");
  lab.is("set_null", cu.CtxSetCurrent(nullptr));
  show_current("set_null.then_current");
  lab.is("push_made", cu.CtxPushCurrent(made));
  lab.is("destroy_current", cu.CtxDestroy(made));
  show_current("destroy_current.then_current");
  lab.is("push_null", cu.CtxPushCurrent(nullptr));
  show_current("push_null.then_current");
  lab.restore();
  unsigned long long first_id = 0;
  unsigned long long second_id = 0;
  lab.is("id", cu.CtxGetId(lab.home, &first_id));
  cu.CtxGetId(second, &second_id);
  lab.shows("id.differs", first_id != second_id);
}

// No call about events, streams or the capture mode activates the primary context of the device.
void primary_context(Lab& lab) {
  const Api& cu = lab.cu;
  const auto active = [&] {
    unsigned flags = 0;
    int is_active = -1;
    lab.must(cu.DevicePrimaryCtxGetState(lab.device, &flags, &is_active), "state");
    return is_active == 1;
  };
  lab.shows("active.at_start", active());
  {
    Stream stream(lab);
    Event event(lab);
    const Current guard(lab, nullptr);
    CUcontext context = nullptr;
    CUevent made = nullptr;
    cu.EventRecord(event, stream);
    cu.EventSynchronize(event);
    cu.EventQuery(event);
    cu.StreamGetCtx(stream, &context);
    cu.EventCreate(&made, CU_EVENT_DISABLE_TIMING);
    cu.EventRecord(event, nullptr);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cu.ThreadExchangeStreamCaptureMode(&mode);
    cu.ThreadExchangeStreamCaptureMode(&mode);
    lab.shows("active.after_calls", active());
  }
  CUcontext primary = nullptr, again = nullptr, current = nullptr;
  lab.is("retain", cu.DevicePrimaryCtxRetain(&primary, lab.device));
  lab.shows("retain.then_active", active());
  cu.CtxGetCurrent(&current);
  lab.shows("retain.changes_current", current != lab.home);
  lab.is("retain_again", cu.DevicePrimaryCtxRetain(&again, lab.device));
  lab.shows("retain_again.same_handle", primary == again);
  lab.is("release", cu.DevicePrimaryCtxRelease(lab.device));
  lab.shows("release.then_active", active());
  lab.is("destroy_is_refused", cu.CtxDestroy(primary));
  lab.is("release_last", cu.DevicePrimaryCtxRelease(lab.device));
  lab.shows("release_last.then_active", active());
  lab.is("release_too_often", cu.DevicePrimaryCtxRelease(lab.device));
}

// Making and destroying a context while a stream of another context is held.
void while_held(Lab& lab) {
  const Api& cu = lab.cu;
  Stream held(lab);
  CUcontext made = nullptr;
  Gate gate(lab, held);
  const auto patience = std::chrono::milliseconds(1500);
  Background create(lab, [&] { return cu.CtxCreate(&made, 0, lab.device); });
  const bool create_returns = create.returns_within(std::chrono::seconds(10)); // 1.5 s were not enough once
  lab.shows("create.returns", create_returns);
  if (!create_returns) gate.open();
  lab.is("create", create.join());
  Gate second_gate(lab, held);
  Background destroy(lab, [&] { return cu.CtxDestroy(made); });
  const bool destroy_returns = destroy.returns_within(patience);
  lab.shows("destroy.returns", destroy_returns);
  gate.open();
  second_gate.open();
  lab.is("destroy", destroy.join());
}

void current_elsewhere(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext made = nullptr;
  lab.must(cu.CtxCreate(&made, 0, lab.device), "create");
  CUcontext popped = nullptr;
  cu.CtxPopCurrent(&popped);
  std::atomic<int> stage = 0;
  std::thread elsewhere([&] {
    cu.CtxSetCurrent(made);
    stage = 1;
    while (stage != 2)
      std::this_thread::yield();
    CUcontext current = nullptr;
    lab.is("then_get_current", cu.CtxGetCurrent(&current));
    lab.shows("then_get_current.still_it", current == made);
    CUdevice device = -1;
    lab.is("then_get_device", cu.CtxGetDevice(&device));
    lab.is("then_synchronize", cu.CtxSynchronize());
    lab.is("then_set_null", cu.CtxSetCurrent(nullptr));
    cu.CtxGetCurrent(&current);
    lab.shows("then_set_null.none_current", current == nullptr);
  });
  while (stage != 1)
    std::this_thread::yield();
  lab.is("destroy", cu.CtxDestroy(made));
  stage = 2;
  elsewhere.join();
  CUevent event = nullptr;
  lab.is("create_event_at_home", cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
  lab.is("destroy_event_at_home", cu.EventDestroy(event));
}

// Popping a context that died while it was current.
void pop_dead_context(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext made = nullptr;
  lab.must(cu.CtxCreate(&made, 0, lab.device), "create");
  lab.is("destroy_elsewhere", on_other_thread(lab, [&] { return cu.CtxDestroy(made); }));
  CUcontext popped = nullptr;
  lab.is("pop", cu.CtxPopCurrent(&popped));
  lab.shows("pop.is_it", popped == made);
  CUcontext current = nullptr;
  cu.CtxGetCurrent(&current);
  lab.shows("then_home_is_current", current == lab.home);
}

// Makes an event while the current context is dead. The process was seen to crash later.
void create_in_dead_context(Lab& lab) {
  const Api& cu = lab.cu;
  CUcontext made = nullptr;
  lab.must(cu.CtxCreate(&made, 0, lab.device), "create");
  CUcontext popped = nullptr;
  cu.CtxPopCurrent(&popped);
  cu.CtxDestroy(made);
  lab.is("push", cu.CtxPushCurrent(made));
  CUevent event = nullptr;
  lab.is("event_create", cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
  lab.is("event_record", cu.EventRecord(event, nullptr));
  lab.is("pop", cu.CtxPopCurrent(&popped));
  lab.is("event_create_at_home", cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
}

void before_init(Lab& lab) {
  const Api& cu = lab.cu;
  int version = 0;
  lab.is("driver_version", cu.DriverGetVersion(&version));
  lab.is("init_with_flags", cu.Init(1));
  CUevent event = nullptr;
  CUcontext context = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  int count = 0;
  lab.is("device_get_count", cu.DeviceGetCount(&count));
  lab.is("event_create", cu.EventCreate(&event, 0));
  lab.is("event_query.null", cu.EventQuery(nullptr));
  lab.is("stream_query", cu.StreamQuery(nullptr));
  lab.is("ctx_get_current", cu.CtxGetCurrent(&context));
  lab.is("ctx_pop", cu.CtxPopCurrent(&context));
  lab.is("primary_retain", cu.DevicePrimaryCtxRetain(&context, 0));
  lab.is("exchange_mode", cu.ThreadExchangeStreamCaptureMode(&mode));
  lab.shows("capture_state", capture_state(lab, nullptr));
  lab.is("init", cu.Init(0));
  lab.is("init_again", cu.Init(0));
  lab.is("after_init.ctx_get_current", cu.CtxGetCurrent(&context));
  lab.is("after_init.event_create", cu.EventCreate(&event, 0));
  lab.is("after_init.ctx_pop", cu.CtxPopCurrent(&context));
  CUdevice device = 0;
  lab.is("after_init.device_get.too_high", cu.DeviceGet(&device, 1000));
  lab.is("after_init.device_get.negative", cu.DeviceGet(&device, -1));
  lab.is("after_init.primary_retain.bad_device", cu.DevicePrimaryCtxRetain(&context, 1000));
}

void entry_points(Lab& lab) {
  const auto ask = [&lab](const char* name, const char* function, int version, cuuint64_t flags) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    lab.is(name, lab.cu.GetProcAddress(function, &address, version, flags, &found));
    lab.shows(std::string(name) + ".found", static_cast<int>(found));
    lab.shows(std::string(name) + ".address", address != nullptr);
    return address;
  };
  ask("unknown_name", "cuEventBogus", 12000, 0);
  ask("wrong_prefix", "EventCreate", 12000, 0);
  ask("version_above_driver", "cuEventCreate", 99000, 0);
  ask("version_below_function", "cuStreamGetId", 11000, 0);
  ask("version_zero", "cuEventCreate", 0, 0);
  ask("suffixed_name", "cuEventDestroy_v2", 12000, 0);
  void* const legacy = ask("legacy_stream", "cuEventRecord", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
  void* const per_thread =
      ask("per_thread_stream", "cuEventRecord", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  lab.shows("per_thread_stream.is_another_function", legacy != per_thread);
  void* const query = ask("query.legacy", "cuEventQuery", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
  void* const query_per_thread =
      ask("query.per_thread", "cuEventQuery", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  lab.shows("query.per_thread.is_another_function", query != query_per_thread);
  ask("unknown_flags", "cuEventRecord", 12000, 0x80);
  lab.shows("itself", ask("itself.found", "cuGetProcAddress", 12000, 0) ==
                          reinterpret_cast<void*>(lab.cu.GetProcAddress));
}

void with_parameters(Lab& lab) {
#if CUDA_VERSION >= 12050
  if (lab.cu.CtxCreateWithParameters == nullptr) return;
  CUctxCreateParams zeroed{};
  CUcontext made = nullptr;
  lab.is("zeroed", lab.cu.CtxCreateWithParameters(&made, &zeroed, 0, lab.device));
  if (made != nullptr) lab.cu.CtxDestroy(made);
#else
  (void)lab;
#endif
}

} // namespace

std::vector<Scenario> context_scenarios() {
  return {{"init.before", before_init, Place::bare},
          {"init.entry_points", entry_points},
          {"context.own", own},
          {"context.none", none},
          {"context.second", second},
          {"context.mixed", mixed},
          {"context.stack", stack},
          {"context.primary", primary_context, Place::child},
          {"context.while_held", while_held, Place::child},
          {"context.destroyed_while_current_elsewhere", current_elsewhere, Place::child},
          {"context.with_parameters", with_parameters, Place::child},
          {"context.pop_dead_context", pop_dead_context, Place::alone},
          {"context.create_in_dead_context", create_in_dead_context, Place::probe}};
}

} // namespace transcript
