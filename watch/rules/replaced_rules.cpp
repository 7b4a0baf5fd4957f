// SPDX-License-Identifier: MIT
// Records that are lost: somebody relies on their work, and the event has got a record of another stream.
#include "rules/object_text.hpp"
#include "rules/rules.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace watch {

namespace {

constexpr std::size_t lost_waits_kept = 64; // whose waiter may still be ordered behind the lost record

class ReplacedRules : public Observer {
public:
  ReplacedRules(const World& world, Report report) : world_(world), report_(std::move(report)) {}

  void before(const Call& call) override {
    if (!waits_.empty()) judge_waits_before(call);
    if (!is_of_interest(world_, call)) return;
    switch (call.verb()) {
    case Verb::event_record:
    case Verb::context_record:
    case Verb::event_destroy:
    case Verb::stream_wait:
    case Verb::context_wait:
    case Verb::event_synchronize:
    case Verb::event_query:
      if (const EventState* const event = world_.event(call.event); event != nullptr && call.succeeded())
        see(call, *event);
      return;
    case Verb::event_elapsed:
      for (const Handle handle : call.events())
        if (const EventState* const event = world_.event(handle)) measure(*event);
      return;
    default:
      return;
    }
  }

  void forget(std::uint64_t number) override {
    used_.erase(number);
    lost_.erase(number);
    measures_.erase(number);
    counts_.erase(number);
  }

  void forget_stream(const StreamKey& key) override {
    constexpr std::uint32_t last_stack = std::numeric_limits<std::uint32_t>::max();
    used_places_.erase(used_places_.lower_bound({key, 0}), used_places_.upper_bound({key, last_stack}));
  }

  void end(bool) override {
    for (const Wait& wait : std::exchange(waits_, {}))
      judge(wait);
    for (const auto& [places, replaced] : replaced_) {
      if (!(replaced.is_repeated || replaced.of_new_events > 1) || is_needed_at_times(*replaced.last))
        continue;
      Finding finding = replaced.last->finding;
      finding.count = replaced.count;
      report_(std::move(finding));
    }
  }

private:
  /// A record that was replaced before anything had used it.
  struct Lost {
    Finding finding;
    std::uint64_t number = 0; // of the event
    Point work;
    StreamKey stream;
    std::uint32_t place = 0; // the stack of the record
    bool is_first = false;   // of its event
    bool is_counted = false;
  };

  /// A wait for an event that has lost a record.
  struct Wait {
    std::shared_ptr<Lost> lost;
    std::optional<StreamKey> waiter; // none: the host
    Call call;
  };

  /// Lost records that somebody relies on, all replaced at one place.
  struct Replaced {
    std::shared_ptr<const Lost> last;
    unsigned long count = 0;
    bool is_repeated = false;   // an event has lost another record
    unsigned of_new_events = 0; // whose first record was lost
  };

  /// Events whose records of one stream and place were used.
  struct Used {
    std::uint64_t number = 0;
    bool are_several = false;
  };

  void see(const Call& call, const EventState& event) {
    switch (call.verb()) {
    case Verb::event_destroy:
      forget(event.number);
      return;
    case Verb::event_record:
    case Verb::context_record:
      return record(call, event);
    default:
      return use(call, event);
    }
  }

  /// The time between events is read after a wait, which is not for the order of work.
  void measure(const EventState& event) {
    if (event.number == 0) return;
    measures_.insert(event.number);
    std::erase_if(waits_,
                  [&](const Wait& wait) { return !wait.waiter && wait.lost->number == event.number; });
  }

  void record(const Call& call, const EventState& event) {
    const bool was_used = used_.erase(event.number) != 0;
    if (was_used) lost_.erase(event.number); // they were replaced before the wait that is past
    if (was_used || call.verb() != Verb::event_record || !is_replaced(call, event)) return;
    std::vector<Earlier> earlier{{"it replaces this record, for which nothing has waited", *event.record}};
    add(earlier, "the event was created here", event.created);
    auto& lost = lost_[event.number];
    lost.push_back(std::make_shared<Lost>(
        Lost{{Rule::record_replaced,
              event_text(call.event) + " is recorded on " + stream_text(call.stream()) +
                  ", and no longer marks the work of " + stream_text(event.stream),
              call, std::move(earlier)},
             event.number,
             *event.work,
             event.stream,
             event.record->stack,
             event.records == 1}));
    if (lost.size() > lost_waits_kept) lost.erase(lost.begin());
  }

  /// Whether the record of another stream leaves work without a mark. If that work's stream has got more work
  /// since, it needed none.
  bool is_replaced(const Call& call, const EventState& event) const {
    if (!event.record || event.record->verb() != Verb::event_record || !event.work || event.capture ||
        event.may_have_other_record() || event.stream == call.stream())
      return false;
    const StreamState* const from = world_.stream(event.stream);
    const StreamState* const to = world_.stream(call.stream());
    return from != nullptr && to != nullptr && !from->is_capturing() && !to->is_capturing() &&
           from->work == event.work_before && to->last_work &&
           world_.order().compare_with_host(*to->last_work) != Ordered::before &&
           world_.order().compare_with_host(*event.work) != Ordered::before &&
           !world_.order().may_be_behind(*event.work, *to);
  }

  void use(const Call& call, const EventState& event) {
    used_.insert(event.number);
    if (event.record) {
      Used& used =
          used_places_.try_emplace({event.stream, event.record->stack}, Used{event.number}).first->second;
      used.are_several |= used.number != event.number;
    }
    const auto lost = lost_.find(event.number);
    if (lost == lost_.end() || call.verb() == Verb::context_wait) return;
    const bool is_host = call.verb() != Verb::stream_wait;
    if (is_host ? measures_.contains(event.number) : world_.is_capturing(call.stream())) return;
    const std::optional<StreamKey> waiter = is_host ? std::nullopt : std::optional(call.stream());
    for (const auto& each : lost->second)
      if (!each->is_counted && std::none_of(waits_.begin(), waits_.end(), [&](const Wait& wait) {
            return wait.lost == each && wait.waiter == waiter;
          }))
        waits_.push_back({each, waiter, call});
    if (waits_.size() > lost_waits_kept) waits_.erase(waits_.begin(), waits_.end() - lost_waits_kept);
  }

  /// A waiter relies on the work from its next step on. Until then, other waits may order it.
  void judge_waits_before(const Call& call) {
    if (!call.succeeded()) return;
    const bool is_work = submits_work(call.verb());
    const bool is_for_host = call.verb() == Verb::stream_synchronize || call.verb() == Verb::stream_query;
    if (!is_work && !is_for_host && call.verb() != Verb::copy) return;
    std::erase_if(waits_, [&](const Wait& wait) {
      const bool relies = wait.waiter ? call.has_stream() && call.stream() == *wait.waiter : !is_for_host;
      if (relies) judge(wait);
      return relies;
    });
  }

  void judge(const Wait& wait) {
    Lost& lost = *wait.lost;
    const StreamState* const waiter = wait.waiter ? world_.stream(*wait.waiter) : nullptr;
    if (lost.is_counted || (wait.waiter && waiter == nullptr)) return;
    const bool is_ordered = waiter != nullptr
                                ? world_.order().may_be_behind(lost.work, *waiter)
                                : world_.order().compare_with_host(lost.work) == Ordered::before;
    if (is_ordered || is_needed_at_times(lost)) return;
    lost.is_counted = true;
    lost.finding.earlier.push_back({"this waits for the last record only", wait.call});
    Replaced& replaced = replaced_[{lost.place, lost.finding.call.stack}];
    replaced.last = wait.lost;
    ++replaced.count;
    replaced.is_repeated |= ++counts_[lost.number] > 1; // once may be chance
    replaced.of_new_events += lost.is_first && lost.place != 0;
  }

  /// A pool's events also mark work that nobody waits for: at this place other events mark the work of the
  /// same stream, and they are waited for.
  bool is_needed_at_times(const Lost& lost) const {
    const auto used = used_places_.find({lost.stream, lost.place});
    return used != used_places_.end() && (used->second.are_several || used->second.number != lost.number);
  }

  const World& world_;
  const Report report_;
  std::unordered_set<std::uint64_t> used_;     // events whose last record something has used, by number
  std::unordered_set<std::uint64_t> measures_; // events whose time was asked for
  std::unordered_map<std::uint64_t, std::vector<std::shared_ptr<Lost>>> lost_; // since the last use
  std::unordered_map<std::uint64_t, unsigned> counts_;                         // of lost records, by event
  std::vector<Wait> waits_;
  std::map<std::pair<StreamKey, std::uint32_t>, Used> used_places_;      // by stream and stack of the record
  std::map<std::pair<std::uint32_t, std::uint32_t>, Replaced> replaced_; // by the stacks of both records
};

} // namespace

Rules replaced_rules(const World& world, Report report) {
  return std::make_shared<ReplacedRules>(world, std::move(report));
}

} // namespace watch
