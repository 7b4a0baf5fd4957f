// SPDX-License-Identifier: MIT
// What tells StreamWork that work was reached: probes, and calls that wait for it or ask about it.
#include "rules/stream_work.hpp"

#include <algorithm>

namespace watch {

namespace {

constexpr std::size_t values_kept = 10'000;
constexpr auto not_ready_for = std::chrono::milliseconds(500); // after a query has said so

void forget_probes(Stream& stream) {
  for (Place& place : stream.places)
    place.probe = 0;
  stream.probed = 0;
  stream.last_probe = 0;
}

} // namespace

bool StreamWork::is_reached(const StreamPlace& point) const {
  const auto found = streams_.find(point.stream);
  return found == streams_.end() || point.position < found->second.reached;
}

bool StreamWork::has_pending(std::chrono::nanoseconds now) const {
  return std::any_of(streams_.begin(), streams_.end(), [now](const auto& each) {
    const Stream& stream = each.second;
    return stream.probed_end() > stream.reached || stream.is_not_ready(now);
  });
}

bool StreamWork::has_unprobed(const StreamKey& key) const {
  const auto number = numbers_.find(key);
  if (number == numbers_.end()) return false;
  const Stream& stream = streams_.at(number->second);
  return !stream.places.empty() && stream.places.back().probe == 0 && stream.probed_end() == stream.reached;
}

bool Stream::is_not_ready(std::chrono::nanoseconds now) const {
  return not_ready && *not_ready >= reached && now - not_ready_at < not_ready_for;
}

void StreamWork::add_probe(const Call& call) {
  Stream& on = stream(call.stream());
  on.slot = static_cast<std::uint32_t>(call.slot);
  if (call.number <= on.last_probe) forget_probes(on); // they are numbered anew
  on.last_probe = call.number;
  const bool is_late = call.flags != 0;
  if (is_late && (on.places.empty() || on.places.back().probe != 0)) return; // it has come too late
  // A call before it may have told its record late, so it has a place even if nothing is known before it.
  if (on.places.empty() || on.places.back().probe != 0) open_place(call, on);
  on.places.back().probe = on.last_probe;
  on.places.back().late = is_late;
  on.probed = on.end();
}

void StreamWork::reach(const Stream& reached, Position end) {
  std::vector<StreamPlace> ends{{reached.number, end}}; // a chain of waits can be long
  while (!ends.empty()) {
    const auto [number, up_to] = ends.back();
    ends.pop_back();
    const auto found = streams_.find(number);
    if (found == streams_.end()) continue;
    Stream& stream = found->second;
    while (stream.reached < up_to && !stream.places.empty()) {
      Place& place = stream.places.front();
      if (values_.size() > values_kept) values_.clear();
      for (const ValueOperation& write : place.writes)
        values_[write.address] = write.value;
      for (const EventWait& wait : place.waits)
        if (wait.is_of_record) ends.push_back({wait.signal.stream, wait.signal.position + 1});
      stream.calls_reached += place.count;
      stream.last_reached = std::move(place);
      stream.places.pop_front();
      ++stream.reached;
      ++reached_;
      --places_;
    }
  }
}

void StreamWork::note_not_ready(const Call& call) {
  const auto note = [&](Stream& stream, Position position) {
    stream.not_ready = position;
    stream.not_ready_at = call.time;
  };
  if (call.verb() == Verb::stream_query) {
    const auto number = numbers_.find(call.stream());
    if (number == numbers_.end()) return;
    if (Stream& asked = streams_.at(number->second); !asked.places.empty()) note(asked, asked.end() - 1);
  } else if (call.verb() == Verb::event_query) {
    const auto event = events_.find(call.event);
    if (event == events_.end() || event->second.points.size() != 1 || !means_last_record(call, event->second))
      return;
    const StreamPlace& point = event->second.points.front();
    if (!is_reached(point)) note(streams_.at(point.stream), point.position);
  }
}

bool StreamWork::means_last_record(const Call& call, const Event& event) {
  // Times are known to about a millisecond.
  const auto begun = call.time - call.duration;
  return event.thread == call.thread || begun - event.time >= std::chrono::milliseconds(2);
}

void StreamWork::reach(const Call& call, const Event& event) {
  if (!means_last_record(call, event)) return;
  for (const StreamPlace& point : event.points)
    if (!is_reached(point)) reach(streams_.at(point.stream), point.position + 1);
}

void StreamWork::reach_all(const Call& call, Stream& stream) {
  const auto begun = call.time - call.duration;
  for (std::size_t i = stream.places.size(); i-- > 0;) { // the last one that the call has waited for
    const Place& place = stream.places[i];
    const bool is_own = place.one_thread && place.thread == call.thread;
    if (is_own || place.last < begun) return reach(stream, stream.reached + i + 1);
  }
}

void StreamWork::see(const std::vector<ProbedState>& states) {
  for (const ProbedState& state : states) {
    const auto found = numbers_.find(state.key);
    if (found == numbers_.end()) continue;
    Stream& seen = streams_.at(found->second);
    if (seen.slot != state.place) continue;
    if (state.destroyed) { // or only its probes: it gets new ones with its next work
      seen.slot.reset();
      forget_probes(seen);
      continue;
    }
    std::size_t count = 0; // of places that were reached
    for (std::size_t i = 0; i < seen.places.size() && seen.places[i].probe <= state.reached; ++i)
      if (seen.places[i].probe != 0) count = i + 1;
    reach(seen, seen.reached + count);
  }
}

void StreamWork::add_lost_probes(const std::vector<ProbedState>& states) {
  for (const ProbedState& state : states) {
    if (state.destroyed || state.recorded == state.reached) continue;
    Call probe;
    probe.entry = probe_entry;
    probe.thread = state.key.thread;
    probe.context = state.key.context;
    probe.stream_handle = state.key.handle;
    probe.number = state.recorded;
    probe.slot = state.place;
    if (stream(state.key).last_probe < state.recorded) add_probe(probe);
  }
}

} // namespace watch
