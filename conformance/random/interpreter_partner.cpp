// SPDX-License-Identifier: MIT
// What only programs with imported events use: calls of the other process.
#include "interpreter.hpp"

#include "../transcript/ipc_handle.hpp"

namespace conformance {

/// The partner exports an event, and this process opens it.
std::string Interpreter::import_event(const Call& call) {
  const int slot = call.arguments[0];
  if (slot == no_object || events_[slot] || partner_events_[slot]) return not_made;
  const std::string number = std::to_string(slot);
  const std::string exported = partner_("export " + number + " " + std::to_string(call.flags));
  if (exported.empty()) throw transcript::LoadFailure("the other process could not export an event");
  CUevent handle = nullptr;
  const CUresult result = cu_.IpcOpenEventHandle(&handle, transcript::from_hex(exported));
  if (result != CUDA_SUCCESS) {
    partner_("destroy " + number);
    return short_form(result);
  }
  const auto event = std::make_shared<Event>();
  event->handle = handle;
  event->context = current(call);
  event->interprocess = true;
  events_[slot] = partner_events_[slot] = event;
  return short_form(result);
}

/// This process exports an event, and the partner opens it: the answers of both.
std::string Interpreter::export_event(const Call& call) {
  const int slot = call.arguments[0];
  const auto event = slot == no_object ? nullptr : events_[slot];
  if (slot != no_object && partner_events_[slot]) return not_made;
  // An export while another context is current crashes.
  if (event && current(call) != no_object && current(call) != event->context) return not_made;
  CUipcEventHandle handle{};
  const CUresult result = cu_.IpcGetEventHandle(&handle, event_handle(slot));
  if (result != CUDA_SUCCESS) return short_form(result);
  const std::string opened = partner_("open " + std::to_string(slot) + " " + transcript::to_hex(handle));
  if (opened == "0") partner_events_[slot] = event;
  return short_form(result) + opened;
}

std::string Interpreter::partner_call(const Call& call) {
  if (call.op == Op::importEvent) return import_event(call);
  if (call.op == Op::exportEvent) return export_event(call);
  const auto& [first, second, unused] = call.arguments;
  const bool begins_with_stream =
      call.op == Op::partnerWait || call.op == Op::partnerWaitValue || call.op == Op::partnerStreamQuery;
  const int stream = begins_with_stream ? first : second;
  const int slot = begins_with_stream ? second : first;
  Lane& lane = partner_lanes_[stream];
  const std::string place = std::to_string(stream);
  if (call.op == Op::partnerStreamQuery) return partner_("stream " + place);
  if (call.op == Op::partnerWaitValue) {
    std::string answer = partner_("hold " + place + " " + std::to_string(second));
    held_.submit(lane, held_.next(lane) | held_.closed(HeldWork::bit(second)));
    return answer;
  }
  if (slot == no_object || !partner_events_[slot]) return not_made;
  const auto event = partner_events_[slot];
  const std::string number = std::to_string(slot);
  switch (call.op) {
  case Op::partnerRecord: {
    std::string answer = partner_("record " + number + " " + place);
    const Gates behind = held_.next(lane) | event->behind;
    event->recorded(behind);
    held_.submit(lane, held_.closed(behind));
    return answer;
  }
  case Op::partnerWait: {
    std::string answer = partner_("wait " + number + " " + place);
    held_.submit(lane, held_.next(lane) | held_.closed(event->behind));
    return answer;
  }
  case Op::partnerQuery:
    return partner_("query " + number);
  case Op::partnerSynchronize:
    return held_.closed(event->behind) != 0 ? not_made : partner_("synchronize " + number);
  default:
    partner_events_[slot].reset();
    return partner_("destroy " + number);
  }
}

/// Whether the other process has work that should finish.
bool Interpreter::partner_pending() {
  bool pending = false;
  const auto asks = [&](const char* what, int number) {
    const bool busy = partner_(what + std::to_string(number)) == short_form(CUDA_ERROR_NOT_READY);
    pending = pending || busy;
    return busy;
  };
  for (int stream = 0; stream < partner_streams; ++stream) {
    Lane& lane = partner_lanes_[stream];
    if (lane.dirty && held_.unfinished(lane) == 0) lane.dirty = asks("stream ", stream);
  }
  for (int slot = 0; slot < event_slots; ++slot) {
    const auto& event = partner_events_[slot];
    if (event && event->dirty_there && held_.closed(event->behind) == 0)
      event->dirty_there = asks("query ", slot);
  }
  return pending;
}

} // namespace conformance
