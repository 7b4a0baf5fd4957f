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

std::string list_of(const std::vector<Submission>& calls, std::uint64_t count, const Namer& namer);

std::string graph_text(const Submission& launch, const Namer& namer, Words words) {
  std::string text = launch.number != 0 ? "replay " + std::to_string(launch.number) + " of " : "a replay of ";
  if (!launch.graph) return text + "a graph";
  const std::string place = namer.place(launch.graph->begun);
  text += place.empty() ? "a captured graph" : "the graph captured at " + place;
  if (launch.graph->submissions.empty() || words == Words::few) return text;
  return text.append(" (its calls: ")
      .append(list_of(launch.graph->submissions, launch.graph->count, namer))
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
  const std::string kernel = namer.kernel(call.object);
  return kernel.empty() ? "kernel " + hexadecimal(call.object) : kernel;
}

/// "spin(int), cuMemcpyAsync, ..."
std::string list_of(const std::vector<Submission>& calls, std::uint64_t count, const Namer& namer) {
  std::string text;
  for (const Submission& call : calls)
    text.append(text.empty() ? "" : ", ").append(text_of(call, namer, Words::few));
  return count > calls.size() ? text + ", ..." : text;
}

std::string text_of(const Place& place, const Namer& namer, Words words) {
  if (place.count == 1) return "the end of " + text_of(place.calls.front(), namer, words);
  if (place.count > 1)
    return "the end of one of " + std::to_string(place.count) +
           " calls: " + list_of(place.calls, place.count, namer);
  if (place.untraced_waits != 0) return "the end of a wait for an unknown event";
  if (place.waits.empty()) return "the end of unknown work";
  if (place.waits.front().event == 0) return "the end of a wait for another default stream";
  return "the end of a wait for " + event_text(place.waits.front().event);
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

/// What is shown of the streams. Work without a probe may have been done long ago. It is shown only behind
/// a place that was not reached, or if something waits for it.
struct StreamWork::View {
  std::map<std::uint64_t, Position> ends;
  std::map<std::uint64_t, std::size_t> index; // in FlightObservation::streams
};

std::string StreamWork::name_of(const Stream& stream, const Namer& namer, bool one_context) const {
  std::string text;
  if (stream.key.handle > 2) {
    text = stream_text(stream.key);
    const auto& created = known(stream).created;
    const std::string place = created ? namer.place(*created) : std::string();
    return place.empty() ? text : text.append(" (made at ").append(place).append(")");
  }
  text = stream.key.handle == 1 ? "the legacy default stream"
                                : "the default stream of thread " + std::to_string(stream.key.thread);
  if (!one_context) text.append(" of context ").append(hexadecimal(stream.key.context));
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

void StreamWork::show_waited_for(const Moment& moment, View& view) const {
  const auto show = [&](std::uint64_t number) {
    Position& end = view.ends.at(number);
    return end != std::exchange(end, streams_.at(number).end());
  };
  for (const CallUnderWay& each : moment.calls) {
    const Call& call = each.call;
    if (const auto target = target_of(call); target && numbers_.contains(*target)) show(numbers_.at(*target));
    if (call.verb() == Verb::event_synchronize)
      if (const auto event = events_.find(call.event); event != events_.end())
        for (const StreamPlace& point : event->second.points)
          if (!is_reached(point)) show(point.stream);
    if (call.verb() == Verb::context_synchronize || call.verb() == Verb::copy)
      for (const auto& [number, stream] : streams_)
        if (known(stream).context == call.named_context) show(number);
  }
  for (bool changed = true; changed;) { // whatever a shown place waits for
    changed = false;
    for (const auto& [number, stream] : streams_) {
      if (view.ends.at(number) == stream.reached) continue;
      const Place& next = stream.places.front();
      const auto show_point = [&](const StreamPlace& point) {
        if (!is_reached(point) && view.ends.at(point.stream) <= point.position)
          changed = show(point.stream) || changed;
      };
      for (const EventWait& wait : next.waits)
        show_point(wait.signal);
      for (const ValueOperation& wait : next.value_waits)
        for (const StreamPlace& point :
             signals_of({number, stream.reached}, wait).value_or(std::vector<StreamPlace>()))
          show_point(point);
    }
  }
}

/// Only the waits of the next place can hold up its stream.
std::vector<ObservedWait> StreamWork::waits_of(const View& view, const Stream& stream) const {
  std::vector<ObservedWait> waits;
  const Place& next = stream.places.front();
  for (const EventWait& wait : next.waits)
    if (!is_reached(wait.signal))
      waits.push_back(
          {.before = stream.reached, .signals = {{view.index.at(wait.signal.stream), wait.signal.position}}});
  for (const ValueOperation& wait : next.value_waits) {
    const auto signals = signals_of({stream.number, stream.reached}, wait);
    if (!signals) continue;
    ObservedWait& shown = waits.emplace_back();
    shown.before = stream.reached;
    shown.what = value_text(wait.value, wait.address);
    for (const StreamPlace& point : *signals)
      shown.signals.push_back({view.index.at(point.stream), point.position});
  }
  return waits;
}

bool StreamWork::launches_with_room(const Call& call) const {
  const auto target = target_of(call);
  if (!target || call.verb() != Verb::work || call.function == 0) return false;
  const auto number = numbers_.find(*target);
  return number == numbers_.end() || !may_fill_queue(streams_.at(number->second), 1);
}

/// The oldest call that has not returned, if it may be because the launch queue is full.
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

cuevent::FlightObservation StreamWork::observe(const Moment& moment, const Namer& namer) const {
  cuevent::FlightObservation observed{
      .fault = moment.fault, .progress = reached_, .blocked_after = blocked_after};
  View view;
  std::set<Handle> contexts;
  std::set<StreamKey> inexact;
  for (const auto& [number, stream] : streams_) {
    view.ends[number] = stream.probed_end();
    view.index[number] = view.index.size();
    if (const Handle context = known(stream).context; context != 0) contexts.insert(context);
  }
  for (const ProbedState& state : moment.streams)
    if (!state.exact) inexact.insert(state.key);
  show_waited_for(moment, view);
  for (const auto& [number, stream] : streams_) {
    const Position end = view.ends.at(number);
    ObservedStream& shown = observed.streams.emplace_back();
    shown.name = name_of(stream, namer, contexts.size() <= 1);
    shown.reached = stream.reached;
    shown.submitted = end;
    const auto add_mark = [&](Position position, const Place& place, Words words) {
      const auto age = place.first.count() != 0 ? moment.time - place.first : place.first;
      shown.marks.push_back({position, {text_of(place, namer, words), age}});
    };
    if (stream.last_reached) add_mark(stream.reached - 1, *stream.last_reached, Words::few);
    for (Position position = stream.reached; position < end; ++position)
      add_mark(position, stream.places[position - stream.reached], Words::all);
    shown.call = call_of(moment, stream);
    if (end == stream.reached) continue;
    shown.waits = waits_of(view, stream);
    shown.exact = moment.fault == CUDA_SUCCESS && !inexact.contains(stream.key);
    observed.untraced_waits += stream.places.front().untraced_waits;
  }
  return observed;
}

} // namespace watch
