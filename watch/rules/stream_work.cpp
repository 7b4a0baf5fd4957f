// SPDX-License-Identifier: MIT
#include "rules/stream_work.hpp"

#include <algorithm>
#include <utility>

namespace watch {

namespace {

constexpr std::size_t place_limit = 100'000; // of a process: later calls share places
constexpr std::size_t calls_kept = 4;        // of a place
constexpr std::size_t waits_kept = 64;       // of a place, and as many memory operations

constexpr Handle legacy = 1; // CU_STREAM_LEGACY

template <class T>
void add_up_to(std::vector<T>& list, std::size_t limit, T added) {
  if (list.size() < limit) list.push_back(std::move(added));
}

CallPlace place_of(const Call& call) { return {call.entry, call.stack}; }

ValueOperation operation_of(const Call& call) {
  return {call.address, call.value, static_cast<unsigned>(call.flags), call.has(value_of_64_bits),
          place_of(call)};
}

/// A record or a wait refers to what was submitted so far, so later calls belong to another place.
void seal(Stream& stream) {
  if (!stream.places.empty()) stream.places.back().sealed = true;
}

/// In a launch queue, at most.
std::uint64_t places_of_record(std::uint64_t flags) {
  if ((flags & CU_EVENT_BLOCKING_SYNC) != 0) return 51;
  return (flags & CU_EVENT_DISABLE_TIMING) == 0 || (flags & CU_EVENT_INTERPROCESS) != 0 ? 1 : 0;
}

/// Whether a text would name both in the same way. Replays have numbers.
bool is_same(const Submission& a, const Submission& b) {
  return a.entry == b.entry && a.object == b.object && a.number == b.number && a.graph == b.graph;
}

} // namespace

void Place::add(Submission call) {
  if (std::any_of(calls.begin(), calls.end(), [&](const Submission& each) { return is_same(each, call); }))
    return;
  if (calls.size() < calls_kept) return calls.push_back(std::move(call));
  calls.back() = std::move(call);
  has_more_calls = true;
}

std::optional<Position> Stream::first_probed() const {
  const auto found =
      std::find_if(places.begin(), places.end(), [](const Place& each) { return each.probe != 0; });
  if (found == places.end()) return std::nullopt;
  return reached + static_cast<Position>(found - places.begin());
}

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
  return stream;
}

/// What the World knows about it. A stream with lost probes only is not known there.
const StreamState& StreamWork::known(const Stream& stream) const {
  static const StreamState unknown;
  const StreamState* const found = world_.stream(stream.key);
  return found != nullptr ? *found : unknown;
}

/// Whether all of its records are known: none was made before the records begin, or by others.
bool StreamWork::is_known(Handle event) const {
  const EventState* const found = world_.event(event);
  return found != nullptr &&
         (found->record ||
          (found->created && found->created->verb() == Verb::event_create && !found->recorded_by_graph));
}

void StreamWork::forget_stream(const StreamKey& key) {
  const auto number = numbers_.find(key);
  if (number == numbers_.end()) return;
  const auto found = streams_.find(number->second);
  places_ -= found->second.places.size();
  streams_.erase(found);
  numbers_.erase(number);
}

void StreamWork::before(const Call& call) {
  if (!call.succeeded()) return;
  if (const Handle ended = world_.context_ended_by(call); ended != 0)
    for (auto each = streams_.begin(); each != streams_.end();)
      if (const Stream& stream = (each++)->second; known(stream).context == ended) forget_stream(stream.key);
  const bool is_another = call.verb() == Verb::stream_create || call.verb() == Verb::stream_create_green;
  if (is_another || call.verb() == Verb::stream_destroy) forget_stream(call.stream());
  if (call.verb() == Verb::event_create || call.verb() == Verb::event_open ||
      call.verb() == Verb::event_destroy)
    events_.erase(call.event);
}

void StreamWork::after(const Call& call) {
  if (call.result == CUDA_ERROR_NOT_READY) return note_not_ready(call);
  if (!call.succeeded()) return;
  switch (call.verb()) {
  case Verb::probe:
    return add_probe(call);
  case Verb::stream_create:
  case Verb::stream_create_green:
    stream(call.stream());
    break;
  case Verb::event_record:
    record(call, call.event);
    break;
  case Verb::context_record:
    record_context(call);
    break;
  case Verb::stream_wait:
    wait(call, stream(call.stream()));
    break;
  case Verb::context_wait:
    for (auto& [number, each] : streams_)
      if (known(each).context == call.named_context) wait(call, each);
    break;
  case Verb::event_query:
  case Verb::event_synchronize:
  case Verb::event_elapsed:
    for (const Handle handle : call.events())
      if (const auto event = events_.find(handle); event != events_.end()) reach(call, event->second);
    break;
  case Verb::stream_query:
  case Verb::stream_synchronize:
    reach_all(call, stream(call.stream()));
    break;
  case Verb::context_synchronize:
    for (auto& [number, each] : streams_)
      if (const Handle context = known(each).context; context != 0 && context == call.named_context)
        reach_all(call, each);
    break;
  case Verb::work:
  case Verb::value_wait:
  case Verb::value_write:
  case Verb::graph_launch:
    submit(call, stream(call.stream()));
    for (const Handle event : call.events())
      if (event != 0) record(call, event);
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
      if (known(other).blocking && known(other).context == on.key.context) wait_for(other);
  } else if (known(on).blocking) {
    if (const auto found = numbers_.find({legacy, known(on).context, 0}); found != numbers_.end())
      wait_for(streams_.at(found->second));
  }
}

void StreamWork::submit(const Call& call, Stream& on) {
  ++submitted_;
  add_collective(call, on);
  if (known(on).is_capturing()) return;
  ++on.calls;
  if (call.verb() == Verb::value_wait && !on.places.empty() && on.places.back().count > 0) seal(on);
  Place& place = open_place(call, on);
  ++place.count;
  ++place.queued;
  if (call.verb() == Verb::graph_launch) ++place.replays;
  place.last = call.time;
  place.one_thread = place.one_thread && place.thread == call.thread;
  place.add(world_.submission_of(call));
  if (call.verb() == Verb::value_wait) add_up_to(place.value_waits, waits_kept, operation_of(call));
  if (call.verb() == Verb::value_write) add_up_to(place.writes, waits_kept, operation_of(call));
}

std::vector<StreamPlace> StreamWork::points_of(const Stream& recorded) const {
  std::vector<StreamPlace> points;
  if (!recorded.places.empty()) points.push_back({recorded.number, recorded.end() - 1});
  if (recorded.key.handle != legacy) return points;
  for (const auto& [number, other] : streams_)
    if (known(other).blocking && known(other).context == recorded.key.context &&
        other.probed_end() > other.reached)
      points.push_back({number, other.probed_end() - 1});
  return points;
}

void StreamWork::record(const Call& call, Handle event) {
  Event& recorded = events_[event] = {};
  recorded.time = call.time;
  recorded.thread = call.thread;
  Stream& on = stream(call.stream());
  if (known(on).is_capturing()) return;
  seal(on);
  if (!on.places.empty()) on.places.back().queued += places_of_record(world_.event(event)->flags);
  recorded.points = points_of(on);
}

void StreamWork::record_context(const Call& call) {
  Event& event = events_[call.event] = {};
  event.time = call.time;
  event.thread = call.thread;
  for (auto& [number, each] : streams_)
    if (known(each).context == call.named_context && !each.places.empty()) {
      seal(each);
      event.points.push_back({number, each.end() - 1});
    }
}

void StreamWork::wait(const Call& call, Stream& on) {
  const EventState* const awaited = world_.event(call.event);
  if (known(on).is_capturing() || (awaited != nullptr && awaited->capture)) return;
  const bool all_known = is_known(call.event);
  std::vector<StreamPlace> pending;
  if (const auto found = events_.find(call.event); all_known && found != events_.end())
    for (const StreamPlace& point : found->second.points)
      if (point.stream != on.number && !is_reached(point)) pending.push_back(point);
  if (all_known && pending.empty()) return;
  if (!on.places.empty() && on.places.back().count > 0) seal(on);
  Place& place = open_place(call, on);
  if (!all_known) ++place.untraced_waits;
  const bool is_of_record = !pending.empty() && means_last_record(call, events_.at(call.event));
  for (const StreamPlace& point : pending)
    add_up_to(place.waits, waits_kept, {call.event, point, is_of_record, place_of(call)});
}

} // namespace watch
