// SPDX-License-Identifier: MIT
/// \file
/// \brief FlightReport: what each stream was doing at one moment, and why nothing moves.
///
/// FlightRecorder::report() makes reports. docs/flight-recorder.md explains how to read them.
///
/// Thread-safety: plain values.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
#pragma once

#include <cuevent/version.hpp>

#include <cuda.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// A mark that was submitted to a stream.
struct FlightMark {
  std::string name;
  /// How long ago the mark was submitted. For a mark in a graph: how long ago the graph was launched.
  /// Wrong by up to a few milliseconds. Zero if unknown.
  std::chrono::nanoseconds age{};
};

/// Something that a stream waits for.
struct FlightWait {
  std::string what; ///< "'all_reduce 17'", "the work after 'step 3'" or "value 5 of 'gate'"
  /// The stream that has to do this work: its place in FlightReport::streams. Empty if no known stream will
  /// do the work.
  std::optional<std::size_t> stream{};
};

/// A call that has not returned: its thread is inside the driver.
struct FlightCall {
  std::string name;
  std::chrono::nanoseconds age{}; ///< how long ago the call began
};

enum class FlightState {
  idle,    ///< everything that was marked has completed
  running, ///< nothing known holds the stream up
  waiting, ///< held up by what `waits` lists
  ended,   ///< with its context, which was destroyed or reset; nothing is pending
  unknown, ///< nobody knows whether `next` was reached; only in reports of `cuevent watch`
};

/// What one stream was doing. The streams of a graph that is being replayed are streams too.
struct FlightStream {
  std::string name;
  FlightState state = FlightState::idle;
  std::optional<FlightMark> reached{}; ///< the last mark that was reached; if `ended`, the last one submitted
  std::optional<FlightMark> next{};    ///< the first mark that was not
  std::size_t pending = 0;             ///< the number of marks that were not reached
  std::vector<FlightWait> waits{};     ///< what holds the stream up, before `next`
  std::optional<FlightCall> call{};    ///< what a thread is submitting to the stream
  std::uint64_t dropped = 0;           ///< marks for which there was no room
  /// False if the driver answered no query: see FlightReport::fault and no_answer. `reached` is then from an
  /// earlier report, and any of the pending marks may be the next one. In a report of `cuevent watch`, also
  /// if `next` stands for several calls, each of which may be the first one that was not reached.
  bool exact = true;
};

/// One reason why streams stand still.
struct FlightFinding {
  enum class Kind {
    fault,      ///< device work has failed; the streams that were not idle
    no_answer,  ///< the driver does not say how far any stream is; the streams that were not idle
    deadlock,   ///< the streams wait for each other, in this order; no stream is in two deadlocks
    no_signal,  ///< the stream waits for a value that no known stream will write
    full_queue, ///< a thread is blocked in the driver while it submits to the stream
    unfinished, ///< the stream is in work that has not finished, and waits for nothing known
  };
  Kind kind = Kind::unfinished;
  std::vector<std::size_t> streams{}; ///< places in FlightReport::streams
  std::size_t held_up = 0;            ///< the number of other streams that wait for these streams
  std::string text{};                 ///< a sentence
};

/// Everything at one moment.
///
///     const FlightReport report; // or recorder.report()
///     std::fputs(to_text(report).c_str(), stderr);
///
/// Thread-safety: a plain value.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
struct FlightReport {
  CUresult fault = CUDA_SUCCESS; ///< the driver's answer if device work has failed
  /// The driver's answer if it answers no query although no work has failed: CUDA_ERROR_DEINITIALIZED once
  /// the process exits. The report then knows only what the previous report saw.
  CUresult no_answer = CUDA_SUCCESS;
  std::vector<FlightStream> streams{};
  std::vector<FlightFinding> findings{}; ///< the most likely cause first; empty if all streams are idle
  /// The number of marks, records, signals and noted waits that streams have reached so far. Marks in
  /// graphs do not count, only the launches. If the number stays the same while there are findings,
  /// nothing else moves.
  std::uint64_t progress = 0;
  std::uint64_t untraced_waits = 0; ///< waits whose records or signals the recorder does not know
};

/// A text for people: the findings, then a line for each stream. A line follows up to four waits. In a name,
/// a control character or a byte that is not UTF-8 becomes a question mark.
std::string to_text(const FlightReport& report);

/// One JSON object for tools, on one line. The keys are the members of FlightReport. Ages are in
/// nanoseconds. In a name, a byte that is not UTF-8 becomes U+FFFD.
std::string to_json(const FlightReport& report);

/// A picture of the streams and their waits: a complete SVG file, 1,000 px wide. Names are as in to_text().
std::string to_svg(const FlightReport& report);

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
