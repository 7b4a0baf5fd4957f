// SPDX-License-Identifier: MIT
#include "interpreter.hpp"

#include <algorithm>
#include <atomic>

namespace conformance {
namespace {

CUdeviceptr address(const unsigned* word) { return reinterpret_cast<CUdeviceptr>(word); }

} // namespace

std::string Interpreter::create_stream(const Call& call) {
  const auto& [slot, priority, unused] = call.arguments;
  if (slot != no_object && streams_[slot].handle != nullptr) return not_made;
  CUstream handle = nullptr;
  CUstream* const made = slot == no_object ? nullptr : &handle;
  const CUresult result = call.op == Op::streamCreate
                              ? cu_.StreamCreate(made, call.flags)
                              : cu_.StreamCreateWithPriority(made, call.flags, -priority);
  if (result == CUDA_SUCCESS && slot != no_object)
    streams_[slot] = {
        handle, {.context = current(call), .blocking = call.flags == 0 && current(call) != green_context}};
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
    const CUresult result = cu_.StreamGetFlags(handle, place(call, flags));
    return short_form(result, flags);
  }
  case Op::streamGetPriority: {
    int priority = 0;
    const CUresult result = cu_.StreamGetPriority(handle, place(call, priority));
    return short_form(result, static_cast<unsigned>(-priority));
  }
  case Op::streamGetId: {
    unsigned long long id = 0;
    return short_form(cu_.StreamGetId(handle, place(call, id)));
  }
  default: {
    CUcontext context = nullptr;
    const CUresult result = cu_.StreamGetCtx(handle, place(call, context));
    return short_form(
        result, static_cast<unsigned>(std::find(contexts_, contexts_ + context_slots, context) - contexts_));
  }
  }
}

std::string Interpreter::memory_call(const Call& call) {
  const auto& [first, second, unused] = call.arguments;
  switch (call.op) {
  case Op::streamWriteValue: {
    const CUdeviceptr word = second == no_object ? 0 : address(words_ + gate_slots + second);
    const CUresult result = cu_.StreamWriteValue32(stream_handle(first), word, 1, call.flags);
    if (result != CUDA_SUCCESS) return short_form(result);
    if (capturing(first)) {
      note_captured_node(first, {.writes = second, .at_null = second == no_object});
    } else {
      submit(call, first, 0);
      if (const Lane* const lane = lane_of(call, first); lane != nullptr) note_write(second, lane->behind);
    }
    return short_form(result);
  }
  case Op::streamWaitValue: {
    const CUdeviceptr word = second == no_object ? 0 : address(words_ + second);
    const CUresult result = cu_.StreamWaitValue32(stream_handle(first), word, 1, call.flags);
    const Gates gate = second == no_object ? 0 : HeldWork::bit(second);
    if (result == CUDA_SUCCESS)
      capturing(first) ? note_captured_node(first, {.at_null = second == no_object, .gates = gate})
                       : submit(call, first, gate);
    return short_form(result);
  }
  case Op::open:
    std::atomic_ref<unsigned>(words_[first]).store(1);
    held_.open(first);
    if (partner_) partner_("gate " + std::to_string(first));
    return short_form(CUDA_SUCCESS);
  default:
    return short_form(CUDA_SUCCESS, std::atomic_ref<unsigned>(words_[gate_slots + first]).load());
  }
}

} // namespace conformance
