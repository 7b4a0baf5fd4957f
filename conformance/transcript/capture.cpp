// SPDX-License-Identifier: MIT
// Calls during a capture, in each capture mode: on the capturing thread, on another thread, in addition to a
// capture of a blocking stream, and after the capture is invalidated.

#include "scene.hpp"

#include <chrono>

namespace transcript {
namespace {

float ms = 0; // nobody reads this result

constexpr const Mode& global = capture_modes[0];
constexpr const Mode& in_thread = capture_modes[1];
constexpr const Mode& relaxed = capture_modes[2];

CUresult create(const Scene& s, unsigned flags) {
  CUevent event = nullptr;
  const CUresult result = s.cu.EventCreate(&event, flags);
  if (event != nullptr) s.cu.EventDestroy(event);
  return result;
}
CUresult elapsed(const Scene& s, CUevent start, CUevent end) {
  return s.cu.EventElapsedTime(&ms, start, end);
}
CUresult wait(const Scene& s, CUevent event, unsigned flags = 0) {
  return s.cu.StreamWaitEvent(s.origin, event, flags);
}
CUresult wait_external(const Scene& s, CUevent event) { return wait(s, event, CU_EVENT_WAIT_EXTERNAL); }
CUresult record_external(const Scene& s, CUevent event, CUstream stream) {
  return s.cu.EventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL);
}
CUresult is_capturing(const Scene& s, CUstream stream) {
  CUstreamCaptureStatus status{};
  return s.cu.StreamIsCapturing(stream, &status);
}
CUresult record_captured_on_bystander(Scene& s) {
  const CUresult result = s.cu.EventRecord(s.captured, s.bystander);
  s.lab.is("record_captured_on_bystander.elapsed",
           eventually([&] { return elapsed(s, s.captured, s.captured); }));
  return result;
}
CUresult get_ctx(Scene& s) {
  CUcontext context = nullptr;
  const CUresult result = s.cu.StreamGetCtx(s.origin, &context);
  return result == CUDA_SUCCESS && context != s.lab.home ? CUDA_ERROR_UNKNOWN : result;
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
CUresult ctx_push(Scene& s) {
  const CUresult result = s.cu.CtxPushCurrent(s.lab.home);
  CUcontext context = nullptr;
  s.lab.is("ctx_push.pop", s.cu.CtxPopCurrent(&context));
  return result;
}
CUresult ctx_create(Scene& s) {
  s.gate.open(); // a context cannot be destroyed while a stream of another context is held
  CUcontext context = nullptr;
  const CUresult result = s.cu.CtxCreate(&context, 0, s.lab.device);
  if (context != nullptr) s.cu.CtxDestroy(context);
  s.lab.restore();
  return result;
}
CUresult stream_create(Scene& s) {
  CUstream stream = nullptr;
  const CUresult result = s.cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (stream != nullptr) s.cu.StreamDestroy(stream);
  return result;
}
// Lets all work end, and frees memory that a call has returned during a capture.
template <class Function>
void free_in_capture(Scene& s, Function&& call) {
  in_mode(s.lab, relaxed.value, [&] {
    s.gate.open();
    return call();
  });
}
CUresult mem_alloc(Scene& s) {
  CUdeviceptr memory = 0;
  const CUresult result = s.cu.MemAlloc(&memory, 64);
  if (memory != 0) free_in_capture(s, [&] { return s.cu.MemFree(memory); });
  return result;
}
CUresult mem_host_alloc(Scene& s) {
  void* memory = nullptr;
  const CUresult result = s.cu.MemHostAlloc(&memory, 64, 0);
  if (memory != nullptr) free_in_capture(s, [&] { return s.cu.MemFreeHost(memory); });
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
CUresult begin_on_bystander(Scene& s) {
  const CUresult result = s.cu.StreamBeginCapture(s.bystander, in_thread.value);
  s.lab.is("begin_on_bystander.end", end_capture(s.lab, s.bystander));
  return result;
}

// Where a call is made.
enum Places : unsigned {
  here = 1,        // on the capturing thread
  elsewhere = 2,   // on another thread
  on_defaults = 4, // on a default stream, during captures of a blocking and of a non-blocking stream
  invalidated = 8, // after the capture is invalidated
};
struct Question {
  const char* name;
  unsigned places;
  Call call;
};
const Question questions[] = {
    {"create", here | elsewhere | invalidated, [](Scene& s) { return create(s, CU_EVENT_DISABLE_TIMING); }},
    {"create_interprocess", here,
     [](Scene& s) { return create(s, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS); }},
    {"destroy", here | elsewhere, [](Scene& s) { return s.cu.EventDestroy(s.done.release()); }},
    {"destroy_pending", here, [](Scene& s) { return s.cu.EventDestroy(s.pending.release()); }},
    {"destroy_captured", here | elsewhere | invalidated,
     [](Scene& s) { return s.cu.EventDestroy(s.captured.release()); }},
    {"ipc_get_handle", here,
     [](Scene& s) {
       CUipcEventHandle handle;
       return s.cu.IpcGetEventHandle(&handle, s.shared);
     }},
    {"query_outside_event", here | elsewhere | on_defaults | invalidated,
     [](Scene& s) { return s.cu.EventQuery(s.done); }},
    {"query_pending_event", here | elsewhere, [](Scene& s) { return s.cu.EventQuery(s.pending); }},
    {"query_never_recorded", here | elsewhere | invalidated,
     [](Scene& s) { return s.cu.EventQuery(s.never); }},
    {"query_interprocess_event", here, [](Scene& s) { return s.cu.EventQuery(s.shared); }},
    {"query_external_event", here | elsewhere | invalidated,
     [](Scene& s) { return s.cu.EventQuery(s.external); }},
    {"query_captured_event", here | elsewhere | invalidated,
     [](Scene& s) { return s.cu.EventQuery(s.captured); }},
    {"synchronize_outside_event", here | elsewhere, [](Scene& s) { return s.cu.EventSynchronize(s.done); }},
    {"synchronize_never_recorded", here, [](Scene& s) { return s.cu.EventSynchronize(s.never); }},
    {"synchronize_external_event", here, [](Scene& s) { return s.cu.EventSynchronize(s.external); }},
    {"synchronize_captured_event", here | invalidated,
     [](Scene& s) { return s.cu.EventSynchronize(s.captured); }},
    {"elapsed_outside_events", here | elsewhere | invalidated,
     [](Scene& s) { return elapsed(s, s.done, s.done_end); }},
    {"elapsed_itself", here, [](Scene& s) { return elapsed(s, s.done, s.done); }},
    {"elapsed_never_recorded", here, [](Scene& s) { return elapsed(s, s.done, s.never); }},
    {"elapsed_pending", here, [](Scene& s) { return elapsed(s, s.done, s.pending); }},
    {"elapsed_captured_event", here | elsewhere | invalidated,
     [](Scene& s) { return elapsed(s, s.done, s.captured); }},
    {"elapsed_captured_itself", here | invalidated,
     [](Scene& s) { return elapsed(s, s.captured, s.captured); }},
    {"elapsed_external_event", here, [](Scene& s) { return elapsed(s, s.done, s.external); }},
    {"elapsed_external_itself", here, [](Scene& s) { return elapsed(s, s.external, s.external); }},
#if CUDA_VERSION >= 12080
    {"elapsed_v2_outside_events", here,
     [](Scene& s) { return s.cu.EventElapsedTimeV2(&ms, s.done, s.done_end); }},
    {"elapsed_v2_captured_itself", here,
     [](Scene& s) { return s.cu.EventElapsedTimeV2(&ms, s.captured, s.captured); }},
#endif
    {"wait_outside_event", here | elsewhere | invalidated, [](Scene& s) { return wait(s, s.done); }},
    {"wait_never_recorded", here, [](Scene& s) { return wait(s, s.never); }},
    {"wait_captured_event", here | elsewhere | invalidated, [](Scene& s) { return wait(s, s.captured); }},
    {"wait_external_event", here, [](Scene& s) { return wait(s, s.external); }},
    {"wait_outside_event.external", here | invalidated, [](Scene& s) { return wait_external(s, s.done); }},
    {"wait_never_recorded.external", here, [](Scene& s) { return wait_external(s, s.never); }},
    {"wait_captured_event.external", here, [](Scene& s) { return wait_external(s, s.captured); }},
    {"wait_external_event.external", here, [](Scene& s) { return wait_external(s, s.external); }},
    {"wait_interprocess_event.external", here, [](Scene& s) { return wait_external(s, s.shared); }},
    {"wait_null", here, [](Scene& s) { return wait(s, nullptr); }},
    {"wait_unknown_flags", here, [](Scene& s) { return wait(s, s.captured, 0x100); }},
    {"wait_on_bystander", here, [](Scene& s) { return s.cu.StreamWaitEvent(s.bystander, s.done, 0); }},
    {"wait_on_bystander.external", here,
     [](Scene& s) { return s.cu.StreamWaitEvent(s.bystander, s.captured, CU_EVENT_WAIT_EXTERNAL); }},
    {"fork_without_work", here | elsewhere | invalidated,
     [](Scene& s) { return s.cu.StreamWaitEvent(s.fork, s.captured, 0); }},
    {"fork_by_external_event", here, [](Scene& s) { return s.cu.StreamWaitEvent(s.fork, s.external, 0); }},
    {"record", here | elsewhere | invalidated, [](Scene& s) { return s.cu.EventRecord(s.done, s.origin); }},
    {"record_interprocess_event", here, [](Scene& s) { return s.cu.EventRecord(s.shared, s.origin); }},
    {"record_pending_event", here, [](Scene& s) { return s.cu.EventRecord(s.pending, s.origin); }},
    {"record_external", here | elsewhere | invalidated,
     [](Scene& s) { return record_external(s, s.done, s.origin); }},
    {"record_external.untimed", here,
     [](Scene& s) { return record_external(s, Event(s.lab).release(), s.origin); }},
    {"record_external.interprocess", here, [](Scene& s) { return record_external(s, s.shared, s.origin); }},
    {"record_external.again", here, [](Scene& s) { return record_external(s, s.external, s.origin); }},
    {"record_external.captured_event", here,
     [](Scene& s) { return record_external(s, s.captured, s.origin); }},
    {"record_null", here, [](Scene& s) { return s.cu.EventRecord(nullptr, s.origin); }},
    {"record_unknown_flags", here,
     [](Scene& s) { return s.cu.EventRecordWithFlags(s.done, s.origin, 0x100); }},
    {"record_event_of_another_context", here,
     [](Scene& s) {
       const Current guard(s.lab, s.lab.second_context());
       const Event theirs(s.lab);
       return s.cu.EventRecord(theirs, s.origin);
     }},
    {"record_on_bystander", here | elsewhere, [](Scene& s) { return s.cu.EventRecord(s.done, s.bystander); }},
    {"record_on_bystander.external", here, [](Scene& s) { return record_external(s, s.done, s.bystander); }},
    {"record_captured_on_bystander", here | elsewhere | invalidated, record_captured_on_bystander},
    {"record_external_event_on_bystander", here,
     [](Scene& s) { return s.cu.EventRecord(s.external, s.bystander); }},
    {"is_capturing", here | elsewhere | invalidated, [](Scene& s) { return is_capturing(s, s.origin); }},
    {"is_capturing_bystander", here, [](Scene& s) { return is_capturing(s, s.bystander); }},
    {"capture_info", here | invalidated, capture_info},
    {"retain_user_object", here, [](Scene& s) { return retain_on_graph(s, false); }},
    {"retain_user_object.once_invalidated", here, [](Scene& s) { return retain_on_graph(s, true); }},
    {"stream_get_ctx", here | elsewhere | invalidated, get_ctx},
    {"stream_get_id", here,
     [](Scene& s) {
       unsigned long long id = 0;
       return s.cu.StreamGetId(s.origin, &id);
     }},
#if CUDA_VERSION >= 12050
    {"ctx_record_event", here | elsewhere | invalidated,
     [](Scene& s) { return s.cu.CtxRecordEvent(s.lab.home, s.done); }},
    {"ctx_wait_event", here | elsewhere, [](Scene& s) { return s.cu.CtxWaitEvent(s.lab.home, s.done); }},
    {"ctx_wait_captured_event", here, [](Scene& s) { return s.cu.CtxWaitEvent(s.lab.home, s.captured); }},
    {"ctx_record_event_of_another_context", here,
     [](Scene& s) {
       const Current guard(s.lab, s.lab.second_context());
       const Event theirs(s.lab);
       return s.cu.CtxRecordEvent(s.lab.second_context(), theirs);
     }},
#endif
    {"ctx_get_current", here | elsewhere,
     [](Scene& s) {
       CUcontext context = nullptr;
       return s.cu.CtxGetCurrent(&context);
     }},
    {"ctx_get_id", here,
     [](Scene& s) {
       unsigned long long id = 0;
       return s.cu.CtxGetId(s.lab.home, &id);
     }},
    {"ctx_push", here, ctx_push},
    {"ctx_synchronize", here | elsewhere,
     [](Scene& s) {
       s.gate.open();
       return s.cu.CtxSynchronize();
     }},
    {"ctx_create", here, ctx_create},
    {"primary_state", here,
     [](Scene& s) {
       unsigned flags = 0;
       int active = 0;
       return s.cu.DevicePrimaryCtxGetState(s.lab.device, &flags, &active);
     }},
    {"stream_query", here | invalidated, [](Scene& s) { return s.cu.StreamQuery(s.origin); }},
    {"stream_query_bystander", here | elsewhere, [](Scene& s) { return s.cu.StreamQuery(s.bystander); }},
    {"stream_synchronize", here | invalidated, [](Scene& s) { return s.cu.StreamSynchronize(s.origin); }},
    {"stream_synchronize_bystander", here | elsewhere,
     [](Scene& s) { return s.cu.StreamSynchronize(s.bystander); }},
    {"stream_create", here, stream_create},
    {"stream_destroy_bystander", here, [](Scene& s) { return s.cu.StreamDestroy(s.bystander.release()); }},
    {"launch_kernel", here | elsewhere | invalidated, [](Scene& s) { return s.launch(s.origin); }},
    {"launch_host_func", here | invalidated,
     [](Scene& s) {
       return s.cu.LaunchHostFunc(
           s.origin, [](void*) {}, nullptr);
     }},
    {"launch_graph", here, [](Scene& s) { return s.cu.GraphLaunch(s.exec, s.origin); }},
    {"launch_graph_on_bystander", here, [](Scene& s) { return s.cu.GraphLaunch(s.exec, s.bystander); }},
    {"write_value_32", here | invalidated,
     [](Scene& s) { return s.cu.StreamWriteValue32(s.origin, Lab::address(s.word), 1, 0); }},
    {"write_value_64", here, [](Scene& s) { return s.cu.StreamWriteValue64(s.origin, s.memory, 1, 0); }},
    {"wait_value_32", here,
     [](Scene& s) { return s.cu.StreamWaitValue32(s.origin, Lab::address(s.word), 0, 0); }},
    {"write_value_on_bystander", here,
     [](Scene& s) { return s.cu.StreamWriteValue32(s.bystander, Lab::address(s.word), 1, 0); }},
    {"memset_async", here, [](Scene& s) { return s.cu.MemsetD8Async(s.memory, 0, 64, s.origin); }},
    {"memset", here, [](Scene& s) { return s.cu.MemsetD8(s.memory, 0, 64); }},
    {"mem_alloc", here | elsewhere, mem_alloc},
    {"mem_host_alloc", here | elsewhere | invalidated, mem_host_alloc},
    {"module_load", here, module_load},
    {"graph_instantiate", here, graph_instantiate},
    {"graph_add_record_node_of_captured_event", here, graph_add_record_node},
    {"begin_again", here | invalidated,
     [](Scene& s) { return s.cu.StreamBeginCapture(s.origin, global.value); }},
    {"begin_on_bystander", here | elsewhere | invalidated, begin_on_bystander},
    {"end_on_bystander", here, [](Scene& s) { return end_capture(s.lab, s.bystander); }},
    {"end", elsewhere, [](Scene& s) { return end_capture(s.lab, s.origin); }},
    {"record_stream_0", elsewhere | on_defaults, [](Scene& s) { return s.cu.EventRecord(s.done, nullptr); }},
    {"record_legacy", on_defaults, [](Scene& s) { return s.cu.EventRecord(s.done, CU_STREAM_LEGACY); }},
    {"record_per_thread", on_defaults,
     [](Scene& s) { return s.cu.EventRecord(s.done, CU_STREAM_PER_THREAD); }},
    {"record_external_stream_0", on_defaults, [](Scene& s) { return record_external(s, s.done, nullptr); }},
    {"wait_on_stream_0", on_defaults, [](Scene& s) { return s.cu.StreamWaitEvent(nullptr, s.done, 0); }},
    {"wait_on_legacy.captured_event", on_defaults,
     [](Scene& s) { return s.cu.StreamWaitEvent(CU_STREAM_LEGACY, s.captured, 0); }},
    {"launch_on_legacy", on_defaults, [](Scene& s) { return s.launch(CU_STREAM_LEGACY); }},
    {"is_capturing_stream_0", on_defaults, [](Scene& s) { return is_capturing(s, nullptr); }},
    {"is_capturing_legacy", on_defaults, [](Scene& s) { return is_capturing(s, CU_STREAM_LEGACY); }},
    {"is_capturing_per_thread", on_defaults, [](Scene& s) { return is_capturing(s, CU_STREAM_PER_THREAD); }},
    {"stream_get_ctx_legacy", on_defaults,
     [](Scene& s) {
       CUcontext context = nullptr;
       return s.cu.StreamGetCtx(CU_STREAM_LEGACY, &context);
     }},
    {"stream_query_stream_0", on_defaults, [](Scene& s) { return s.cu.StreamQuery(nullptr); }},
};

// Some are asked again while the calling thread is in another mode.
struct {
  const char* name;
  const Mode& of_thread;
  unsigned places;
} const in_another_mode[] = {
    {"query_outside_event", relaxed, here | elsewhere},
    {"query_outside_event", in_thread, here | elsewhere},
    {"query_outside_event", global, here},
    {"query_never_recorded", relaxed, here | elsewhere},
    {"query_pending_event", relaxed, here | elsewhere},
    {"query_external_event", relaxed, here | elsewhere},
    {"query_captured_event", relaxed, here | elsewhere | invalidated},
    {"synchronize_outside_event", relaxed, here | elsewhere},
    {"synchronize_captured_event", relaxed, elsewhere},
    {"record_stream_0", relaxed, on_defaults},
    {"is_capturing_legacy", relaxed, on_defaults},
};

template <std::size_t mode, Places place, unsigned flags = CU_STREAM_NON_BLOCKING>
void ask(Lab& lab) {
  const auto make = [&lab](const std::string& name, const std::function<CUresult(Scene&)>& call) {
    const auto call_there = [&](Scene& scene) {
      if (place == elsewhere) return on_other_thread(lab, [&] { return call(scene); });
      if (place == invalidated)
        lab.cu.EventQuery(scene.captured); // the only misuse that invalidates in each mode
      return call(scene);
    };
    probe(lab, name, capture_modes[mode].value, call_there, flags);
  };
  for (const Question& question : questions) {
    if ((question.places & place) != 0) make(question.name, question.call);
    for (const auto& again : in_another_mode)
      if ((again.places & place) != 0 && again.name == std::string_view(question.name))
        make(std::string(again.name) + ".thread_" + again.of_thread.name, [&](Scene& scene) {
          return in_mode(lab, again.of_thread.value, [&] { return question.call(scene); });
        });
  }
}

template <std::size_t mode>
std::vector<Scenario> in_mode_scenarios() {
  const std::string prefix = std::string("capture.") + capture_modes[mode].name;
  return {{prefix, ask<mode, here>},
          {prefix + ".other_thread", ask<mode, elsewhere>},
          {prefix + ".blocking_stream", ask<mode, on_defaults, CU_STREAM_DEFAULT>},
          {prefix + ".non_blocking_stream", ask<mode, on_defaults>},
          {prefix + ".invalidated", ask<mode, invalidated>}};
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
