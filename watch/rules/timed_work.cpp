// SPDX-License-Identifier: MIT
#include "rules/timed_work.hpp"

#include <algorithm>

namespace watch {

namespace {

constexpr std::size_t runs_kept = 1024;       // of the time between older records, nothing is said
constexpr std::size_t runs_before_start = 64; // that are asked whether they were still in flight

bool measures_time(const EventState& event) { return (event.flags & CU_EVENT_DISABLE_TIMING) == 0; }

/// Work that somebody may want to time.
bool takes_time(const Call& call) {
  const Work work = call.work();
  return call.verb() == Verb::graph_launch || work == Work::kernel || work == Work::copy ||
         work == Work::fill || work == Work::host;
}

bool may_wait_for_work(const Call& call) {
  const Verb verb = call.verb();
  return verb == Verb::stream_wait || verb == Verb::value_wait || verb == Verb::context_wait ||
         verb == Verb::event_query || verb == Verb::stream_query || can_block(verb) ||
         (verb == Verb::memory_free && !call.has(stays_on_device));
}

} // namespace

void TimedWork::see(const Call& call) {
  if (call.verb() == Verb::event_create && call.succeeded())
    measures_ = measures_ || (call.flags & CU_EVENT_DISABLE_TIMING) == 0;
  if (!measures_) return;
  if (may_wait_for_work(call)) ++waits_;
  if (!call.succeeded()) return;
  switch (call.verb()) {
  case Verb::event_record:
    if (const EventState* const event = world_.event(call.event)) recorded(*event);
    return;
  case Verb::event_destroy:
    if (const EventState* const event = world_.event(call.event)) records_.erase(event->number);
    return;
  case Verb::stream_wait:
  case Verb::event_query:
  case Verb::event_synchronize:
  case Verb::event_elapsed: {
    const Handle handle = call.verb() == Verb::event_elapsed ? call.second_event : call.event;
    const EventState* const event = world_.event(handle);
    if (event != nullptr && event->mark && !event->capture) follow(event->mark->last);
    return;
  }
  case Verb::stream_query:
  case Verb::stream_synchronize:
    if (const StreamState* const stream = world_.stream(call.stream()))
      follow(world_.order().next(*stream).last);
    return;
  default:
    if (const std::optional<Point>& point = world_.order().point(); point && takes_time(call))
      submitted(call, *point);
  }
}

void TimedWork::recorded(const EventState& event) {
  if (measures_time(event)) {
    records_[event.number] = {last_run_, waits_};
    is_recorded_ = true;
  } else if (event.mark && !event.capture) {
    follow(event.mark->last);
  }
}

/// A record begins a new run, so each run lies before it or after it.
void TimedWork::submitted(const Call& call, const Point& point) {
  Run* const last = runs_.empty() || is_recorded_ ? nullptr : &runs_.back();
  if (last != nullptr && last->last.stream == point.stream && last->first.thread == call.thread) {
    last->last = point;
    return;
  }
  is_recorded_ = false;
  runs_.push_back({call, point, ++last_run_});
  if (runs_.size() > runs_kept) runs_.pop_front();
}

void TimedWork::follow(const Point& point) {
  if (point.place == 0) return;
  std::uint64_t& until = followed_until_[point.stream];
  until = std::max(until, point.place);
}

bool TimedWork::is_followed(const Point& work) const {
  const auto found = followed_until_.find(work.stream);
  return found != followed_until_.end() && work.place <= found->second;
}

/// The host may learn of the end of work in ways that no call shows. This counts only if something waited.
bool TimedWork::is_left_out(const Run& run, const EventState& end, bool nothing_waits) const {
  const Call& call = run.first;
  const StreamState* const stream = world_.stream(call.stream());
  const bool is_made = stream != nullptr && stream->created;
  const bool is_default = !call.has_stream() || is_default_stream(call.stream_handle);
  if (!is_made && !is_default) return false; // nobody knows which other streams it waits for
  const Ordered order = world_.order().compare(run.last, end);
  return order == Ordered::not_before || (order == Ordered::unknown && nothing_waits && is_made &&
                                          !stream->blocking && call.stream() != end.stream);
}

TimedWork::Judgement TimedWork::judge(const EventState& start, const EventState& end) const {
  const auto at_start = records_.find(start.number), at_end = records_.find(end.number);
  if (at_start == records_.end() || at_end == records_.end() || runs_.empty()) return {};
  const auto& [start_run, start_waits] = at_start->second;
  if (runs_.front().number > start_run + 1) return {}; // not all of them are known any more
  const bool nothing_waits = start_waits == at_end->second.waits;
  Judgement found;
  found.is_empty = true;
  std::size_t asked = 0;
  for (auto run = runs_.rbegin(); run != runs_.rend() && asked < runs_before_start; ++run) {
    if (run->number > at_end->second.run) continue;
    const bool had_begun = run->number <= start_run;
    if (had_begun && (!found.is_empty || found.escaped)) break;
    asked += had_begun;
    if (had_begun && world_.order().compare(run->last, start) != Ordered::not_before) continue;
    if (!is_left_out(*run, end, nothing_waits && !had_begun)) {
      found.is_empty = false;
      if (had_begun) break;
    } else if (!found.escaped) {
      found.escaped = *run;
      found.had_begun = had_begun;
    }
  }
  if (found.escaped) found.by_same_thread = found.escaped->first.thread == end.record->thread;
  return found;
}

} // namespace watch
