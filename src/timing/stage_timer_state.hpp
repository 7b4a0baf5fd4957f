// SPDX-License-Identifier: MIT
// What a StageTimer is made of. Inside the library only.
#pragma once

#include "timing/captured_stages.hpp"
#include "timing/nvtx_ranges.hpp"
#include "timing/stage_observer.hpp"
#include "timing/stage_rings.hpp"

namespace cuevent { inline namespace CUEVENT_ABI {

/// What a call requests for the stages of a stream.
enum class Request { open, close, next };

/// The handle of a stream of the timer. check_context, but throws.
CUstream own_stream(const Context& own, StreamRef stream, const char* function);

/// Throws what a failed Status of a timer stands for.
[[noreturn]] void fail(const Context& own, Status status);

/// Turns requests into boundaries: on the ring of a stream, or in the capture that the stream is
/// in.
struct StageTimer::State {
  State(const Context& context, const StageTimerOptions& options)
      : rings(std::make_shared<StageRings>(context, options)), ranges(options.ranges) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  /// Ends the ranges of open stages, and gives back the side streams. A TimedGraph may keep the rings.
  ~State();

  Status request(CUstream stream, Request request, StageId stage);
  /// The point that the work of the stream has reached. The stream need not exist.
  Status point_of(std::uint32_t stream, StreamPoint& point);
  void note_record(EventRef event, StreamPoint at, RecordFlags flags);
  void note_wait(EventRef event, StreamPoint before_wait, WaitFlags flags);

  const std::shared_ptr<StageRings> rings; // also of the TimedGraphs
  Captures captures;
  NvtxRanges ranges;
  std::unique_ptr<StageObserver> observer; // null if nobody is told of records and waits

private:
  Status change(std::uint32_t stream, Request request, StageId stage);
  /// Outside captures. `status` is the driver's answer so far: after an error a stage still ends.
  Status change_submitted(std::uint32_t stream, Status status, Request request, StageId stage);
  Status change_captured(std::uint32_t stream, Capturing capture, Request request, StageId stage);
};

}} // namespace cuevent::CUEVENT_ABI
