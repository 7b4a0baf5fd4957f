// SPDX-License-Identifier: MIT
/// \file
/// \brief StageTimer: times named stages of the work on streams, without waiting for the device.
///
/// Rules for all members of StageTimer and TimedGraph:
/// - Streams belong to the timer's context. A default stream handle means a default stream of that
///   context, and 0 and CU_STREAM_LEGACY are one stream.
/// - A call can name the context of its stream. If that is not the timer's context, the call throws
///   ContextMismatch; for an empty Context the call throws InvalidContext.
/// - A `try_` member is a non-throwing overload and returns a CUresult. In the two cases above it returns
///   CUDA_ERROR_INVALID_HANDLE and CUDA_ERROR_INVALID_CONTEXT.
/// - Members of an empty timer or graph throw InvalidHandle. Their non-throwing overloads return
///   CUDA_ERROR_INVALID_HANDLE.
/// - Any member that calls the driver can throw DeviceFault: the driver reports the failure of earlier device
///   work in the next call. Times that were read before remain.
///
/// docs/timing.md explains stages, graphs, side streams, limits and costs.
#pragma once

#include <cuevent/error.hpp>
#include <cuevent/stage_report.hpp>
#include <cuevent/stream_ref.hpp>
#include <cuevent/timed_graph.hpp>

#include <cstddef>
#include <memory>
#include <string_view>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// What to do with a stage if its stream has no room. A stream has room if both are true:
/// - its ring has free events (StageTimerOptions::events_per_stream);
/// - at most 256 boundaries, or 512 in a side stream, wait in the launch queue. This limit keeps
///   the timer from filling a launch queue, which takes about 1,020 submissions.
enum class WhenFull {
  drop, ///< do not time the stage, and count it as dropped
  wait, ///< wait on the host until an earlier stage of the stream has completed
};

/// Whether the stages also appear as ranges in tools such as Nsight Systems.
enum class StageRanges {
  none,
  /// As NVTX ranges, in the domain "cuevent", with the names of the stages. A range begins and ends
  /// when the host opens and closes the stage, even if the stage is dropped. A stage in a capture has
  /// no range. Has no effect if no tool is attached. cuevent must have been built with NVTX's headers,
  /// which are part of the CUDA toolkit: docs/timing.md.
  nvtx,
};

/// Whether the timer finds out if work outlasts its stage.
enum class StageEscapes {
  ignored, ///< each span says SpanEscape::unknown
  /// Each boundary outside of captures also records a timed event for the whole context, with
  /// cuCtxRecordEvent. What that means for a program, and what it costs, is in docs/timing.md. Above all:
  /// - The driver invalidates each capture in the context. The timer asks its own streams, and records no
  ///   such event while one of them is being captured. No other stream of the context may be captured.
  /// - A span is read when all work has ended that was submitted to the context until its end.
  /// - The spans of graphs are SpanEscape::unknown, and so are all with drivers older than CUDA 12.5.
  checked,
};

/// No number may be more than 2^24.
struct StageTimerOptions {
  /// The number of events for each stream, at least 2. A span takes one or two events until it is
  /// read, and a launch of a TimedGraph takes one event for each of its boundaries.
  std::size_t events_per_stream = 1024;
  std::size_t spans = 4096; ///< the number of spans to keep, and of waits
  WhenFull when_full = WhenFull::drop;
  /// The number of side streams. The first streams of the timer get a side stream each, which waits
  /// for the stream and records the timed events. This disturbs the work half as much as timed
  /// events in the stream. The times are some microseconds late.
  ///
  /// - The number limits the context, not the timer. A new stream gets a side stream only if all
  ///   timers of the context together use fewer than this timer's number at that moment.
  /// - A stream that waits can hold up other streams. Use 0 if a kernel spins until a kernel of another
  ///   stream runs.
  /// - The number is 0 if the environment variable CUDA_DEVICE_MAX_CONNECTIONS is less than 8.
  ///   CU_STREAM_PER_THREAD never gets a side stream.
  std::size_t side_streams = 2;
  StageRanges ranges = StageRanges::none;
  StageEscapes escapes = StageEscapes::ignored;
};

class FlightRecorder;
class StageTimer;

/// Times named stages of a program's work on streams. Use it in loops that must not wait for the
/// device: each boundary records an event, and poll() reads the events that have completed.
///
///     StageTimer timer(context);
///     const StageId copy = timer.stage("copy"), compute = timer.stage("compute");
///     timer.open(stream, copy);    // ... submit the copy
///     timer.next(stream, compute); // ... submit the kernels
///     timer.close(stream);         // later: timer.poll(), timer.report()
///
/// Thread-safety: the caller orders all members, in a capture together with the captured work.
/// Context: the timer's, with streams of the timer's own. The current context stays unchanged.
/// During capture: stages become nodes of the graph, which owns their events: docs/timing.md. The
/// timer harms no capture, except with StageEscapes::checked. record() and wait() act as DriverEvent's.
class StageTimer {
public:
  /// Makes the timer's own streams and some events, and calibrates the clock, which takes about a
  /// millisecond. The timer shares the context. If the context ends first, also by a reset, poll(),
  /// collect(), calibrate() and TimedGraph::launch() throw ContextIsDestroyed, and the destructor is safe.
  /// Do not open or close stages then, because their events have ended. Driver functions: cuStreamCreate,
  /// cuEventCreate, cuEventRecord, cuEventQuery, cuCtxGetId, cuEventElapsedTime. Throws InvalidValue for
  /// fewer than two events per stream and for numbers above 2^24, NotSupported for StageRanges::nvtx if
  /// cuevent was built without NVTX.
  explicit StageTimer(const Context& context, const StageTimerOptions& options = {});
  [[nodiscard]] static CUresult try_create(StageTimer& out, const Context& context,
                                           const StageTimerOptions& options = {}) noexcept;

  /// An empty timer, for try_create() and assignment. No driver call.
  StageTimer() noexcept;
  StageTimer(StageTimer&&) noexcept;
  StageTimer& operator=(StageTimer&&) noexcept;
  /// Discards what has not been read, and destroys the timer's streams and events unless a
  /// TimedGraph uses them. Events of captured stages stay, because their graphs own them. Can wait
  /// as ~DriverEvent.
  ~StageTimer();

  /// The stage with that name. Equal names give equal stages. A new name takes 48 KB, until the timer
  /// and its graphs end. No driver call.
  StageId stage(std::string_view name);

  /// Adds a stream and names it, or names a stream that was added before. Other members that need the
  /// stream add it themselves, and remove it again if they fail. Driver function: cuEventCreate, for
  /// each event of the ring, which can wait as DriverEvent's constructor. If the driver reuses a
  /// stream handle, the timer treats the new stream as the old one. For a stream that is given with its
  /// context, here and in wait(), the driver is asked whether the stream belongs to the context: cuCtxGetId,
  /// cuStreamGetCtx. Throws ContextMismatch if not.
  StreamId add_stream(StreamRef stream, std::string_view name = {});

  /// Begins a stage inside the open stages of the stream. Returns false if the stage is dropped;
  /// the non-throwing overload then returns CUDA_ERROR_NOT_READY. Allocates only for a new stream
  /// or a new depth of nesting.
  ///
  /// Driver functions:
  /// - cuStreamIsCapturing, cuEventRecord, with a side stream also cuStreamWaitEvent, with
  ///   StageEscapes::checked also cuCtxRecordEvent.
  /// - In a capture: cuStreamGetCaptureInfo, cuEventCreate, and cuGraphAddEventRecordNode or
  ///   cuEventRecordWithFlags.
  /// - For the first stage of a capture also cuUserObjectCreate, cuGraphRetainUserObject, and
  ///   cuEventDestroy for events that earlier graphs have released.
  ///
  /// If the call throws, the stage is not open. Throws:
  /// - InvalidValue if the stage is not a stage of this timer.
  /// - ContextMismatch if the stream belongs to another context. In a capture with a side stream
  ///   the driver accepts any context.
  /// - What the driver refuses.
  bool open(StreamRef stream, StageId stage);
  [[nodiscard]] CUresult try_open(StreamRef stream, StageId stage) noexcept;

  /// Ends the innermost open stage of the stream. Driver functions: as open(). Throws IllegalState
  /// if no stage is open. If the driver refuses, the stage is closed and counted as dropped; in a
  /// capture the stage stays open.
  void close(StreamRef stream);
  [[nodiscard]] CUresult try_close(StreamRef stream) noexcept;

  /// Ends the innermost open stage of the stream, if any, and begins another one with the same
  /// event. Returns and throws as open() and close().
  bool next(StreamRef stream, StageId stage);
  [[nodiscard]] CUresult try_next(StreamRef stream, StageId stage) noexcept;

  /// Calls EventRef::record() or EventRef::wait(), and remembers the call for the report: see
  /// StageWait. The order of the work on the streams does not depend on the timer. On a default stream,
  /// record() throws ContextMismatch for an event of another context. Driver functions: cuStreamIsCapturing,
  /// in a capture also cuStreamGetCaptureInfo, and as the member of EventRef.
  void record(EventRef event, StreamRef stream, RecordFlags flags = RecordFlags::none);
  void wait(EventRef event, StreamRef stream, WaitFlags flags = WaitFlags::none);
  [[nodiscard]] CUresult try_record(EventRef event, StreamRef stream,
                                    RecordFlags flags = RecordFlags::none) noexcept;
  [[nodiscard]] CUresult try_wait(EventRef event, StreamRef stream,
                                  WaitFlags flags = WaitFlags::none) noexcept;

  /// From now on, this flight recorder remembers each record() and wait() as if the call were made
  /// through the recorder. record() and wait() then also call the driver functions of
  /// FlightRecorder::mark(). Null ends this. The recorder must outlive the timer. No driver call.
  void set_flight_recorder(FlightRecorder* recorder);

  /// Takes a graph that was captured with stages of this timer, in one or several captures, and makes
  /// it ready to launch. Stages of other timers and stages in child graphs stay in the graph, but are
  /// neither timed nor counted. If this throws, the graph stays with the caller, who can try again.
  /// There is one exception: if the driver then also fails to reattach the events, the graph is
  /// destroyed.
  ///
  /// Driver functions: as for Graph::event_nodes, Graph::event and Graph::instantiate,
  /// cuUserObjectRetain, cuGraphReleaseUserObject, cuGraphRetainUserObject. Throws:
  /// - NotFound if the graph lacks the nodes of captured stages.
  /// - IllegalState if a stage was opened in the capture and not closed in it.
  [[nodiscard]] TimedGraph instantiate(Graph&& graph);
  /// `out` is assigned on success only.
  [[nodiscard]] CUresult try_instantiate(TimedGraph& out, Graph&& graph) noexcept;

  /// Reads what has completed, and returns the number of new spans. Does not wait. Driver functions:
  /// cuCtxGetId, cuEventElapsedTime. Once every 100 ms the call records an event of the timer's own, from
  /// which later times are measured.
  std::size_t poll();
  [[nodiscard]] CUresult try_poll(std::size_t& spans) noexcept;

  /// Waits until everything recorded has completed, reads it, and returns the number of new spans.
  /// Open stages stay open. Driver functions: as DriverEvent::synchronize_for() and poll().
  std::size_t collect();
  [[nodiscard]] CUresult try_collect(std::size_t& spans) noexcept;

  /// Aligns the device's clock with the host's again, because the clocks drift apart. Waits a few
  /// dozen times for an event on the timer's own stream, a fraction of a millisecond in all.
  void calibrate();
  [[nodiscard]] CUresult try_calibrate() noexcept;

  /// A copy of what has been read so far. No driver call.
  StageReport report() const;

  /// Discards the statistics, spans and waits that have been read, for example after a warm-up.
  /// Spans that have not been read yet still count when they are read. No driver call.
  void clear() noexcept;

  const Context& context() const;
  explicit operator bool() const noexcept { return static_cast<bool>(state_); }

private:
  friend class TimedGraph;
  struct [[gnu::visibility("hidden")]] State;
  State& state() const;
  [[nodiscard, gnu::visibility("hidden")]] CUresult try_check(StreamRef stream) const noexcept;

  std::unique_ptr<State> state_;
};

/// Opens a stage, and closes it at the end of a scope.
///
///     StageTimer timer(context);
///     const StageScope scope(timer, stream, timer.stage("forward"));
///
/// Thread-safety: as StageTimer.
/// Context: as StageTimer. The timer must outlive the scope.
/// During capture: as StageTimer::open().
class StageScope {
public:
  /// Give the scope a name: an unnamed scope ends at once.
  [[nodiscard]] StageScope(StageTimer& timer, StreamRef stream, StageId stage)
      : timer_(timer), stream_(stream.native_handle()) {
    timer.open(stream, stage);
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;
  /// Reports errors to the error hook.
  ~StageScope() {
    if (const CUresult result = timer_.try_close(stream_); result != CUDA_SUCCESS)
      report_error(result, "StageTimer::close");
  }

private:
  StageTimer& timer_;
  CUstream stream_;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
