// SPDX-License-Identifier: MIT
// The timed streams of a context, from the request of a boundary to its span. Inside the library
// only.
#pragma once

#include "timing/boundary_recorder.hpp"
#include "timing/boundary_ring.hpp"
#include "timing/device_clock.hpp"
#include "timing/stage_log.hpp"
#include "timing/wait_trace.hpp"

namespace cuevent {

/// A stream with its ring of boundaries. Its stages are on two stacks: one follows the calls, the
/// other one follows the boundaries that are read.
struct TimedStream {
  struct Open {
    StageId stage;
    bool timed;
    std::uint64_t range; // of NVTX, 0 if there is none
  };
  struct Begun {
    StageId stage;
    std::uint64_t number; // of the span
    double begin;
    long long opened; // on the host's clock
  };

  StageStream known;
  BoundaryRecorder recorder;
  BoundaryRing ring;
  std::vector<Open> open;
  std::vector<Begun> begun;
  double latest = 0;              // of the times that were read
  std::size_t captured_depth = 0; // the largest number of stages that a graph's launch opens

  /// Memory for one more open stage, so that push() and reading need none.
  void reserve_depth() {
    open.reserve(open.size() + 1);
    begun.reserve(open.capacity() + captured_depth);
  }
};

/// The rings of a timer's streams, and the clock that reads them. A boundary that has been pushed
/// onto a ring is read once its event has completed, and becomes part of the log. The timer owns
/// this object together with its TimedGraphs.
///
/// The class has more functions than most, because reading a ring needs clock, log and trace, and
/// because it gives the timer and its graphs access to these parts.
class StageRings {
public:
  StageRings(const Context& context, const StageTimerOptions& options);
  /// Driver functions: cuStreamCreate, and the functions of DeviceClock::create.
  Status create();

  const Context& context() const noexcept { return context_; }
  DeviceClock& clock() noexcept { return clock_; }
  StageLog& log() noexcept { return log_; }
  WaitTrace& trace() noexcept { return trace_; }

  TimedStream& operator[](std::uint32_t stream) noexcept { return streams_[stream]; }
  bool has(std::uint32_t stream) const noexcept { return stream < streams_.size(); }
  /// A number without a stream if the handle is new. Handle 0 and CU_STREAM_LEGACY are one stream.
  std::uint32_t find(CUstream handle) const noexcept;
  /// Driver function: cuEventCreate, for the whole ring.
  Status add(CUstream handle, std::string_view name, std::uint32_t& stream);
  Status find_or_add(CUstream handle, std::uint32_t& stream);

  /// Makes room for as many boundaries as BoundaryRing::has_room says: by reading, and by waiting
  /// if the options say so. CUDA_ERROR_NOT_READY if there is no room.
  Status make_room(std::uint32_t stream, std::size_t events, std::size_t records) noexcept;
  /// The next boundary of the stream, whose event has been recorded.
  void push(std::uint32_t stream, Change change, long long host, Boundary::Recorded recorded) noexcept;

  /// Reads what has completed, and adds the number of spans.
  Status poll(std::size_t& spans) noexcept;
  /// The same, if the clock needs it at this time of the host.
  Status poll_if_due(long long now) noexcept;
  /// Waits for all that is on its way, and reads it.
  Status collect(std::size_t& spans) noexcept;

  StageReport report() const;
  /// Other timers of the context may have the side streams from now on.
  void give_back_side_streams() noexcept;

private:
  /// The longest wait between two polls: the clock needs a new anchor every 100 ms.
  static constexpr std::chrono::milliseconds patience{50};

  Status read(std::uint32_t stream, std::size_t& spans) noexcept;
  std::size_t log_change(std::uint32_t stream, Boundary& boundary) noexcept;
  void log_waits() noexcept;

  const Context context_;
  const StageTimerOptions options_;
  DeviceClock clock_;
  StageLog log_;
  WaitTrace trace_;
  std::vector<TimerStream> side_streams_; // of the first streams with a permit
  std::vector<TimedStream> streams_;
  std::uint32_t last_found_ = 0;
  std::uint64_t numbers_ = 0; // of spans
};

} // namespace cuevent
