// SPDX-License-Identifier: MIT
#include "rules/object_text.hpp"
#include "rules/stream_work.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace watch {

namespace {

using cuevent::FlightCall;
using cuevent::ObservedStream;
using cuevent::ObservedWait;

constexpr auto blocked_after = std::chrono::seconds(1);
constexpr std::uint64_t long_queue = 900;      // of about 1,020 places
constexpr std::uint64_t places_of_replay = 51; // at most: of a graph that owns events

std::string value_text(std::uint64_t value, Handle address) {
  std::string text = "value " + std::to_string(value);
  return text.append(" at ").append(hexadecimal(address));
}

/// Work that was reached needs fewer words.
enum class Words { all, few };

/// What a list leaves out.
enum class LeftOut { nothing, last, before_last };

std::string list_of(const std::vector<Submission>& calls, LeftOut left_out, const Namer& namer);

std::string graph_text(const Submission& launch, const Namer& namer, Words words) {
  std::string text = launch.number != 0 ? "replay " + std::to_string(launch.number) + " of " : "a replay of ";
  if (!launch.graph) return text + "a graph";
  const std::string place = namer.place(launch.graph->begun);
  text += place.empty() ? "a captured graph" : "the graph captured at " + place;
  if (launch.graph->submissions.empty() || words == Words::few) return text;
  return text.append(" (its calls: ")
      .append(list_of(
          launch.graph->submissions,
          launch.graph->count > launch.graph->submissions.size() ? LeftOut::last : LeftOut::nothing, namer))
      .append(")");
}

std::string text_of(const Submission& call, const Namer& namer, Words words) {
  const EntryData& entry = entry_data[call.entry];
  switch (entry.verb) {
  case Verb::value_wait:
    return "a wait for " + value_text(call.number, call.object);
  case Verb::value_write:
    return "a write of " + value_text(call.number, call.object);
  case Verb::graph_launch:
    return graph_text(call, namer, words);
  default:
    break;
  }
  if (call.object == 0) return entry.name;
  if (entry.work == Work::host) return "host function " + namer.code(call.object);
  const std::string kernel = namer.kernel(call.object);
  return kernel.empty() ? "kernel " + hexadecimal(call.object) : kernel;
}

/// "spin(int), cuMemcpyAsync, ..."
std::string list_of(const std::vector<Submission>& calls, LeftOut left_out, const Namer& namer) {
  std::string text;
  for (const Submission& call : calls) {
    if (left_out == LeftOut::before_last && &call == &calls.back()) text += ", ...";
    text.append(text.empty() ? "" : ", ").append(text_of(call, namer, Words::few));
  }
  return left_out == LeftOut::last ? text + ", ..." : text;
}

/// Which calls of its stream a place has.
enum class Which { some, last };

std::string text_of(const Place& place, const Namer& namer, Words words, Which which = Which::some) {
  if (place.count == 1) return "the end of " + text_of(place.calls.front(), namer, words);
  if (place.count > 1)
    return (which == Which::last ? "the end of one of the last " : "the end of one of ") +
           std::to_string(place.count) + " calls: " +
           list_of(place.calls, place.has_more_calls ? LeftOut::before_last : LeftOut::nothing, namer);
  if (place.untraced_waits != 0) return "the end of a wait for an unknown event";
  if (place.waits.empty()) return "the end of unknown work";
  if (place.waits.front().event == 0) return "the end of a wait for another default stream";
  return "the end of a wait for " + event_text(place.waits.front().event);
}

/// One place of all from the first one that was not reached up to `last`. The stream is at one of them.
Place joined(const Stream& stream, Position last) {
  Place all = stream.places.front();
  for (Position position = stream.reached + 1; position <= last; ++position) {
    const Place& next = stream.place(position);
    for (const Submission& call : next.calls)
      all.add(call);
    all.has_more_calls = all.has_more_calls || next.has_more_calls;
    all.count += next.count;
    all.untraced_waits += next.untraced_waits;
    all.waits.insert(all.waits.end(), next.waits.begin(), next.waits.end());
    all.late = next.late;
  }
  return all;
}

std::string text_up_to(const Stream& stream, Position last, const Namer& namer, Words words) {
  return text_of(joined(stream, last), namer, words, last + 1 == stream.end() ? Which::last : Which::some);
}

std::uint64_t pending_calls(const Stream& stream) {
  std::uint64_t count = 0;
  for (const Place& place : stream.places)
    count += place.count;
  return count;
}

bool may_fill_queue(const Stream& stream, std::uint64_t places_of_each_replay) {
  std::uint64_t queued = 0;
  for (const Place& place : stream.places)
    queued += place.queued + place.replays * (places_of_each_replay - 1);
  return queued >= long_queue;
}

/// The stream to which the call submits something, or for which it waits.
std::optional<StreamKey> target_of(const Call& call) {
  const Verb verb = call.verb();
  if (!submits_work(verb) && verb != Verb::event_record && verb != Verb::stream_wait &&
      verb != Verb::stream_synchronize)
    return std::nullopt;
  return call.stream();
}

} // namespace

struct StreamWork::View {
  const Namer& namer;
  bool one_context = true;
  Unreached unreached;
  std::map<std::uint64_t, std::size_t> index; // in FlightObservation::streams
};

std::string StreamWork::name_of(const Stream& stream, const View& view) const {
  std::string text;
  if (stream.key.handle > 2) {
    text = stream_text(stream.key);
    const auto& created = known(stream).created;
    const std::string place = created ? view.namer.place(*created) : std::string();
    return place.empty() ? text : text.append(" (made at ").append(place).append(")");
  }
  text = stream.key.handle == 1 ? "the legacy default stream"
                                : "the default stream of thread " + std::to_string(stream.key.thread);
  if (!view.one_context) text.append(" of context ").append(hexadecimal(stream.key.context));
  return text;
}

/// The places that end the wait when they are reached. Nothing, if it is over.
std::optional<std::vector<StreamPlace>> StreamWork::signals_of(const StreamPlace& waiting,
                                                               const ValueOperation& wait) const {
  if (const auto written = values_.find(wait.address);
      written != values_.end() && satisfies(wait, written->second))
    return std::nullopt;
  std::vector<StreamPlace> signals;
  for (const auto& [number, stream] : streams_)
    for (std::size_t i = 0; i < stream.places.size(); ++i) {
      const StreamPlace point{number, stream.reached + i};
      for (const ValueOperation& write : stream.places[i].writes)
        if (write.address == wait.address && satisfies(wait, write.value)) {
          if (number == waiting.stream && point.position < waiting.position) return std::nullopt;
          signals.push_back(point);
          break;
        }
    }
  return signals;
}

/// What holds the stream up at the first place that it is known not to have reached. If that is the next
/// place, values can do so too: otherwise nobody knows whether the stream is past a wait for a value.
void StreamWork::show_waits(const View& view, const Stream& stream, Position last,
                            cuevent::ObservedStream& shown, StreamNote& note) const {
  const auto submitted_at = [&](const CallPlace& made) {
    if (made.stack == 0 || !note.wait_place.empty()) return;
    Call call;
    call.entry = made.entry;
    call.stack = made.stack;
    note.wait_place = view.namer.place(call);
  };
  const Place& place = stream.place(last);
  for (const EventWait& wait : place.waits) {
    if (is_reached(wait.signal) || !is_unreached(view.unreached, wait.signal)) continue;
    const Stream& other = streams_.at(wait.signal.stream);
    const std::string what = text_of(other.place(wait.signal.position), view.namer, Words::all);
    shown.waits.push_back({.before = stream.reached,
                           .what = std::string("'").append(what).append("'"),
                           .signals = {{view.index.at(wait.signal.stream), wait.signal.position}}});
    submitted_at(wait.made);
  }
  if (last != stream.reached) return;
  for (const ValueOperation& wait : place.value_waits) {
    const auto signals = signals_of({stream.number, stream.reached}, wait);
    if (!signals) continue;
    ObservedWait& waits = shown.waits.emplace_back();
    waits.before = stream.reached;
    waits.what = value_text(wait.value, wait.address);
    for (const StreamPlace& point : *signals)
      waits.signals.push_back({view.index.at(point.stream), point.position});
    submitted_at(wait.made);
  }
}

/// The work of other streams for which the stream may wait, as nobody knows whether it was reached: up to
/// which place of each.
std::map<std::uint64_t, Position> StreamWork::possible_causes(const View& view, const Stream& stream,
                                                              Position last) const {
  std::map<std::uint64_t, Position> causes;
  std::vector<StreamPlace> next{{stream.number, last}};
  while (!next.empty()) {
    const StreamPlace point = next.back();
    next.pop_back();
    const Stream& on = streams_.at(point.stream);
    for (Position position = on.reached; position <= point.position; ++position)
      for (const EventWait& wait : on.place(position).waits) {
        if (is_reached(wait.signal) || is_unreached(view.unreached, wait.signal)) continue;
        const auto [found, is_new] = causes.try_emplace(wait.signal.stream, wait.signal.position);
        if (!is_new && found->second >= wait.signal.position) continue;
        found->second = wait.signal.position;
        next.push_back(wait.signal);
      }
  }
  return causes;
}

/// `last` is the first place that the stream is known not to have reached. What it stands in comes before the
/// end of this place.
void StreamWork::show_pending(const View& view, const Stream& stream, Position last,
                              cuevent::ObservedStream& shown, StreamNote& note) const {
  show_waits(view, stream, last, shown, note);
  const Place next = joined(stream, last);
  // A wait explains why its stream stands still, so the work before it was probably reached.
  std::string text = shown.waits.empty() ? text_up_to(stream, last, view.namer, Words::all)
                                         : text_of(stream.place(last), view.namer, Words::all);
  bool is_certain = !next.late && next.count <= 1 && next.untraced_waits == 0 &&
                    (shown.waits.empty() || last == stream.reached);
  if (shown.waits.empty()) {
    std::string causes;
    for (const auto& [number, position] : possible_causes(view, stream, last)) {
      if (number == stream.number) continue;
      const Stream& other = streams_.at(number);
      causes.append(causes.empty() ? " (or it waits for " : ", or for ");
      causes.append(text_up_to(other, position, view.namer, Words::few)).append(" on ");
      causes.append(name_of(other, view));
    }
    is_certain = is_certain && causes.empty();
    if (!causes.empty()) text.append(causes).append(")");
  }
  shown.exact = shown.exact && is_certain;
  shown.marks.push_back({stream.reached, {std::move(text), next.first}});
  for (Position position = last + 1; position < stream.end(); ++position)
    shown.marks.push_back({position, {}});
}

bool StreamWork::launches_with_room(const Call& call) const {
  const auto target = target_of(call);
  if (!target || call.verb() != Verb::work || call.function == 0) return false;
  const auto number = numbers_.find(*target);
  return number == numbers_.end() || !may_fill_queue(streams_.at(number->second), 1);
}

/// The oldest call that has not returned.
std::optional<FlightCall> StreamWork::call_of(const Moment& moment, const Stream& stream) const {
  if (!may_fill_queue(stream, places_of_replay)) return std::nullopt;
  const CallUnderWay* oldest = nullptr;
  for (const CallUnderWay& each : moment.calls)
    if (each.call.verb() != Verb::stream_synchronize && target_of(each.call) == stream.key &&
        each.age >= blocked_after && (oldest == nullptr || each.age > oldest->age))
      oldest = &each;
  if (oldest == nullptr) return std::nullopt;
  std::string name = oldest->call.name();
  name.append(" (thread ").append(std::to_string(oldest->call.thread)).append(", behind ");
  name.append(std::to_string(pending_calls(stream))).append(" pending calls)");
  return FlightCall{std::move(name), oldest->age};
}

Observation StreamWork::observe(const Moment& moment, const Namer& namer) const {
  Observation observed;
  observed.fault = moment.fault;
  observed.progress = reached_;
  observed.blocked_after = blocked_after;
  View view{.namer = namer, .unreached = known_unreached(moment), .index = {}};
  std::set<Handle> contexts;
  std::set<StreamKey> not_asked;
  for (const auto& [number, stream] : streams_) {
    view.index[number] = view.index.size();
    if (const Handle context = known(stream).context; context != 0) contexts.insert(context);
  }
  view.one_context = contexts.size() <= 1;
  for (const ProbedState& state : moment.streams)
    if (!state.exact) not_asked.insert(state.key);
  for (const auto& [number, stream] : streams_) {
    ObservedStream& shown = observed.streams.emplace_back();
    StreamNote& note = observed.notes.emplace_back();
    shown.name = name_of(stream, view);
    shown.reached = shown.submitted = stream.reached;
    if (stream.last_reached)
      shown.marks.push_back({stream.reached - 1,
                             {text_of(*stream.last_reached, namer, Words::few), stream.last_reached->first}});
    shown.call = call_of(moment, stream);
    const auto last = view.unreached.find(number);
    if (last != view.unreached.end()) {
      note.was_asked = !not_asked.contains(stream.key);
      shown.exact = moment.fault == CUDA_SUCCESS && note.was_asked;
      shown.submitted = stream.end();
      show_pending(view, stream, last->second, shown, note);
      observed.untraced_waits += joined(stream, last->second).untraced_waits;
    } else if (!stream.places.empty()) {
      shown.may_be_done = true;
      shown.exact = false;
      shown.marks.push_back(
          {stream.reached,
           {text_up_to(stream, stream.end() - 1, namer, Words::all), stream.places.front().first}});
    }
    for (cuevent::ObservedMark& each : shown.marks) // from when to how long ago
      if (each.mark.age.count() != 0) each.mark.age = moment.time - each.mark.age;
  }
  return observed;
}

} // namespace watch
