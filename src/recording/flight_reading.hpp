// SPDX-License-Identifier: MIT
// What a report sees. Internal to the library.
#pragma once

#include "recording/captured_marks.hpp"
#include "recording/flight_arrows.hpp"
#include "recording/flight_observation.hpp"
#include "recording/flight_streams.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

/// Finds out what has become of the marks of a FlightRecorder, for one report.
class FlightReading {
public:
  FlightReading(const Context& context, const RecordedStreams& streams, const NotedSignals& signals,
                const MarkedGraphs& graphs) noexcept
      : context_(context), streams_(streams), signals_(signals), graphs_(graphs) {}

  /// Reads everything, once. Harms nothing; see FlightRecorder::report(). Fails in a forked child, which does
  /// not have the streams of its parent.
  CUresult observe(FlightObservation& out);

private:
  /// A launch that was noted and has not completed.
  struct Launch {
    std::uint64_t graph, replay;
    FlightPoint place;
    std::chrono::nanoseconds age;
  };

  ObservedStream observe(RecordedStream& stream);
  std::optional<FlightCall> call_on(const RecordedStream& stream) const;
  std::optional<ObservedMark> mark_at(const RecordedStream& stream, Position position);
  /// Nothing if a signal that is forgotten may have ended the wait.
  std::optional<ObservedWait> observed(const NotedWait& wait) const;
  void observe_replays();

  const Context& context_;
  const RecordedStreams& streams_;
  const NotedSignals& signals_;
  const MarkedGraphs& graphs_;
  CUresult relaxed_ = CUDA_SUCCESS; // if this is an error, no event may be asked
  long long now_ = 0;               // on the driver's clock
  std::size_t count_ = 0;           // of streams
  std::vector<Launch> launches_;
  FlightObservation observation_;
};

}} // namespace cuevent::CUEVENT_ABI
