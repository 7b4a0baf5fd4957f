// SPDX-License-Identifier: MIT
#include "interpreter.hpp"

#include "watchdog.hpp"

#include <algorithm>

namespace conformance {
namespace {

constexpr std::size_t word_count = 256;

void must(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    throw transcript::LoadFailure(std::string(what) + ": CUresult " +
                                  std::to_string(static_cast<int>(result)));
}

} // namespace

Interpreter::Interpreter(const Api& api, std::string library, Watchdog& watchdog)
    : cu_(api), library_(std::move(library)), watchdog_(watchdog) {
  CUdevice device = 0;
  void* memory = nullptr;
  must(cu_.Init(0), "cuInit");
  must(cu_.DeviceGet(&device, 0), "cuDeviceGet");
  must(cu_.DevicePrimaryCtxRetain(&contexts_[0], device), "cuDevicePrimaryCtxRetain");
  must(cu_.CtxCreate(&contexts_[1], 0, device), "cuCtxCreate");
  must(cu_.MemHostAlloc(&memory, word_count * sizeof(unsigned),
                        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
       "cuMemHostAlloc");
  must(cu_.CtxSetCurrent(nullptr), "cuCtxSetCurrent");
  words_ = static_cast<unsigned*>(memory);
  watchdog_.guard(words_, gate_slots);
}

/// Creates what only some programs need.
void Interpreter::prepare(const Program& program) {
  const auto any = [&program](auto condition) {
    return std::any_of(program.begin(), program.end(), condition);
  };
  if (any([](const Call& call) { return call.thread == 2; })) prepare_wide_programs();
  if (any([](const Call& call) {
        return call.op == Op::ctxSetCurrent && call.arguments[0] >= far_primary_context;
      }))
    prepare_two_devices();
  if (any([](const Call& call) { return call.op >= Op::memAllocAsync; })) prepare_broad_programs();
  if (!partner_ &&
      any([](const Call& call) { return call.op >= Op::importEvent && call.op <= Op::partnerStreamQuery; }))
    partner_ = start_partner(cu_, library_);
  if (partner_) partner_("begin");
}

void Interpreter::run(const Program& program, const std::function<void(const std::string&)>& sink) {
  prepare(program);
  std::fill(words_, words_ + word_count, 0u);
  held_.reset();
  unwritten_.clear();
  timeouts_ = 0;
  std::fill(current_, current_ + thread_slots, no_object);
  for (int context = 0; context < context_slots; ++context) {
    legacy_[context] = {.context = context, .legacy = true};
    for (auto& lanes : per_thread_)
      lanes[context] = {.context = context, .blocking = true};
  }
  for (Lane& lane : partner_lanes_)
    lane = {.context = partner_context};
  for (const Call& call : program) {
    std::string text = not_made;
    actors_.act(call.thread, [&] {
      if (!exists(call)) return;
      watchdog_.call_begins();
      text = answer(call);
      if (watchdog_.call_ends()) {
        text += after_opening;
        held_.open_all();
        if (partner_) partner_("gates");
      }
      settle(call.thread);
    });
    if (call.op == Op::open || text.back() == after_opening) settle_all_threads();
    sink(text);
  }
  clean_up();
}

/// Whether the objects exist that the call uses. The slot of a new object is another matter.
bool Interpreter::exists(const Call& call) const {
  if (call.op >= Op::memAllocAsync) return uses_what_exists(call);
  const auto& [a, b, c] = call.arguments;
  const auto event = [this](int slot) { return slot == no_object || events_[slot]; };
  const auto stream = [this](int slot) { return slot < 0 || streams_[slot].handle != nullptr; };
  const auto graph = [this](int slot) {
    return slot == null_object || (slot >= 0 && graphs_[slot].handle != nullptr);
  };
  const auto exec = [this](int slot) {
    return slot == null_object || (slot >= 0 && execs_[slot].handle != nullptr);
  };
  const auto memory = [this](int slot) { return slot == no_object || memory_[slot].address != 0; };
  switch (call.op) {
  case Op::eventDestroy:
  case Op::eventQuery:
  case Op::eventSynchronize:
  case Op::exportEvent:
    return event(a);
  case Op::eventRecord:
  case Op::eventRecordWithFlags:
    return event(a) && stream(b);
  case Op::eventElapsedTime:
    return event(a) && event(b);
  case Op::streamWaitEvent:
    return stream(a) && event(b);
  case Op::streamDestroy:
  case Op::streamQuery:
  case Op::streamSynchronize:
  case Op::streamGetFlags:
  case Op::streamGetPriority:
  case Op::streamGetCtx:
  case Op::streamGetId:
  case Op::streamWriteValue:
  case Op::streamWaitValue:
  case Op::streamBeginCapture:
  case Op::streamIsCapturing:
  case Op::streamGetCaptureInfo:
    return stream(a);
  case Op::streamEndCapture:
    return stream(b);
  case Op::ctxRecordEvent:
  case Op::ctxWaitEvent:
    return event(b);
  case Op::graphDestroy:
  case Op::graphAddEmptyNode:
    return graph(a);
  case Op::graphAddEventRecordNode:
  case Op::graphAddEventWaitNode:
  case Op::graphEventRecordNodeSetEvent:
  case Op::graphEventWaitNodeSetEvent:
    return graph(a) && event(c);
  case Op::graphInstantiate:
    return graph(b);
  case Op::graphLaunch:
    return exec(a) && stream(b);
  case Op::graphExecUpdate:
    return exec(a) && graph(b);
  case Op::kernelLaunch:
  case Op::nullKernelLaunch:
    return stream(a);
  case Op::kernelLaunchWithEvent:
    return stream(a) && event(b);
  case Op::graphExecDestroy:
    return exec(a);
  case Op::graphExecEventRecordNodeSetEvent:
  case Op::graphExecEventWaitNodeSetEvent:
    return exec(a) && event(c);
  case Op::memFree:
  case Op::memFreeHost:
  case Op::memset:
    return memory(a);
  case Op::memcpy:
    return memory(a) && memory(b);
  case Op::memcpyAsync:
    return memory(a) && memory(b) && stream(c);
  case Op::memcpyPageable:
  case Op::memsetAsync:
    return memory(a) && stream(b);
  case Op::launchHostFunc:
    return stream(a);
  case Op::memAlloc:
  case Op::memHostAlloc:
  case Op::eventCreate:
  case Op::streamCreate:
  case Op::streamCreateWithPriority:
  case Op::exchangeMode:
  case Op::ctxSetCurrent:
  case Op::ctxSynchronize:
  case Op::graphCreate:
  case Op::open:
  case Op::read:
  case Op::ctxEnablePeerAccess:
  case Op::importEvent:
  case Op::partnerRecord:
  case Op::partnerWait:
  case Op::partnerQuery:
  case Op::partnerSynchronize:
  case Op::partnerDestroy:
  case Op::partnerWaitValue:
  case Op::partnerStreamQuery:
    return true;
  default:
    return false;
  }
}

std::string Interpreter::answer(const Call& call) {
  if (call.op <= Op::eventElapsedTime) return event_call(call);
  if (call.op <= Op::streamGetCtx) return stream_call(call);
  if (call.op <= Op::streamWaitValue || call.op == Op::open || call.op == Op::read) return memory_call(call);
  if (call.op <= Op::exchangeMode) return capture_call(call);
  if (call.op <= Op::ctxWaitEvent) return context_call(call);
  if (call.op <= Op::graphEventWaitNodeSetEvent) return graph_call(call);
  if (call.op >= Op::memAllocAsync) return broad_call(call);
  if (call.op >= Op::memAlloc) return transfer_call(call);
  if (call.op == Op::streamGetId) return stream_call(call);
  if (call.op == Op::nullKernelLaunch) return launch_kernel(call);
  if (call.op >= Op::importEvent) return partner_call(call);
  if (call.op == Op::ctxEnablePeerAccess) return enable_peer_access(call);
  if (call.op == Op::kernelLaunch || call.op == Op::kernelLaunchWithEvent) return launch_kernel(call);
  return exec_call(call);
}

CUstream Interpreter::stream_handle(int stream) const {
  switch (stream) {
  case null_stream:
    return nullptr;
  case legacy_stream:
    return CU_STREAM_LEGACY;
  case per_thread_stream:
    return CU_STREAM_PER_THREAD;
  default:
    return streams_[stream].handle;
  }
}

Lane* Interpreter::lane_of(const Call& call, int stream) {
  if (stream >= 0) return &streams_[stream].lane;
  const int context = current(call);
  if (context == no_object) return nullptr;
  return stream == per_thread_stream ? &per_thread_[call.thread][context] : &legacy_[context];
}

bool Interpreter::capturing(int stream) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return cu_.StreamIsCapturing(stream_handle(stream), &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/// Called after a call has succeeded that put work on the stream, or into its capture.
void Interpreter::submit(const Call& call, int stream, Gates also) {
  Lane* const lane = lane_of(call, stream);
  if (lane != nullptr) held_.submit(*lane, held_.next(*lane) | held_.closed(also));
}

std::string Interpreter::context_call(const Call& call) {
  const auto& [context, slot, unused] = call.arguments;
  switch (call.op) {
  case Op::ctxSetCurrent: {
    const CUresult result = cu_.CtxSetCurrent(context_handle(context));
    if (result == CUDA_SUCCESS) current_[call.thread] = context;
    return short_form(result);
  }
  case Op::ctxSynchronize:
    if (current(call) != no_object && held_.all(current(call)) != 0) return not_made;
    return short_form(cu_.CtxSynchronize());
#if CUDA_VERSION < 12050 // the headers lack these functions
  default:
    return not_made;
  }
#else
  case Op::ctxRecordEvent: {
    const CUresult result = cu_.CtxRecordEvent(context_handle(context), event_handle(slot));
    if (context == no_object || result != CUDA_SUCCESS) return short_form(result);
    const auto& event = events_[slot]; // its earlier record counts too, in two cases
    event->recorded(held_.all(context) | (event->interprocess || event->by_launch ? event->behind : 0));
    held_.submit_whole(context, event->behind);
    return short_form(result);
  }
  default: {
    const auto event = slot == no_object ? nullptr : events_[slot];
    if (event && event->interprocess && event->context != context) return not_made;
    const CUresult result = cu_.CtxWaitEvent(context_handle(context), event_handle(slot));
    if (context == no_object || result != CUDA_SUCCESS || event->captured) return short_form(result);
    // The wait for an interprocess event is one for all streams, and comes after the work of all of them.
    const Gates before = event->interprocess ? held_.all(context) : event->ever ? held_.whole(context) : 0;
    held_.bar(context, held_.closed(event->behind) | before);
    if (before != 0) held_.submit_whole(context, held_.closed(event->behind) | before);
    return short_form(result);
  }
  }
#endif
}

} // namespace conformance
