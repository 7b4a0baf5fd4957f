// SPDX-License-Identifier: MIT
// What tells StreamWork that work was reached: probes, and calls that wait for it or ask about it.
#include "rules/stream_work.hpp"

#include <algorithm>

namespace watch {

namespace {

constexpr std::size_t values_kept = 10'000;

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

bool StreamWork::has_pending() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& each) { return each.second.probed_end() > each.second.reached; });
}

void StreamWork::add_probe(const Call& call) {
  Stream& on = stream(call.stream());
  on.slot = static_cast<std::uint32_t>(call.slot);
  if (call.number <= on.last_probe) forget_probes(on); // they are numbered anew
  on.last_probe = call.number;
  // A call before it may have told its record late, so it has a place even if nothing is known before it.
  if (on.places.empty() || on.places.back().probe != 0) open_place(call, on);
  on.places.back().probe = on.last_probe;
  on.probed = on.end();
}

void StreamWork::reach(Stream& stream, Position end) {
  while (stream.reached < end && !stream.places.empty()) {
    Place& place = stream.places.front();
    if (values_.size() > values_kept) values_.clear();
    for (const ValueOperation& write : place.writes)
      values_[write.address] = write.value;
    stream.calls_reached += place.count;
    stream.last_reached = std::move(place);
    stream.places.pop_front();
    ++stream.reached;
    ++reached_;
    --places_;
  }
}

void StreamWork::reach(const Call& call, const Event& event) {
  // Another thread may have recorded the event meanwhile, and the call means the record before. Times are
  // known to about a millisecond.
  const auto begun = call.time - call.duration;
  if (event.thread != call.thread && begun - event.time < std::chrono::milliseconds(2)) return;
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
