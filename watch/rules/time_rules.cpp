// SPDX-License-Identifier: MIT
// Times between events: those that the driver refuses, and those that are not what the program wants.
#include "rules/object_text.hpp"
#include "rules/rules.hpp"
#include "rules/timed_work.hpp"

#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

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
  }

  void after(const Call& call) override { work_.see(call); }

  void forget(std::uint64_t number) override {
    give_up(number);
    read_.erase(number);
    work_.forget(number);
  }

  void end(bool by_itself) override {
    while (by_itself && !early_.empty())
      give_up(early_.begin()->first);
    for (auto& [place, given_up] : given_up_)
      if (!given_up.is_excused && !places_of_times_.contains(place)) report_(std::move(given_up.finding));
    for (auto& [place, omission] : omissions_)
      if (by_itself && !omission.is_excused && !work_.is_followed(omission.work))
        report_(std::move(omission.finding));
  }

private:
  /// A time that leaves out work, if the program does not wait for that work in another way.
  struct Omission {
    Finding finding;
    Point work;
    bool is_excused = false;
  };

  /// A time that was not there yet. A program that reads other times at this place, or this time at another
  /// one, does without some samples.
  struct GivenUp {
    Finding finding;
    std::uint64_t end = 0; // the number of the event
    bool is_excused = false;
  };

  /// Nobody will ask again for the time that ends with this event.
  void give_up(std::uint64_t end) {
    const auto found = early_.find(end);
    if (found == early_.end()) return;
    const auto [call, tries] = found->second;
    early_.erase(found);
    if (tries > 1 || read_.contains(end)) return; // a program that polls may give up
    std::vector<Earlier> earlier;
    if (const EventState* const event = world_.event(call.second_event)) {
      // It has waited, and could have asked then: it does without this time.
      if (event->number == end && world_.order().compare_with_host(*event) == Ordered::before) return;
      add(earlier, "the end was recorded here", event->record);
    }
    const auto [place, is_new] = given_up_.try_emplace(call.stack);
    if (!is_new) {
      ++place->second.finding.count;
      return;
    }
    place->second = {{Rule::elapsed_too_early,
                      "the work before " + event_text(call.second_event) +
                          " was not complete, and the time was not asked for again",
                      call, std::move(earlier)},
                     end};
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
      places_of_times_.insert(call.stack);
      for (auto& [place, given_up] : given_up_)
        given_up.is_excused |= given_up.end == end->number;
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
    if (!start.record || !end.record) return;
    std::vector<Earlier> earlier{{"the start was recorded here", *start.record},
                                 {"the end was recorded here", *end.record}};
    if (start.sequence > end.sequence) {
      if (start.stream == end.stream && start.stream.handle != 0 && start.work_before > end.work_before)
        report_({Rule::elapsed_reversed,
                 event_text(call.second_event) + ", the end, was recorded before " + event_text(call.event) +
                     ", so the time is negative",
                 call, std::move(earlier)});
      return;
    }
    const TimedWork::Judgement found = work_.judge(start, end);
    if (!found.escaped || !(found.is_empty || found.by_same_thread)) return;
    const Call& work = found.escaped->first;
    earlier.push_back({"this work is not in the time", work});
    if (const StreamState* const of = work.has_stream() ? world_.stream(work.stream()) : nullptr)
      add(earlier, "its stream was created here", of->created);
    const std::string stream = work.has_stream() ? stream_text(work.stream()) : "the default stream";
    const std::string sentence =
        found.had_begun
            ? "there was no work between the two records, and " + stream + " was not done at the start"
        : found.is_empty ? "no work between the two records comes before the end, but " + stream + " got some"
                         : stream + " got work between the two records, and nothing orders it before the end";
    Finding finding{Rule::elapsed_without_work, sentence, call, std::move(earlier)};
    if (found.is_empty && found.by_same_thread && !found.had_begun) return report_(std::move(finding));
    note_omission(std::move(finding), found.escaped->last);
  }

  /// A stream that is followed in some of the rounds is followed.
  void note_omission(Finding finding, const Point& work) {
    const auto [found, is_new] = omissions_.try_emplace({finding.call.stack, work.stream}, Omission{});
    Omission& omission = found->second;
    if (is_new) {
      omission.finding = std::move(finding);
    } else {
      omission.is_excused |= work_.is_followed(omission.work);
      ++omission.finding.count;
    }
    omission.work = work;
  }

  const World& world_;
  const Report report_;
  std::unordered_map<std::uint64_t, std::pair<Call, unsigned>> early_; // tries, by the number of the end
  std::unordered_set<std::uint64_t> read_;                             // ends whose time was read
  std::unordered_set<std::uint32_t> places_of_times_;                  // stacks of calls that gave a time
  std::map<std::uint32_t, GivenUp> given_up_;                          // by stack
  TimedWork work_{world_};
  std::map<std::pair<std::uint32_t, std::uint32_t>, Omission> omissions_; // by stack and stream
};

} // namespace

Rules time_rules(const World& world, Report report) {
  return std::make_shared<TimeRules>(world, std::move(report));
}

} // namespace watch
