// SPDX-License-Identifier: MIT
/// \file
/// \brief DriverEvent: a CUevent that is owned or borrowed, bound to its context.
///
/// Rules for all members:
/// - An empty event never reaches the driver. Its members throw EmptyEvent, and their non-throwing
///   overloads return CUDA_ERROR_INVALID_HANDLE.
/// - A member that throws leaves the event unchanged, except close(), which always empties it. The member can
///   still have invalidated a capture: docs/events-and-capture.md.
/// - A `try_` member is a non-throwing overload. It returns the CUresult of the driver.
/// - A default stream handle (0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD) means a stream of the
///   event's own context, unless the caller names another: see StreamRef.
/// - Any member can throw DeviceFault, because the driver reports failures of earlier device work
///   in later calls.
/// - An event keeps an owned context alive. A borrowed context must outlive the event:
///   docs/lifetime.md.
/// - `std::cout << event` and to_string(event) are in text.hpp.
#pragma once

#include <cuevent/context.hpp>
#include <cuevent/event_flags.hpp>
#include <cuevent/stream_ref.hpp>
#include <cuevent/time_limit.hpp>

#include <chrono>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

struct IpcHandle;
class EventAccess;

/// A CUevent that this object owns or borrows. Use it to order streams, to wait on the host and to
/// time device work. Move-only.
///
///     DriverEvent done(context);
///     done.record(stream);
///     done.synchronize();
///
/// Thread-safety: query, wait, synchronize and elapsed_time may run concurrently on one event. The
/// caller orders all other members.
/// Context: acts in the event's context and leaves the caller's current context unchanged.
/// During capture: record() and wait() become part of the capture. query(), synchronize(),
/// record_context() and wait_context() can invalidate captures: docs/events-and-capture.md.
class DriverEvent {
public:
  using Milliseconds = std::chrono::duration<float, std::milli>;

  /// An empty event. An event is also empty after a move, close() or release(). No driver call.
  DriverEvent() noexcept = default;

  /// Creates an event in `context`. The event shares the context. Driver functions:
  /// cuCtxGetCurrent, cuCtxGetId, cuEventCreate; also cuCtxPushCurrent and cuCtxPopCurrent if
  /// `context` is not current.
  /// The call waits, indefinitely if necessary, while another thread is blocked on a full launch
  /// queue of the context.
  /// Throws:
  /// - InvalidValue for timing together with interprocess.
  /// - ContextLost if the context is destroyed. (If another thread destroyed it while it is
  ///   current on this thread, the driver's behaviour is undefined.)
  /// - InvalidContext if `context` is empty.
  [[gnu::always_inline]] explicit DriverEvent(const Context& context, EventFlags flags = EventFlags::none)
      : context_(context), flags_(flags), ownership_(Ownership::owned), checks_(checks_of(flags)) {
    if (const CUresult result = create(flags); result != CUDA_SUCCESS) fail_create(result, context, flags);
  }

  /// Creates an event in the context of `stream`, or in the current context if `stream` is a
  /// default stream. The event borrows that context. Driver functions: cuStreamGetCtx or
  /// cuCtxGetCurrent, cuCtxGetId, cuEventCreate. Throws InvalidContext if no context is current.
  [[nodiscard]] static DriverEvent for_stream(CUstream stream, EventFlags flags = EventFlags::none,
                                              const Driver& driver = Driver::instance());

  /// Takes ownership of `event`, which was made in `context` with `flags`. The flags must include
  /// interprocess if the event has that flag, because wait() relies on it. No driver call. Throws
  /// InvalidHandle for null.
  [[nodiscard]] static DriverEvent from_native_handle(const Context& context, CUevent event,
                                                      EventFlags flags);

  /// Opens an event that another process exported: see ipc.hpp. The event can be recorded, waited
  /// for and queried. It has no timing and cannot be exported again. Its behaviour is undefined
  /// once the exporting process has ended. Driver function: cuIpcOpenEventHandle. Throws
  /// InvalidContext in the process that exported the event, MapFailed if the bytes are not a
  /// handle.
  [[nodiscard]] static DriverEvent from_ipc_handle(const Context& context, const IpcHandle& handle);

  /// Refers to `event` without owning it. The caller keeps the event alive. `context` and `flags`
  /// must be those the event was made with, as for from_native_handle(). No driver call. Throws
  /// InvalidHandle for null.
  [[nodiscard]] static DriverEvent borrow(const Context& context, CUevent event, EventFlags flags);

  /// Non-throwing overloads of the constructor and of from_ipc_handle(). `out` is assigned on
  /// success only.
  [[nodiscard]] static CUresult try_create(DriverEvent& out, const Context& context,
                                           EventFlags flags = EventFlags::none) noexcept;
  [[nodiscard]] static CUresult try_from_ipc_handle(DriverEvent& out, const Context& context,
                                                    const IpcHandle& handle) noexcept;

  DriverEvent(DriverEvent&& other) noexcept : DriverEvent() { swap(other); }
  DriverEvent& operator=(DriverEvent&& other) noexcept {
    DriverEvent taken(static_cast<DriverEvent&&>(other));
    swap(taken);
    return *this;
  }

  /// Destroys an owned event, even while the event is pending. Driver functions: cuCtxGetId,
  /// cuEventDestroy. Errors go to the error hook. If the context is gone, the event is already
  /// gone too, and nothing is reported. The call waits, indefinitely if necessary, while another
  /// thread is blocked on a full launch queue of the context. To avoid that wait, use
  /// EventFlags::retire, RetireScope or retire().
  ~DriverEvent() {
    if (__builtin_expect(ownership_ == Ownership::owned, true)) destroy();
  }

  /// Marks the work submitted to `stream` so far. A default stream is the one of the event's context. Driver
  /// functions: cuEventRecord, cuEventRecordWithFlags. Throws ContextMismatch if the stream or the context
  /// named for it is not of the event's context, ExternalOutsideCapture for an external record on a stream
  /// that is not being captured.
  void record(StreamRef stream, RecordFlags flags = RecordFlags::none) {
    if (const CUresult result = try_record(stream, flags); result != CUDA_SUCCESS)
      fail_record(result, stream, flags);
  }
  [[nodiscard]] CUresult try_record(StreamRef stream, RecordFlags flags = RecordFlags::none) noexcept {
    if (__builtin_expect(stream.needs_context(), false)) return record_in_context(stream, flags);
    return call_record(stream.native_handle(), flags);
  }

  /// Makes later work on `stream` wait on the device for the work that this event marks now.
  /// Returns at once. Waiting for an event that was never recorded has no effect. A default stream is the one
  /// of the event's context, or of the context named for it, which can be any. Driver function:
  /// cuStreamWaitEvent.
  /// Throws:
  /// - ExternalOutsideCapture for an external wait on a stream that is not being captured.
  /// - RecordedInCapture if the event was last recorded in a capture that has ended.
  /// - StreamCaptureIsolation if a captured stream would wait for work outside its capture.
  /// - ContextMismatch for an interprocess event and a stream of another context, and for a context of
  ///   another driver.
  /// - NotSupported for an external wait for Lease::event().
  ///
  /// Only some streams can wait for an interprocess event, even an imported one: streams of the event's own
  /// context; streams of a green context, if the event's context is the primary context of that device; and
  /// the other way round. For other streams the driver would crash the process, so the wait is refused before
  /// it reaches the driver. To decide, the wait calls cuStreamIsCapturing, cuCtxGetId and cuStreamGetCtx. If
  /// the context handles differ, it also creates, records and destroys a temporary event, which can wait as
  /// the constructor does. Graph nodes, and WaitFlags::external in a capture, do not have this limit.
  void wait(StreamRef stream, WaitFlags flags = WaitFlags::none) const {
    if (const CUresult result = try_wait(stream, flags); result != CUDA_SUCCESS)
      fail_wait(result, stream, flags);
  }
  [[nodiscard]] CUresult try_wait(StreamRef stream, WaitFlags flags = WaitFlags::none) const noexcept {
    if (__builtin_expect(stream.needs_context(), false)) return wait_in_context(stream, flags);
    return call_wait(stream.native_handle(), flags);
  }

  /// Marks the work submitted so far to all streams of `context`. `context` must be the event's
  /// context, or a green context that belongs to it. Driver functions: cuCtxRecordEvent (CUDA
  /// 12.5), cuGreenCtxRecordEvent (12.4). Throws NotSupported if the driver is older,
  /// ContextMismatch for another context.
  /// During capture: if any stream of the context is being captured, throws
  /// StreamCaptureUnsupported and invalidates every such capture, regardless of mode and thread.
  void record_context(const Context& context);
  void record_context(CUgreenCtx context);
  [[nodiscard]] CUresult try_record_context(const Context& context) noexcept;
  [[nodiscard]] CUresult try_record_context(CUgreenCtx context) noexcept;

  /// Makes later work on all streams of `context` wait for this event, including streams created
  /// later. Driver functions: cuCtxWaitEvent (CUDA 12.5), cuGreenCtxWaitEvent (12.4). Throws
  /// NotSupported if the driver is older, ContextMismatch for an interprocess event and another
  /// context. To check that, the call first creates a temporary event, records it in `context` and
  /// destroys it.
  /// During capture: as record_context().
  void wait_context(const Context& context) const;
  void wait_context(CUgreenCtx context) const;
  [[nodiscard]] CUresult try_wait_context(const Context& context) const noexcept;
  [[nodiscard]] CUresult try_wait_context(CUgreenCtx context) const noexcept;

  /// Returns true if the marked work has completed or the event was never recorded, false while
  /// the work is pending. Driver function: cuEventQuery. If the event was last recorded in a
  /// capture, throws CapturedEvent while the capture is active, RecordedInCapture afterwards.
  [[nodiscard]] bool query() const {
    const CUresult result = try_query();
    if (result == CUDA_SUCCESS) return true;
    if (result != CUDA_ERROR_NOT_READY) fail_query(result, "cuEventQuery");
    return false;
  }
  [[nodiscard]] CUresult try_query() const noexcept { return table().cuEventQuery_v2000(event_); }

  /// As query(), in relaxed capture mode. Invalidates no capture, except one that this event was recorded
  /// into. Driver functions: cuThreadExchangeStreamCaptureMode twice, cuEventQuery.
  [[nodiscard]] bool query_relaxed() const;
  [[nodiscard]] CUresult try_query_relaxed() const noexcept;

  /// Waits on the host until the marked work has completed. Driver function: cuEventSynchronize.
  /// Throws as query().
  void synchronize() const {
    if (const CUresult result = try_synchronize(); result != CUDA_SUCCESS)
      fail_query(result, "cuEventSynchronize");
  }
  [[nodiscard]] CUresult try_synchronize() const noexcept { return table().cuEventSynchronize_v2000(event_); }

  /// As synchronize(), up to the timeout or deadline. Returns false if the time ran out. Takes any
  /// std::chrono::duration, or a time_point of any clock: time_limit.hpp. The call never waits in
  /// the driver: it polls with query_relaxed(), at least once. The non-throwing overloads return
  /// CUDA_ERROR_NOT_READY if the time ran out.
  ///
  /// The event learns the length of regular waits. After four of them, the call sleeps until shortly before
  /// the expected end, and then spins. Other waits spin for 50 us, yield until 1 ms has passed, and then
  /// sleep for a tenth of the time waited so far. No sleep between two polls is longer than 1 ms.
  [[nodiscard]] bool synchronize_for(TimeLimit timeout) const;
  [[nodiscard]] bool synchronize_until(Deadline deadline) const;
  [[nodiscard]] CUresult try_synchronize_for(TimeLimit timeout) const noexcept;
  [[nodiscard]] CUresult try_synchronize_until(Deadline deadline) const noexcept;

  /// The device time in milliseconds from this event to `end`. Negative if `end` came first.
  /// Driver function: cuEventElapsedTime (version 2 if the driver has it).
  /// Throws:
  /// - TimingDisabled, NeverRecorded or RecordedInCapture. The text says which event is meant.
  /// - ContextMismatch if the events belong to different contexts or drivers.
  /// - CapturedEvent if an event was last recorded in a capture that is still active.
  /// - NotReady if either event has not completed.
  ///
  /// The non-throwing overload assigns `out` on success only.
  Milliseconds elapsed_time(const DriverEvent& end) const {
    Milliseconds time{};
    if (const CUresult result = try_elapsed_time(time, end); result != CUDA_SUCCESS)
      fail_elapsed(result, end);
    return time;
  }
  [[nodiscard]] CUresult try_elapsed_time(Milliseconds& out, const DriverEvent& end) const noexcept {
    if (__builtin_expect(&table() != &end.table(), false)) return CUDA_ERROR_INVALID_HANDLE;
    float milliseconds = 0;
    const CUresult result = table().cuEventElapsedTime_v12080(&milliseconds, event_, end.event_);
    if (result == CUDA_SUCCESS) out = Milliseconds(milliseconds);
    return result;
  }
  /// The same for an EventRef or a lease. Defined in event_ref.hpp.
  Milliseconds elapsed_time(const EventAccess& end) const;
  [[nodiscard]] CUresult try_elapsed_time(Milliseconds& out, const EventAccess& end) const noexcept;

  /// Destroys an owned event now. The event is empty afterwards, even if this throws. Driver
  /// functions: cuCtxGetId, cuEventDestroy. Throws what the destructor would report, and
  /// ContextIsDestroyed if the context, and therefore the event, is already gone. The call can
  /// wait as the destructor does, and never retires the event.
  void close();
  [[nodiscard]] CUresult try_close() noexcept;

  /// Exports the event for other processes: ipc.hpp. The event must have EventFlags::interprocess,
  /// and must exist for as long as other processes use it. Driver function: cuIpcGetEventHandle.
  /// Throws InvalidHandle if the event is not interprocess or is itself imported, NotSupported for
  /// Lease::event().
  [[nodiscard]] IpcHandle ipc_handle() const;
  [[nodiscard]] CUresult try_ipc_handle(IpcHandle& out) const noexcept;

  /// Gives up the handle without destroying it. Returns null for an empty event. The event is
  /// empty afterwards, and the caller owns the handle if this object did. No driver call.
  [[nodiscard]] CUevent release() noexcept;

  CUevent native_handle() const noexcept { return event_; }
  const Context& context() const noexcept { return context_; }
  EventFlags flags() const noexcept { return flags_; }

  void swap(DriverEvent& other) noexcept;
  friend void swap(DriverEvent& a, DriverEvent& b) noexcept { a.swap(b); }

  explicit operator bool() const noexcept { return event_ != nullptr; }
  /// True if both refer to the same event of the same driver, regardless of who owns it.
  friend bool operator==(const DriverEvent& a, const DriverEvent& b) noexcept {
    return a.event_ == b.event_ && &a.table() == &b.table();
  }
  friend bool operator!=(const DriverEvent& a, const DriverEvent& b) noexcept { return !(a == b); }

private:
  friend class EventAccess;
  friend class Lease;
  friend struct Explanation;
  DriverEvent(const Context& context, CUevent event, EventFlags flags, Ownership ownership) noexcept
      : context_(context), event_(event), flags_(flags), ownership_(ownership), checks_(checks_of(flags)) {}

  const DriverTable& table() const noexcept { return context_.driver().table(); }
  CUresult call_record(CUstream stream, RecordFlags flags) noexcept {
    if (flags == RecordFlags::none) return table().cuEventRecord_v2000(event_, stream);
    if (flags == RecordFlags::external_in_capture) return record_as_captured(stream);
    return table().cuEventRecordWithFlags_v11010(event_, stream, static_cast<unsigned>(flags));
  }
  CUresult call_wait(CUstream stream, WaitFlags flags) const noexcept {
    if (flags == WaitFlags::external_in_capture) return wait_as_captured(stream);
    if (flags != WaitFlags::none && on_lease()) return CUDA_ERROR_NOT_SUPPORTED;
    if (__builtin_expect((flags_ & EventFlags::interprocess) != EventFlags::none, false))
      return wait_interprocess(stream, flags);
    return table().cuStreamWaitEvent_v3020(stream, event_, static_cast<unsigned>(flags));
  }
  /// Whether this is Lease::event(). A graph would outlive the lease.
  bool on_lease() const noexcept { return (__atomic_load_n(&checks_, __ATOMIC_RELAXED) & leased) != 0; }
  CUresult record_as_captured(CUstream stream) noexcept;
  CUresult wait_as_captured(CUstream stream) const noexcept;
  CUresult wait_interprocess(CUstream stream, WaitFlags flags) const noexcept;
  static constexpr unsigned driver_flags(EventFlags flags) noexcept {
    constexpr EventFlags own = EventFlags::timing | EventFlags::retire;
    const bool timing = (flags & EventFlags::timing) != EventFlags::none;
    return (unsigned(flags) & ~unsigned(own)) | (timing ? 0U : unsigned{CU_EVENT_DISABLE_TIMING});
  }
  // The part of a ContextGuard that is needed if the context is already current, as it usually is.
  [[gnu::always_inline]] CUresult create(EventFlags flags) noexcept {
    const DriverTable& driver = table();
    CUresult asked;
    if (!context_.is_current(driver, asked)) return create_slow(asked);
    return driver.cuEventCreate_v2000(&event_, driver_flags(flags));
  }
  CUresult create_slow(CUresult asked) noexcept;
  void destroy() noexcept;
  CUresult record_in_context(StreamRef stream, RecordFlags flags) noexcept;
  CUresult wait_in_context(StreamRef stream, WaitFlags flags) const noexcept;

  // Called only after a failure, to find out why the driver refused.
  [[noreturn, gnu::cold]] static void fail_create(CUresult result, const Context& context, EventFlags flags);
  [[noreturn, gnu::cold]] static void fail_create(CUresult result, const Driver& driver, EventFlags flags);
  [[noreturn, gnu::cold]] void fail_record(CUresult result, StreamRef stream, RecordFlags flags) const;
  [[noreturn, gnu::cold]] void fail_wait(CUresult result, StreamRef stream, WaitFlags flags) const;
  [[noreturn, gnu::cold]] void fail_context(CUresult result, const char* call, const Context* context) const;
  [[noreturn, gnu::cold]] void fail_query(CUresult result, const char* call) const;
  [[noreturn, gnu::cold]] void fail_elapsed(CUresult result, const DriverEvent& end) const;

  // What an EventRef has to check before a call, as bits of `checks_`. `unrecorded` is the sign bit, so one
  // instruction tests it for two events. The event's flags decide `interprocess`, and its lease decides the
  // other bits. While there are references, a lease only clears `unrecorded`.
  enum Check : int { leased = 1, interprocess = 4, unrecorded = -0x8000 };
  static constexpr short checks_of(EventFlags flags) noexcept {
    static_assert(unsigned{interprocess} == unsigned(EventFlags::interprocess), "one bit for both");
    return static_cast<short>(unsigned(flags) & unsigned{interprocess});
  }

  Context context_; // empty in an empty event, so that its calls use the table of no driver
  CUevent event_ = nullptr;
  EventFlags flags_ = EventFlags::none;
  Ownership ownership_ = Ownership::borrowed;
  short checks_ = 0; // for an EventRef; the bits of a lease stay with the object when the event moves
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
