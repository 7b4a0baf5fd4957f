// SPDX-License-Identifier: MIT
#include "interpreter.hpp"

#include "watchdog.hpp"

#include <algorithm>

namespace conformance {
namespace {

constexpr std::size_t word_count = 256;

CUdeviceptr address(const unsigned* word) { return reinterpret_cast<CUdeviceptr>(word); }

void must(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    throw transcript::LoadFailure(std::string(what) + ": CUresult " +
                                  std::to_string(static_cast<int>(result)));
}

std::string with(CUresult result, unsigned long long value) {
  return short_form(result) + (result == CUDA_SUCCESS ? std::to_string(value) : "");
}

const std::string not_made(1, left_out);

} // namespace

Interpreter::Interpreter(const Api& api, Watchdog& watchdog) : cu_(api), watchdog_(watchdog) {
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

void Interpreter::run(const Program& program, const std::function<void(const std::string&)>& sink) {
  if (std::any_of(program.begin(), program.end(), [](const Call& call) { return call.thread == 2; }))
    prepare_wide_programs();
  std::fill(words_, words_ + word_count, 0u);
  held_.reset();
  timeouts_ = 0;
  std::fill(current_, current_ + thread_slots, no_object);
  for (int context = 0; context < context_slots; ++context) {
    legacy_[context] = {.context = context, .legacy = true};
    for (auto& lanes : per_thread_)
      lanes[context] = {.context = context, .blocking = true};
  }
  for (const Call& call : program) {
    std::string text = not_made;
    actors_.act(call.thread, [&] {
      if (!exists(call)) return;
      watchdog_.call_begins();
      text = answer(call);
      if (watchdog_.call_ends()) {
        text += after_opening;
        held_.open_all();
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
  const auto& [a, b, c] = call.arguments;
  const auto event = [this](int slot) { return slot == no_object || events_[slot]; };
  const auto stream = [this](int slot) { return slot < 0 || streams_[slot].handle != nullptr; };
  const auto graph = [this](int slot) { return slot != no_object && graphs_[slot].handle != nullptr; };
  const auto exec = [this](int slot) { return slot != no_object && execs_[slot].handle != nullptr; };
  switch (call.op) {
  case Op::eventDestroy:
  case Op::eventQuery:
  case Op::eventSynchronize:
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
    return stream(a);
  case Op::kernelLaunchWithEvent:
    return stream(a) && event(b);
  case Op::graphExecDestroy:
    return exec(a);
  case Op::graphExecEventRecordNodeSetEvent:
  case Op::graphExecEventWaitNodeSetEvent:
    return exec(a) && event(c);
  case Op::eventCreate:
  case Op::streamCreate:
  case Op::streamCreateWithPriority:
  case Op::exchangeMode:
  case Op::ctxSetCurrent:
  case Op::ctxSynchronize:
  case Op::graphCreate:
  case Op::open:
  case Op::read:
    return true;
  }
  return false;
}

std::string Interpreter::answer(const Call& call) {
  if (call.op <= Op::eventElapsedTime) return event_call(call);
  if (call.op <= Op::streamGetCtx) return stream_call(call);
  if (call.op <= Op::streamWaitValue || call.op == Op::open || call.op == Op::read) return memory_call(call);
  if (call.op <= Op::exchangeMode) return capture_call(call);
  if (call.op <= Op::ctxWaitEvent) return context_call(call);
  if (call.op <= Op::graphEventWaitNodeSetEvent) return graph_call(call);
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

std::string Interpreter::create_event(const Call& call) {
  const int slot = call.arguments[0];
  if (slot != no_object && events_[slot]) return not_made;
  CUevent handle = nullptr;
  const CUresult result = cu_.EventCreate(slot == no_object ? nullptr : &handle, call.flags);
  if (result == CUDA_SUCCESS) {
    events_[slot] = std::make_shared<Event>();
    events_[slot]->handle = handle;
    events_[slot]->context = current(call);
    events_[slot]->interprocess = (call.flags & CU_EVENT_INTERPROCESS) != 0;
  }
  return short_form(result);
}

std::string Interpreter::record(const Call& call) {
  const auto& [slot, stream, unused] = call.arguments;
  const CUstream where = stream_handle(stream);
  const CUresult result = call.op == Op::eventRecord
                              ? cu_.EventRecord(event_handle(slot), where)
                              : cu_.EventRecordWithFlags(event_handle(slot), where, call.flags);
  if (result != CUDA_SUCCESS) return short_form(result);
  const auto& event = events_[slot];
  if (!capturing(stream)) {
    const Lane* const lane = lane_of(call, stream);
    Gates behind = lane != nullptr ? held_.next(*lane) : 0;
    if (event->interprocess) behind |= event->behind; // records of one such event happen one after another
    event->behind = behind;
    event->captured = false;
    event->dirty = true;
    submit(call, stream, behind);
  } else if (call.op == Op::eventRecordWithFlags && call.flags == CU_EVENT_RECORD_EXTERNAL) {
    event->in_a_graph = true;
    note_captured_node(stream, {.records = event});
  } else {
    event->captured = true;
  }
  return short_form(result);
}

std::string Interpreter::event_call(const Call& call) {
  const auto& [slot, other, unused] = call.arguments;
  switch (call.op) {
  case Op::eventCreate:
    return create_event(call);
  case Op::eventDestroy: {
    if (slot != no_object && events_[slot]->in_a_graph) return not_made;
    const CUresult result = cu_.EventDestroy(event_handle(slot));
    if (result == CUDA_SUCCESS) events_[slot].reset();
    return short_form(result);
  }
  case Op::eventRecord:
  case Op::eventRecordWithFlags:
    return record(call);
  case Op::eventQuery:
    return short_form(cu_.EventQuery(event_handle(slot)));
  case Op::eventSynchronize:
    if (slot != no_object && held_.closed(events_[slot]->behind) != 0) return not_made;
    return short_form(cu_.EventSynchronize(event_handle(slot)));
  default: {
    float milliseconds = 0;
    return short_form(cu_.EventElapsedTime(&milliseconds, event_handle(slot), event_handle(other)));
  }
  }
}

std::string Interpreter::create_stream(const Call& call) {
  const auto& [slot, priority, unused] = call.arguments;
  if (streams_[slot].handle != nullptr) return not_made;
  CUstream handle = nullptr;
  const CUresult result = call.op == Op::streamCreate
                              ? cu_.StreamCreate(&handle, call.flags)
                              : cu_.StreamCreateWithPriority(&handle, call.flags, -priority);
  if (result == CUDA_SUCCESS)
    streams_[slot] = {handle, {.context = current(call), .blocking = call.flags == 0}};
  return short_form(result);
}

std::string Interpreter::wait(const Call& call) {
  const auto& [stream, slot, unused] = call.arguments;
  const Lane* const lane = lane_of(call, stream);
  const auto event = slot == no_object ? nullptr : events_[slot];
  const bool external = call.flags == CU_EVENT_WAIT_EXTERNAL;
  if (event && event->interprocess && !external && lane != nullptr && lane->context != event->context)
    return not_made;
  const CUresult result = cu_.StreamWaitEvent(stream_handle(stream), event_handle(slot), call.flags);
  if (result != CUDA_SUCCESS) return short_form(result);
  if (!capturing(stream)) {
    // To wait for what is complete may put nothing on the stream.
    const Gates behind = event->captured ? 0 : held_.closed(event->behind);
    if (behind != 0)
      submit(call, stream, behind);
    else if (Lane* const where = lane_of(call, stream); where != nullptr)
      where->dirty = true;
  } else if (external) {
    event->in_a_graph = true;
    note_captured_node(stream, {.waits = event});
  }
  return short_form(result);
}

std::string Interpreter::stream_call(const Call& call) {
  const int stream = call.arguments[0];
  const CUstream handle = stream_handle(stream);
  switch (call.op) {
  case Op::streamCreate:
  case Op::streamCreateWithPriority:
    return create_stream(call);
  case Op::streamDestroy: {
    const CUresult result = cu_.StreamDestroy(handle);
    if (result == CUDA_SUCCESS && stream >= 0) streams_[stream] = {};
    return short_form(result);
  }
  case Op::streamWaitEvent:
    return wait(call);
  case Op::streamQuery:
    return short_form(cu_.StreamQuery(handle));
  case Op::streamSynchronize: {
    const Lane* const lane = lane_of(call, stream);
    if (lane != nullptr && held_.unfinished(*lane) != 0) return not_made;
    return short_form(cu_.StreamSynchronize(handle));
  }
  case Op::streamGetFlags: {
    unsigned flags = 0;
    const CUresult result = cu_.StreamGetFlags(handle, &flags);
    return with(result, flags);
  }
  case Op::streamGetPriority: {
    int priority = 0;
    const CUresult result = cu_.StreamGetPriority(handle, &priority);
    return with(result, static_cast<unsigned>(-priority));
  }
  default: {
    CUcontext context = nullptr;
    const CUresult result = cu_.StreamGetCtx(handle, &context);
    return with(result,
                static_cast<unsigned>(std::find(contexts_, contexts_ + context_slots, context) - contexts_));
  }
  }
}

std::string Interpreter::memory_call(const Call& call) {
  const auto& [first, second, unused] = call.arguments;
  switch (call.op) {
  case Op::streamWriteValue: {
    const CUresult result =
        cu_.StreamWriteValue32(stream_handle(first), address(words_ + gate_slots + second), 1, call.flags);
    if (result == CUDA_SUCCESS) capturing(first) ? note_captured_node(first, {}) : submit(call, first, 0);
    return short_form(result);
  }
  case Op::streamWaitValue: {
    const CUresult result =
        cu_.StreamWaitValue32(stream_handle(first), address(words_ + second), 1, call.flags);
    const Gates gate = HeldWork::bit(second);
    if (result == CUDA_SUCCESS)
      capturing(first) ? note_captured_node(first, {.gates = gate}) : submit(call, first, gate);
    return short_form(result);
  }
  case Op::open:
    std::atomic_ref<unsigned>(words_[first]).store(1);
    held_.open(first);
    return short_form(CUDA_SUCCESS);
  default:
    return with(CUDA_SUCCESS, std::atomic_ref<unsigned>(words_[gate_slots + first]).load());
  }
}

std::string Interpreter::context_call(const Call& call) {
  const auto& [context, slot, unused] = call.arguments;
  switch (call.op) {
  case Op::ctxSetCurrent: {
    const CUresult result = cu_.CtxSetCurrent(context == no_object ? nullptr : contexts_[context]);
    if (result == CUDA_SUCCESS) current_[call.thread] = context;
    return short_form(result);
  }
  case Op::ctxSynchronize:
    if (current(call) != no_object && held_.all(current(call)) != 0) return not_made;
    return short_form(cu_.CtxSynchronize());
  case Op::ctxRecordEvent: {
    const CUresult result = cu_.CtxRecordEvent(contexts_[context], event_handle(slot));
    if (result == CUDA_SUCCESS) {
      events_[slot]->behind = held_.all(context);
      events_[slot]->captured = false;
      events_[slot]->dirty = true;
    }
    return short_form(result);
  }
  default: {
    const auto event = slot == no_object ? nullptr : events_[slot];
    if (event && event->interprocess && event->context != context) return not_made;
    const CUresult result = cu_.CtxWaitEvent(contexts_[context], event_handle(slot));
    if (result == CUDA_SUCCESS && !event->captured) held_.bar(context, held_.closed(event->behind));
    return short_form(result);
  }
  }
}

} // namespace conformance
