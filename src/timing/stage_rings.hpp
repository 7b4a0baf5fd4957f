// SPDX-License-Identifier: MIT
// The timed streams of a context, from the request of a boundary to its span. Inside the library
// only.
#pragma once

#include "timing/boundary_recorder.hpp"
#include "timing/boundary_ring.hpp"
#include "timing/device_clock.hpp"
#include "timing/stage_log.hpp"
#include "timing/wait_trace.hpp"

#include <cuevent/stream_ref.hpp>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A stream with its ring of boundaries. Its stages are on stacks: one follows the calls, the others follow
/// the boundaries that are read.
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
    std::optional<double> all;
  };
  /// Boundaries that the device reaches in their order.
  struct Sequence {
    double latest = 0; // of the times that were read
    std::vector<Begun> begun;
  };
  /// The sequence that the next boundary to read belongs to.
  Sequence& sequence_of(const Boundary& boundary) noexcept;

  StageStream known;
  BoundaryRecorder recorder;
  BoundaryRing ring;
  std::vector<Open> open;
  Sequence called;   // the boundaries that calls have recorded
  Sequence launched; // those of one capture in a launch, which runs at another time if it runs elsewhere
  LaunchPart part;   // of `launched`
  double before_launch = 0;

  /// Memory for one more open stage, so that push() and reading need none.
  void reserve_depth() {
    open.reserve(open.size() + 1);
    called.begun.reserve(open.capacity());
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
  std::uint32_t find(CUstream handle) noexcept;
  /// Driver function: cuEventCreate, for the whole ring.
  Status add(CUstream handle, std::string_view name, std::uint32_t& stream);
  /// Checks that a new stream belongs to the context that the caller has named for it, which is the timer's.
  Status find_or_add(StreamRef given, std::uint32_t& stream);
  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(streams_.size()); }
  /// Removes the streams that were added last, until there are `size` streams. Nothing may refer to them.
  /// Driver function: cuEventDestroy.
  void shrink(std::uint32_t size) noexcept {
    while (streams_.size() > size)
      streams_.pop_back();
  }

  /// Makes room for as many boundaries as BoundaryRing::has_room says: by reading, and by waiting
  /// if the options say so. CUDA_ERROR_NOT_READY if there is no room.
  Status make_room(std::uint32_t stream, std::size_t events, std::size_t records) noexcept;
  /// The next boundary of the stream, whose event has been recorded.
  void push(std::uint32_t stream, Change change, long long host, Boundary::Recorded recorded,
            LaunchPart part = {}, bool has_context_event = false) noexcept;
  /// Records the event of the whole context for the next boundary of the stream, whose event has been
  /// recorded. Returns false if that is not wanted, would harm a capture on a stream of the timer, or did not
  /// work. Driver functions: cuStreamIsCapturing for each stream, cuCtxRecordEvent.
  bool record_context(std::uint32_t stream) noexcept;
  /// The number of a new launch.
  std::uint64_t next_launch() noexcept { return ++launches_; }

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
  bool has_capture_besides(std::uint32_t stream) const noexcept;
  /// Waits for all events of a boundary, at most `patience` for each.
  CUresult wait_for(BoundaryRing& ring, Position position) const noexcept;
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
  bool records_context_;       // StageEscapes::checked, and the driver can do it
  std::size_t of_context_ = 0; // events of the context that are on their way
  std::uint64_t numbers_ = 0;  // of spans
  std::uint64_t launches_ = 0; // of graphs
};

/// Removes the stream that a call has added, unless the call succeeds: keep(). A call on a stream of another
/// context fails, and a ring for that stream is of no use.
class AddedStream {
public:
  explicit AddedStream(StageRings& rings) noexcept : rings_(rings), size_(rings.size()) {}
  AddedStream(const AddedStream&) = delete;
  AddedStream& operator=(const AddedStream&) = delete;
  ~AddedStream() { rings_.shrink(size_); }

  void keep() noexcept { size_ = rings_.size(); }

private:
  StageRings& rings_;
  std::uint32_t size_;
};

}} // namespace cuevent::CUEVENT_ABI
