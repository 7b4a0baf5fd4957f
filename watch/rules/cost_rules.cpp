// SPDX-License-Identifier: MIT
#include "rules/cost_rules.hpp"

#include "rules/number_text.hpp"

namespace watch {

namespace {

using namespace std::chrono_literals;

constexpr unsigned long often = 100;     // below that, a place is no loop
constexpr unsigned long few_records = 4; // of an event that lives briefly
constexpr unsigned long reuse = 10;      // how often a pool would give each event away, at least
constexpr auto shortest_wait = 10us;     // a call that has nothing to wait for takes less

constexpr Handle legacy_stream = 1, per_thread_stream = 2;

} // namespace

CostRules::Repeated& CostRules::repeated(Places& places, const Call& call) {
  Repeated& place = places[place_of(call)];
  if (place.count++ == 0) place.call = call;
  return place;
}

void CostRules::see(const Call& call) {
  if (!call.returned) return;
  if (const Handle context = contexts_.ended_by(call); context != 0) forget_context(context);
  const auto words = call.words;
  if (call.verb() == Verb::event_elapsed) { // too early is a try to read it too
    read_time(words[0]);
    read_time(words[1]);
  }
  count_captures(call);
  if (!call.succeeded()) return;
  switch (call.verb()) {
  case Verb::event_create:
    return create_event(call);
  case Verb::event_open:
    return remove_event(words[0], false); // one that ended with its context may have had this handle
  case Verb::event_destroy:
    return remove_event(words[0], true);
  case Verb::event_record:
    return record_event(call, words[0], call.count > 2 ? static_cast<unsigned>(words[2]) : 0);
  case Verb::context_record:
    return record_event(call, words[1], 0);
  case Verb::event_query:
    return query(call);
  case Verb::event_export:
    return recorded_elsewhere(words[0]);
  case Verb::node_set_event:
    return recorded_elsewhere(words[1]);
  case Verb::node_add_event:
  case Verb::exec_set_event:
    return recorded_elsewhere(words[2]);
  case Verb::stream_create:
    blocking_streams_.erase(words[0]);
    if ((words[1] & CU_STREAM_NON_BLOCKING) == 0) blocking_streams_.emplace(words[0], call);
    return;
  case Verb::stream_destroy:
    capturing_.erase(words[0]); // nobody will end it
    blocking_streams_.erase(words[0]);
    return;
  case Verb::work:
    for (unsigned i = 2; i < call.count; ++i)
      record_event(call, words[i], 0);
    return add_work(call, words[0]);
  case Verb::value_wait:
  case Verb::value_write:
    return add_work(call, words[0]);
  case Verb::graph_launch:
    return add_work(call, words[1]);
  default:
    if (can_block(call.verb())) block(call);
    return;
  }
}

void CostRules::create_event(const Call& call) {
  remove_event(call.words[0], false);
  Creation& creation = creations_[place_of(call)];
  if (creation.created++ == 0) creation.call = call;
  creation.most_alive = std::max(creation.most_alive, ++creation.alive);
  const bool timed = (call.words[1] & CU_EVENT_DISABLE_TIMING) == 0;
  events_.emplace(call.words[0], Event{&creation, call.context, timed});
}

void CostRules::remove_event(Handle handle, bool destroyed) {
  const auto event = events_.find(handle);
  if (event == events_.end()) return;
  Creation& creation = *event->second.creation;
  --creation.alive;
  if (destroyed && event->second.records <= few_records && !event->second.recorded_elsewhere)
    ++creation.short_lives;
  events_.erase(event);
}

void CostRules::record_event(const Call& call, Handle handle, unsigned flags) {
  const auto found = events_.find(handle);
  if (found == events_.end()) return;
  Event& event = found->second;
  event.complete = false;
  event.late_queries = 0;
  ++event.records;
  if ((flags & CU_EVENT_RECORD_EXTERNAL) != 0) event.recorded_elsewhere = true; // by launches of the graph
  if (event.timed && capturing_.empty() && call.verb() != Verb::work) ++event.creation->timed_records;
}

/// Asking a second time is no waste: different parts of a program may ask. Asking a hundred times is.
void CostRules::query(const Call& call) {
  const auto found = events_.find(call.words[0]);
  if (found == events_.end()) return;
  Event& event = found->second;
  if (event.records == 0 || event.recorded_elsewhere) return;
  if (!event.complete) {
    event.complete = true;
    return;
  }
  if (++event.late_queries < often) return;
  Repeated& place = repeated(late_queries_, call);
  if (event.late_queries == often) place.count += often - 1; // those before
}

void CostRules::read_time(Handle handle) {
  if (const auto event = events_.find(handle); event != events_.end())
    event->second.creation->time_read = true;
}

void CostRules::recorded_elsewhere(Handle handle) {
  if (const auto event = events_.find(handle); event != events_.end())
    event->second.recorded_elsewhere = true;
}

/// A thread that submits no work may be made to wait.
void CostRules::block(const Call& call) {
  if (submitting_.erase(call.thread) == 0 && call.verb() != Verb::copy) return;
  repeated(blocking_, call).waited += call.duration;
}

void CostRules::add_work(const Call& call, Handle stream) {
  if (!capturing_.empty()) return;
  submitting_.insert(call.thread);
  if (stream == legacy_stream) {
    const auto newer = since_legacy_.find(call.context);
    if (newer == since_legacy_.end()) return;
    repeated(legacy_, call).other = newer->second;
    since_legacy_.erase(newer);
  } else if (stream == per_thread_stream) {
    since_legacy_.insert_or_assign(call.context, call);
  } else if (const auto found = blocking_streams_.find(stream); found != blocking_streams_.end()) {
    since_legacy_.insert_or_assign(found->second.context, found->second);
  }
}

void CostRules::count_captures(const Call& call) {
  if ((call.verb() == Verb::capture_begin || call.verb() == Verb::capture_into_graph) && call.succeeded())
    capturing_.insert(call.words[0]);
  if (call.verb() == Verb::capture_end && ends_capture(static_cast<CUresult>(call.result)))
    capturing_.erase(call.words[0]);
}

void CostRules::forget_context(Handle context) {
  std::erase_if(events_, [&](const auto& event) {
    if (event.second.context != context) return false;
    --event.second.creation->alive;
    return true;
  });
  std::erase_if(blocking_streams_, [&](const auto& stream) { return stream.second.context == context; });
  since_legacy_.erase(context);
}

void CostRules::end_creation(const Creation& creation) {
  if (creation.timed_records >= often && !creation.time_read)
    report_({Rule::timed_never_read,
             "events that were created here were recorded " + number_text(creation.timed_records) +
                 " times, and their time was never read",
             creation.call,
             {},
             creation.timed_records});
  if (creation.short_lives >= often && creation.short_lives >= reuse * creation.most_alive)
    report_({Rule::created_in_a_loop,
             number_text(creation.short_lives) + " events were created here and destroyed after at most " +
                 number_text(few_records) + " records each; at most " + number_text(creation.most_alive) +
                 " of them lived at a time",
             creation.call,
             {},
             creation.short_lives});
}

void CostRules::end() {
  for (const auto& [where, creation] : creations_)
    end_creation(creation);
  for (const auto& [where, place] : blocking_)
    if (place.count >= often && place.waited > shortest_wait * place.count)
      report_({Rule::blocking_in_a_loop,
               "the thread waited " + time_text(place.waited) + " in " + number_text(place.count) +
                   " calls that were made here",
               place.call,
               {},
               place.count});
  for (const auto& [where, place] : late_queries_)
    report_({Rule::query_of_completed,
             "events were queried here " + number_text(place.count) +
                 " times after a query had said that they were complete",
             place.call,
             {},
             place.count});
  for (const auto& [where, place] : legacy_)
    if (place.count >= often) {
      const bool created = place.other->verb() == Verb::stream_create;
      report_({Rule::legacy_between_streams,
               "work was submitted to the legacy stream here " + number_text(place.count) +
                   " times while a blocking stream had newer work",
               place.call,
               {{created ? "a blocking stream was created here"
                         : "the per-thread stream, which is blocking, got work here",
                 *place.other}},
               place.count});
    }
}

} // namespace watch
