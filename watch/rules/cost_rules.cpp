// SPDX-License-Identifier: MIT
// What a program wastes: calls that are right, and cost more than they need to. They are counted by the stack
// that made them.
#include "rules/cost_limits.hpp"
#include "rules/number_text.hpp"
#include "rules/rules.hpp"

#include <unordered_set>

namespace watch {

namespace {

constexpr unsigned long few_uses = 4; // of an object that lives briefly

constexpr std::size_t threads_kept = 8192; // the ends of threads are not known

constexpr Handle legacy_stream = 1;

class CostRules : public Observer {
public:
  CostRules(const World& world, Report report) : world_(world), report_(std::move(report)) {}

  void before(const Call& call) override {
    if (const Handle context = world_.context_ended_by(call); context != 0) forget_context(context);
    if (call.verb() == Verb::event_elapsed && call.returned) // too early is a try to read it too
      for (const Handle event : call.events())
        if (Creation* const creation = creation_of(event)) creation->time_read = true;
    if (!call.succeeded()) return;
    switch (call.verb()) {
    case Verb::event_create:
    case Verb::event_open: // one that ended with its context may have had this handle
      return remove_event(call.event, false);
    case Verb::event_destroy:
      return remove_event(call.event, true);
    case Verb::stream_destroy:
      if (const StreamState* const stream = world_.stream(call.stream())) remove(*stream, stream->work);
      return;
    case Verb::exec_destroy:
      if (const ExecState* const exec = world_.exec(call.exec)) remove(*exec, exec->launches);
      return;
    case Verb::stream_wait:
      if (const EventState* const event = world_.event(call.event);
          event != nullptr && event->record && event->stream == call.stream() && world_.captures().empty())
        repeated(own_waits_, call).other = event->record;
      return;
    case Verb::event_query:
      return query(call);
    case Verb::work:
    case Verb::value_wait:
    case Verb::value_write:
    case Verb::graph_launch:
      return add_work(call);
    default:
      if (can_block(call.verb())) block(call);
      return;
    }
  }

  void after(const Call& call) override {
    if (!call.succeeded()) return;
    if (call.verb() == Verb::event_create || call.verb() == Verb::stream_create ||
        call.verb() == Verb::graph_instantiate)
      create(call);
    const bool is_launch = call.verb() == Verb::work;
    if (is_launch || call.verb() == Verb::event_record || call.verb() == Verb::context_record)
      for (const Handle event : call.events())
        record_event(event, !is_launch);
  }

  void forget(std::uint64_t number) override { late_queries_of_.erase(number); }

  void end(bool by_itself) override;

private:
  /// A place that creates events, streams or executable graphs.
  struct Creation {
    Call call;
    unsigned long created = 0, alive = 0, most_alive = 0;
    unsigned long short_lives = 0;   // objects that were destroyed after a few uses
    unsigned long timed_records = 0; // that measure the time
    bool time_read = false;
  };

  /// Null if the object was not created here, or is gone.
  Creation* creation_of(const Object& object) {
    if (!object.created || !object.is_alive()) return nullptr;
    const auto found = creations_.find(place_of(*object.created));
    return found != creations_.end() ? &found->second : nullptr;
  }
  Creation* creation_of(Handle event) {
    const EventState* const found = world_.event(event);
    return found != nullptr ? creation_of(*found) : nullptr;
  }

  void remove(const Object& object, unsigned long uses) {
    Creation* const creation = creation_of(object);
    if (creation == nullptr) return;
    --creation->alive;
    if (uses <= few_uses) ++creation->short_lives;
  }

  void create(const Call& call) {
    Creation& creation = creations_[place_of(call)];
    if (creation.created++ == 0) creation.call = call;
    creation.most_alive = std::max(creation.most_alive, ++creation.alive);
  }

  void remove_event(Handle handle, bool destroyed) {
    Creation* const creation = creation_of(handle);
    if (creation == nullptr) return;
    const EventState& event = *world_.event(handle);
    --creation->alive;
    if (destroyed && event.records <= few_uses && !is_recorded_elsewhere(event)) ++creation->short_lives;
    late_queries_of_.erase(event.number);
  }

  static bool is_recorded_elsewhere(const EventState& event) {
    return event.recorded_by_graph || event.shared;
  }

  void record_event(Handle handle, bool takes_time) {
    Creation* const creation = creation_of(handle);
    if (creation == nullptr) return;
    const EventState& event = *world_.event(handle);
    late_queries_of_.erase(event.number);
    if (takes_time && (event.flags & CU_EVENT_DISABLE_TIMING) == 0 && world_.captures().empty())
      ++creation->timed_records;
  }

  /// Asking a second time is no waste: different parts of a program may ask. Asking a hundred times is.
  void query(const Call& call) {
    if (creation_of(call.event) == nullptr) return;
    const EventState& event = *world_.event(call.event);
    if (event.records == 0 || world_.order().compare_with_host(event) != Ordered::before) return;
    const unsigned long late = ++late_queries_of_[event.number];
    if (late < often) return;
    Repeated& place = repeated(late_queries_, call);
    if (late == often) place.count += often - 1; // those before
  }

  /// A thread that submits no work may be made to wait.
  void block(const Call& call) {
    if (submitting_.erase(call.thread) == 0 && call.verb() != Verb::copy) return;
    repeated(blocking_, call).waited += call.duration;
  }

  void add_work(const Call& call) {
    if (!world_.captures().empty()) return; // it may be captured, and costs nothing then
    if (submitting_.size() >= threads_kept) submitting_.clear();
    submitting_.insert(call.thread);
    const StreamState* const stream = world_.stream(call.stream());
    if (call.stream_handle == legacy_stream) {
      const auto newer = since_legacy_.find(call.context);
      if (newer == since_legacy_.end()) return;
      repeated(legacy_, call).other = newer->second;
      since_legacy_.erase(newer);
    } else if (call.stream().thread != 0) { // the per-thread stream
      since_legacy_.insert_or_assign(call.context, call);
    } else if (stream != nullptr && stream->blocking && stream->is_alive()) {
      since_legacy_.insert_or_assign(stream->context, *stream->created);
    }
  }

  void forget_context(Handle context) {
    const auto forget = [&](const auto& objects) {
      for (const auto& [handle, object] : objects)
        if (object.context == context)
          if (Creation* const creation = creation_of(object)) --creation->alive;
    };
    forget(world_.events());
    forget(world_.streams());
    since_legacy_.erase(context);
  }

  void end_creation(const Creation& creation);

  const World& world_;
  const Report report_;
  std::unordered_map<Handle, Call> since_legacy_; // by context: a blocking stream with newer work
  std::unordered_set<std::uint32_t> submitting_;  // threads with work since their last wait
  std::unordered_map<std::uint64_t, unsigned long> late_queries_of_; // since an event is complete, by number
  std::map<CostPlace, Creation> creations_;
  CostPlaces blocking_, late_queries_, legacy_, own_waits_;
};

void CostRules::end_creation(const Creation& creation) {
  if (creation.timed_records >= often && !creation.time_read)
    report_({Rule::timed_never_read,
             "events that were created here were recorded " + number_text(creation.timed_records) +
                 " times, and their time was never read",
             creation.call,
             {},
             creation.timed_records});
  if (creation.short_lives < often || creation.short_lives < reuse * creation.most_alive) return;
  const Verb made = creation.call.verb();
  const char* const what =
      made == Verb::event_create    ? " events were created here and destroyed after at most "
      : made == Verb::stream_create ? " streams were created here and destroyed after at most "
                                    : " graphs were instantiated here and destroyed after at most ";
  const char* const uses = made == Verb::event_create    ? " records each; at most "
                           : made == Verb::stream_create ? " pieces of work each; at most "
                                                         : " launches each; at most ";
  report_({Rule::created_in_a_loop,
           number_text(creation.short_lives) + what + number_text(few_uses) + uses +
               number_text(creation.most_alive) + " of them lived at a time",
           creation.call,
           {},
           creation.short_lives});
}

void CostRules::end(bool) {
  for (const auto& [where, creation] : creations_)
    end_creation(creation);
  for (const auto& [where, place] : blocking_)
    if (matters(place))
      report_({Rule::blocking_in_a_loop,
               "the thread waited " + time_text(place.waited) + " in " + number_text(place.count) +
                   " calls that were made here",
               place.call,
               {},
               place.count});
  for (const auto& [where, place] : late_queries_)
    report_({Rule::query_of_completed,
             "events were queried here " + number_text(place.count) +
                 " times although they were known to be complete",
             place.call,
             {},
             place.count});
  for (const auto& [where, place] : own_waits_)
    if (place.count >= often)
      report_({Rule::wait_for_own_stream,
               "streams waited here " + number_text(place.count) + " times for their own records",
               place.call,
               {{"the event was recorded here on the same stream", *place.other}},
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

} // namespace

Rules cost_rules(const World& world, Report report) {
  return std::make_shared<CostRules>(world, std::move(report));
}

} // namespace watch
