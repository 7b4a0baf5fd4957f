// SPDX-License-Identifier: MIT
// After a kernel wrote to an illegal address: which call reports it, and what every later call answers.

#include "lab.hpp"

namespace transcript {
namespace {

using namespace std::chrono_literals;

struct Fault {
  explicit Fault(Lab& lab) : before(lab, 0), before_end(lab, 0), after(lab, 0), stream(lab), other(lab) {
    const Api& cu = lab.cu;
    lab.second_context();
    const CUfunction kernel = lab.kernel("write_illegal_address");
    cu.EventRecord(before, stream);
    cu.EventRecord(before_end, stream);
    lab.must(cu.StreamSynchronize(stream), "synchronize");
    lab.is("launch", cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    lab.is("record", cu.EventRecord(after, stream));
  }
  Event before, before_end, after;
  Stream stream, other;
};

void everything_after(Lab& lab, Fault& fault) {
  const Api& cu = lab.cu;
  float ms = 0;
  lab.is("then.query", cu.EventQuery(fault.after));
  lab.is("then.query.completed_before", cu.EventQuery(fault.before));
  lab.is("then.synchronize", cu.EventSynchronize(fault.after));
  lab.is("then.elapsed", cu.EventElapsedTime(&ms, fault.before, fault.before_end));
#if CUDA_VERSION >= 12080
  if (cu.EventElapsedTimeV2 != nullptr) {
    lab.is("then.elapsed_v2", cu.EventElapsedTimeV2(&ms, fault.before, fault.before_end));
  }
#endif
  lab.is("then.record", cu.EventRecord(fault.before, fault.other));
  lab.is("then.wait", cu.StreamWaitEvent(fault.other, fault.before, 0));
  CUevent event = nullptr;
  lab.is("then.create", cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
  lab.is("then.query_null", cu.EventQuery(nullptr));
  lab.is("then.stream_query", cu.StreamQuery(fault.other));
  lab.is("then.stream_synchronize", cu.StreamSynchronize(fault.stream));
  lab.shows("then.capture_state", capture_state(lab, fault.other));
  CUcontext context = nullptr;
  unsigned long long id = 0;
  lab.is("then.stream_get_ctx", cu.StreamGetCtx(fault.other, &context));
  lab.is("then.stream_get_id", cu.StreamGetId(fault.other, &id));
  lab.is("then.begin_capture", cu.StreamBeginCapture(fault.other, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  lab.is("then.exchange_mode", cu.ThreadExchangeStreamCaptureMode(&mode));
  lab.is("then.ctx_get_current", cu.CtxGetCurrent(&context));
  lab.is("then.ctx_get_id", cu.CtxGetId(lab.home, &id));
  lab.is("then.ctx_push", cu.CtxPushCurrent(lab.home));
  lab.is("then.ctx_pop", cu.CtxPopCurrent(&context));
  CUdevice device = 0;
  lab.is("then.ctx_get_device", cu.CtxGetDevice(&device));
  lab.is("then.ctx_synchronize", cu.CtxSynchronize());
  void* memory = nullptr;
  lab.is("then.mem_host_alloc", cu.MemHostAlloc(&memory, 64, 0));
  int version = 0, count = 0;
  lab.is("then.driver_version", cu.DriverGetVersion(&version));
  lab.is("then.device_get_count", cu.DeviceGetCount(&count));
  lab.is("then.init", cu.Init(0));
  {
    const Current guard(lab, lab.second_context());
    lab.is("then.another_context.create", cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
    lab.is("then.another_context.ctx_synchronize", cu.CtxSynchronize());
  }
  {
    const Current guard(lab, nullptr);
    lab.is("then.no_context.create", cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
    lab.is("then.no_context.query", cu.EventQuery(fault.before));
  }
  lab.is("then.destroy", cu.EventDestroy(fault.before.release()));
  lab.is("then.destroy.after", cu.EventDestroy(fault.after.release()));
  lab.is("then.stream_destroy", cu.StreamDestroy(fault.other.release()));
  lab.is("then.primary_retain", cu.DevicePrimaryCtxRetain(&context, lab.device));
  lab.is("then.ctx_create", cu.CtxCreate(&context, 0, lab.device));
  lab.is("then.ctx_destroy", cu.CtxDestroy(lab.home));
  lab.is("then.after_ctx_destroy.query", cu.EventQuery(fault.before_end));
  lab.is("then.after_ctx_destroy.destroy", cu.EventDestroy(fault.before_end.release()));
  fault.stream.release();
}

void told_by_query(Lab& lab) {
  Fault fault(lab);
  const Api& cu = lab.cu;
  float ms = 0;
  std::this_thread::sleep_for(300ms); // the fault has happened, and no call has reported it
  lab.is("untold.query.completed_before", cu.EventQuery(fault.before));
  lab.is("untold.elapsed.completed_before", cu.EventElapsedTime(&ms, fault.before, fault.before_end));
  lab.is("query", eventually([&] { return cu.EventQuery(fault.after); }));
  everything_after(lab, fault);
}

void told_by_synchronize(Lab& lab) {
  Fault fault(lab);
  lab.is("synchronize", lab.cu.EventSynchronize(fault.after));
  lab.is("query", lab.cu.EventQuery(fault.after));
  fault.stream.release();
}

void told_by_stream(Lab& lab) {
  Fault fault(lab);
  lab.is("stream_synchronize", lab.cu.StreamSynchronize(fault.stream));
  lab.is("query.completed_before", lab.cu.EventQuery(fault.before));
  fault.stream.release();
}

// The version 2 call does not report the fault.
void told_by_elapsed(Lab& lab) {
  Fault fault(lab);
  float ms = 0;
  std::this_thread::sleep_for(300ms);
#if CUDA_VERSION >= 12080
  if (lab.cu.EventElapsedTimeV2 != nullptr) {
    lab.is("elapsed_v2", lab.cu.EventElapsedTimeV2(&ms, fault.before, fault.after));
  }
#endif
  lab.is("elapsed", lab.cu.EventElapsedTime(&ms, fault.before, fault.after));
  lab.is("query", eventually([&] { return lab.cu.EventQuery(fault.after); }));
  lab.is("elapsed.once_told", lab.cu.EventElapsedTime(&ms, fault.before, fault.after));
  fault.stream.release();
}

// Which capture states report the fault: of the legacy stream, and of streams without and with the fault.
void told_by_capture_state(Lab& lab) {
  Fault fault(lab);
  const auto state_in_time = [&](CUstream stream) {
    CUstreamCaptureStatus status{};
    for (int i = 0; i < 100 && lab.cu.StreamIsCapturing(stream, &status) == CUDA_SUCCESS; ++i)
      std::this_thread::sleep_for(10ms);
    return capture_state(lab, stream);
  };
  lab.shows("legacy", state_in_time(CU_STREAM_LEGACY));
  lab.shows("elsewhere", state_in_time(fault.other));
  lab.shows("stream", state_in_time(fault.stream));
  {
    const Current guard(lab, lab.second_context());
    lab.shows("legacy_of_another_context", state_in_time(CU_STREAM_LEGACY));
  }
  lab.is("query.completed_before", lab.cu.EventQuery(fault.before));
  fault.stream.release();
}

// Which of the calls that create and destroy report the fault first.
void told_by_create(Lab& lab) {
  Fault fault(lab);
  std::this_thread::sleep_for(300ms);
  CUevent event = nullptr;
  lab.is("create", lab.cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
  if (event != nullptr) lab.is("destroy", lab.cu.EventDestroy(event));
  lab.is("record_elsewhere", lab.cu.EventRecord(fault.before, fault.other));
  lab.is("query_elsewhere", eventually([&] { return lab.cu.EventQuery(fault.before); }));
  fault.stream.release();
}

// Which calls of graphs report a fault that the driver has reported before.
void graphs(Lab& lab) {
  const Api& cu = lab.cu;
  Event event(lab);
  CUgraph graph = nullptr, made = nullptr, clone = nullptr;
  CUgraphNode record = nullptr, wait = nullptr, node = nullptr;
  CUgraphExec exec = nullptr, second = nullptr;
  lab.must(cu.GraphCreate(&graph, 0), "cuGraphCreate");
  lab.must(cu.GraphAddEventRecordNode(&record, graph, nullptr, 0, event), "record node");
  lab.must(cu.GraphAddEventWaitNode(&wait, graph, nullptr, 0, event), "wait node");
  lab.must(cu.GraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate");
  Fault fault(lab);
  lab.is("stream_synchronize", cu.StreamSynchronize(fault.stream));
  lab.is("create", cu.GraphCreate(&made, 0));
  lab.is("add_empty", cu.GraphAddEmptyNode(&node, graph, nullptr, 0));
  lab.is("add_record", cu.GraphAddEventRecordNode(&node, graph, nullptr, 0, event));
  lab.is("add_wait", cu.GraphAddEventWaitNode(&node, graph, nullptr, 0, event));
  CUDA_HOST_NODE_PARAMS nothing{[](void*) {}, nullptr};
  lab.is("add_host", cu.GraphAddHostNode(&node, graph, nullptr, 0, &nothing));
  CUevent found = nullptr;
  lab.is("record_event", cu.GraphEventRecordNodeGetEvent(record, &found));
  lab.is("wait_event", cu.GraphEventWaitNodeGetEvent(wait, &found));
  lab.is("set_record", cu.GraphEventRecordNodeSetEvent(record, event));
  lab.is("set_wait", cu.GraphEventWaitNodeSetEvent(wait, event));
  lab.is("exec_set_record", cu.GraphExecEventRecordNodeSetEvent(exec, record, event));
  lab.is("exec_set_wait", cu.GraphExecEventWaitNodeSetEvent(exec, wait, event));
  std::size_t count = 0;
  lab.is("nodes", cu.GraphGetNodes(graph, nullptr, &count));
  lab.is("clone", cu.GraphClone(&clone, graph));
  lab.is("instantiate", cu.GraphInstantiateWithFlags(&second, graph, 0));
  CUgraphExecUpdateResultInfo info{};
  lab.is("exec_update", cu.GraphExecUpdate(exec, graph, &info));
  lab.is("graph_launch", cu.GraphLaunch(exec, fault.other));
  CUuserObject object = nullptr;
  lab.is("user_object_create", cu.UserObjectCreate(
                                   &object, &count, [](void*) {}, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  lab.is("retain_user_object", cu.GraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  lab.is("exec_destroy", cu.GraphExecDestroy(exec));
  lab.is("destroy", cu.GraphDestroy(graph));
  fault.stream.release();
}

} // namespace

std::vector<Scenario> fault_scenarios() {
  return {{"fault.told_by_query", told_by_query, Place::last},
          {"fault.told_by_synchronize", told_by_synchronize, Place::last},
          {"fault.told_by_stream", told_by_stream, Place::last},
          {"fault.told_by_capture_state", told_by_capture_state, Place::last},
          {"fault.told_by_elapsed", told_by_elapsed, Place::last},
          {"fault.told_by_create", told_by_create, Place::last},
          {"fault.graphs", graphs, Place::last}};
}

} // namespace transcript
