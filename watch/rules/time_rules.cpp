// SPDX-License-Identifier: MIT
// Times between events: those that the driver refuses, and those that are not what the program wants.
#include "rules/object_text.hpp"
#include "rules/rules.hpp"

#include <unordered_map>
#include <unordered_set>

namespace watch {

namespace {

class TimeRules : public Observer {
public:
  TimeRules(const World& world, Report report) : world_(world), report_(std::move(report)) {}

  void before(const Call& call) override {
    if (call.verb() == Verb::event_elapsed && is_of_interest(world_, call)) return elapsed(call);
    if (!call.succeeded()) return;
    if (call.verb() == Verb::event_record || call.verb() == Verb::event_destroy)
      if (const EventState* const event = world_.event(call.event)) give_up(event->number);
    if (submits_work(call.verb())) count_work(call);
    if (call.verb() == Verb::copy) ++work_of_[call.thread].ordered;
  }

  void after(const Call& call) override {
    if (!call.succeeded()) return;
    if (call.verb() == Verb::stream_wait) ++waits_;
    if (call.verb() != Verb::event_record) return;
    Work& work = work_at_record_[world_.event(call.event)->number] = work_of_[call.thread];
    work.ordered += waits_;
  }

  void end(bool by_itself) override {
    while (by_itself && !early_.empty())
      give_up(early_.begin()->first);
  }

private:
  /// Work that a thread has submitted.
  struct Work {
    unsigned long apart = 0;   // on streams that are known not to be blocking
    unsigned long ordered = 0; // on others
  };

  void count_work(const Call& call) {
    const StreamState* const stream = world_.stream(call.stream());
    const bool is_apart = stream != nullptr && stream->created && !stream->blocking;
    ++(is_apart ? work_of_[call.thread].apart : work_of_[call.thread].ordered);
  }

  /// Nobody will ask again for the time that ends with this event.
  void give_up(std::uint64_t end) {
    const auto found = early_.find(end);
    if (found == early_.end()) return;
    const auto [call, tries] = found->second;
    early_.erase(found);
    if (tries > 1 || read_.contains(end)) return; // a program that polls may give up
    std::vector<Earlier> earlier;
    if (const EventState* const event = world_.event(call.second_event))
      add(earlier, "the end was recorded here", event->record);
    report_({Rule::elapsed_too_early,
             "the work before " + event_text(call.second_event) +
                 " was not complete, and the time was not asked for again",
             call, std::move(earlier)});
  }

  void elapsed(const Call& call) {
    const EventState* const start = world_.event(call.event);
    const EventState* const end = world_.event(call.second_event);
    for (const EventState* const event : {start, end})
      if (event == nullptr || !event->created || event->failed_record || event->capture) return;
    if (call.result == CUDA_ERROR_INVALID_HANDLE) return explain(call, *start, *end);
    if (call.result == CUDA_ERROR_NOT_READY) {
      early_.try_emplace(end->number, call, 0u).first->second.second++;
    } else if (call.succeeded()) {
      early_.erase(end->number);
      read_.insert(end->number);
      judge(call, *start, *end);
    }
  }

  void explain(const Call& call, const EventState& start, const EventState& end) {
    for (const EventState* const event : {&start, &end})
      if ((event->flags & CU_EVENT_DISABLE_TIMING) != 0)
        return report_({Rule::elapsed_without_timing,
                        event_text(event->created->event) + " was created with CU_EVENT_DISABLE_TIMING",
                        call,
                        {{"the event was created here", *event->created}}});
    if (start.context != end.context)
      return report_({Rule::elapsed_two_contexts,
                      "the two events belong to different contexts",
                      call,
                      {{"the start event was created here", *start.created},
                       {"the end event was created here", *end.created}}});
    for (const EventState* const event : {&start, &end}) {
      if (event->record || event->shared) continue;
      std::vector<Earlier> earlier{{"the event was created here", *event->created}};
      add(earlier, "a graph records it since here, and was not launched", event->put_in_graph);
      return report_({Rule::elapsed_never_recorded, event_text(event->created->event) + " was never recorded",
                      call, std::move(earlier)});
    }
  }

  void judge(const Call& call, const EventState& start, const EventState& end) {
    if (!start.record || !end.record || start.stream != end.stream || start.stream.handle == 0) return;
    const std::vector<Earlier> earlier{{"the start was recorded here", *start.record},
                                       {"the end was recorded here", *end.record}};
    if (start.sequence > end.sequence && start.work_before > end.work_before)
      return report_({Rule::elapsed_reversed,
                      event_text(call.second_event) + ", the end, was recorded before " +
                          event_text(call.event) + ", so the time is negative",
                      call, earlier});
    // Only if nothing can have brought the other work between the two records.
    const Work &before = work_at_record_[start.number], &after = work_at_record_[end.number];
    if (start.sequence < end.sequence && start.work_before == end.work_before &&
        start.record->thread == end.record->thread && before.ordered == after.ordered &&
        before.apart != after.apart)
      report_({Rule::elapsed_without_work,
               stream_text(start.stream) + " got no work between the two records, but other streams did",
               call, earlier});
  }

  const World& world_;
  const Report report_;
  std::unordered_map<std::uint64_t, std::pair<Call, unsigned>> early_; // tries, by the number of the end
  std::unordered_set<std::uint64_t> read_;                             // ends whose time was read
  std::unordered_map<std::uint32_t, Work> work_of_;                    // by thread
  std::unordered_map<std::uint64_t, Work> work_at_record_;             // by the number of the event
  unsigned long waits_ = 0;                                            // of streams, by all threads
};

} // namespace

Rules time_rules(const World& world, Report report) {
  return std::make_shared<TimeRules>(world, std::move(report));
}

} // namespace watch
