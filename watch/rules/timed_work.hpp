// SPDX-License-Identifier: MIT
// Which work lies between the records of two events, and which of it their time leaves out.
#pragma once

#include "rules/world.hpp"

#include <deque>
#include <optional>
#include <unordered_map>

namespace watch {

/// Follows the calls of a process from its first event that measures time.
/// Thread-safety: none.
class TimedWork {
public:
  /// Work of one stream in a row, that one thread has submitted.
  struct Run {
    Call first;
    Point last;
    std::uint64_t number = 0; // from 1
  };

  /// What a time means.
  struct Judgement {
    bool is_empty = false; // no work is known to be in the time, or may be in it
    /// The last work that is not in it, although it was submitted between the records.
    std::optional<Run> escaped;
    bool by_same_thread = false;
    bool had_begun = false; // the escaped work was submitted before the start
  };

  explicit TimedWork(const World& world) : world_(world) {}

  /// Takes the call, which the World has applied.
  void see(const Call& call);

  /// There is no event with this number any more.
  void forget(std::uint64_t event) { records_.erase(event); }

  /// Of two records outside of captures, the start before the end.
  Judgement judge(const EventState& start, const EventState& end) const;

  /// Whether the program has waited for the stream of this work, has recorded an event on it that measures no
  /// time, or has used one that does. Then the time need not contain the work.
  bool is_followed(const Point& work) const;

private:
  /// Of an event that measures time: what came before its last record.
  struct Record {
    std::uint64_t run = 0, waits = 0;
  };

  void recorded(const EventState& event);
  void submitted(const Call& call, const Point& point);
  void follow(const Point& point);
  bool is_left_out(const Run& run, const EventState& end, bool nothing_waits) const;

  const World& world_;
  std::deque<Run> runs_;
  std::uint64_t last_run_ = 0;
  std::uint64_t waits_ = 0;                                         // of streams and threads
  bool measures_ = false;                                           // it has events that measure time
  bool is_recorded_ = false;                                        // one of them, since the last run
  std::unordered_map<std::uint64_t, Record> records_;               // by the number of the event
  std::unordered_map<std::uint32_t, std::uint64_t> followed_until_; // places, by stream
};

} // namespace watch
