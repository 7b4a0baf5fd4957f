// SPDX-License-Identifier: MIT
#include "interpreter.hpp"

namespace conformance {

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
    event->recorded(behind);
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
    return short_form(
        cu_.EventElapsedTime(place(call, milliseconds), event_handle(slot), event_handle(other)));
  }
  }
}

} // namespace conformance
