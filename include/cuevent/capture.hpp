// SPDX-License-Identifier: MIT
// StreamCapture: captures a stream into a graph. CaptureModeGuard: protects other captures.
#pragma once

#include <cuevent/graph.hpp>

#include <vector>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// Which unsafe calls, such as cuEventQuery, invalidate a capture. The driver's
/// CU_STREAM_CAPTURE_MODE_*.
enum class CaptureMode {
  global,     ///< unsafe calls on any thread that is not in relaxed mode
  per_thread, ///< unsafe calls on the capturing thread
  relaxed,    ///< none
};

/// The driver's CU_STREAM_CAPTURE_STATUS_*.
enum class CaptureStatus {
  none,
  active,
  invalidated, ///< an error broke it: call end() or destroy the StreamCapture
};

/// Whether `stream` is being captured. `context` says whose default stream is meant. Driver
/// function: cuStreamIsCapturing. Throws StreamCaptureImplicit for the legacy stream while a
/// blocking stream of its context is being captured.
/// Thread-safety: any thread.
/// Context: acts in `context` and leaves the caller's current context unchanged.
/// During capture: harmless, even if it throws.
CaptureStatus capture_status(const Context& context, CUstream stream);
[[nodiscard]] CUresult try_capture_status(CaptureStatus& out, const Context& context,
                                          CUstream stream) noexcept;

/// Sets the calling thread's capture mode for a scope, to relaxed unless you name another mode. In relaxed
/// mode, the thread's calls invalidate no capture, except a capture that they are part of.
///
///     event.record(stream); // outside any capture
///     const CaptureModeGuard relaxed(driver);
///     event.synchronize(); // harms no capture of any thread
///
/// Thread-safety: belongs to the thread that made it and must not live across a co_await.
/// Context: needs none and changes none.
/// During capture: harmless. Protects captures from the calls of this thread.
class CaptureModeGuard {
public:
  /// Sets the thread's mode. Driver function: cuThreadExchangeStreamCaptureMode.
  [[nodiscard]] explicit CaptureModeGuard(const Driver& driver, CaptureMode mode = CaptureMode::relaxed);
  /// The non-throwing overload. The mode is set if `result` is CUDA_SUCCESS.
  [[nodiscard]] CaptureModeGuard(const Driver& driver, CUresult& result,
                                 CaptureMode mode = CaptureMode::relaxed) noexcept;
  CaptureModeGuard(const CaptureModeGuard&) = delete;
  CaptureModeGuard& operator=(const CaptureModeGuard&) = delete;
  /// Restores the previous mode. On another thread it undoes nothing and reports to the error
  /// hook. Driver function: cuThreadExchangeStreamCaptureMode.
  ~CaptureModeGuard();

private:
  Driver driver_;
  CUstreamCaptureMode before_;
  const void* thread_;
};

/// Captures a stream from the constructor until end(). The destructor abandons a capture that was
/// not ended.
///
///     StreamCapture capture(context, stream);
///     submit(stream); // becomes part of the graph and does not run
///     const Graph graph = capture.end();
///
/// Thread-safety: construct, end and destroy on one thread, unless the capture is relaxed. Other
/// threads may submit to the stream.
/// Context: acts in `context` and leaves the caller's current context unchanged.
/// During capture: begins one. A second capture of the stream is refused; the first one goes on.
class StreamCapture {
public:
  /// Begins the capture. CU_STREAM_PER_THREAD means that stream of `context`. Driver functions: cuCtxGetId
  /// and cuStreamGetCtx, unless it is a default stream; cuStreamBeginCapture, which waits while another
  /// thread is blocked on a full launch queue of the context. Throws StreamCaptureUnsupported for the legacy
  /// stream, IllegalState if the stream is already being captured, ContextMismatch if the stream does not
  /// belong to `context`.
  [[nodiscard]] explicit StreamCapture(const Context& context, CUstream stream,
                                       CaptureMode mode = CaptureMode::per_thread);

  /// Begins a capture into `graph`, which may have nodes already, or may be the body of a conditional node.
  /// Do not record an event externally in such a body, or Graph::instantiate() throws. The first captured
  /// work depends on the nodes in `after`. The object `graph` must not end or move before the capture ends.
  /// What was captured stays in `graph`, even if the capture is abandoned. Driver function:
  /// cuStreamBeginCaptureToGraph. Throws as the other constructor, and:
  /// - NotSupported before CUDA 12.3.
  /// - InvalidHandle for an empty `graph`, ContextMismatch for a graph of another driver.
  ///
  /// If the capture cannot be ended, for example because it was invalidated, `graph` gives up its
  /// handle and is empty afterwards, because the driver has then destroyed the graph. If it was a body,
  /// the driver crashes when the graph of its conditional node is instantiated or destroyed: call
  /// Graph::release(), and do not use the handle.
  [[nodiscard]] explicit StreamCapture(const Context& context, CUstream stream, Graph& graph,
                                       ArrayView<CUgraphNode> after = {},
                                       CaptureMode mode = CaptureMode::per_thread);

  /// No capture, for try_begin(). No driver call.
  StreamCapture() noexcept = default;
  /// Non-throwing overloads of the two constructors. Return CUDA_ERROR_ILLEGAL_STATE if this object has a
  /// capture that was not ended.
  [[nodiscard]] CUresult try_begin(const Context& context, CUstream stream,
                                   CaptureMode mode = CaptureMode::per_thread) noexcept;
  [[nodiscard]] CUresult try_begin(const Context& context, CUstream stream, Graph& graph,
                                   ArrayView<CUgraphNode> after = {},
                                   CaptureMode mode = CaptureMode::per_thread) noexcept;
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;

  /// Ends a capture that was not ended, including an invalidated one, and drops what was captured,
  /// except in a graph that was given to the constructor. The stream and the thread can capture
  /// again afterwards. Never throws, so that an exception that is unwinding reaches the caller. If
  /// the capture cannot be ended, the error goes to the error hook. Driver functions:
  /// cuStreamEndCapture, cuGraphDestroy.
  ~StreamCapture();

  /// Records `event` externally on `stream` and hands it to the graph that end() returns, as
  /// Graph::retain does. `stream` must be part of this capture. Returns a borrowed event that is
  /// valid as long as the graph or an exec made from it. If this throws, the caller still owns
  /// `event`. In a capture into a given graph, the graph owns the event even if the record then fails. Driver
  /// functions: cuEventRecordWithFlags, and as Graph::retain(). Throws as DriverEvent::record() and
  /// Graph::retain().
  DriverEvent record(DriverEvent&& event, CUstream stream);
  /// `borrowed` is assigned on success only.
  [[nodiscard]] CUresult try_record(DriverEvent& borrowed, DriverEvent&& event, CUstream stream) noexcept;

  /// Ends the capture and returns its graph. A graph that was given to the constructor is returned
  /// as borrowed. Driver function: cuStreamEndCapture. Throws
  /// StreamCaptureInvalidated, StreamCaptureUnjoined or another CaptureError. The capture is over
  /// even if this throws, and the stream and the thread can capture again. There is one exception:
  /// if the context of a default stream cannot be made current, nothing changes.
  ///
  /// Nobody else may end this capture. If other code ends it:
  /// - end() throws IllegalState. If end() was not called, the destructor reports IllegalState's code to the
  ///   error hook.
  /// - The events given to record() are destroyed with this object, but the other code's graph still refers
  ///   to them. Launching that graph is undefined.
  /// - If the stream is being captured again by then, end() and the destructor end the new capture. end()
  ///   returns its graph.
  Graph end();
  /// `out` is assigned on success only.
  [[nodiscard]] CUresult try_end(Graph& out) noexcept;

private:
  friend struct Explanation;

  CUresult end(CUgraph& graph) noexcept;
  void begun(const Context& context, CUstream stream, Graph* into) noexcept;

  // Called only after a failure, to find out why the call was refused.
  [[noreturn, gnu::cold]] void fail_begin(CUresult result, const Context& context) const;
  [[noreturn, gnu::cold]] void fail_begin(CUresult result, const Context& context, const Graph& graph) const;
  [[noreturn, gnu::cold]] void fail_record(CUresult result, EventRef event, CUstream stream) const;
  [[noreturn, gnu::cold]] void fail_end(CUresult result) const;

  Context context_;
  CUstream stream_ = nullptr;
  Graph* into_ = nullptr; // the graph that was given to the constructor
  bool active_ = false;
  std::vector<DriverEvent> kept_; // kept here until there is a graph to keep them
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
