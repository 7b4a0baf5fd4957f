// SPDX-License-Identifier: MIT
// FlightRecorder: what has become of the marks.
#include "core/relaxed_mode.hpp"
#include "timing/flight_recorder.hpp"

#include <algorithm>

namespace cuevent {

namespace {

FlightMark mark_at(const MarkedPlace& place, long long now) {
  return {std::string(place.name.text()), std::chrono::nanoseconds(std::max(now - place.time, 0LL))};
}

} // namespace

FlightObservation FlightRecorder::State::observe() const {
  FlightObservation observation{.blocked_after = options.blocked_after};
  RelaxedMode relaxed(table());
  const CUresult relaxed_result = relaxed.enter();
  const long long now = table().clock_now();
  std::vector<RecordedStream*> all;
  for (RecordedStream* each = streams.newest(); each != nullptr; each = each->older)
    all.push_back(each);
  std::reverse(all.begin(), all.end()); // by index
  for (RecordedStream* const each : all) {
    observation.streams.push_back(observe(*each, all.size(), now, relaxed_result, observation.fault));
    observation.untraced_waits += each->untraced.load(std::memory_order_relaxed);
  }
  return observation;
}

ObservedStream FlightRecorder::State::observe(RecordedStream& stream, std::size_t count, long long now,
                                              CUresult result, CUresult& fault) const {
  ObservedStream observed;
  ShortName name;
  observed.name = stream.name_in(name);
  if (observed.name.empty()) observed.name = "stream " + std::to_string(stream.index);
  observed.dropped = stream.dropped.load(std::memory_order_relaxed);
  // What is submitted from here on is not part of the report.
  observed.submitted = stream.ring.submitted();
  observed.reached = std::min(stream.ring.seen(), observed.submitted);
  // In another capture mode a query could harm captures.
  if (result == CUDA_SUCCESS) result = stream.ring.look(observed.submitted, observed.reached);
  observed.exact = result == CUDA_SUCCESS;
  if (!observed.exact && fault == CUDA_SUCCESS) fault = result;

  // The last named place that was reached, and all that were not. What can no longer be read was reached.
  const Position oldest = stream.ring.oldest();
  for (Position at = observed.reached; at-- > oldest;) {
    MarkedPlace place;
    if (!stream.ring.read(at, place) || place.name.text().empty()) continue;
    observed.marks.push_back({at, mark_at(place, now)});
    break;
  }
  for (Position at = observed.reached; at < observed.submitted; ++at) {
    MarkedPlace place;
    if (stream.ring.read(at, place) && !place.name.text().empty())
      observed.marks.push_back({at, mark_at(place, now)});
  }
  stream.waits.each([&](const NotedWait& wait) {
    const bool is_known = wait.stream == NotedWait::no_stream || wait.stream < count;
    if (is_known && wait.before >= observed.reached && wait.before <= observed.submitted)
      observed.waits.push_back(this->observed(wait, count));
  });
  PublishedWords<6>::Words call;
  if (stream.call.read(0, call)) {
    ShortName called;
    std::copy(call.begin() + 1, call.end(), called.words.begin());
    const long long began = static_cast<long long>(call[0]);
    observed.call = {std::string(called.text()), std::chrono::nanoseconds(std::max(now - began, 0LL))};
  }
  return observed;
}

ObservedWait FlightRecorder::State::observed(const NotedWait& wait, std::size_t count) const {
  ObservedWait found{.before = wait.before};
  if (wait.stream != NotedWait::no_stream) {
    found.signals.push_back({wait.stream, wait.position});
    return found;
  }
  found.what = "value " + std::to_string(wait.value) + " of '" + std::string(wait.name.text()) + "'";
  // NOLINTNEXTLINE(performance-no-int-to-ptr): it was an address
  for (const StreamPlace& each : signals.find(reinterpret_cast<const void*>(wait.object), wait.value))
    if (each.stream < count) found.signals.push_back({each.stream, each.position});
  return found;
}

} // namespace cuevent
