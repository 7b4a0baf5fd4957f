// SPDX-License-Identifier: MIT
// Records, waits, queries and times of events.
#include "rules/rules.hpp"

namespace watch {

namespace {

constexpr unsigned disable_timing = 2, interprocess = 4; // CUevent_flags
constexpr unsigned external = 1;                         // CU_EVENT_RECORD_EXTERNAL, CU_EVENT_WAIT_EXTERNAL

} // namespace

void Rules::create_event(const Call& call) {
  if (!call.succeeded()) return;
  if (const auto old = events_.find(call.words[0]); old != events_.end() && old->second.put_in_graph)
    forget_in_graphs(call.words[0]);
  EventState& made = events_[call.words[0]] = {};
  made.created = call;
  made.context = call.context;
  made.flags = call.verb() == Verb::event_create ? static_cast<unsigned>(call.words[1]) : disable_timing;
  made.shared = call.verb() == Verb::event_open || (made.flags & interprocess) != 0;
}

void Rules::destroy_event(const Call& call) {
  if (call.result != CUDA_SUCCESS) return;
  check_graphs_with(call, call.words[0]);
  events_[call.words[0]].destroyed = call;
}

void Rules::record_event(const Call& call, Handle handle, const StreamKey& stream, unsigned flags) {
  EventState& event = events_[handle];
  StreamState& on = streams_[stream];
  if (!call.succeeded()) {
    if (call.result == CUDA_ERROR_ILLEGAL_STATE && (flags & external) != 0 && !on.is_capturing()) {
      report(Rule::external_outside_capture, call,
             event_text(handle) + " is recorded with CU_EVENT_RECORD_EXTERNAL on " + stream_text(stream) +
                 ", which is not capturing",
             {});
      return; // the program has asked for nothing that a later call could rely on
    }
    event.failed_record = call;
    const Handle theirs = context_of(stream);
    if (call.result != CUDA_ERROR_INVALID_HANDLE || !event.created || theirs == 0 || theirs == event.context)
      return;
    const auto device = device_of_context_.find(event.context), other = device_of_context_.find(theirs);
    std::string where = "context " + hexadecimal(theirs);
    if (device != device_of_context_.end() && other != device_of_context_.end() &&
        device->second != other->second)
      where = "device " + std::to_string(other->second) + ", but belongs to device " +
              std::to_string(device->second);
    else
      where += ", but belongs to context " + hexadecimal(event.context);
    std::vector<Earlier> earlier;
    add(earlier, "the event was created here", event.created);
    if (const auto found = streams_.find(stream); found != streams_.end())
      add(earlier, "the stream was created here", found->second.created);
    report(Rule::record_in_other_context, call, event_text(handle) + " is recorded on a stream of " + where,
           std::move(earlier));
    return;
  }
  event.failed_record.reset();
  if ((flags & external) != 0 && on.is_capturing()) {
    event.put_in_graph = call;
    event.recorded_by_graph = true;
    add_work(call, stream);
    return;
  }
  event.record = call;
  event.stream = stream;
  event.work_before = on.work;
  event.marks_work = on.work > on.marked_work;
  on.marked_work = on.work;
  event.capture = on.is_capturing() ? on.capture : nullptr;
  event.clock = event.capture ? event.capture->clocks[stream] : Clock();
}

/// The record that a wait needed comes only after it: of this event, on the stream with the work. In between,
/// neither that stream nor the waiting one got work. Whatever else happened does not matter.
void Rules::notice_late_record(const Call& call) {
  const auto found = late_waits_.find(call.words[0]);
  if (found == late_waits_.end() || !call.succeeded()) return;
  const LateWait late = found->second;
  late_waits_.erase(found);
  const StreamKey waiting = key(late.call, late.call.words[0]);
  EventState& event = events_[call.words[0]];
  if (event.stream != key(call, call.words[1]) || streams_[event.stream].is_capturing() ||
      streams_[event.stream].work != late.work_before || streams_[waiting].work != late.work_of_waiting)
    return;
  // A pipeline may wait for the work before the last on purpose, and then mark the last. Its first such wait
  // is for a record that marks work. A program that forgot the order waits for a record that marks none.
  if (event.late_records == 0 && event.marks_work) return;
  if (++event.late_records < 2) return; // once may be chance
  std::vector<Earlier> earlier;
  add(earlier, "the wait refers to this record, which is older than the work", event.record);
  earlier.push_back({"the event is recorded for that work only here, after the wait", call});
  report(Rule::wait_before_record, late.call,
         stream_text(waiting) + " waits for " + event_text(call.words[0]) +
             ", which is recorded for the last work of " + stream_text(event.stream) + " only afterwards",
         std::move(earlier));
}

void Rules::use_event(const Call& call, Handle handle) {
  const auto found = events_.find(handle);
  if (found == events_.end()) return;
  EventState& event = found->second;
  std::vector<Earlier> earlier;
  add(earlier, "the event was created here", event.created);
  if (event.failed_record) {
    earlier.push_back({"the record failed here", *event.failed_record});
    event.failed_record.reset();
    report(Rule::use_after_error, call, "the last record of " + event_text(handle) + " failed",
           std::move(earlier));
  } else if (call.result == CUDA_ERROR_INVALID_VALUE && event.capture && event.capture->over) {
    add(earlier, "the event was recorded here, during a capture", event.record);
    earlier.push_back({"the capture began here", event.capture->begun});
    report(Rule::recorded_in_capture_only, call,
           event_text(handle) + " was last recorded in a capture that is over", std::move(earlier));
  } else if (event.never_recorded() && call.succeeded() && call.verb() != Verb::event_query) {
    report(Rule::wait_never_recorded, call,
           event_text(handle) + " was never recorded, so this wait has no effect", std::move(earlier));
  }
}

void Rules::wait(const Call& call) {
  const bool of_stream = call.verb() == Verb::stream_wait;
  const StreamKey stream = of_stream ? key(call, call.words[0]) : StreamKey();
  const Handle handle = call.words[1];
  const auto found = events_.find(handle);
  const unsigned flags = of_stream && call.count > 2 ? static_cast<unsigned>(call.words[2]) : 0;
  if ((call.marks & refused) != 0) {
    std::vector<Earlier> earlier;
    if (found != events_.end()) add(earlier, "the event was created here", found->second.created);
    report(Rule::interprocess_wait, call,
           "interprocess " + event_text(handle) + " is waited for in another context", std::move(earlier));
    return;
  }
  StreamState* const on = of_stream ? &streams_[stream] : nullptr;
  if (call.result == CUDA_ERROR_ILLEGAL_STATE && (flags & external) != 0 && on != nullptr &&
      !on->is_capturing()) {
    report(Rule::external_outside_capture, call,
           stream_text(stream) + " is not capturing, but waits with CU_EVENT_WAIT_EXTERNAL", {});
    return;
  }
  if (found == events_.end()) return;
  EventState& event = found->second;
  if (on != nullptr && call.succeeded() && (flags & external) != 0) {
    if (on->is_capturing()) event.put_in_graph = call;
    add_work(call, stream);
    return;
  }
  if (on != nullptr && call.succeeded()) join_capture(stream, event);
  use_event(call, handle);
  if (on == nullptr || !call.succeeded() || on->is_capturing() || event.capture || !event.record) return;
  if (event.stream != stream && event.stream.handle != 0 && streams_[event.stream].work > event.work_before)
    late_waits_[handle] = {call, streams_[event.stream].work, on->work};
}

void Rules::elapsed(const Call& call) {
  for (const Handle handle : {call.words[0], call.words[1]})
    if (const auto found = events_.find(handle);
        found != events_.end() && (found->second.failed_record || found->second.capture))
      return use_event(call, handle);
  if (call.result != CUDA_ERROR_INVALID_HANDLE) return;
  const auto start = events_.find(call.words[0]), end = events_.find(call.words[1]);
  for (const auto& event : {start, end}) {
    if (event == events_.end() || !event->second.created) continue;
    const std::vector<Earlier> earlier{{"the event was created here", *event->second.created}};
    if ((event->second.flags & disable_timing) != 0)
      return report(Rule::elapsed_without_timing, call,
                    event_text(event->first) + " was created with CU_EVENT_DISABLE_TIMING", earlier);
    if (event->second.never_recorded())
      return report(Rule::elapsed_never_recorded, call, event_text(event->first) + " was never recorded",
                    earlier);
  }
  if (start == events_.end() || end == events_.end() || !start->second.created || !end->second.created)
    return;
  if (start->second.context != end->second.context)
    report(Rule::elapsed_two_contexts, call, "the two events belong to different contexts",
           {{"the start event was created here", *start->second.created},
            {"the end event was created here", *end->second.created}});
}

} // namespace watch
