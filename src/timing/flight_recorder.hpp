// SPDX-License-Identifier: MIT
// What a FlightRecorder is made of. Internal to the library.
#pragma once

#include "timing/flight_arrows.hpp"
#include "timing/flight_observation.hpp"
#include "timing/flight_streams.hpp"

#include <cuevent/flight_recorder.hpp>

namespace cuevent {

struct FlightRecorder::State {
  State(const Context& its_context, const FlightRecorderOptions& its_options);

  /// The stream, which is added if it is new.
  Status find_or_add(CUstream stream, RecordedStream*& found) noexcept;
  Status add(const Context& context, CUstream stream, std::string_view name) noexcept;

  Status mark(CUstream stream, std::string_view name) noexcept;
  /// The stream has just recorded the event, or has just been told to wait for it.
  Status note_record(EventRef event, RecordedStream& stream) noexcept;
  Status note_wait(EventRef event, RecordedStream& stream) noexcept;
  Status note_signal(CUstream stream, const void* object, std::uint64_t value) noexcept;
  Status note_wait(CUstream stream, const void* object, std::uint64_t value, std::string_view name) noexcept;
  void begin_call(CUstream stream, std::string_view name) noexcept;
  void end_call(CUstream stream) noexcept;

  /// Reads everything. Harms nothing; see FlightRecorder::report().
  FlightObservation observe() const;

  const Context context;
  const FlightRecorderOptions options;
  RecordedStreams streams;
  RecordedEvents events;
  NotedSignals signals;

private:
  /// Whether a place was submitted.
  enum class Submitted { no, yes, in_capture };

  const DriverTable& table() const noexcept { return context.driver().table(); }
  /// The time at which work is submitted: a few milliseconds old if that is cheaper.
  long long coarse_now() const noexcept;
  Status submit(RecordedStream& stream, const MarkedPlace& place, Submitted& submitted) noexcept;
  Status submit_here(RecordedStream& stream, const MarkedPlace& place, Submitted& submitted) noexcept;
  Status note(RecordedStream& stream, const NotedWait& wait) noexcept;
  ObservedStream observe(RecordedStream& stream, std::size_t count, long long now, CUresult result,
                         CUresult& fault) const;
  ObservedWait observed(const NotedWait& wait, std::size_t count) const;

  const bool virtual_time_; // of a simulated driver
};

} // namespace cuevent
