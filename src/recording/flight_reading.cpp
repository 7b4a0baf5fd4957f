// SPDX-License-Identifier: MIT
#include "recording/flight_reading.hpp"

#include "core/erase_where.hpp"
#include "core/relaxed_mode.hpp"
#include "core/retired_events.hpp"

#include <algorithm>
#include <utility>

namespace cuevent { inline namespace CUEVENT_ABI {

CUresult FlightReading::observe(FlightObservation& out) {
  const RetireScope retire; // of the events of a graph that ends meanwhile
  std::vector<RecordedStream*> all;
  streams_.each([&](RecordedStream& each) { all.push_back(&each); });
  const DriverTable& table = context_.driver().table();
  RelaxedMode relaxed(table);
  relaxed_ = relaxed.enter();
  now_ = table.clock_now();
  count_ = all.size();
  if (relaxed_ == CUDA_ERROR_NOT_INITIALIZED) return relaxed_;
  if (relaxed_ != CUDA_SUCCESS) observation_.refused(relaxed_);
  for (RecordedStream* const each : all) {
    observation_.streams.push_back(observe(*each));
    observation_.progress += observation_.streams.back().reached;
    observation_.untraced_waits += each->untraced.load(std::memory_order_relaxed);
  }
  if (observation_.has_answers()) observe_replays();
  out = std::move(observation_);
  return CUDA_SUCCESS;
}

ObservedStream FlightReading::observe(RecordedStream& stream) {
  ObservedStream observed;
  ShortName name;
  observed.name = stream.name_in(name);
  if (observed.name.empty()) observed.name = "stream " + std::to_string(stream.index);
  observed.dropped = stream.dropped.load(std::memory_order_relaxed);
  // What is submitted from here on is not part of the report.
  observed.submitted = stream.ring.submitted();
  observed.reached = std::min(stream.ring.seen(), observed.submitted);
  // In another capture mode a query could harm captures.
  CUresult result = relaxed_;
  if (result == CUDA_SUCCESS && !stream.is_over())
    result = stream.ring.look(observed.submitted, observed.reached);
  if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
    stream.end();
    result = CUDA_SUCCESS;
  }
  observed.ended = stream.is_over();
  if (observed.ended) observed.reached = observed.submitted;
  if (result != CUDA_SUCCESS) observation_.refused(result);
  observed.exact = result == CUDA_SUCCESS || observed.reached == observed.submitted;

  // The last named place that was reached, and all that were not. What can no longer be read was reached.
  const Position oldest = stream.ring.oldest();
  for (Position at = observed.reached; at-- > oldest && observed.marks.empty();)
    if (std::optional<ObservedMark> mark = mark_at(stream, at)) observed.marks.push_back(*std::move(mark));
  // The launches that this has found have completed.
  erase_where(launches_, [&](const Launch& each) { return each.place.stream == stream.index; });
  for (Position at = observed.reached; at < observed.submitted; ++at)
    if (std::optional<ObservedMark> mark = mark_at(stream, at)) observed.marks.push_back(*std::move(mark));

  stream.waits.each([&](const NotedWait& wait) {
    const bool is_known = wait.stream == NotedWait::no_stream || wait.stream < count_;
    if (!is_known || observed.ended || wait.before < observed.reached || wait.before > observed.submitted)
      return;
    if (std::optional<ObservedWait> known = this->observed(wait))
      observed.waits.push_back(*std::move(known));
    else
      ++observation_.untraced_waits;
  });
  if (!observed.ended) observed.call = call_on(stream);
  return observed;
}

std::optional<FlightCall> FlightReading::call_on(const RecordedStream& stream) const {
  PublishedWords<6>::Words call;
  ShortName name("mark");
  long long began = stream.ring.entered();
  if (stream.call.read(0, call)) {
    began = static_cast<long long>(call[0]);
    std::copy(call.begin() + 1, call.end(), name.words.begin());
  }
  if (began == 0) return std::nullopt;
  return FlightCall{std::string(name.text()), std::chrono::nanoseconds(std::max(now_ - began, 0LL))};
}

std::optional<ObservedMark> FlightReading::mark_at(const RecordedStream& stream, Position position) {
  MarkedPlace place;
  if (!stream.ring.read(position, place)) return std::nullopt;
  const std::chrono::nanoseconds age(std::max(now_ - place.time, 0LL));
  if (place.graph == 0 && place.name.text().empty()) return std::nullopt;
  if (place.graph == 0) return ObservedMark{position, {std::string(place.name.text()), age}};
  launches_.push_back({place.graph, place.replay, {stream.index, position}, age});
  return ObservedMark{position, {graphs_.launch_name(place.graph, place.replay), age}};
}

std::optional<ObservedWait> FlightReading::observed(const NotedWait& wait) const {
  ObservedWait found{.before = wait.before};
  if (wait.stream != NotedWait::no_stream) {
    found.signals.push_back({wait.stream, wait.position});
    return found;
  }
  found.what = "value " + std::to_string(wait.value) + " of '" + std::string(wait.name.text()) + "'";
  // NOLINTNEXTLINE(performance-no-int-to-ptr): it was an address
  const auto* const object = reinterpret_cast<const void*>(wait.object);
  for (const StreamPlace& each : signals_.find(object, wait.value))
    if (each.stream < count_) found.signals.push_back({each.stream, each.position});
  if (signals_.may_have_forgotten(object, wait.value)) return std::nullopt;
  return found;
}

namespace {

/// The waits of a launch, which its tracks share before the first mark. False if earlier places of the stream
/// are not reached, or if a wait has no known signal: then the stream itself is what a report should name.
bool waits_of_next(const ObservedStream& stream, Position next, std::vector<ObservedWait>& waits) {
  if (stream.reached != next) return false;
  for (const ObservedWait& each : stream.waits) {
    if (each.before != next) continue;
    if (each.signals.empty()) return false;
    waits.push_back(each);
    waits.back().before = 0;
  }
  return true;
}

} // namespace

/// Adds a stream for each track of a replay in flight. A launch waits for its tracks.
void FlightReading::observe_replays() {
  for (const MarkedGraph& graph : graphs_.all()) {
    const Launch* launch = nullptr; // the one that is in flight
    std::size_t launches = 0;
    for (const Launch& each : launches_) {
      if (each.graph != graph.number) continue;
      ++launches;
      if (launch == nullptr || each.replay < launch->replay) launch = &each;
    }
    const auto lock = graph.marks->lock.hold();
    if (!lock) continue;
    std::vector<ReplayedTrack> tracks = look_at(*graph.marks, observation_);
    // Once the next launch is submitted, all marks read pending, until they are reached in that launch.
    const bool has_begun = std::any_of(tracks.begin(), tracks.end(), [](const ReplayedTrack& each) {
      return each.reached != 0 || each.written;
    });
    if (!has_begun && launches != 1) continue;
    // Work before the launch can hold up a replay that has not begun.
    std::vector<ObservedWait> waits;
    if (!has_begun &&
        !waits_of_next(observation_.streams[launch->place.stream], launch->place.position, waits))
      continue;
    // A stream can be newer than the list of streams.
    erase_where(tracks, [&](const ReplayedTrack& each) {
      return each.reached == each.marks.size() || each.stream >= count_;
    });
    // What was captured first is first: later tracks may depend on it.
    std::sort(tracks.begin(), tracks.end(), [](const ReplayedTrack& a, const ReplayedTrack& b) {
      return a.marks[a.reached] < b.marks[b.reached];
    });
    for (const ReplayedTrack& track : tracks) {
      ObservedStream observed{
          .name = observation_.streams[track.stream].name + " in " +
                  (launch == nullptr ? "a replay" : "replay " + std::to_string(launch->replay)) + " of " +
                  std::string(graph.name.text())};
      observed.reached = track.reached;
      observed.submitted = track.marks.size();
      observed.waits = waits;
      const std::chrono::nanoseconds age = launch == nullptr ? std::chrono::nanoseconds{} : launch->age;
      for (std::size_t i = track.reached == 0 ? 0 : track.reached - 1; i < track.marks.size(); ++i)
        observed.marks.push_back({i, {std::string(graph.marks->marks[track.marks[i]].name.text()), age}});
      if (launch != nullptr)
        observation_.streams[launch->place.stream].waits.push_back(
            {.before = launch->place.position,
             .signals = {{observation_.streams.size(), observed.submitted - 1}}});
      observation_.streams.push_back(std::move(observed));
    }
  }
}

}} // namespace cuevent::CUEVENT_ABI
