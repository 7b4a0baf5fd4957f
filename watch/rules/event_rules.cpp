// SPDX-License-Identifier: MIT
// Records, waits, queries and times of events.
#include "rules/object_text.hpp"
#include "rules/rules.hpp"

#include <unordered_set>

namespace watch {

namespace {

class EventRules : public Observer {
public:
  EventRules(const World& world, Report report) : world_(world), report_(std::move(report)) {}

  void before(const Call& call) override {
    if (!is_of_interest(world_, call)) return;
    switch (call.verb()) {
    case Verb::event_create:
    case Verb::event_open:
      late_waits_.erase(call.event);
      break;
    case Verb::event_record:
    case Verb::context_record:
      if (!call.succeeded())
        check_failed_record(call);
      else if (call.verb() == Verb::event_record)
        notice_late_record(call);
      break;
    case Verb::event_synchronize:
      late_waits_.clear(); // the work may be complete now
      use(call, call.event);
      break;
    case Verb::stream_synchronize:
    case Verb::context_synchronize:
      late_waits_.clear();
      break;
    case Verb::event_query:
      use(call, call.event);
      break;
    case Verb::stream_wait:
    case Verb::context_wait:
      wait(call);
      break;
    case Verb::event_elapsed:
      elapsed(call);
      break;
    default:
      break;
    }
  }

private:
  /// A wait for an event while the event's stream has newer work.
  struct LateWait {
    Call call;
    std::uint64_t work_before = 0, work_of_waiting = 0; // of the event's stream, and of the waiting one
  };

  std::uint64_t work_of(const StreamKey& key) const {
    const StreamState* const stream = world_.stream(key);
    return stream != nullptr ? stream->work : 0;
  }

  void check_failed_record(const Call& call) {
    if (world_.is_external_outside_capture(call))
      return report_({Rule::external_outside_capture,
                      event_text(call.event) + " is recorded with CU_EVENT_RECORD_EXTERNAL on " +
                          stream_text(call.stream()) + ", which is not capturing",
                      call,
                      {}});
    const EventState* const event = world_.event(call.event);
    const StreamState* const on = world_.stream(call.stream());
    const Handle theirs = on != nullptr       ? on->context
                          : call.has_stream() ? call.stream().context
                                              : call.named_context;
    if (call.result != CUDA_ERROR_INVALID_HANDLE || event == nullptr || !event->created || theirs == 0 ||
        theirs == event->context)
      return;
    const ContextState* const home = world_.context(event->context);
    const ContextState* const other = world_.context(theirs);
    std::string where = "context " + hexadecimal(theirs);
    if (home != nullptr && other != nullptr && home->device != other->device)
      where = "device " + std::to_string(other->device) + ", but belongs to device " +
              std::to_string(home->device);
    else
      where += ", but belongs to context " + hexadecimal(event->context);
    std::vector<Earlier> earlier;
    add(earlier, "the event was created here", event->created);
    if (on != nullptr) add(earlier, "the stream was created here", on->created);
    report_({Rule::record_in_other_context, event_text(call.event) + " is recorded on a stream of " + where,
             call, std::move(earlier)});
  }

  /// The record that a wait needed comes only after it: of this event, on the stream with the work. In
  /// between, neither that stream nor the waiting one got work. Whatever else happened does not matter.
  void notice_late_record(const Call& call) {
    const auto found = late_waits_.find(call.event);
    if (found == late_waits_.end()) return;
    const LateWait late = found->second;
    late_waits_.erase(found);
    const EventState& event = *world_.event(call.event);
    if (event.stream != call.stream() || world_.is_capturing(event.stream) ||
        work_of(event.stream) != late.work_before || work_of(late.call.stream()) != late.work_of_waiting)
      return;
    // A pipeline may wait for the work before the last on purpose, and then mark the last. Its first such
    // wait is for a record that marks work. A program that forgot the order waits for a record that marks
    // none.
    unsigned& late_records = late_records_[event.number];
    if (late_records == 0 && event.marks_work) return;
    if (++late_records < 2) return; // once may be chance
    std::vector<Earlier> earlier;
    add(earlier, "the wait refers to this record, which is older than the work", event.record);
    earlier.push_back({"the event is recorded for that work only here, after the wait", call});
    report_({Rule::wait_before_record,
             stream_text(late.call.stream()) + " waits for " + event_text(call.event) +
                 ", which is recorded for the last work of " + stream_text(event.stream) + " only afterwards",
             late.call, std::move(earlier)});
  }

  void use(const Call& call, Handle handle) {
    const EventState* const event = world_.event(handle);
    if (event == nullptr) return;
    std::vector<Earlier> earlier;
    add(earlier, "the event was created here", event->created);
    if (event->failed_record) {
      if (!told_.insert(event->number).second) return;
      earlier.push_back({"the record failed here", *event->failed_record});
      return report_({Rule::use_after_error, "the last record of " + event_text(handle) + " failed", call,
                      std::move(earlier)});
    }
    told_.erase(event->number);
    if (call.result == CUDA_ERROR_INVALID_VALUE && event->capture && event->capture->over) {
      add(earlier, "the event was recorded here, during a capture", event->record);
      earlier.push_back({"the capture began here", event->capture->begun});
      report_({Rule::recorded_in_capture_only,
               event_text(handle) + " was last recorded in a capture that is over", call,
               std::move(earlier)});
    } else if (event->never_recorded() && call.succeeded() && call.verb() != Verb::event_query) {
      report_({Rule::wait_never_recorded,
               event_text(handle) + " was never recorded, so this wait has no effect", call,
               std::move(earlier)});
    }
  }

  void wait(const Call& call) {
    const EventState* const event = world_.event(call.event);
    if ((call.marks & refused) != 0) {
      std::vector<Earlier> earlier;
      if (event != nullptr) add(earlier, "the event was created here", event->created);
      return report_({Rule::interprocess_wait,
                      "interprocess " + event_text(call.event) + " is waited for in another context", call,
                      std::move(earlier)});
    }
    if (world_.is_external_outside_capture(call))
      return report_({Rule::external_outside_capture,
                      stream_text(call.stream()) + " is not capturing, but waits with CU_EVENT_WAIT_EXTERNAL",
                      call,
                      {}});
    if (event == nullptr || (call.succeeded() && (call.flags & CU_EVENT_WAIT_EXTERNAL) != 0)) return;
    use(call, call.event);
    if (!call.has_stream() || !call.succeeded() || world_.is_capturing(call.stream()) || event->capture ||
        !event->record)
      return;
    if (event->stream != call.stream() && event->stream.handle != 0 &&
        work_of(event->stream) > event->work_before)
      late_waits_[call.event] = {call, work_of(event->stream), work_of(call.stream())};
  }

  void elapsed(const Call& call) {
    for (const Handle handle : call.events())
      if (const EventState* const event = world_.event(handle);
          event != nullptr && (event->failed_record || event->capture))
        return use(call, handle);
    if (call.result != CUDA_ERROR_INVALID_HANDLE) return;
    const EventState* const start = world_.event(call.event);
    const EventState* const end = world_.event(call.second_event);
    for (const Handle handle : call.events()) {
      const EventState* const event = world_.event(handle);
      if (event == nullptr || !event->created) continue;
      const std::vector<Earlier> earlier{{"the event was created here", *event->created}};
      if ((event->flags & CU_EVENT_DISABLE_TIMING) != 0)
        return report_({Rule::elapsed_without_timing,
                        event_text(handle) + " was created with CU_EVENT_DISABLE_TIMING", call, earlier});
      if (event->never_recorded())
        return report_(
            {Rule::elapsed_never_recorded, event_text(handle) + " was never recorded", call, earlier});
    }
    if (start == nullptr || end == nullptr || !start->created || !end->created) return;
    if (start->context != end->context)
      report_({Rule::elapsed_two_contexts,
               "the two events belong to different contexts",
               call,
               {{"the start event was created here", *start->created},
                {"the end event was created here", *end->created}}});
  }

  const World& world_;
  const Report report_;
  std::unordered_map<Handle, LateWait> late_waits_;          // by event
  std::unordered_map<std::uint64_t, unsigned> late_records_; // of events, by number
  std::unordered_set<std::uint64_t> told_;                   // events whose failed record was reported
};

} // namespace

Rules event_rules(const World& world, Report report) {
  return std::make_shared<EventRules>(world, std::move(report));
}

} // namespace watch
