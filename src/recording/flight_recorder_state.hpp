// SPDX-License-Identifier: MIT
// What a FlightRecorder is made of. Internal to the library.
#pragma once

#include "recording/captured_marks.hpp"
#include "recording/flight_arrows.hpp"
#include "recording/flight_observation.hpp"
#include "recording/flight_streams.hpp"

#include <cuevent/flight_recorder.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

struct FlightRecorder::State {
  State(const Context& its_context, const FlightRecorderOptions& its_options);
  /// Driver function: cuMemHostAlloc, with GraphMarks::events_and_memory.
  Status create();

  /// False in a forked child, if a thread of the parent was changing this at the fork. Then nobody may
  /// destroy it.
  bool is_whole() const noexcept { return graphs.is_whole() && signals.is_whole(); }

  /// The stream, which is added if it is new.
  Status find_or_add(CUstream stream, RecordedStream*& found) noexcept;
  Status add(StreamRef stream, std::string_view name) noexcept;
  /// Null if the stream is new, or ended with its context: the handle can then name another stream.
  RecordedStream* find_live(CUstream handle) noexcept;

  Status mark(CUstream stream, std::string_view name) noexcept;
  /// The stream has just recorded the event, or has just been told to wait for it.
  Status note_record(EventRef event, RecordedStream& stream) noexcept;
  Status note_wait(EventRef event, RecordedStream& stream) noexcept;
  Status note_signal(CUstream stream, const void* object, std::uint64_t value) noexcept;
  Status note_wait(CUstream stream, const void* object, std::uint64_t value, std::string_view name) noexcept;
  Status name_capture(CUstream stream, std::string_view name, FlightGraph& graph) noexcept;
  Status launched(CUstream stream, FlightGraph graph) noexcept;
  void begin_call(CUstream stream, std::string_view name) noexcept;
  void end_call(CUstream stream) noexcept;

  /// Reads everything. Harms nothing; see FlightRecorder::report().
  CUresult report(FlightReport& out) const;

  /// Async-signal-safe, so it uses nothing of the driver's table: even a clock there can take a lock.
  void dump(int file) const noexcept;

  const Context context;
  const FlightRecorderOptions options;
  RecordedStreams streams;
  RecordedEvents events;
  NotedSignals signals;
  MarkedGraphs graphs;
  std::shared_ptr<MarkWords> words; // null without GraphMarks::events_and_memory

private:
  /// Whether a place was submitted.
  enum class Submitted { no, yes, in_capture };

  const DriverTable& table() const noexcept { return context.driver().table(); }
  bool is_direct(CUstream stream, const Context& its) const noexcept {
    return !is_default_stream(stream) && its == context;
  }
  /// The time at which work is submitted: a few milliseconds old if that is cheaper.
  long long coarse_now() const noexcept;
  Status submit(RecordedStream& stream, const MarkedPlace& place, Submitted& submitted) noexcept;
  Status submit_here(RecordedStream& stream, const MarkedPlace& place, Submitted& submitted) noexcept;
  Status find_capture(const RecordedStream& stream, std::uint64_t& number,
                      std::shared_ptr<CapturedMarks>& marks);
  Status mark_capture(const RecordedStream& stream, std::string_view name) noexcept;
  Status note(RecordedStream& stream, const NotedWait& wait) noexcept;

  const bool virtual_time_;                       // of a simulated driver
  mutable std::atomic<long long> latest_time_{0}; // the virtual time when it was last asked for, for dump()
};

}} // namespace cuevent::CUEVENT_ABI
