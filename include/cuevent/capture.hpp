// Stream capture: begin and end it, ask for it, and stay out of the way of another's.
#pragma once

#include <cuevent/graph.hpp>

#include <vector>

#pragma GCC visibility push(default)
namespace cuevent {

/// Which calls a capture forbids, and to whom: CU_STREAM_CAPTURE_MODE_*.
enum class CaptureMode {
  global,     ///< unsafe calls of every thread, but those in relaxed mode themselves, invalidate the capture
  per_thread, ///< those of the thread that captures
  relaxed,    ///< none
};

/// CU_STREAM_CAPTURE_STATUS_*.
enum class CaptureStatus {
  none,
  active,
  invalidated, ///< an error ended it; what is left to do is to end() or destroy the StreamCapture
};

/// Whether `stream` is being captured: the one given, of `context` if it is a default stream. Driver
/// function: cuStreamIsCapturing. Throws StreamCaptureImplicit for the legacy stream beside a capture of a
/// blocking stream.
/// Thread-safety: any thread.
/// Context: as DriverEvent's members.
/// During capture: harmless, also where it throws.
CaptureStatus capture_status(const Context& context, CUstream stream);

/// The calling thread in another capture mode for a scope; in relaxed mode, which is the default, its calls
/// harm no capture but one that they are part of. Driver function: cuThreadExchangeStreamCaptureMode.
///
/// Thread-safety: belongs to the thread that made it, and must not live across a co_await; one destroyed on
/// another thread reports to the error hook and undoes nothing.
/// Context: needs and changes none; makes none active.
/// During capture: this is what it is for.
class CaptureModeGuard {
public:
  [[nodiscard]] explicit CaptureModeGuard(const Driver& driver, CaptureMode mode = CaptureMode::relaxed);
  CaptureModeGuard(const CaptureModeGuard&) = delete;
  CaptureModeGuard& operator=(const CaptureModeGuard&) = delete;
  ~CaptureModeGuard();

private:
  Driver driver_;
  CUstreamCaptureMode before_;
  const void* thread_;
};

/// A capture of a stream, from its making until end() or its destructor, which abandons it.
///
/// Thread-safety: unless it is relaxed, made, ended and destroyed on one thread; other threads may submit
/// to the stream.
/// Context: a default stream (CU_STREAM_PER_THREAD; the legacy one cannot be captured) is that of
/// `context`.
/// During capture: begins one; a second capture of the stream is refused and leaves the first as it is.
class StreamCapture {
public:
  /// Driver function: cuStreamBeginCapture. Throws StreamCaptureUnsupported for the legacy stream,
  /// IllegalState if the stream is being captured.
  [[nodiscard]] explicit StreamCapture(const Context& context, CUstream stream,
                                       CaptureMode mode = CaptureMode::per_thread);
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;

  /// Ends a capture that has not been ended, also an invalidated one, and drops what was captured, so that
  /// the stream and the thread can capture again. Throws nothing: where an error is unwinding, that error is
  /// the one to see. Driver functions: cuStreamEndCapture, cuGraphDestroy.
  ~StreamCapture();

  /// Records `event` externally on `stream`, which is part of this capture, and hands it to the graph that
  /// end() makes, as Graph::retain does. Returns a borrowed event, valid as long as the graph or an exec of
  /// it. If this throws, the event stays the caller's. Driver function: cuEventRecordWithFlags.
  DriverEvent record(DriverEvent&& event, CUstream stream);

  /// Ends the capture. Driver function: cuStreamEndCapture. Throws StreamCaptureInvalidated,
  /// StreamCaptureUnjoined or another CaptureError; the capture is over in any case, and stream and thread
  /// can capture again; but where the context of a default stream cannot be made current, all is as before.
  Graph end();

private:
  CUresult end(CUgraph& graph) noexcept;

  Context context_;
  CUstream stream_;
  bool active_ = true;
  std::vector<DriverEvent> kept_; // until there is a graph to keep them
};

} // namespace cuevent
#pragma GCC visibility pop
