// SPDX-License-Identifier: MIT
// StageTimer: stages, records and waits, in streams and in captures.
#include "timing/stage_timer.hpp"

namespace cuevent {

Status StageTimer::State::request(CUstream handle, Request what, StageId stage) {
  if (what != Request::close && !rings->log().knows(stage)) [[unlikely]]
    return {CUDA_ERROR_INVALID_VALUE, "StageTimer::open", Reason::no_such_stage};
  AddedStream added(*rings);
  std::uint32_t stream = 0;
  Status status = rings->find_or_add(handle, stream);
  if (status) status = change(stream, what, stage);
  if (status || status.result == CUDA_ERROR_NOT_READY) added.keep();
  return status;
}

Status StageTimer::State::change(std::uint32_t index, Request what, StageId stage) {
  TimedStream& stream = (*rings)[index];
  Capturing capture;
  Status status = capture_of(rings->context(), stream.known.handle, capture);
  if (status.result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) return status;
  if (capture.id != 0) return change_captured(index, capture, what, stage);

  const bool opens = what != Request::close;
  const bool closes = what != Request::open && !stream.open.empty();
  if (what == Request::close && !closes && status)
    return {CUDA_ERROR_ILLEGAL_STATE, "StageTimer::close", Reason::no_open_stage};
  const long long now = rings->clock().host_now();
  if (opens) stream.reserve_depth();
  if (opens && status) status = rings->poll_if_due(now);

  // From here on the stage that is closed is closed, whatever happens.
  bool ends_timed = false;
  StageId ended{};
  if (closes) {
    ends_timed = stream.open.back().timed;
    ended = stream.open.back().stage;
    ranges.end(stream.open.back().range);
    stream.open.pop_back();
    if (ends_timed) stream.ring.use_event_for_end();
  }
  bool timed = opens && status;
  if (timed) { // needs an event for the beginning, and one to keep for the end
    const Status room = rings->make_room(index, 2, 2);
    timed = static_cast<bool>(room);
    if (room.result != CUDA_ERROR_NOT_READY) status = room;
  }
  if (status && (timed || ends_timed))
    status = stream.recorder.record(stream.ring.at(stream.ring.next()).event);
  if (!status) {
    if (ends_timed) { // an untimed stage is counted already
      rings->push(index, {.closes = true, .opens = {}}, 0, Boundary::Recorded::no);
      rings->log().drop(ended);
    }
    if (opens) rings->log().drop(stage);
    return status;
  }
  if (timed || ends_timed)
    rings->push(index, {ends_timed, timed ? std::optional(stage) : std::nullopt}, now,
                Boundary::Recorded::by_call);
  if (!opens) return {};
  stream.open.push_back({stage, timed, ranges.begin(stage)});
  if (timed) {
    stream.ring.keep_event_for_end();
    return {};
  }
  rings->log().drop(stage);
  return {CUDA_ERROR_NOT_READY, "StageTimer::open"};
}

Status StageTimer::State::change_captured(std::uint32_t stream, Capturing capture, Request what,
                                          StageId stage) {
  CapturedStages* captured = captures.find(capture.id);
  const bool has_open = captured != nullptr && captured->has_open(stream);
  if (what == Request::close && !has_open)
    return {CUDA_ERROR_ILLEGAL_STATE, "StageTimer::close", Reason::no_open_stage};
  const Context& context = rings->context();
  if (captured == nullptr)
    if (const Status status = captures.begin(context.driver().table(), capture, captured); !status)
      return status;
  const Change change{.closes = what != Request::open && has_open,
                      .opens = what != Request::close ? std::optional(stage) : std::nullopt};
  return captured->change(stream, (*rings)[stream].recorder, context, capture.graph, change);
}

Status StageTimer::State::point_of(std::uint32_t stream, StreamPoint& point) {
  if (!rings->has(stream)) return {}; // no boundary is before the point
  point.stream = stream;
  Capturing capture;
  const Status status = capture_of(rings->context(), (*rings)[stream].known.handle, capture);
  // The driver will refuse the call.
  if (status.result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) return {};
  if (!status) return status;
  point.capture = capture.id;
  if (capture.id != 0) {
    CapturedStages* const captured = captures.find(capture.id);
    if (captured != nullptr) point.after = captured->on(point.stream).last;
  } else if (const Position next = (*rings)[point.stream].ring.next(); next != 0) {
    point.after = next - 1;
  }
  return {};
}

void StageTimer::State::note_record(EventRef event, StreamPoint at, RecordFlags flags) {
  // A wait in the same capture does not wait for an external record.
  if (at.capture != 0 && flags != RecordFlags::none) at = {};
  rings->trace().recorded(event.native_handle(), at);
}

void StageTimer::State::note_wait(EventRef event, StreamPoint before_wait, WaitFlags flags) {
  WaitTrace& trace = rings->trace();
  const std::optional<TracedWait> wait =
      trace.waited(event.native_handle(), before_wait, flags == WaitFlags::none);
  if (wait && wait->capture == 0) return trace.add_to_stream(*wait);
  // Null also if the graph is gone.
  CapturedStages* const captured = wait ? captures.find(wait->capture) : nullptr;
  if (captured == nullptr || !captured->on(wait->to_stream).waits.add(*wait)) trace.miss();
}

} // namespace cuevent
