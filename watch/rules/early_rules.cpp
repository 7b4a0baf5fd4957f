// SPDX-License-Identifier: MIT
// Waits that come before the record which they need: of an event that was never recorded, or recorded for
// older work.
#include "rules/object_text.hpp"
#include "rules/rules.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace watch {

namespace {

constexpr std::size_t early_waits_kept = 100; // for one event
constexpr std::size_t streams_after_wait = 8; // to which a thread submits work after a wait

class EarlyRules : public Observer {
public:
  EarlyRules(const World& world, Report report) : world_(world), report_(std::move(report)) {}

  void before(const Call& call) override {
    if (!is_of_interest(world_, call)) return;
    const bool asks = call.verb() == Verb::event_query && call.result == CUDA_ERROR_NOT_READY;
    if (!call.succeeded() && !asks) return;
    if (call.verb() == Verb::graph_launch) return launch(call);
    const EventState* const event = world_.event(call.event);
    if (event == nullptr) return;
    switch (call.verb()) {
    case Verb::event_create: // an older event with this handle has ended with its context
    case Verb::event_open:
    case Verb::event_destroy:
      return forget(event->number);
    case Verb::event_export: // others may record it
      for_nothing_.erase(event->number);
      return;
    case Verb::event_record:
    case Verb::context_record:
      return record(call, *event);
    case Verb::event_query:
    case Verb::event_synchronize:
      return use(call, *event);
    case Verb::stream_wait:
    case Verb::context_wait:
      if ((call.flags & CU_EVENT_WAIT_EXTERNAL) == 0) wait(call, *event);
      return;
    default:
      return;
    }
  }

  void after(const Call& call) override {
    if (threads_.empty() || !call.succeeded() || !world_.order().point()) return;
    const auto thread = threads_.find(call.thread);
    if (thread == threads_.end()) return;
    const Point point = *world_.order().point();
    std::vector<Point>& first = thread->second;
    if (first.size() < streams_after_wait && std::none_of(first.begin(), first.end(), [&](const Point& each) {
          return each.stream == point.stream;
        }))
      first.push_back(point);
  }

  void forget(std::uint64_t number) override {
    report_waits(number);
    late_waits_.erase(number);
    right_waits_.erase(number);
    late_records_.erase(number);
  }

  void forget_stream(const StreamKey& key) override {
    for (auto& [stack, place] : places_) {
      place.waiting.erase(key);
      place.busy.erase(key);
    }
  }

  void end(bool) override {
    while (!for_nothing_.empty())
      report_waits(for_nothing_.begin()->first);
  }

private:
  /// What a waiter does after a wait.
  struct Waiter {
    std::optional<StreamKey> stream; // none: a thread
    std::uint64_t number = 0;        // of the stream
    std::uint64_t place = 0;         // the last one of the stream
    std::uint32_t thread = 0;
  };

  /// Waits for an event that was never recorded so far.
  struct WaitsForNothing {
    std::vector<Finding> findings;
    Waiter first;
    std::set<StreamKey> busy;     // other streams with work that no record marked at the first wait
    bool is_recorded = false;     // since then
    bool by_other_thread = false; // the record
  };

  /// Where events are waited for that were never recorded.
  struct Place {
    std::uint64_t event = 0;
    bool are_several = false; // events
    bool is_of_ring = false;  // one of them was recorded later
    std::set<StreamKey> waiting, busy;

    /// The first turn of a ring, which did not begin a second one or has slots that were never used. Or
    /// buffers with events of their last uses, before the first use: nobody but those who wait had any work.
    bool may_be_ring() const {
      return are_several &&
             (is_of_ring || std::includes(waiting.begin(), waiting.end(), busy.begin(), busy.end()));
    }
  };

  /// A wait for an event whose stream has newer work, which no record marks.
  struct LateWait {
    Call call;
    Waiter waiter;
    std::uint64_t record = 0;      // that the wait is for
    std::uint64_t marked_work = 0; // of the event's stream
    Point work;                    // the newest one of that stream
    bool adds_nothing = false;     // to what the waiting stream waits for anyway
  };

  /// A wait for an event whose stream had no newer work.
  struct RightWait {
    std::uint64_t record = 0;
    StreamKey stream;
  };

  Waiter waiter_of(const Call& call) const {
    if (!call.has_stream()) return {std::nullopt, 0, 0, call.thread};
    Waiter waiter{call.stream(), 0, 0, call.thread};
    if (const StreamState* const stream = world_.stream(call.stream())) {
      waiter.number = stream->number;
      waiter.place = world_.order().next(*stream).last.place;
    }
    return waiter;
  }

  /// Whether something that the waiter has submitted since its wait comes before what the stream gets now.
  bool comes_behind(const Waiter& waiter, const StreamState& stream) const {
    const auto is_before = [&](const Point& point) { return world_.order().may_be_behind(point, stream); };
    if (!waiter.stream) {
      const auto thread = threads_.find(waiter.thread);
      return thread != threads_.end() && std::any_of(thread->second.begin(), thread->second.end(), is_before);
    }
    const StreamState* const own = world_.stream(*waiter.stream);
    if (own == nullptr || (waiter.number != 0 && own->number != waiter.number)) return true; // nobody knows
    return own->number_in_order && is_before({*own->number_in_order, waiter.place + 1});
  }

  // ---- Events that were never recorded ----

  void use(const Call& call, const EventState& event) {
    if (event.failed_record) return;
    if (event.never_recorded()) {
      if (call.verb() == Verb::event_query) return; // which says that there is nothing to wait for
      std::vector<Earlier> earlier;
      add(earlier, "the event was created here", event.created);
      wait_for_nothing({Rule::wait_never_recorded,
                        event_text(call.event) + " was never recorded, so this wait has no effect", call,
                        std::move(earlier)},
                       event.number);
    } else if (const auto found = for_nothing_.find(event.number);
               found != for_nothing_.end() && found->second.is_recorded) {
      for_nothing_.erase(found); // the first turn of a ring
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

  void wait_for_nothing(Finding finding, std::uint64_t number) {
    const Call& call = finding.call;
    WaitsForNothing& waits = for_nothing_[number];
    if (waits.findings.empty()) {
      waits.first = waiter_of(call);
      if (!waits.first.stream) threads_.try_emplace(call.thread);
      for (const auto& [key, stream] : world_.streams())
        if (stream.work > stream.marked_work && waits.first.stream != key) waits.busy.insert(key);
    }
    if (call.stack != 0) {
      Place& place = places_.try_emplace(call.stack, Place{number, false, false, {}, {}}).first->second;
      place.are_several |= place.event != number;
      if (call.has_stream()) place.waiting.insert(call.stream());
      place.busy.insert(waits.busy.begin(), waits.busy.end());
    }
    if (waits.findings.size() < early_waits_kept) waits.findings.push_back(std::move(finding));
  }

  /// A ring, or a pipeline that lags, waits for nothing in its first turn. Then the work that the record
  /// marks is newer than the wait, and there is another wait after it, or the record comes behind what the
  /// waiter did meanwhile.
  void record_after_waits(const Call& call, const EventState& event) {
    const auto found = for_nothing_.find(event.number);
    if (found == for_nothing_.end() || found->second.is_recorded) return;
    WaitsForNothing& waits = found->second;
    waits.is_recorded = true;
    waits.by_other_thread = waits.first.thread != call.thread;
    for (const Finding& finding : waits.findings)
      if (finding.call.stack != 0) places_[finding.call.stack].is_of_ring = true;
    const StreamState* const stream = world_.stream(call.stream());
    if (stream != nullptr && comes_behind(waits.first, *stream))
      for_nothing_.erase(found);
    else if (waits.busy.contains(call.stream()))
      report_waits(event.number, true);
  }

  void report_waits(std::uint64_t number, bool is_certain = false) {
    const auto found = for_nothing_.find(number);
    if (found == for_nothing_.end()) return;
    const WaitsForNothing waits = std::move(found->second);
    for_nothing_.erase(found);
    for (const Finding& finding : waits.findings) {
      const auto place = places_.find(finding.call.stack);
      const bool may_be_ring = place != places_.end() && place->second.may_be_ring();
      // A thread that drains what there is, or that waits before it uses something for the first time.
      const bool drains = finding.call.verb() == Verb::event_synchronize && waits.busy.empty() &&
                          !(waits.is_recorded && waits.by_other_thread);
      if (is_certain || !(may_be_ring || drains)) report_(finding);
    }
  }

  // ---- Events that were recorded for older work ----

  void wait(const Call& call, const EventState& event) {
    use(call, event);
    if (!call.has_stream() || world_.is_capturing(call.stream()) || event.failed_record || event.capture ||
        !event.record || event.stream == call.stream())
      return;
    const StreamState* const from = world_.stream(event.stream);
    if (from == nullptr) return; // of a whole context
    const auto right = right_waits_.find(event.number);
    if (from->work == event.work_before) {
      right_waits_[event.number] = {event.sequence, call.stream()};
    } else if (from->work > from->marked_work && from->last_work) {
      const bool repeats = right != right_waits_.end() && right->second.record == event.sequence &&
                           right->second.stream == call.stream();
      LateWait& late = late_waits_[event.number];
      if (late.record != event.sequence) // else the stream has waited for the record before
        late = {call,
                waiter_of(call),
                event.sequence,
                from->marked_work,
                *from->last_work,
                repeats || !event.work};
    }
  }

  void record(const Call& call, const EventState& event) {
    record_after_waits(call, event);
    const auto found = late_waits_.find(event.number);
    if (found == late_waits_.end()) return;
    const LateWait late = found->second;
    late_waits_.erase(found);
    if (call.verb() == Verb::event_record) judge(late, call, event);
  }

  /// The record that a wait needed comes only after it: it is the first one of the stream that marks the
  /// work which was there at the wait. That work is not known to be done, and the stream does not wait for
  /// what the waiter has done since.
  void judge(const LateWait& late, const Call& call, const EventState& event) {
    const StreamState* const from = world_.stream(event.stream);
    if (event.stream != call.stream() || from == nullptr || from->is_capturing() ||
        from->marked_work != late.marked_work ||
        world_.order().compare_with_host(late.work) == Ordered::before || comes_behind(late.waiter, *from))
      return;
    // A pipeline may wait for the work before the last on purpose, and then mark the last. Its first such
    // wait has an effect. A program that forgot the order waits for a record that marks nothing, or once more
    // for one that the stream has waited for.
    unsigned& late_records = late_records_[event.number];
    if (late_records == 0 && !late.adds_nothing) return;
    if (++late_records < 2) return; // once may be chance
    std::vector<Earlier> earlier;
    add(earlier, "the wait refers to this record, which is older than the work", event.record);
    earlier.push_back({"the event is recorded for that work only here, after the wait", call});
    report_({Rule::wait_before_record,
             stream_text(late.call.stream()) + " waits for " + event_text(call.event) +
                 ", which is recorded for the last work of " + stream_text(event.stream) + " only afterwards",
             late.call, std::move(earlier)});
  }

  const World& world_;
  const Report report_;
  // By the number of the event:
  std::map<std::uint64_t, WaitsForNothing> for_nothing_;
  std::unordered_map<std::uint64_t, LateWait> late_waits_;
  std::unordered_map<std::uint64_t, RightWait> right_waits_;
  std::unordered_map<std::uint64_t, unsigned> late_records_;
  std::unordered_map<std::uint32_t, Place> places_; // by stack
  /// Of threads that waited for nothing: their first work since then.
  std::unordered_map<std::uint32_t, std::vector<Point>> threads_;
};

} // namespace

Rules early_rules(const World& world, Report report) {
  return std::make_shared<EarlyRules>(world, std::move(report));
}

} // namespace watch
