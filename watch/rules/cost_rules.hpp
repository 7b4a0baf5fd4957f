// SPDX-License-Identifier: MIT
// What a program wastes: calls that are right, and cost more than they need to. Plain calls in, findings out.
#pragma once

#include "rules/contexts.hpp"

#include <functional>
#include <unordered_set>
#include <utility>

namespace watch {

/// Counts the calls of one process by the stack that made them.
/// Thread-safety: none; one thread calls it.
class CostRules {
public:
  explicit CostRules(std::function<void(Finding)> report) : report_(std::move(report)) {}

  /// Takes the next call of the process, in the order of its records.
  void see(const Call& call);

  /// The process has ended, or is watched no more: reports what happened often.
  void end();

private:
  /// A stack and its function. Calls without a stack have one place for each function.
  using Place = std::pair<std::uint32_t, std::uint16_t>;

  /// A place that creates events.
  struct Creation {
    Call call;
    unsigned long created = 0, alive = 0, most_alive = 0;
    unsigned long short_lives = 0;   // events that were destroyed after a few records
    unsigned long timed_records = 0; // that measure the time
    bool time_read = false;
  };
  struct Event {
    Creation* creation;
    Handle context;
    bool timed;
    bool recorded_elsewhere = false; // by graphs or other processes
    bool complete = false;           // a query of the last record has said so
    unsigned long records = 0;
    unsigned long late_queries = 0; // since then
  };
  /// A place that does something costly.
  struct Repeated {
    Call call;
    unsigned long count = 0;
    std::chrono::nanoseconds waited{};
    std::optional<Call> other; // what the calls wait for
  };
  using Places = std::map<Place, Repeated>;

  void create_event(const Call& call);
  void remove_event(Handle handle, bool destroyed);
  void record_event(const Call& call, Handle handle, unsigned flags);
  void query(const Call& call);
  void read_time(Handle handle);
  void recorded_elsewhere(Handle handle);
  void block(const Call& call);
  void add_work(const Call& call, Handle stream);
  void count_captures(const Call& call);
  void forget_context(Handle context);
  void end_creation(const Creation& creation);

  static Place place_of(const Call& call) { return {call.stack, call.entry}; }
  static Repeated& repeated(Places& places, const Call& call);

  std::function<void(Finding)> report_;
  Contexts contexts_;
  std::set<Handle> capturing_; // streams on which captures began: what they capture costs nothing now
  std::unordered_map<Handle, Event> events_;
  std::unordered_map<Handle, Call> blocking_streams_; // and the calls that created them
  std::unordered_map<Handle, Call> since_legacy_;     // by context: a blocking stream with newer work
  std::unordered_set<std::uint32_t> submitting_;      // threads with work since their last wait
  std::map<Place, Creation> creations_;
  Places blocking_, late_queries_, legacy_;
};

} // namespace watch
