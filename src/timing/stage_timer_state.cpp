// SPDX-License-Identifier: MIT
#include "timing/stage_timer_state.hpp"
#include "core/failure.hpp"

#include "core/require_context.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

CUstream own_stream(const Context& own, StreamRef stream, const char* function) {
  if (const Context* const given = stream.context()) {
    require_context(*given, function);
    if (*given != own)
      throw_error(ErrorCause::context_mismatch, function,
                  "the context is not the timer's: make one timer per context");
  }
  return stream.native_handle();
}

void fail(const Context& own, Status status) {
  if (status.reason == Reason::no_open_stage)
    throw_error(CUDA_ERROR_ILLEGAL_STATE, status.call,
                "no stage is open on the stream, or in its capture: call open() first");
  if (status.reason == Reason::no_such_stage)
    throw_error(CUDA_ERROR_INVALID_VALUE, status.call,
                "the timer has no such stage: use a StageId from stage()");
  if (status.reason == Reason::no_captured_stage)
    throw_error(
        CUDA_ERROR_NOT_FOUND, status.call,
        "the graph has no captured stage of this timer, or was instantiated before: open and close stages "
        "in the capture, and instantiate the graph once");
  if (status.reason == Reason::no_node)
    throw_error(CUDA_ERROR_NOT_FOUND, status.call,
                "nodes of a captured stage are missing from the graph: do not remove event nodes");
  if (status.reason == Reason::not_closed)
    throw_error(CUDA_ERROR_ILLEGAL_STATE, status.call,
                "a stage was opened but not closed in the capture: close it before the capture ends");
  if (status.reason == Reason::other_context)
    throw_error(ErrorCause::context_mismatch, status.call,
                "the stream belongs to another context than the timer: make one timer per context");
  own.driver().fail(status.result, status.call);
}

StageTimer::State::~State() {
  for (std::uint32_t stream = 0; rings->has(stream); ++stream)
    for (const TimedStream::Open& open : (*rings)[stream].open)
      ranges.end(open.range);
  rings->give_back_side_streams();
}

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

Status StageTimer::State::change(std::uint32_t stream, Request what, StageId stage) {
  Capturing capture;
  const Status status = capture_of(rings->context(), (*rings)[stream].known.handle, capture);
  if (status.result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) return status;
  return capture.id != 0 ? change_captured(stream, capture, what, stage)
                         : change_submitted(stream, status, what, stage);
}

namespace {

/// Ends the innermost open stage, if there is one. Returns it if it is timed.
std::optional<StageId> end_innermost(TimedStream& stream, const NvtxRanges& ranges) noexcept {
  if (stream.open.empty()) return std::nullopt;
  const TimedStream::Open ended = stream.open.back();
  ranges.end(ended.range);
  stream.open.pop_back();
  if (!ended.timed) return std::nullopt;
  stream.ring.use_event_for_end();
  return ended.stage;
}

} // namespace

Status StageTimer::State::change_submitted(std::uint32_t index, Status status, Request what, StageId stage) {
  TimedStream& stream = (*rings)[index];
  if (what == Request::close && stream.open.empty() && status)
    return {CUDA_ERROR_ILLEGAL_STATE, "StageTimer::close", Reason::no_open_stage};
  const long long now = rings->clock().host_now();
  if (what != Request::close) {
    stream.reserve_depth();
    if (status) status = rings->poll_if_due(now);
  }

  // From here on the stage that is closed is closed, whatever happens.
  const std::optional<StageId> ended = what != Request::open ? end_innermost(stream, ranges) : std::nullopt;
  std::optional<StageId> begun;
  if (what != Request::close && status) {
    const Status room = rings->make_room(index, 2, 2); // an event for the beginning, one to keep for the end
    if (room)
      begun = stage;
    else if (room.result != CUDA_ERROR_NOT_READY)
      status = room;
  }
  const bool is_timed = ended || begun;
  if (status && is_timed) status = stream.recorder.record(stream.ring.at(stream.ring.next()).event);
  if (status && is_timed)
    rings->push(index, {.closes = ended.has_value(), .opens = begun}, now, Boundary::Recorded::by_call, {},
                rings->record_context(index));
  if (!status && ended) { // an untimed stage is counted already
    rings->push(index, {.closes = true, .opens = {}}, 0, Boundary::Recorded::no);
    rings->log().drop(*ended);
  }
  if (what == Request::close) return status;

  if (status) stream.open.push_back({stage, begun.has_value(), ranges.begin(stage)});
  if (status && begun) {
    stream.ring.keep_event_for_end();
    return {};
  }
  rings->log().drop(stage);
  return status ? Status{CUDA_ERROR_NOT_READY, "StageTimer::open"} : status;
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

}} // namespace cuevent::CUEVENT_ABI
