// SPDX-License-Identifier: MIT
// Records, waits and queries of events.
#include "rules/object_text.hpp"
#include "rules/rules.hpp"

#include <set>
#include <unordered_set>

namespace watch {

namespace {

constexpr std::size_t waits_kept = 100; // for one event

class EventRules : public Observer {
public:
  EventRules(const World& world, Report report) : world_(world), report_(std::move(report)) {}

  void before(const Call& call) override {
    if (!is_of_interest(world_, call)) return;
    const EventState* const event = world_.event(call.event);
    if (call.succeeded() && uses_record(call.verb()) && event != nullptr) {
      used_records_.insert(event->number);
      report_lost_record(*event, call);
    }
    switch (call.verb()) {
    case Verb::event_create:
    case Verb::event_open:
      late_waits_.erase(call.event);
      break;
    case Verb::event_record:
    case Verb::context_record:
      if (!call.succeeded()) {
        check_failed_record(call);
      } else if (event != nullptr) {
        record_after_waits(call, *event);
        if (call.verb() == Verb::context_record) break;
        notice_late_record(call);
        notice_lost_record(call, *event);
      }
      break;
    case Verb::event_destroy:
      if (event != nullptr && call.succeeded()) report_waits(event->number);
      if (call.succeeded()) late_waits_.erase(call.event);
      break;
    case Verb::event_export: // others may record it
      if (event != nullptr && call.succeeded()) for_nothing_.erase(event->number);
      break;
    case Verb::graph_launch:
      if (call.succeeded()) launch(call);
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
      for (const Handle handle : call.events())
        if (const EventState* const each = world_.event(handle);
            each != nullptr && (each->failed_record || each->capture))
          return use(call, handle);
      break;
    default:
      break;
    }
  }

  void forget(std::uint64_t number) override {
    report_waits(number); // of an event that ended with its context
    late_records_.erase(number);
    lost_.erase(number);
    used_records_.erase(number);
    told_.erase(number);
  }

  void end(bool) override {
    std::map<std::uint64_t, WaitsForNothing> in_order(for_nothing_.begin(), for_nothing_.end());
    for (const auto& [number, waits] : in_order)
      report_waits(number);
  }

private:
  static bool uses_record(Verb verb) {
    return verb == Verb::stream_wait || verb == Verb::context_wait || verb == Verb::event_synchronize ||
           verb == Verb::event_query;
  }

  /// Waits for an event that was never recorded so far.
  struct WaitsForNothing {
    std::vector<Finding> findings;
    std::set<StreamKey> busy; // streams with work that no record marked at the first wait
    bool is_recorded = false; // since then
  };

  struct LostRecords {
    unsigned count = 0;
    std::optional<Finding> finding; // of the last one, until it is reported
  };

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
      wait_for_nothing({Rule::wait_never_recorded,
                        event_text(handle) + " was never recorded, so this wait has no effect", call,
                        std::move(earlier)},
                       event->number);
    } else if (const auto found = for_nothing_.find(event->number);
               found != for_nothing_.end() && found->second.is_recorded) {
      for_nothing_.erase(found); // the first turn of a ring
    }
  }

  void wait_for_nothing(Finding finding, std::uint64_t number) {
    WaitsForNothing& waits = for_nothing_[number];
    if (waits.findings.empty())
      for (const auto& [key, stream] : world_.streams())
        if (stream.work > stream.marked_work) waits.busy.insert(key);
    if (finding.call.stack != 0)
      if (auto& events = events_of_place_[finding.call.stack]; events.size() < 2) events.insert(number);
    if (waits.findings.size() < waits_kept) waits.findings.push_back(std::move(finding));
  }

  /// A ring, or a pipeline that lags, waits for nothing in its first turn. Then the work that the record
  /// marks is newer than the wait, and there is another wait after it.
  void record_after_waits(const Call& call, const EventState& event) {
    const auto found = for_nothing_.find(event.number);
    if (found == for_nothing_.end() || found->second.is_recorded) return;
    found->second.is_recorded = true;
    for (const Finding& finding : found->second.findings)
      places_of_rings_.insert(finding.call.stack);
    if (found->second.busy.contains(call.stream())) report_waits(event.number, true);
  }

  void report_waits(std::uint64_t number, bool is_certain = false) {
    const auto found = for_nothing_.find(number);
    if (found == for_nothing_.end()) return;
    const WaitsForNothing waits = std::move(found->second);
    for_nothing_.erase(found);
    for (const Finding& finding : waits.findings) {
      // Of a ring that did not begin a second turn, or that has slots which were never used: other events
      // that were waited for here have been recorded since.
      const bool may_be_ring =
          events_of_place_[finding.call.stack].size() > 1 && places_of_rings_.contains(finding.call.stack);
      const bool drains = finding.call.verb() == Verb::event_synchronize && waits.busy.empty();
      if (is_certain || !(may_be_ring || drains)) report_(finding);
    }
  }

  /// The nodes of a graph may wait for an event too.
  void launch(const Call& call) {
    const ExecState* const exec = world_.exec(call.exec);
    if (exec == nullptr || exec->launches > 0) return;
    for (const EventNode& node : exec->events) {
      const EventState* const event = world_.event(node.event);
      if (!node.waits || event == nullptr || event->number != node.number || !event->never_recorded())
        continue;
      std::vector<Earlier> earlier;
      add(earlier, "the event was created here", event->created);
      add(earlier, "the graph waits for the event since here", node.put_there);
      wait_for_nothing(
          {Rule::wait_never_recorded,
           event_text(node.event) + " was never recorded, so the wait of the graph has no effect", call,
           std::move(earlier)},
          event->number);
    }
  }

  /// A record for another stream, before anything has used the first one, may lose the work of that one. If
  /// its stream has got more work since, that work needed no record.
  void notice_lost_record(const Call& call, const EventState& event) {
    const bool was_used = used_records_.erase(event.number) != 0;
    if (!event.record || event.record->verb() != Verb::event_record || event.stream == call.stream() ||
        was_used || !event.marks_work || event.capture || is_complete(event) || event.shared ||
        (event.flags & CU_EVENT_DISABLE_TIMING) == 0 || is_ordered(event.stream) ||
        is_ordered(call.stream()) || work_of(event.stream) != event.work_before ||
        work_of(call.stream()) == world_.stream(call.stream())->marked_work || is_before(event, call))
      return;
    std::vector<Earlier> earlier{{"it replaces this record, for which nothing has waited", *event.record}};
    add(earlier, "the event was created here", event.created);
    LostRecords& lost = lost_[event.number];
    ++lost.count;
    lost.finding = {Rule::record_replaced,
                    event_text(call.event) + " is recorded on " + stream_text(call.stream()) +
                        ", and no longer marks the work of " + stream_text(event.stream),
                    call, std::move(earlier)};
  }

  bool is_complete(const EventState& event) const {
    return world_.order().compare_with_host(event) == Ordered::before;
  }

  /// Whether the record that is lost comes before the one that replaces it.
  bool is_before(const EventState& event, const Call& record) const {
    return event.mark &&
           world_.order().compare(event.mark->last, *world_.stream(record.stream())) == Ordered::before;
  }

  /// Streams that the driver orders itself.
  bool is_ordered(const StreamKey& key) const {
    const StreamState* const stream = world_.stream(key);
    return stream == nullptr || !stream->created || stream->blocking || stream->is_capturing();
  }

  void report_lost_record(const EventState& event, const Call& wait) {
    const auto found = lost_.find(event.number);
    if (found == lost_.end() || found->second.count < 2 || !found->second.finding)
      return; // once may be chance
    Finding finding = *std::exchange(found->second.finding, std::nullopt);
    finding.earlier.push_back({"this waits for the last record only", wait});
    report_(std::move(finding));
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

  const World& world_;
  const Report report_;
  std::unordered_map<Handle, LateWait> late_waits_;                            // by event
  std::unordered_map<std::uint64_t, unsigned> late_records_;                   // of events, by number
  std::unordered_map<std::uint64_t, WaitsForNothing> for_nothing_;             // by number of the event
  std::unordered_map<std::uint32_t, std::set<std::uint64_t>> events_of_place_; // that waits for nothing; two
  std::unordered_map<std::uint64_t, LostRecords> lost_;                        // as above
  std::unordered_set<std::uint32_t> places_of_rings_; // of waits for events that were recorded later
  std::unordered_set<std::uint64_t> used_records_;    // events whose last record something has used
  std::unordered_set<std::uint64_t> told_;            // events whose failed record was reported
};

} // namespace

Rules event_rules(const World& world, Report report) {
  return std::make_shared<EventRules>(world, std::move(report));
}

} // namespace watch
