// SPDX-License-Identifier: MIT
// Calls during a capture, in each capture mode: on the capturing thread, on another thread, in addition to a
// capture of a blocking stream, and after the capture is invalidated.

#include "scene.hpp"

#include <chrono>

namespace transcript {
namespace {

float ms = 0; // nobody reads this result

CUresult exchange(const Api& cu, CUstreamCaptureMode& mode) {
  return cu.ThreadExchangeStreamCaptureMode(&mode);
}

// Makes the call while the calling thread is in another mode.
template <CUstreamCaptureMode mode, Call call>
CUresult in_mode(Scene& scene) {
  CUstreamCaptureMode other = mode;
  exchange(scene.cu, other);
  const CUresult result = call(scene);
  exchange(scene.cu, other);
  return result;
}
constexpr CUstreamCaptureMode global = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr CUstreamCaptureMode thread_local_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

CUresult query_done(Scene& s) { return s.cu.EventQuery(s.done); }
CUresult query_pending(Scene& s) { return s.cu.EventQuery(s.pending); }
CUresult query_never(Scene& s) { return s.cu.EventQuery(s.never); }
CUresult query_shared(Scene& s) { return s.cu.EventQuery(s.shared); }
CUresult query_external(Scene& s) { return s.cu.EventQuery(s.external); }
CUresult query_captured(Scene& s) { return s.cu.EventQuery(s.captured); }
CUresult synchronize_done(Scene& s) { return s.cu.EventSynchronize(s.done); }
CUresult synchronize_never(Scene& s) { return s.cu.EventSynchronize(s.never); }
CUresult synchronize_external(Scene& s) { return s.cu.EventSynchronize(s.external); }
CUresult synchronize_captured(Scene& s) { return s.cu.EventSynchronize(s.captured); }
CUresult elapsed_done(Scene& s) { return s.cu.EventElapsedTime(&ms, s.done, s.done_end); }
CUresult elapsed_itself(Scene& s) { return s.cu.EventElapsedTime(&ms, s.done, s.done); }
CUresult elapsed_never(Scene& s) { return s.cu.EventElapsedTime(&ms, s.done, s.never); }
CUresult elapsed_pending(Scene& s) { return s.cu.EventElapsedTime(&ms, s.done, s.pending); }
CUresult elapsed_captured(Scene& s) { return s.cu.EventElapsedTime(&ms, s.done, s.captured); }
CUresult elapsed_captured_itself(Scene& s) { return s.cu.EventElapsedTime(&ms, s.captured, s.captured); }
CUresult elapsed_external(Scene& s) { return s.cu.EventElapsedTime(&ms, s.done, s.external); }
CUresult elapsed_external_itself(Scene& s) { return s.cu.EventElapsedTime(&ms, s.external, s.external); }
#if CUDA_VERSION >= 12080
CUresult elapsed_v2_done(Scene& s) { return s.cu.EventElapsedTimeV2(&ms, s.done, s.done_end); }
CUresult elapsed_v2_captured(Scene& s) { return s.cu.EventElapsedTimeV2(&ms, s.captured, s.captured); }
#endif
CUresult create(Scene& s) {
  CUevent event = nullptr;
  const CUresult result = s.cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (event != nullptr) s.cu.EventDestroy(event);
  return result;
}
CUresult create_shared(Scene& s) {
  CUevent event = nullptr;
  const CUresult result = s.cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  if (event != nullptr) s.cu.EventDestroy(event);
  return result;
}
CUresult destroy_done(Scene& s) { return s.cu.EventDestroy(s.done.release()); }
CUresult destroy_pending(Scene& s) { return s.cu.EventDestroy(s.pending.release()); }
CUresult destroy_captured(Scene& s) { return s.cu.EventDestroy(s.captured.release()); }
CUresult ipc_get_handle(Scene& s) {
  CUipcEventHandle handle;
  return s.cu.IpcGetEventHandle(&handle, s.shared);
}

CUresult wait_done(Scene& s) { return s.cu.StreamWaitEvent(s.origin, s.done, 0); }
CUresult wait_never(Scene& s) { return s.cu.StreamWaitEvent(s.origin, s.never, 0); }
CUresult wait_captured(Scene& s) { return s.cu.StreamWaitEvent(s.origin, s.captured, 0); }
CUresult wait_external(Scene& s) { return s.cu.StreamWaitEvent(s.origin, s.external, 0); }
CUresult wait_done_external(Scene& s) {
  return s.cu.StreamWaitEvent(s.origin, s.done, CU_EVENT_WAIT_EXTERNAL);
}
CUresult wait_never_external(Scene& s) {
  return s.cu.StreamWaitEvent(s.origin, s.never, CU_EVENT_WAIT_EXTERNAL);
}
CUresult wait_captured_external(Scene& s) {
  return s.cu.StreamWaitEvent(s.origin, s.captured, CU_EVENT_WAIT_EXTERNAL);
}
CUresult wait_external_external(Scene& s) {
  return s.cu.StreamWaitEvent(s.origin, s.external, CU_EVENT_WAIT_EXTERNAL);
}
CUresult wait_shared_external(Scene& s) {
  return s.cu.StreamWaitEvent(s.origin, s.shared, CU_EVENT_WAIT_EXTERNAL);
}
CUresult wait_null(Scene& s) { return s.cu.StreamWaitEvent(s.origin, nullptr, 0); }
CUresult wait_unknown_flags(Scene& s) { return s.cu.StreamWaitEvent(s.origin, s.captured, 0x100); }
CUresult bystander_waits_done(Scene& s) { return s.cu.StreamWaitEvent(s.bystander, s.done, 0); }
CUresult bystander_waits_external_flag(Scene& s) {
  return s.cu.StreamWaitEvent(s.bystander, s.captured, CU_EVENT_WAIT_EXTERNAL);
}
CUresult fork_without_work(Scene& s) { return s.cu.StreamWaitEvent(s.fork, s.captured, 0); }
CUresult fork_by_external(Scene& s) { return s.cu.StreamWaitEvent(s.fork, s.external, 0); }

CUresult record(Scene& s) { return s.cu.EventRecord(s.done, s.origin); }
CUresult record_shared(Scene& s) { return s.cu.EventRecord(s.shared, s.origin); }
CUresult record_pending(Scene& s) { return s.cu.EventRecord(s.pending, s.origin); }
CUresult record_external(Scene& s) {
  return s.cu.EventRecordWithFlags(s.done, s.origin, CU_EVENT_RECORD_EXTERNAL);
}
CUresult record_external_untimed(Scene& s) {
  Event event(s.lab);
  return s.cu.EventRecordWithFlags(event.release(), s.origin, CU_EVENT_RECORD_EXTERNAL);
}
CUresult record_external_shared(Scene& s) {
  return s.cu.EventRecordWithFlags(s.shared, s.origin, CU_EVENT_RECORD_EXTERNAL);
}
CUresult record_external_again(Scene& s) {
  return s.cu.EventRecordWithFlags(s.external, s.origin, CU_EVENT_RECORD_EXTERNAL);
}
CUresult record_captured_as_external(Scene& s) {
  return s.cu.EventRecordWithFlags(s.captured, s.origin, CU_EVENT_RECORD_EXTERNAL);
}
CUresult record_null(Scene& s) { return s.cu.EventRecord(nullptr, s.origin); }
CUresult record_unknown_flags(Scene& s) { return s.cu.EventRecordWithFlags(s.done, s.origin, 0x100); }
CUresult record_on_bystander(Scene& s) { return s.cu.EventRecord(s.done, s.bystander); }
CUresult record_external_on_bystander(Scene& s) {
  return s.cu.EventRecordWithFlags(s.done, s.bystander, CU_EVENT_RECORD_EXTERNAL);
}
CUresult record_captured_on_bystander(Scene& s) {
  const CUresult result = s.cu.EventRecord(s.captured, s.bystander);
  s.lab.is("record_captured_on_bystander.elapsed",
           eventually([&] { return s.cu.EventElapsedTime(&ms, s.captured, s.captured); }));
  return result;
}
CUresult record_external_one_on_bystander(Scene& s) { return s.cu.EventRecord(s.external, s.bystander); }
CUresult record_of_another_context(Scene& s) {
  const Current guard(s.lab, s.lab.second_context());
  Event theirs(s.lab);
  return s.cu.EventRecord(theirs, s.origin);
}

CUresult record_stream_0(Scene& s) { return s.cu.EventRecord(s.done, nullptr); }
CUresult record_legacy(Scene& s) { return s.cu.EventRecord(s.done, CU_STREAM_LEGACY); }
CUresult record_per_thread(Scene& s) { return s.cu.EventRecord(s.done, CU_STREAM_PER_THREAD); }
CUresult wait_on_stream_0(Scene& s) { return s.cu.StreamWaitEvent(nullptr, s.done, 0); }
CUresult wait_on_legacy_captured(Scene& s) { return s.cu.StreamWaitEvent(CU_STREAM_LEGACY, s.captured, 0); }
CUresult launch_on_legacy(Scene& s) { return s.launch(CU_STREAM_LEGACY); }
CUresult is_capturing_of(Scene& s, CUstream stream) {
  CUstreamCaptureStatus status{};
  return s.cu.StreamIsCapturing(stream, &status);
}
CUresult is_capturing_legacy(Scene& s) { return is_capturing_of(s, CU_STREAM_LEGACY); }
CUresult is_capturing_stream_0(Scene& s) { return is_capturing_of(s, nullptr); }
CUresult is_capturing_per_thread(Scene& s) { return is_capturing_of(s, CU_STREAM_PER_THREAD); }
CUresult is_capturing_bystander(Scene& s) { return is_capturing_of(s, s.bystander); }
CUresult is_capturing(Scene& s) { return is_capturing_of(s, s.origin); }
CUresult query_stream_0(Scene& s) { return s.cu.StreamQuery(nullptr); }
CUresult get_ctx_legacy(Scene& s) {
  CUcontext context = nullptr;
  return s.cu.StreamGetCtx(CU_STREAM_LEGACY, &context);
}
CUresult get_ctx(Scene& s) {
  CUcontext context = nullptr;
  const CUresult result = s.cu.StreamGetCtx(s.origin, &context);
  return result == CUDA_SUCCESS && context != s.lab.home ? CUDA_ERROR_UNKNOWN : result;
}
CUresult get_id(Scene& s) {
  unsigned long long id = 0;
  return s.cu.StreamGetId(s.origin, &id);
}
CUresult capture_info(Scene& s) {
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  std::size_t count = 0;
  const CUresult result = s.cu.StreamGetCaptureInfo(s.origin, &status, &id, &graph, &dependencies, &count);
  if (result == CUDA_SUCCESS) {
    s.lab.shows("capture_info.dependencies", count);
    s.lab.shows("capture_info.graph", graph != nullptr);
    s.lab.shows("capture_info.id", id != 0);
  }
  return result;
}

// Hands a user object to the graph under capture. The graph may be invalidated after the test gets it.
CUresult retain_on_graph(Scene& s, bool invalidate) {
  CUstreamCaptureStatus status{};
  CUgraph graph = nullptr;
  CUresult result = s.cu.StreamGetCaptureInfo(s.origin, &status, nullptr, &graph, nullptr, nullptr);
  if (result != CUDA_SUCCESS) return result;
  static std::atomic<int> destroyed = 0;
  CUuserObject object = nullptr;
  result = s.cu.UserObjectCreate(
      &object, &destroyed, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, 1,
      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) return result;
  if (invalidate) s.cu.EventQuery(s.captured);
  return s.cu.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
}
CUresult retain_user_object(Scene& s) { return retain_on_graph(s, false); }
CUresult retain_once_invalidated(Scene& s) { return retain_on_graph(s, true); }

#if CUDA_VERSION >= 12050
CUresult ctx_record(Scene& s) { return s.cu.CtxRecordEvent(s.lab.home, s.done); }
CUresult ctx_wait(Scene& s) { return s.cu.CtxWaitEvent(s.lab.home, s.done); }
CUresult ctx_wait_captured(Scene& s) { return s.cu.CtxWaitEvent(s.lab.home, s.captured); }
CUresult ctx_record_second(Scene& s) {
  const Current guard(s.lab, s.lab.second_context());
  Event theirs(s.lab);
  return s.cu.CtxRecordEvent(s.lab.second_context(), theirs);
}
#endif
CUresult ctx_get_current(Scene& s) {
  CUcontext context = nullptr;
  return s.cu.CtxGetCurrent(&context);
}
CUresult ctx_get_id(Scene& s) {
  unsigned long long id = 0;
  return s.cu.CtxGetId(s.lab.home, &id);
}
CUresult ctx_push(Scene& s) {
  const CUresult result = s.cu.CtxPushCurrent(s.lab.home);
  CUcontext context = nullptr;
  s.lab.is("ctx_push.pop", s.cu.CtxPopCurrent(&context));
  return result;
}
CUresult ctx_synchronize(Scene& s) {
  s.gate.open();
  return s.cu.CtxSynchronize();
}
CUresult ctx_create(Scene& s) {
  s.gate.open(); // a context cannot be destroyed while a stream of another context is held
  CUcontext context = nullptr;
  const CUresult result = s.cu.CtxCreate(&context, 0, s.lab.device);
  if (context != nullptr) s.cu.CtxDestroy(context);
  s.lab.restore();
  return result;
}
CUresult primary_state(Scene& s) {
  unsigned flags = 0;
  int active = 0;
  return s.cu.DevicePrimaryCtxGetState(s.lab.device, &flags, &active);
}

CUresult stream_query(Scene& s) { return s.cu.StreamQuery(s.origin); }
CUresult stream_query_bystander(Scene& s) { return s.cu.StreamQuery(s.bystander); }
CUresult stream_synchronize(Scene& s) { return s.cu.StreamSynchronize(s.origin); }
CUresult stream_synchronize_bystander(Scene& s) { return s.cu.StreamSynchronize(s.bystander); }
CUresult stream_create(Scene& s) {
  CUstream stream = nullptr;
  const CUresult result = s.cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (stream != nullptr) s.cu.StreamDestroy(stream);
  return result;
}
CUresult stream_destroy_bystander(Scene& s) { return s.cu.StreamDestroy(s.bystander.release()); }
CUresult launch_kernel(Scene& s) { return s.launch(s.origin); }
CUresult launch_host_func(Scene& s) {
  return s.cu.LaunchHostFunc(
      s.origin, [](void*) {}, nullptr);
}
CUresult launch_graph(Scene& s) { return s.cu.GraphLaunch(s.exec, s.origin); }
CUresult launch_graph_on_bystander(Scene& s) { return s.cu.GraphLaunch(s.exec, s.bystander); }
CUresult write_value_32(Scene& s) { return s.cu.StreamWriteValue32(s.origin, Lab::address(s.word), 1, 0); }
CUresult write_value_64(Scene& s) { return s.cu.StreamWriteValue64(s.origin, s.memory, 1, 0); }
CUresult wait_value_32(Scene& s) { return s.cu.StreamWaitValue32(s.origin, Lab::address(s.word), 0, 0); }
CUresult write_value_on_bystander(Scene& s) {
  return s.cu.StreamWriteValue32(s.bystander, Lab::address(s.word), 1, 0);
}
CUresult memset_async(Scene& s) { return s.cu.MemsetD8Async(s.memory, 0, 64, s.origin); }
CUresult memset_sync(Scene& s) { return s.cu.MemsetD8(s.memory, 0, 64); }
CUresult mem_alloc(Scene& s) {
  CUdeviceptr memory = 0;
  const CUresult result = s.cu.MemAlloc(&memory, 64);
  if (memory != 0) {
    CUstreamCaptureMode mode = relaxed;
    exchange(s.cu, mode);
    s.gate.open();
    s.cu.MemFree(memory);
    exchange(s.cu, mode);
  }
  return result;
}
CUresult mem_host_alloc(Scene& s) {
  void* memory = nullptr;
  const CUresult result = s.cu.MemHostAlloc(&memory, 64, 0);
  if (memory != nullptr) {
    CUstreamCaptureMode mode = relaxed;
    exchange(s.cu, mode);
    s.gate.open();
    s.cu.MemFreeHost(memory);
    exchange(s.cu, mode);
  }
  return result;
}
CUresult module_load(Scene& s) {
  s.gate.open();
  try {
    s.lab.kernel("step");
    return CUDA_SUCCESS;
  } catch (const SetUpFailure& failure) {
    s.lab.shows("module_load.said", failure.what());
    return CUDA_ERROR_UNKNOWN;
  }
}
CUresult graph_instantiate(Scene& s) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  s.cu.GraphCreate(&graph, 0);
  const CUresult result = s.cu.GraphInstantiateWithFlags(&exec, graph, 0);
  if (exec != nullptr) s.cu.GraphExecDestroy(exec);
  s.cu.GraphDestroy(graph);
  return result;
}
CUresult graph_add_record_node(Scene& s) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  s.cu.GraphCreate(&graph, 0);
  const CUresult result = s.cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, s.captured);
  s.cu.GraphDestroy(graph);
  return result;
}
CUresult begin_again(Scene& s) { return s.cu.StreamBeginCapture(s.origin, CU_STREAM_CAPTURE_MODE_GLOBAL); }
CUresult begin_on_bystander(Scene& s) {
  const CUresult result = s.cu.StreamBeginCapture(s.bystander, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  s.lab.is("begin_on_bystander.end", end_capture(s.lab, s.bystander));
  return result;
}
CUresult end_on_bystander(Scene& s) { return end_capture(s.lab, s.bystander); }
CUresult end(Scene& s) { return end_capture(s.lab, s.origin); }

const Probe on_this_thread[] = {
    {"create", create},
    {"create_interprocess", create_shared},
    {"destroy", destroy_done},
    {"destroy_pending", destroy_pending},
    {"destroy_captured", destroy_captured},
    {"ipc_get_handle", ipc_get_handle},
    {"query_outside_event", query_done},
    {"query_pending_event", query_pending},
    {"query_never_recorded", query_never},
    {"query_interprocess_event", query_shared},
    {"query_external_event", query_external},
    {"query_captured_event", query_captured},
    {"query_outside_event.thread_relaxed", in_mode<relaxed, query_done>},
    {"query_outside_event.thread_thread_local", in_mode<thread_local_mode, query_done>},
    {"query_outside_event.thread_global", in_mode<global, query_done>},
    {"query_never_recorded.thread_relaxed", in_mode<relaxed, query_never>},
    {"query_pending_event.thread_relaxed", in_mode<relaxed, query_pending>},
    {"query_external_event.thread_relaxed", in_mode<relaxed, query_external>},
    {"query_captured_event.thread_relaxed", in_mode<relaxed, query_captured>},
    {"synchronize_outside_event", synchronize_done},
    {"synchronize_never_recorded", synchronize_never},
    {"synchronize_external_event", synchronize_external},
    {"synchronize_captured_event", synchronize_captured},
    {"synchronize_outside_event.thread_relaxed", in_mode<relaxed, synchronize_done>},
    {"elapsed_outside_events", elapsed_done},
    {"elapsed_itself", elapsed_itself},
    {"elapsed_never_recorded", elapsed_never},
    {"elapsed_pending", elapsed_pending},
    {"elapsed_captured_event", elapsed_captured},
    {"elapsed_captured_itself", elapsed_captured_itself},
    {"elapsed_external_event", elapsed_external},
    {"elapsed_external_itself", elapsed_external_itself},
#if CUDA_VERSION >= 12080
    {"elapsed_v2_outside_events", elapsed_v2_done},
    {"elapsed_v2_captured_itself", elapsed_v2_captured},
#endif
    {"wait_outside_event", wait_done},
    {"wait_never_recorded", wait_never},
    {"wait_captured_event", wait_captured},
    {"wait_external_event", wait_external},
    {"wait_outside_event.external", wait_done_external},
    {"wait_never_recorded.external", wait_never_external},
    {"wait_captured_event.external", wait_captured_external},
    {"wait_external_event.external", wait_external_external},
    {"wait_interprocess_event.external", wait_shared_external},
    {"wait_null", wait_null},
    {"wait_unknown_flags", wait_unknown_flags},
    {"wait_on_bystander", bystander_waits_done},
    {"wait_on_bystander.external", bystander_waits_external_flag},
    {"fork_without_work", fork_without_work},
    {"fork_by_external_event", fork_by_external},
    {"record", record},
    {"record_interprocess_event", record_shared},
    {"record_pending_event", record_pending},
    {"record_external", record_external},
    {"record_external.untimed", record_external_untimed},
    {"record_external.interprocess", record_external_shared},
    {"record_external.again", record_external_again},
    {"record_external.captured_event", record_captured_as_external},
    {"record_null", record_null},
    {"record_unknown_flags", record_unknown_flags},
    {"record_event_of_another_context", record_of_another_context},
    {"record_on_bystander", record_on_bystander},
    {"record_on_bystander.external", record_external_on_bystander},
    {"record_captured_on_bystander", record_captured_on_bystander},
    {"record_external_event_on_bystander", record_external_one_on_bystander},
    {"is_capturing", is_capturing},
    {"is_capturing_bystander", is_capturing_bystander},
    {"capture_info", capture_info},
    {"retain_user_object", retain_user_object},
    {"retain_user_object.once_invalidated", retain_once_invalidated},
    {"stream_get_ctx", get_ctx},
    {"stream_get_id", get_id},
#if CUDA_VERSION >= 12050
    {"ctx_record_event", ctx_record},
    {"ctx_wait_event", ctx_wait},
    {"ctx_wait_captured_event", ctx_wait_captured},
    {"ctx_record_event_of_another_context", ctx_record_second},
#endif
    {"ctx_get_current", ctx_get_current},
    {"ctx_get_id", ctx_get_id},
    {"ctx_push", ctx_push},
    {"ctx_synchronize", ctx_synchronize},
    {"ctx_create", ctx_create},
    {"primary_state", primary_state},
    {"stream_query", stream_query},
    {"stream_query_bystander", stream_query_bystander},
    {"stream_synchronize", stream_synchronize},
    {"stream_synchronize_bystander", stream_synchronize_bystander},
    {"stream_create", stream_create},
    {"stream_destroy_bystander", stream_destroy_bystander},
    {"launch_kernel", launch_kernel},
    {"launch_host_func", launch_host_func},
    {"launch_graph", launch_graph},
    {"launch_graph_on_bystander", launch_graph_on_bystander},
    {"write_value_32", write_value_32},
    {"write_value_64", write_value_64},
    {"wait_value_32", wait_value_32},
    {"write_value_on_bystander", write_value_on_bystander},
    {"memset_async", memset_async},
    {"memset", memset_sync},
    {"mem_alloc", mem_alloc},
    {"mem_host_alloc", mem_host_alloc},
    {"module_load", module_load},
    {"graph_instantiate", graph_instantiate},
    {"graph_add_record_node_of_captured_event", graph_add_record_node},
    {"begin_again", begin_again},
    {"begin_on_bystander", begin_on_bystander},
    {"end_on_bystander", end_on_bystander},
};

const Probe on_another_thread[] = {
    {"create", create},
    {"destroy", destroy_done},
    {"destroy_captured", destroy_captured},
    {"query_outside_event", query_done},
    {"query_pending_event", query_pending},
    {"query_never_recorded", query_never},
    {"query_external_event", query_external},
    {"query_captured_event", query_captured},
    {"query_outside_event.thread_relaxed", in_mode<relaxed, query_done>},
    {"query_pending_event.thread_relaxed", in_mode<relaxed, query_pending>},
    {"query_never_recorded.thread_relaxed", in_mode<relaxed, query_never>},
    {"query_external_event.thread_relaxed", in_mode<relaxed, query_external>},
    {"query_captured_event.thread_relaxed", in_mode<relaxed, query_captured>},
    {"query_outside_event.thread_thread_local", in_mode<thread_local_mode, query_done>},
    {"synchronize_outside_event", synchronize_done},
    {"synchronize_outside_event.thread_relaxed", in_mode<relaxed, synchronize_done>},
    {"synchronize_captured_event.thread_relaxed", in_mode<relaxed, synchronize_captured>},
    {"elapsed_outside_events", elapsed_done},
    {"elapsed_captured_event", elapsed_captured},
    {"wait_outside_event", wait_done},
    {"wait_captured_event", wait_captured},
    {"fork_without_work", fork_without_work},
    {"record", record},
    {"record_external", record_external},
    {"record_on_bystander", record_on_bystander},
    {"record_captured_on_bystander", record_captured_on_bystander},
    {"record_stream_0", record_stream_0},
    {"is_capturing", is_capturing},
    {"stream_get_ctx", get_ctx},
#if CUDA_VERSION >= 12050
    {"ctx_record_event", ctx_record},
    {"ctx_wait_event", ctx_wait},
#endif
    {"ctx_get_current", ctx_get_current},
    {"ctx_synchronize", ctx_synchronize},
    {"stream_query_bystander", stream_query_bystander},
    {"stream_synchronize_bystander", stream_synchronize_bystander},
    {"mem_alloc", mem_alloc},
    {"mem_host_alloc", mem_host_alloc},
    {"launch_kernel", launch_kernel},
    {"begin_on_bystander", begin_on_bystander},
    {"end", end},
};

// Calls that involve the legacy stream, which cannot be used while a blocking stream captures.
const Probe with_default_streams[] = {
    {"record_stream_0", record_stream_0},
    {"record_legacy", record_legacy},
    {"record_per_thread", record_per_thread},
    {"record_external_stream_0",
     [](Scene& s) { return s.cu.EventRecordWithFlags(s.done, nullptr, CU_EVENT_RECORD_EXTERNAL); }},
    {"record_stream_0.thread_relaxed", in_mode<relaxed, record_stream_0>},
    {"wait_on_stream_0", wait_on_stream_0},
    {"wait_on_legacy.captured_event", wait_on_legacy_captured},
    {"launch_on_legacy", launch_on_legacy},
    {"is_capturing_stream_0", is_capturing_stream_0},
    {"is_capturing_legacy", is_capturing_legacy},
    {"is_capturing_legacy.thread_relaxed", in_mode<relaxed, is_capturing_legacy>},
    {"is_capturing_per_thread", is_capturing_per_thread},
    {"stream_get_ctx_legacy", get_ctx_legacy},
    {"stream_query_stream_0", query_stream_0},
    {"query_outside_event", query_done},
};

const Probe once_invalidated[] = {
    {"create", create},
    {"destroy_captured", destroy_captured},
    {"query_outside_event", query_done},
    {"query_never_recorded", query_never},
    {"query_captured_event", query_captured},
    {"query_external_event", query_external},
    {"query_captured_event.thread_relaxed", in_mode<relaxed, query_captured>},
    {"synchronize_captured_event", synchronize_captured},
    {"elapsed_captured_event", elapsed_captured},
    {"elapsed_captured_itself", elapsed_captured_itself},
    {"elapsed_outside_events", elapsed_done},
    {"wait_captured_event", wait_captured},
    {"wait_outside_event", wait_done},
    {"wait_outside_event.external", wait_done_external},
    {"fork_without_work", fork_without_work},
    {"record", record},
    {"record_external", record_external},
    {"record_captured_on_bystander", record_captured_on_bystander},
    {"is_capturing", is_capturing},
    {"capture_info", capture_info},
    {"stream_get_ctx", get_ctx},
    {"launch_kernel", launch_kernel},
    {"launch_host_func", launch_host_func},
    {"write_value_32", write_value_32},
    {"stream_query", stream_query},
    {"stream_synchronize", stream_synchronize},
    {"mem_host_alloc", mem_host_alloc},
#if CUDA_VERSION >= 12050
    {"ctx_record_event", ctx_record},
#endif
    {"begin_again", begin_again},
    {"begin_on_bystander", begin_on_bystander},
};

template <std::size_t mode>
void this_thread(Lab& lab) {
  for (const Probe& item : on_this_thread)
    probe(lab, item.name, capture_modes[mode].value, item.call);
}

template <std::size_t mode>
void other_thread(Lab& lab) {
  for (const Probe& item : on_another_thread) {
    probe(lab, item.name, capture_modes[mode].value,
          [&](Scene& scene) { return on_other_thread(lab, [&] { return item.call(scene); }); });
  }
}

template <std::size_t mode>
void blocking_stream(Lab& lab) {
  for (const Probe& item : with_default_streams) {
    probe(lab, item.name, capture_modes[mode].value, item.call, CU_STREAM_DEFAULT);
  }
}

template <std::size_t mode>
void non_blocking_stream(Lab& lab) {
  for (const Probe& item : with_default_streams)
    probe(lab, item.name, capture_modes[mode].value, item.call);
}

template <std::size_t mode>
void invalidated(Lab& lab) {
  for (const Probe& item : once_invalidated) {
    probe(lab, item.name, capture_modes[mode].value, [&](Scene& scene) {
      lab.cu.EventQuery(scene.captured); // the only misuse that invalidates in every mode
      return item.call(scene);
    });
  }
}

template <std::size_t mode>
std::vector<Scenario> in_mode_scenarios() {
  const std::string prefix = std::string("capture.") + capture_modes[mode].name;
  return {{prefix, this_thread<mode>},
          {prefix + ".other_thread", other_thread<mode>},
          {prefix + ".blocking_stream", blocking_stream<mode>},
          {prefix + ".non_blocking_stream", non_blocking_stream<mode>},
          {prefix + ".invalidated", invalidated<mode>}};
}

} // namespace

std::vector<Scenario> capture_scenarios() {
  std::vector<Scenario> all;
  for (const auto& scenarios : {in_mode_scenarios<0>(), in_mode_scenarios<1>(), in_mode_scenarios<2>()}) {
    all.insert(all.end(), scenarios.begin(), scenarios.end());
  }
  return all;
}

} // namespace transcript
