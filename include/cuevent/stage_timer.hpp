// StageTimer: the stages of a program's work on streams, timed without waiting for it.
#pragma once

#include <cuevent/graph.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace cuevent {

/// A time since the timer was made, or between two such, on the device's clock.
using DeviceTime = std::chrono::duration<double, std::nano>;
/// A time on the host's clock, which in a simulated driver can be a virtual one.
using HostTime = std::chrono::steady_clock::time_point;

/// What a timer calls a stage and a stream: their place in StageReport::stages and StageReport::streams.
enum class StageId : std::uint32_t {};
enum class StreamId : std::uint32_t {};

/// What a stage has taken so far. The percentiles are at most 0.4 % off; all else is exact.
struct StageStatistics {
  std::string name;
  std::uint64_t count = 0;   ///< spans read back
  std::uint64_t dropped = 0; ///< spans not timed because the ring was full, or a call failed
  DeviceTime total{}, min{}, mean{}, p50{}, p90{}, p99{}, max{};
};

/// A stream as the timer knows it.
struct StageStream {
  std::string name; ///< "stream 0" and so on where it was given none
  CUstream handle = nullptr;
};

/// One run of a stage: begin and end on the device, and when the host asked for them. Those of a stream nest.
struct StageSpan {
  std::uint64_t number = 0; ///< counts all spans of the timer
  StageId stage{};
  StreamId stream{};
  unsigned depth = 0; ///< the number of stages of the stream around it
  DeviceTime begin{}, end{};
  HostTime opened{}, closed{}; ///< of a captured stage both are the time of the graph's launch
};

/// A wait that went through the timer: an arrow from a span to a span, each given by its number. It departs
/// where the stage before the record ended (if one was open, where it began), and arrives where the stage
/// after the wait begins (if one was open, where it ends). As events beside a stream are some microseconds
/// late, it can depart after it arrives.
struct StageWait {
  std::uint64_t from = 0, to = 0;
  StreamId from_stream{}, to_stream{};
  DeviceTime departure{}, arrival{};
};

/// How times were measured, and how well.
struct StageClock {
  HostTime epoch{};         ///< when the timer's device time was zero, on the host's clock
  DeviceTime uncertainty{}; ///< epoch is at most so much off, either way, at the time of the calibration
  DeviceTime calibrated_at{};
  DeviceTime resolution{};  ///< all event times seen in the calibration differ by multiples of this
  DeviceTime empty_stage{}; ///< what a stage of no work reads, which is part of what each stage reads: median
  DeviceTime rounding{};    ///< the most by which the driver's float milliseconds have rounded a time so far

  /// The host's time at a time of the device.
  HostTime host_time(DeviceTime time) const noexcept {
    return epoch + std::chrono::duration_cast<HostTime::duration>(time);
  }
};

/// All that a timer has read back.
struct StageReport {
  std::vector<StageStatistics> stages; ///< by StageId
  std::vector<StageStream> streams;    ///< by StreamId
  std::vector<StageSpan> spans;        ///< the last so many; those of one stream in the order of their ends
  std::vector<StageWait> waits;        ///< the last so many between spans that are there
  std::uint64_t untraced_waits = 0;    ///< not remembered: with no stage before or after, or too many at once
  StageClock clock;
};

/// What to do with a stage for which the stream has no room: its ring has no event left, or too
/// many of its boundaries have not completed. At most 256 boundaries of a stream, or 512 in a side
/// stream, are on their way at a time, so that the timer never fills a launch queue, which takes
/// about 1,020 timed records and other work.
enum class WhenFull {
  drop, ///< the stage is not timed, and counted as dropped
  wait, ///< wait until an earlier stage of the stream has completed
};

struct StageTimerOptions {
  /// The ring of a stream: a span takes one or two events until it is read back, and a launch of a
  /// TimedGraph one for each of its boundaries.
  std::size_t events_per_stream = 1024;
  std::size_t spans = 4096; ///< how many of the last are kept, and as many waits
  WhenFull when_full = WhenFull::drop;
  /// How many streams, the first that the timer is given, get a side stream of the timer's. It waits
  /// for each boundary and records the timed event, which disturbs their work half as much as one of their own
  /// would, and has it some microseconds later. In a capture of such a stream the record nodes come beside its
  /// work where they can. But a stream that waits can hold up others that share its connection to the device:
  /// give 0 where a kernel spins until one of another stream runs. It is 0 where CUDA_DEVICE_MAX_CONNECTIONS is
  /// under 8, the driver's own number, and for CU_STREAM_PER_THREAD.
  ///
  /// The number is a budget of the context: a stream gets a side stream when it is added, if all
  /// timers of the context together use fewer than this timer's number at that moment. So of
  /// timers that ask for 2 and for 4, the first adds none to 2 that are in use, and the second
  /// adds up to 2 more. A timer gives its side streams back when it is destroyed.
  std::size_t streams_beside = 2;
};

class StageTimer;

/// A graph in which stages were captured, and which is timed at every launch:
/// StageTimer::instantiate. It keeps the events of its timer alive, but not its context.
/// Move-only; empty after a move, and calls on an empty one throw InvalidHandle.
///
/// Thread-safety: under the caller's ordering, together with its timer.
/// Context: as GraphExec.
/// During capture: as GraphExec.
class TimedGraph {
public:
  TimedGraph(TimedGraph&&) noexcept;
  TimedGraph& operator=(TimedGraph&&) noexcept;
  /// The last launch has to have completed, as for GraphExec.
  ~TimedGraph();

  /// Points the record nodes at free events of the rings and submits the graph to `stream`. Its stages appear
  /// on the streams that they were captured on. If a ring is too full, they are dropped and the graph is
  /// launched all the same. Driver functions: cuGraphExecEventRecordNodeSetEvent for each node,
  /// cuGraphLaunch. Throws what they refuse.
  void launch(CUstream stream);

  /// The same on a default stream of `context`. Throws ContextMismatch if that is not the timer's,
  /// InvalidContext if it is empty.
  void launch(const Context& context, CUstream stream);

  /// The graph, whose nodes name those of the exec.
  const Graph& graph() const;

  /// The exec, for other nodes than the timer's. Launch it by launch() only.
  GraphExec& exec();

  explicit operator bool() const noexcept { return static_cast<bool>(state_); }

private:
  friend class StageTimer;
  struct [[gnu::visibility("hidden")]] State;
  explicit TimedGraph(std::unique_ptr<State> state) noexcept;
  [[gnu::visibility("hidden")]] State& state(const char* call) const;
  std::unique_ptr<State> state_;
};

/// Times named stages of the work on streams. Opening and closing a stage records an event, in the
/// stream or beside it (StageTimerOptions::streams_beside), and returns; the times are read back
/// once there are any, by poll() or on the way. A loop over it does not wait for the device,
/// unless by collect() or WhenFull::wait, or because the program's own work fills a stream's
/// launch queue. It allocates only when a stream, a stage or a depth of nesting is seen for the
/// first time.
///
///     StageTimer timer(context);
///     const StageId copy = timer.stage("copy in"), forward = timer.stage("forward");
///     for (...) {
///       timer.open(stream, copy);     ... submit the copy
///       timer.next(stream, forward);  ... submit the kernels: the stages share the event between them
///       timer.close(stream);
///     }
///     timer.collect();
///     for (const StageStatistics& stage : timer.report().stages) ...
///
/// On a stream that is being captured, the same calls put record nodes into the graph.
/// instantiate() makes a TimedGraph of it, and each launch of that counts as one run of each of
/// its stages. A stage has to be closed in the capture that it was opened in. The captured graph
/// owns the events of its nodes from the moment of the capture: whoever ends it may instantiate
/// and launch it without the timer, also once the timer is destroyed; its stages are then not
/// timed.
///
/// Each stream has its own stages, which nest, and its own ring of events. A stage that finds no
/// room (WhenFull) is not timed, and its close() then only closes it. Streams are of the timer's
/// context; a stream handle of a default stream means that of it, and 0 and CU_STREAM_LEGACY are
/// one stream. A handle that the driver gives out again is the same stream to the timer.
///
/// Each member that takes a stream can be given the stream's context before it. That context has
/// to be the timer's: ContextMismatch otherwise, by the try_ overload CUDA_ERROR_INVALID_HANDLE;
/// InvalidContext or CUDA_ERROR_INVALID_CONTEXT if it is empty. A program of several devices uses
/// this for stream handle 0, which is the default stream of every one.
///
/// Each member that submits or asks has a noexcept twin try_..., which returns the CUresult. Any of them may
/// deliver the fault of earlier device work (DeviceFault), poll() and collect() the first they meet; what was
/// read before it stays.
///
/// Thread-safety: under the caller's ordering, all members; for a stream in a capture together with all work
/// that is submitted to that capture.
/// Context: the events are the timer's context's, which has to outlive it and its graphs if it is borrowed.
/// The timer has streams of its own there, for its clock and beside those it times. The current context stays as it was.
/// During capture: harms none, but for what is said of record() and wait().
class StageTimer {
public:
  /// Makes its streams and some events, and calibrates the clock: about a millisecond. Driver functions:
  /// cuStreamCreate, cuEventCreate, cuEventRecord, cuEventQuery, cuEventElapsedTime. Throws InvalidValue if
  /// the options ask for fewer than two events.
  explicit StageTimer(const Context& context, const StageTimerOptions& options = {});
  static CUresult try_create(StageTimer& out, const Context& context,
                             const StageTimerOptions& options = {}) noexcept;

  /// Empty: for try_create() and assignment only.
  StageTimer() noexcept;
  StageTimer(StageTimer&&) noexcept;
  StageTimer& operator=(StageTimer&&) noexcept;
  /// What has not been read back is lost. Destroys its streams and events, unless a TimedGraph still
  /// has them; captured events are the graphs' and stay. It can wait as ~DriverEvent.
  ~StageTimer();

  /// The stage of that name, always the same for one name.
  StageId stage(std::string_view name);

  /// Makes the ring of a stream, and names it in reports. Streams that are not added get theirs when first
  /// used. Driver function: cuEventCreate, for the whole ring: it can wait as DriverEvent's constructor.
  StreamId add_stream(CUstream stream, std::string_view name = {});
  StreamId add_stream(const Context& context, CUstream stream, std::string_view name = {});

  /// Begins a stage, inside those open on the stream. False if it was dropped; the twin then
  /// returns CUDA_ERROR_NOT_READY. Driver functions: cuStreamIsCapturing, cuEventRecord, for a
  /// stream beside also cuStreamWaitEvent; in a capture cuStreamGetCaptureInfo, cuEventCreate and
  /// cuGraphAddEventRecordNode or cuEventRecordWithFlags, for the first stage of a capture also
  /// cuUserObjectCreate, cuGraphRetainUserObject and cuEventDestroy of events that earlier graphs
  /// have released. Throws ContextMismatch (where a node comes beside captured work the driver
  /// takes any context), InvalidValue for a stage of another timer, or what the driver refuses;
  /// the stage is then not open.
  bool open(CUstream stream, StageId stage);
  bool open(const Context& context, CUstream stream, StageId stage);
  CUresult try_open(CUstream stream, StageId stage) noexcept;
  CUresult try_open(const Context& context, CUstream stream, StageId stage) noexcept;

  /// Ends the innermost open stage of the stream. Driver functions as open(). Throws IllegalState if none is
  /// open. If the driver refuses, the stage is closed all the same, and counted as dropped; in a capture it
  /// stays open.
  void close(CUstream stream);
  void close(const Context& context, CUstream stream);
  CUresult try_close(CUstream stream) noexcept;
  CUresult try_close(const Context& context, CUstream stream) noexcept;

  /// Ends the innermost open stage of the stream, if there is one, and begins another, with one event for
  /// both. Returns and throws as open() and close().
  bool next(CUstream stream, StageId stage);
  bool next(const Context& context, CUstream stream, StageId stage);
  CUresult try_next(CUstream stream, StageId stage) noexcept;
  CUresult try_next(const Context& context, CUstream stream, StageId stage) noexcept;

  /// DriverEvent::record and DriverEvent::wait, remembered for the report as an arrow from the
  /// stage before the record to the stage after the wait. What waits for what never depends on the
  /// timer. On a default stream record() throws ContextMismatch for an event of another context
  /// than the timer's.
  void record(DriverEvent& event, CUstream stream, RecordFlags flags = RecordFlags::none);
  void wait(const DriverEvent& event, CUstream stream, WaitFlags flags = WaitFlags::none);
  void record(DriverEvent& event, const Context& context, CUstream stream,
              RecordFlags flags = RecordFlags::none);
  void wait(const DriverEvent& event, const Context& context, CUstream stream,
            WaitFlags flags = WaitFlags::none);
  CUresult try_record(DriverEvent& event, CUstream stream, RecordFlags flags = RecordFlags::none) noexcept;
  CUresult try_wait(const DriverEvent& event, CUstream stream, WaitFlags flags = WaitFlags::none) noexcept;
  CUresult try_record(DriverEvent& event, const Context& context, CUstream stream,
                      RecordFlags flags = RecordFlags::none) noexcept;
  CUresult try_wait(const DriverEvent& event, const Context& context, CUstream stream,
                    WaitFlags flags = WaitFlags::none) noexcept;

  /// Makes a graph, captured with stages of this timer, ready to launch, and takes it over. If
  /// this throws, the graph stays the caller's, who can try again; only if the driver also refuses
  /// cuGraphRetainUserObject on the way back is the graph destroyed. Driver functions: those of
  /// Graph::event_nodes, Graph::event and Graph::instantiate, cuUserObjectRetain,
  /// cuGraphReleaseUserObject, cuGraphRetainUserObject. Throws IllegalState if a stage was not closed
  /// in the capture, NotFound if no stage was captured in it.
  TimedGraph instantiate(Graph&& graph);

  /// Reads back what has completed and returns the number of spans. Waits for nothing. Driver function:
  /// cuEventElapsedTime. Once in 100 ms it records an event of the timer's own, by which later times are
  /// measured.
  std::size_t poll();
  CUresult try_poll(std::size_t& spans) noexcept;

  /// Waits until all that is recorded has completed, and reads it back. Stages still open stay open.
  /// Driver functions: as DriverEvent::synchronize_for and poll().
  std::size_t collect();
  CUresult try_collect(std::size_t& spans) noexcept;

  /// Aligns the device's clock with the host's anew: they drift apart. It waits for an event on the timer's
  /// own stream a few dozen times, a fraction of a millisecond in all.
  void calibrate();
  CUresult try_calibrate() noexcept;

  /// What has been read back so far, as a copy.
  StageReport report() const;

  /// Forgets what has been read back, as after a warm-up: statistics, spans and waits. What is on its way
  /// counts when it is read.
  void clear() noexcept;

  const Context& context() const;
  explicit operator bool() const noexcept { return static_cast<bool>(state_); }

private:
  friend class TimedGraph;
  struct [[gnu::visibility("hidden")]] State;
  State& state() const;
  [[gnu::visibility("hidden")]] CUresult try_check(const Context& context) const noexcept;

  std::shared_ptr<State> state_;
};

/// A stage for a scope.
///
/// Thread-safety: as the timer's.
/// Context: as StageTimer::open. The timer outlives the scope.
/// During capture: as StageTimer::open.
class StageScope {
public:
  [[nodiscard]] StageScope(StageTimer& timer, CUstream stream, StageId stage)
      : timer_(timer), stream_(stream) {
    timer.open(stream, stage);
  }
  [[nodiscard]] StageScope(StageTimer& timer, const Context& context, CUstream stream, StageId stage)
      : timer_(timer), stream_(stream) {
    timer.open(context, stream, stage);
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;
  /// What fails goes to the error hook.
  ~StageScope() {
    if (const CUresult result = timer_.try_close(stream_); result != CUDA_SUCCESS)
      report_error(result, "StageTimer::close");
  }

private:
  StageTimer& timer_;
  CUstream stream_;
};

} // namespace cuevent
#pragma GCC visibility pop
