// SPDX-License-Identifier: MIT
/// \file
/// \brief StageReport: what a StageTimer has read.
///
/// Thread-safety: plain values.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
#pragma once

#include <cuevent/version.hpp>

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// A point in time on the device's clock, counted since the timer was created, or a duration.
using DeviceTime = std::chrono::duration<double, std::nano>;
/// A point in time on the host's clock. In a simulated driver this clock can be virtual.
using HostTime = std::chrono::steady_clock::time_point;

/// The number of a stage or a stream: its place in StageReport::stages or StageReport::streams.
enum class StageId : std::uint32_t {};
enum class StreamId : std::uint32_t {};

/// Whether work that was submitted to the context during a span was still running more than 20 us after the
/// span's end.
enum class SpanEscape : unsigned char {
  unknown, ///< not checked, or it cannot be known: docs/timing.md
  no,
  yes,
};

/// The durations of one stage. The percentiles are at most 0.4 % off for durations up to 104 days.
/// All other values are exact.
struct StageStatistics {
  std::string name;
  std::uint64_t count = 0;   ///< spans that were read
  std::uint64_t dropped = 0; ///< spans not timed: no room, or a call failed
  std::uint64_t escaped = 0; ///< spans with SpanEscape::yes
  std::uint64_t unknown = 0; ///< spans with SpanEscape::unknown: all of them with StageEscapes::ignored
  DeviceTime total{}, min{}, mean{}, p50{}, p90{}, p99{}, max{};
};

/// A stream of a timer.
struct StageStream {
  std::string name; ///< "stream 0" and so on if the program gave no name
  CUstream handle = nullptr;
};

/// One run of a stage, on the device's clock and on the host's. The spans of one stream nest. There is
/// one exception: if a TimedGraph is launched in another stream than a stage was captured on, the stage
/// runs at any time, and can overlap the other spans of its stream.
struct StageSpan {
  std::uint64_t number = 0; ///< unique among the spans of the timer, from 1
  StageId stage{};
  StreamId stream{};
  unsigned depth = 0; ///< the number of stages around this one; in such a launch, only of the same capture
  DeviceTime begin{}, end{};
  /// When the program opened and closed the stage. For a captured stage: when it launched the
  /// graph.
  HostTime opened{}, closed{};
  SpanEscape escaped = SpanEscape::unknown;
};

/// A wait of one stream for another, as an arrow between two spans: see StageTimer::record().
///
/// - The arrow departs at the last end or beginning of a stage before the record.
/// - The arrow arrives at the first beginning or end of a stage after the wait.
///
/// Records in a side stream are some microseconds late, so an arrow can depart after it arrives.
struct StageWait {
  std::uint64_t from = 0, to = 0; ///< StageSpan::number
  StreamId from_stream{}, to_stream{};
  DeviceTime departure{}, arrival{};
};

/// The device's clock: its zero on the host's clock, and how precise it is.
struct StageClock {
  HostTime epoch{};           ///< the host's time at device time zero
  DeviceTime uncertainty{};   ///< the largest error of epoch, either way, at the calibration
  DeviceTime calibrated_at{}; ///< the time of the last calibration
  DeviceTime resolution{};    ///< all times seen in the calibration are multiples of this
  DeviceTime empty_stage{};   ///< the median time measured for an empty stage; every time includes it
  DeviceTime rounding{};      ///< the largest rounding by the driver's float milliseconds so far

  /// The host's time for a time of the device.
  HostTime host_time(DeviceTime time) const noexcept {
    return epoch + std::chrono::duration_cast<HostTime::duration>(time);
  }
};

/// Everything that a timer has read so far.
struct StageReport {
  std::vector<StageStatistics> stages; ///< by StageId
  std::vector<StageStream> streams;    ///< by StreamId
  std::vector<StageSpan> spans;        ///< the last ones; per stream in the order of their ends
  std::vector<StageWait> waits;        ///< the last ones, between spans of this report
  std::uint64_t untraced_waits = 0;    ///< waits that are not in the report; causes: docs/timing.md
  StageClock clock;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
