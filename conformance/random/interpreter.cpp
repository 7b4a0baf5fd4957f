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

/// Whether the object of an argument exists. The kind is the letter of the form.
bool Interpreter::exists(char kind, int slot) const {
  switch (kind) {
  case 'e':
    return slot == no_object || events_[slot];
  case 's':
    return slot < 0 || streams_[slot].handle != nullptr;
  case 'm':
    return slot == no_object || memory_[slot].address != 0;
  case 'p':
    return slot == no_object || pools_[slot] != nullptr;
  case 'l':
    return slot == no_object || libraries_[slot].handle != nullptr;
  case 'g':
    return slot == null_object || (slot >= 0 && graphs_[slot].handle != nullptr);
  case 'x':
    return slot == null_object || (slot >= 0 && execs_[slot].handle != nullptr);
  default:
    return true;
  }
}

/// Whether the objects exist that the call uses, which the form tells. The slot of a new object is another
/// matter, and so are the events of the other process.
bool Interpreter::exists(const Call& call) const {
  const std::string_view form = form_of(call.op);
  if (form.starts_with("partner: ")) return true;
  int argument = 0;
  for (std::size_t i = form.find('%'); i != form.npos; i = form.find('%', i + 1)) {
    if (form[i + 1] == 'f') continue;
    const int slot = call.arguments[argument++];
    const bool fills = i == 0 && form[3] == '=';
    if (!fills && !exists(form[i + 1], slot)) return false;
  }
  return true;
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
    // The wait for an interprocess event is one for all streams, and comes after the work of all of them. A
    // wait for an event of another context comes after nothing.
    const auto family = [](int of) { return of == green_context ? primary_context : of; };
    const Gates before = event->interprocess                                        ? held_.all(context)
                         : event->ever && family(event->context) == family(context) ? held_.whole(context)
                                                                                    : 0;
    held_.bar(context, held_.closed(event->behind) | before);
    if (before != 0) held_.submit_whole(context, held_.closed(event->behind) | before);
    return short_form(result);
  }
  }
#endif
}

} // namespace conformance
