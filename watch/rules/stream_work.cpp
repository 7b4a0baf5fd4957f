// SPDX-License-Identifier: MIT
#include "rules/stream_work.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace watch {

namespace {

constexpr std::size_t place_limit = 100'000; // of a process: later calls share places
constexpr std::size_t calls_kept = 4;        // of a place
constexpr std::size_t captured_kept = 16;    // of a graph
constexpr std::size_t waits_kept = 64;       // of a place, and as many memory operations

constexpr Handle legacy = 1, per_thread_default = 2; // CU_STREAM_LEGACY, CU_STREAM_PER_THREAD

template <class T>
void add_up_to(std::vector<T>& list, std::size_t limit, T added) {
  if (list.size() < limit) list.push_back(std::move(added));
}

ValueOperation operation_of(const Call& call) {
  return {call.words[1], call.words[2], static_cast<unsigned>(call.words[3]),
          std::strstr(entry_data[call.entry].name, "64") != nullptr};
}

/// A record or a wait refers to what was submitted so far, so later calls belong to another place.
void seal(Stream& stream) {
  if (!stream.places.empty()) stream.places.back().sealed = true;
}

/// In a launch queue, at most.
std::uint64_t places_of_record(unsigned flags) {
  if ((flags & CU_EVENT_BLOCKING_SYNC) != 0) return 51;
  return (flags & CU_EVENT_DISABLE_TIMING) == 0 || (flags & CU_EVENT_INTERPROCESS) != 0 ? 1 : 0;
}

} // namespace

bool satisfies(const ValueOperation& wait, std::uint64_t value) {
  const std::uint64_t mask = wait.is_64_bit ? ~std::uint64_t{0} : 0xFFFF'FFFF;
  switch (wait.flags & 3) {
  case CU_STREAM_WAIT_VALUE_GEQ: // the difference counts, so that values may wrap around
    return wait.is_64_bit ? static_cast<std::int64_t>(value - wait.value) >= 0
                          : static_cast<std::int32_t>(value - wait.value) >= 0;
  case CU_STREAM_WAIT_VALUE_EQ:
    return ((value ^ wait.value) & mask) == 0;
  case CU_STREAM_WAIT_VALUE_AND:
    return (value & wait.value & mask) != 0;
  default: // CU_STREAM_WAIT_VALUE_NOR
    return (~(value | wait.value) & mask) != 0;
  }
}

Stream& StreamWork::stream(const StreamKey& key) {
  const auto [found, is_new] = numbers_.try_emplace(key, next_number_);
  Stream& stream = streams_[found->second];
  if (!is_new) return stream;
  stream.number = next_number_++;
  stream.key = key;
  stream.context = key.context;
  stream.blocking = key.handle == per_thread_default;
  return stream;
}

Stream& StreamWork::stream(const Call& call, Handle handle) {
  return stream(key_of(handle, call.context, call.thread));
}

void StreamWork::forget(std::uint64_t number) {
  const auto found = streams_.find(number);
  if (found == streams_.end()) return;
  const auto& capture = found->second.capture;
  if (capture && capture->begun.words[0] == found->second.key.handle)
    capture->over = true; // nobody will end it
  places_ -= found->second.places.size();
  numbers_.erase(found->second.key);
  streams_.erase(found);
}

/// The end failed, and so the capture is over without a graph.
void StreamWork::see_failed_end(const Call& call) {
  if (!call.returned || !ends_capture(static_cast<CUresult>(call.result))) return;
  if (const auto capture = std::exchange(stream(call, call.words[0]).capture, nullptr)) capture->over = true;
}

void StreamWork::see(const Call& call) {
  if (call.verb() == Verb::capture_end && !call.succeeded()) see_failed_end(call);
  if (!call.succeeded()) return;
  if (const Handle ended = contexts_.ended_by(call); ended != 0)
    for (auto each = streams_.begin(); each != streams_.end();)
      if (const Stream& stream = (each++)->second; stream.context == ended) forget(stream.number);
  const auto words = call.words;
  switch (call.verb()) {
  case Verb::probe:
    return add_probe(call);
  case Verb::stream_create:
  case Verb::stream_create_green: {
    if (const auto old = numbers_.find({words[0], 0, 0}); old != numbers_.end()) forget(old->second);
    Stream& made = stream(call, words[0]);
    made.created = call;
    if (call.verb() != Verb::stream_create) break;
    made.context = call.context;
    made.blocking = (words[1] & CU_STREAM_NON_BLOCKING) == 0;
    break;
  }
  case Verb::stream_destroy:
    if (const auto found = numbers_.find({words[0], 0, 0}); found != numbers_.end()) forget(found->second);
    break;
  case Verb::event_create:
    events_[words[0]] = {.created = true, .flags = static_cast<unsigned>(words[1])};
    break;
  case Verb::event_open:
    events_[words[0]] = {};
    break;
  case Verb::event_destroy:
    events_.erase(words[0]);
    break;
  case Verb::event_record:
    if (call.count > 2 && words[2] != 0)
      events_[words[0]] = {}; // by each launch of the graph
    else
      record(call, words[0], stream(call, words[1]));
    break;
  case Verb::context_record: {
    Event& event = events_[words[1]] = {};
    event.created = true;
    event.time = call.time;
    event.thread = call.thread;
    for (auto& [number, each] : streams_)
      if (each.context == words[0] && !each.places.empty()) {
        seal(each);
        event.points.push_back({number, each.end() - 1});
      }
    break;
  }
  case Verb::stream_wait:
    wait(call, words[1], stream(call, words[0]));
    break;
  case Verb::context_wait:
    for (auto& [number, each] : streams_)
      if (each.context == words[0]) wait(call, words[1], each);
    break;
  case Verb::event_query:
  case Verb::event_synchronize:
  case Verb::event_elapsed:
    for (unsigned i = 0; i < (call.verb() == Verb::event_elapsed ? 2u : 1u); ++i)
      if (const auto event = events_.find(words[i]); event != events_.end()) reach(call, event->second);
    break;
  case Verb::stream_query:
  case Verb::stream_synchronize:
    reach_all(call, stream(call, words[0]));
    break;
  case Verb::context_synchronize:
    for (auto& [number, each] : streams_)
      if (each.context != 0 && each.context == (call.count > 0 ? words[0] : call.context))
        reach_all(call, each);
    break;
  case Verb::work:
    submit(call, stream(call, words[0]), {call.entry, call.count > 1 ? words[1] : 0});
    for (unsigned i = 2; i < call.count; ++i)
      record(call, words[i], stream(call, words[0]));
    break;
  case Verb::value_wait:
  case Verb::value_write:
    submit(call, stream(call, words[0]), {call.entry, words[1], words[2]});
    break;
  case Verb::graph_launch: {
    const auto exec = execs_.find(words[0]);
    submit(call, stream(call, words[1]),
           {call.entry, 0, words[2], exec == execs_.end() ? nullptr : exec->second});
    break;
  }
  default:
    see_capture(call);
    break;
  }
}

void StreamWork::see_capture(const Call& call) {
  const auto words = call.words;
  const auto copy = [](auto& from, Handle old, auto& to, Handle made) {
    if (const auto found = from.find(old); found != from.end())
      to[made] = found->second;
    else
      to.erase(made);
  };
  switch (call.verb()) {
  case Verb::capture_begin:
  case Verb::capture_into_graph:
    stream(call, words[0]).capture = std::make_shared<CapturedWork>(CapturedWork{.begun = call});
    break;
  case Verb::capture_end:
    if (const auto capture = std::exchange(stream(call, words[0]).capture, nullptr)) {
      capture->over = true;
      graphs_[words[1]] = capture;
    }
    break;
  case Verb::graph_clone:
    return copy(graphs_, words[1], graphs_, words[0]);
  case Verb::graph_instantiate:
  case Verb::exec_update:
    return copy(graphs_, words[1], execs_, words[0]);
  case Verb::graph_destroy:
    graphs_.erase(words[0]);
    break;
  case Verb::exec_destroy:
    execs_.erase(words[0]);
    break;
  default:
    break;
  }
}

Place& StreamWork::open_place(const Call& call, Stream& on) {
  if (!on.places.empty())
    if (Place& last = on.places.back(); last.probe == 0 && (!last.sealed || places_ >= place_limit))
      return last;
  Place& place = on.places.emplace_back();
  ++places_;
  place.thread = call.thread;
  place.first = place.last = call.time;
  order_default_streams(on, place);
  return place;
}

/// The legacy stream and the blocking streams of its context wait for each other. Only probes count here:
/// without one, nobody knows whether the earlier work is still pending.
void StreamWork::order_default_streams(Stream& on, Place& place) {
  const auto wait_for = [&](const Stream& other) {
    if (const Position end = other.probed_end(); end > other.reached)
      add_up_to(place.waits, waits_kept, {0, {other.number, end - 1}});
  };
  if (on.key.handle == legacy) {
    for (const auto& [number, other] : streams_)
      if (other.blocking && other.context == on.context) wait_for(other);
  } else if (on.blocking) {
    if (const auto found = numbers_.find({legacy, on.context, 0}); found != numbers_.end())
      wait_for(streams_.at(found->second));
  }
}

void StreamWork::submit(const Call& call, Stream& on, Submission submission) {
  ++submitted_;
  if (on.is_capturing()) {
    ++on.capture->count;
    add_up_to(on.capture->calls, captured_kept, std::move(submission));
    return;
  }
  if (call.verb() == Verb::value_wait && !on.places.empty() && on.places.back().count > 0) seal(on);
  Place& place = open_place(call, on);
  ++place.count;
  ++place.queued;
  if (call.verb() == Verb::graph_launch) ++place.replays;
  place.last = call.time;
  place.one_thread = place.one_thread && place.thread == call.thread;
  add_up_to(place.calls, calls_kept, std::move(submission));
  if (call.verb() == Verb::value_wait) add_up_to(place.value_waits, waits_kept, operation_of(call));
  if (call.verb() == Verb::value_write) add_up_to(place.writes, waits_kept, operation_of(call));
}

std::vector<Point> StreamWork::points_of(const Stream& recorded) const {
  std::vector<Point> points;
  if (!recorded.places.empty()) points.push_back({recorded.number, recorded.end() - 1});
  if (recorded.key.handle != legacy) return points;
  for (const auto& [number, other] : streams_)
    if (other.blocking && other.context == recorded.context && other.probed_end() > other.reached)
      points.push_back({number, other.probed_end() - 1});
  return points;
}

void StreamWork::record(const Call& call, Handle event, Stream& on) {
  Event& recorded = events_[event];
  recorded.time = call.time;
  recorded.thread = call.thread;
  recorded.created = true; // all of its records are known from here on
  recorded.points.clear();
  recorded.capture = nullptr;
  if (on.is_capturing()) {
    recorded.capture = on.capture;
  } else {
    seal(on);
    if (!on.places.empty()) on.places.back().queued += places_of_record(recorded.flags);
    recorded.points = points_of(on);
  }
}

void StreamWork::wait(const Call& call, Handle event, Stream& on) {
  const auto found = events_.find(event);
  if (found != events_.end() && found->second.capture) {
    if (!found->second.capture->over) on.capture = found->second.capture; // the stream joins it
    return;
  }
  if (on.is_capturing()) return;
  const bool is_known = found != events_.end() && found->second.created;
  std::vector<Point> pending;
  if (is_known)
    for (const Point& point : found->second.points)
      if (point.stream != on.number && !is_reached(point)) pending.push_back(point);
  if (is_known && pending.empty()) return;
  if (!on.places.empty() && on.places.back().count > 0) seal(on);
  Place& place = open_place(call, on);
  if (!is_known) ++place.untraced_waits;
  for (const Point& point : pending)
    add_up_to(place.waits, waits_kept, {event, point});
}

} // namespace watch
