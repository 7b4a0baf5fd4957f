// SPDX-License-Identifier: MIT
/// \file
/// \brief FlightRecorder: says at any moment what each stream is doing, and why nothing moves.
///
/// Rules for all members of FlightRecorder:
/// - Streams can belong to any context. A default stream means a default stream of the recorder's
///   context, and 0 and CU_STREAM_LEGACY are one stream.
/// - The first use of a stream adds the stream to the recorder. This allocates memory and creates
///   events. Driver functions: cuStreamGetCtx, cuEventCreate for each event of the stream, and
///   cuCtxGetId for a stream of another context. The call can wait as DriverEvent's constructor;
///   use add_stream() to choose the moment. If the driver reuses a stream handle, the recorder
///   treats the new stream as the old one, unless the context of the old one has ended.
/// - A context may end before the recorder, also by a reset. Its streams stay in the reports as ended.
///   For a stream of another context than the recorder's, each call asks first whether that context
///   exists. Driver function: cuCtxGetId.
/// - Once the recorder's own context has ended, make another recorder. report(), dump() and the destructor
///   stay safe. Streams of that context must not be marked.
/// - A `try_` member is a non-throwing overload and returns a CUresult.
/// - Members of an empty recorder throw InvalidHandle. Their non-throwing overloads return
///   CUDA_ERROR_INVALID_HANDLE.
/// - In a forked child, no member waits for a thread of the parent. A member that marks, records, waits,
///   notes or reports throws NotInitialized.
/// - Names are cut to 40 bytes, between two characters of UTF-8.
///
/// docs/flight-recorder.md starts from the symptom.
#pragma once

#include <cuevent/event_ref.hpp>
#include <cuevent/flight_report.hpp>
#include <cuevent/graph_exec.hpp>
#include <cuevent/stream_ref.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

class GraphExec;
class [[gnu::visibility("hidden")]] TimerObserver;

/// A graph with marks: see FlightRecorder::name_capture().
enum class FlightGraph : std::uint64_t {};

/// What a mark in a graph does at each launch.
enum class GraphMarks {
  /// Records an event. Between short kernels this costs the device 0.8 us, and the host 1.3 us at each
  /// launch (NVIDIA H200, 2026-11-22). The events say how far a replay has got while it is the only
  /// launch in flight.
  events,
  /// In addition, writes a number to host memory, with cuStreamWriteValue32. This costs the device 3 us
  /// more for each mark, and the host 1.4 us more. The numbers also say how far the oldest of several
  /// launches has got. The recorder allocates a page of pinned memory with cuMemHostAlloc. The page is
  /// freed with the context.
  events_and_memory,
};

struct FlightRecorderOptions {
  /// The number of events for each stream, 1 to 2^24, rounded up to a power of two. Each mark(), record(),
  /// launched(), note_signal() and note_wait() takes one until the stream has reached it. If none is
  /// free, a mark is dropped and counted.
  std::size_t marks_per_stream = 1024;
  GraphMarks graph_marks = GraphMarks::events;
  /// If a call in a FlightScope takes this long, the report says that the call is blocked.
  std::chrono::nanoseconds blocked_after = std::chrono::milliseconds(100);
};

/// Records how far the work of each stream has got, cheaply enough to be always on. Mark the work after
/// you submit it. When the program hangs, report() names the cause. Any thread can call it, even after a
/// fault, or while other threads are blocked in the driver or capture streams.
///
///     FlightRecorder recorder(context);
///     recorder.mark(stream, "all_reduce 17"); // the work was submitted before
///     std::fputs(to_text(recorder.report()).c_str(), stderr);
///
/// Thread-safety: any thread. The caller orders the calls for one stream, as its submissions.
/// Context: leaves the caller's current context unchanged.
/// During capture: the members for one stream act on the capture of that stream only.
class FlightRecorder {
public:
  /// Shares `context`. No driver call, except for GraphMarks::events_and_memory: cuMemHostAlloc. Throws
  /// InvalidContext if the context is empty, InvalidValue if marks_per_stream is 0 or above 2^24.
  explicit FlightRecorder(const Context& context, const FlightRecorderOptions& options = {});
  [[nodiscard]] static CUresult try_create(FlightRecorder& out, const Context& context,
                                           const FlightRecorderOptions& options = {}) noexcept;

  /// An empty recorder, for try_create() and assignment. No driver call.
  FlightRecorder() noexcept;
  FlightRecorder(FlightRecorder&&) noexcept;
  FlightRecorder& operator=(FlightRecorder&&) noexcept;
  /// Destroys the events of all streams. Driver function: cuEventDestroy. Can wait as ~DriverEvent.
  ~FlightRecorder();

  /// Adds a stream and names it, or names a stream that was added before. Streams without a name are called
  /// "stream 0" and so on. Driver functions: as for the first use of a stream; for a stream that is given
  /// with its context cuCtxGetId and cuStreamGetCtx. Throws InvalidContext for an empty context,
  /// ContextIsDestroyed for one that has ended, ContextMismatch if the stream does not belong to the context
  /// that was given with it, or for a default stream of a context that is not the recorder's.
  void add_stream(StreamRef stream, std::string_view name = {});
  [[nodiscard]] CUresult try_add_stream(StreamRef stream, std::string_view name = {}) noexcept;

  /// Marks the work submitted to `stream` so far. Driver functions: cuStreamIsCapturing,
  /// cuEventRecord; if the ring of the stream is full, also cuCtxGetId, cuThreadExchangeStreamCaptureMode
  /// and cuEventQuery. Allocates nothing and takes no lock. A mark takes no place in the launch queue of its
  /// stream, but a full queue blocks a mark as it blocks a record. A report then says so.
  ///
  /// In a capture, the mark becomes a node. At each launch, the node marks the work of that replay. The
  /// graph keeps the node's event, and destroy_retired() destroys the event after the graph. Driver
  /// functions: cuStreamGetCaptureInfo, cuEventCreate, cuEventRecordWithFlags; for the first mark of a
  /// capture also cuUserObjectCreate and cuGraphRetainUserObject; with GraphMarks::events_and_memory
  /// also cuStreamWriteValue32.
  void mark(CUstream stream, std::string_view name);
  [[nodiscard]] CUresult try_mark(CUstream stream, std::string_view name) noexcept;

  /// Names the graph that `stream` is being captured into. A graph without a name is called "graph 1"
  /// and so on. Returns a number for launched(). With GraphMarks::events_and_memory, call this before
  /// the first mark. Driver functions: cuStreamGetCaptureInfo; before the first mark of a capture also
  /// cuUserObjectCreate and cuGraphRetainUserObject; with GraphMarks::events_and_memory also
  /// cuStreamWriteValue32. Throws IllegalState if the stream is not being captured.
  FlightGraph name_capture(CUstream stream, std::string_view name);
  [[nodiscard]] CUresult try_name_capture(FlightGraph& out, CUstream stream, std::string_view name) noexcept;

  /// Marks a launch of the graph, and counts it. Call this after the launch was submitted to `stream`.
  /// Driver functions: as mark(). Throws InvalidValue if the recorder has no such graph. The recorder forgets
  /// graphs that have ended.
  void launched(CUstream stream, FlightGraph graph);
  [[nodiscard]] CUresult try_launched(CUstream stream, FlightGraph graph) noexcept;
  /// Launches `exec`, which was made from that graph, and calls launched(). While the call is blocked, a
  /// report says so. Driver functions: cuGraphLaunch, and as launched(). If there is no such graph, throws
  /// InvalidValue and launches nothing.
  void launch(GraphExec& exec, CUstream stream, FlightGraph graph);

  /// Calls EventRef::record() or EventRef::wait(), and remembers the call. A report then knows which
  /// work a stream waits for. A wait is traced if its event is among the last thousand events that
  /// were recorded with record(). Throws as the member of EventRef. Driver functions: as the member of
  /// EventRef; for a record also as mark(); if many waits of the stream are pending, also
  /// cuThreadExchangeStreamCaptureMode and cuEventQuery.
  void record(EventRef event, CUstream stream, RecordFlags flags = RecordFlags::none);
  void wait(EventRef event, CUstream stream, WaitFlags flags = WaitFlags::none);
  [[nodiscard]] CUresult try_record(EventRef event, CUstream stream,
                                    RecordFlags flags = RecordFlags::none) noexcept;
  [[nodiscard]] CUresult try_wait(EventRef event, CUstream stream,
                                  WaitFlags flags = WaitFlags::none) noexcept;

  /// For streams that wait for memory instead of events: TimelineSemaphore, cuStreamWaitValue64 and
  /// the like. `object` is any address that identifies the memory. Call note_signal() after you submit the
  /// work that sets the value. Call note_wait() before you submit the wait. A wait may come before its
  /// signal. A report calls it a deadlock if two streams wait for each other, and a missing signal if no
  /// known stream will set the value. Driver functions: as mark().
  void note_signal(CUstream stream, const void* object, std::uint64_t value);
  void note_wait(CUstream stream, const void* object, std::uint64_t value, std::string_view name);
  [[nodiscard]] CUresult try_note_signal(CUstream stream, const void* object, std::uint64_t value) noexcept;
  [[nodiscard]] CUresult try_note_wait(CUstream stream, const void* object, std::uint64_t value,
                                       std::string_view name) noexcept;

  /// What each stream is doing. Calls nothing that can wait for the device or for a thread that is
  /// blocked in the driver, and harms no capture. Creates and destroys no driver object. Driver
  /// functions: cuThreadExchangeStreamCaptureMode, and for each stream cuCtxGetId and about twenty times
  /// cuEventQuery, a few times also for each graph with marks. No event is queried after its context has
  /// ended: its stream is FlightState::ended. After a fault, and once the process exits, the driver
  /// answers no query. The report then knows only what the previous report saw. So make a report every
  /// second or so: see the watchdog in docs/flight-recorder.md. Throws NotInitialized in a forked child.
  FlightReport report() const;
  [[nodiscard]] CUresult try_report(FlightReport& out) const noexcept;

  /// Writes the last marks of each stream to a file descriptor, for a crash report. Async-signal-safe:
  /// a signal handler may call this at any moment, also while its thread is inside another member, the
  /// driver or a simulated driver. No event is queried, so the text says what the previous report saw. Ages
  /// are of now; with a simulated driver in stepped mode, of the recorder's last call. No driver call.
  void dump(int file) const noexcept;

  const Context& context() const;
  explicit operator bool() const noexcept { return static_cast<bool>(state_); }

private:
  friend class FlightScope;
  friend class TimerObserver;
  struct [[gnu::visibility("hidden")]] State;
  State& state() const;
  void begin_call(CUstream stream, std::string_view name) noexcept;
  void end_call(CUstream stream, std::string_view name) noexcept;

  std::unique_ptr<State> state_;
};

/// Surrounds submissions that can block, for example because the launch queue of the stream is full,
/// and marks their end. While a thread is inside, a report says so. Scopes of one stream do not nest.
///
///     FlightRecorder recorder(context);
///     {
///       const FlightScope scope(recorder, stream, "step 18");
///       submit(stream);
///     }
///
/// Thread-safety: as FlightRecorder.
/// Context: as FlightRecorder. The recorder must outlive the scope.
/// During capture: as FlightRecorder::mark.
class FlightScope {
public:
  /// Name the variable: an unnamed scope ends at once. `name` must live as long as the scope. No driver
  /// call, unless this is the first use of the stream.
  [[nodiscard]] FlightScope(FlightRecorder& recorder, CUstream stream, std::string_view name) noexcept
      : recorder_(recorder), stream_(stream), name_(name) {
    recorder.begin_call(stream, name);
  }
  FlightScope(const FlightScope&) = delete;
  FlightScope& operator=(const FlightScope&) = delete;
  /// Marks the stream. Errors go to the error hook. Driver functions: as FlightRecorder::mark.
  ~FlightScope() { recorder_.end_call(stream_, name_); }

private:
  FlightRecorder& recorder_;
  CUstream stream_;
  std::string_view name_;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
