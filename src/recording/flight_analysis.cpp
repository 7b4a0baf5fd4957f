// SPDX-License-Identifier: MIT
#include "recording/flight_analysis.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

namespace {

using Kind = FlightFinding::Kind;

// With fewer pending marks than that, a call may be blocked for another reason. The queue takes about 1,020
// submissions, most of which have a mark.
constexpr std::size_t marks_of_full_queue = 900;

std::string quoted(const std::string& name) { return "'" + name + "'"; }

bool is_reached(const FlightObservation& observed, const FlightPoint& point) {
  return point.position < observed.streams[point.stream].reached;
}

/// The work before a place of a stream: the last mark before it that was not reached. If there is
/// none, the work follows a mark that was reached.
std::string work_before(const ObservedStream& stream, Position position) {
  const ObservedMark* last = nullptr;
  for (const ObservedMark& each : stream.marks)
    if (each.position <= position) last = &each;
  if (last == nullptr) return "work";
  const std::string name = quoted(last->mark.name);
  return last->position < stream.reached ? "the work after " + name : name;
}

/// Whether the stream stands at the wait. Without a known signal, nobody knows whether the wait is over,
/// unless a later place was not reached.
bool holds_up(const FlightObservation& observed, const ObservedStream& stream, const ObservedWait& wait) {
  if (wait.before != stream.reached) return false;
  if (wait.signals.empty()) return wait.before < stream.submitted;
  return std::none_of(wait.signals.begin(), wait.signals.end(),
                      [&](const FlightPoint& signal) { return is_reached(observed, signal); });
}

FlightWait explained(const FlightObservation& observed, const ObservedWait& wait) {
  if (wait.signals.empty()) return {wait.what, {}};
  const FlightPoint& signal = wait.signals.front();
  return {wait.what.empty() ? work_before(observed.streams[signal.stream], signal.position) : wait.what,
          signal.stream};
}

FlightStream state_of(const FlightObservation& observed, const ObservedStream& stream) {
  FlightStream state{
      .name = stream.name, .call = stream.call, .dropped = stream.dropped, .exact = stream.exact};
  for (const ObservedMark& each : stream.marks) {
    if (each.position < stream.reached) {
      state.reached = each.mark;
    } else {
      if (!state.next) state.next = each.mark;
      ++state.pending;
    }
  }
  for (const ObservedWait& wait : stream.waits)
    if (holds_up(observed, stream, wait)) state.waits.push_back(explained(observed, wait));
  if (stream.ended)
    state.state = FlightState::ended;
  else if (!state.waits.empty())
    state.state = FlightState::waiting;
  else if (stream.reached < stream.submitted)
    state.state = FlightState::running;
  else if (stream.may_be_done)
    state.state = FlightState::unknown;
  return state;
}

/// Follows the waits of all streams to their ends.
class Search {
public:
  explicit Search(const FlightObservation& observed) : observed_(observed) {
    for (const ObservedStream& each : observed.streams)
      report_.streams.push_back(state_of(observed, each));
    report_.fault = observed.fault;
    report_.no_answer = observed.no_answer;
    report_.progress = observed.progress;
    report_.untraced_waits = observed.untraced_waits;
  }

  FlightReport report() {
    if (report_.fault != CUDA_SUCCESS)
      find_silence(Kind::fault, "device work has failed: the driver answers " + std::to_string(report_.fault),
                   "not finished when it failed: ");
    else if (report_.no_answer != CUDA_SUCCESS)
      find_silence(Kind::no_answer,
                   "the driver does not say what has completed: " +
                       driver_category().message(report_.no_answer),
                   "not seen to finish: ");
    visited_.assign(report_.streams.size(), Visit::never);
    deadlocked_.assign(report_.streams.size(), false);
    for (std::size_t i = 0; i < report_.streams.size(); ++i)
      follow(i);
    for (std::size_t i = 0; i < report_.streams.size(); ++i)
      find_on(i);
    sort_findings();
    return std::move(report_);
  }

private:
  enum class Visit { never, on_path, done };

  static bool is_pending(const FlightStream& stream) {
    return stream.state == FlightState::running || stream.state == FlightState::waiting;
  }

  /// By kind, then what holds up most, then the oldest. Equal ones stay as they were found.
  void sort_findings() {
    std::multimap<std::tuple<Kind, std::size_t, std::chrono::nanoseconds>, FlightFinding> sorted;
    for (FlightFinding& each : report_.findings) {
      each.held_up = held_up_by(each.streams);
      sorted.emplace(std::tuple(each.kind, report_.streams.size() - each.held_up, -age_of(each)),
                     std::move(each));
    }
    report_.findings.clear();
    for (auto& each : sorted)
      report_.findings.push_back(std::move(each.second));
  }

  /// How long the finding may have lasted.
  std::chrono::nanoseconds age_of(const FlightFinding& finding) const {
    if (finding.streams.empty()) return {};
    const FlightStream& stream = report_.streams[finding.streams.front()];
    return stream.next ? stream.next->age : std::chrono::nanoseconds{};
  }

  void add(Kind kind, std::vector<std::size_t> streams, std::string text) {
    report_.findings.push_back({.kind = kind, .streams = std::move(streams), .text = std::move(text)});
  }

  const std::string& name(std::size_t stream) const { return report_.streams[stream].name; }

  /// "stream 'compute' waits at 'step 18' for value 2 of 'gate'"
  std::string waits_text(std::size_t stream, const FlightWait& wait) const {
    return "stream " + quoted(name(stream)) + " waits at " + place_text(report_.streams[stream]) + " for " +
           wait.what;
  }

  void find_silence(Kind kind, std::string text, const char* pending) {
    std::vector<std::size_t> suspects;
    const bool is_any_pending = std::any_of(report_.streams.begin(), report_.streams.end(), is_pending);
    for (std::size_t i = 0; i < report_.streams.size(); ++i) {
      const FlightStream& stream = report_.streams[i];
      if (is_any_pending ? !is_pending(stream) : stream.state != FlightState::unknown) continue;
      text.append(suspects.empty() ? "; " : ", ").append(suspects.empty() ? pending : "");
      text += (is_any_pending ? "" : "perhaps ") + place_text(stream) + " on stream " + quoted(stream.name);
      if (!stream.exact && stream.pending > 1)
        text += " or one of the " + std::to_string(stream.pending - 1) + " marks after it";
      suspects.push_back(i);
    }
    if (kind == Kind::fault || !suspects.empty()) add(kind, std::move(suspects), std::move(text));
  }

  /// Looks for streams that wait for each other.
  void follow(std::size_t stream) {
    if (visited_[stream] != Visit::never) return;
    visited_[stream] = Visit::on_path;
    path_.push_back(stream);
    for (const FlightWait& wait : report_.streams[stream].waits) {
      if (!wait.stream) continue;
      if (visited_[*wait.stream] == Visit::on_path)
        find_deadlock(std::find(path_.begin(), path_.end(), *wait.stream));
      else
        follow(*wait.stream);
    }
    path_.pop_back();
    visited_[stream] = Visit::done;
  }

  void find_deadlock(std::vector<std::size_t>::const_iterator first) {
    const std::vector<std::size_t> circle(first, path_.cend());
    // Many circles can go through one stream. The first one says enough.
    if (std::any_of(circle.begin(), circle.end(), [&](std::size_t each) { return deadlocked_[each]; }))
      return;
    for (const std::size_t each : circle)
      deadlocked_[each] = true;
    std::string text = "deadlock: ";
    for (std::size_t i = 0; i < circle.size(); ++i) {
      const std::size_t next = circle[(i + 1) % circle.size()];
      const std::vector<FlightWait>& waits = report_.streams[circle[i]].waits;
      const auto wait = std::find_if(waits.begin(), waits.end(),
                                     [&](const FlightWait& each) { return each.stream == next; });
      if (i != 0) text += "; ";
      text += waits_text(circle[i], *wait) + ", which comes later on " +
              (next == circle[i] ? "the same stream" : "stream " + quoted(name(next)));
    }
    add(Kind::deadlock, circle, std::move(text));
  }

  static std::string reason_of_call(const FlightStream& stream) {
    if (stream.pending == 0) return ": the driver does not return";
    if (stream.pending >= marks_of_full_queue)
      return ": the launch queue of the stream is full, because the stream has not reached " +
             place_text(stream);
    return ": the launch queue of the stream is full, or the call loads a kernel, which can wait for work "
           "that runs. The stream has not reached " +
           place_text(stream);
  }

  void find_on(std::size_t index) {
    const FlightStream& stream = report_.streams[index];
    // What an earlier look saw may be over.
    const bool is_known = report_.no_answer == CUDA_SUCCESS || stream.exact;
    for (const FlightWait& wait : stream.waits)
      if (!wait.stream && is_known)
        add(Kind::no_signal, {index},
            waits_text(index, wait) + ", which no stream known to the recorder signals");
    if (stream.call && stream.call->age >= observed_.blocked_after)
      add(Kind::full_queue, {index},
          "a thread has been inside " + quoted(stream.call->name) + " on stream " + quoted(stream.name) +
              " for " + age_text(stream.call->age) + reason_of_call(stream));
    if (stream.state == FlightState::running && report_.fault == CUDA_SUCCESS && is_known) {
      std::string text = "stream " + quoted(stream.name) + " has not reached " + place_text(stream);
      if (stream.next) text += submitted_text(*stream.next);
      text += stream.reached ? "; the last mark reached is " + quoted(stream.reached->name)
                             : std::string("; no mark was reached before");
      add(Kind::unfinished, {index}, std::move(text));
    }
  }

  /// The number of other streams that wait for one of these streams, directly or not.
  std::size_t held_up_by(const std::vector<std::size_t>& roots) const {
    std::vector<bool> held(report_.streams.size());
    for (const std::size_t root : roots)
      held[root] = true;
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < held.size(); ++i) {
        const std::vector<FlightWait>& waits = report_.streams[i].waits;
        if (held[i] || std::none_of(waits.begin(), waits.end(), [&](const FlightWait& wait) {
              return wait.stream && held[*wait.stream];
            }))
          continue;
        held[i] = changed = true;
      }
    }
    return static_cast<std::size_t>(std::count(held.begin(), held.end(), true)) - roots.size();
  }

  const FlightObservation& observed_;
  FlightReport report_;
  std::vector<Visit> visited_;
  std::vector<bool> deadlocked_;
  std::vector<std::size_t> path_; // the streams from the first one to the one that is followed
};

} // namespace

FlightReport analyse(const FlightObservation& observed) { return Search(observed).report(); }

std::string heading_text(const FlightFinding& finding) {
  return finding.kind == Kind::no_answer ? finding.text : "likely cause: " + finding.text;
}

std::string age_text(std::chrono::nanoseconds age) {
  const double seconds = std::chrono::duration<double>(age).count();
  char text[32];
  if (seconds < 1)
    std::snprintf(text, sizeof text, "%.*f ms", seconds < 0.01 ? 1 : 0, seconds * 1e3);
  else
    std::snprintf(text, sizeof text, "%.*f s", seconds < 100 ? 1 : 0, seconds);
  return text;
}

std::string submitted_text(const FlightMark& mark) {
  return mark.age.count() > 0 ? ", which was submitted " + age_text(mark.age) + " ago" : std::string();
}

std::string place_text(const FlightStream& stream) {
  if (stream.next) return quoted(stream.next->name);
  return stream.reached ? "the work after " + quoted(stream.reached->name) : "its work";
}

}} // namespace cuevent::CUEVENT_ABI
