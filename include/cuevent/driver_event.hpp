// DriverEvent: a CUevent with an owner, bound to its context.
#pragma once

#include <cuevent/context.hpp>
#include <cuevent/time_limit.hpp>

#include <chrono>

#pragma GCC visibility push(default)
namespace cuevent {

struct IpcHandle;

/// How an event is made, and ends. The driver's CU_EVENT_* bits, but that timing is asked for and not asked
/// away; retire is not the driver's.
enum class EventFlags : unsigned {
  none = 0,
  blocking_sync = 1, ///< synchronize() blocks the thread instead of spinning; it wakes about 30 us later
  interprocess = 4,  ///< may be exported to another process; not together with timing; see wait()
  timing = 0x100,    ///< may be given to elapsed_time(); a record costs several times as much
  retire = 0x200,    ///< its destructor calls no driver function, but retires it: see retired_events.hpp
};
constexpr EventFlags operator|(EventFlags a, EventFlags b) noexcept {
  return EventFlags(unsigned(a) | unsigned(b));
}
constexpr EventFlags operator&(EventFlags a, EventFlags b) noexcept {
  return EventFlags(unsigned(a) & unsigned(b));
}

/// How an event is recorded: CU_EVENT_RECORD_*, and a choice between them.
enum class RecordFlags : unsigned {
  none = 0,
  external =
      1, ///< in a captured stream: a node that records at each launch of the graph, and no fork or join
  external_in_capture =
      0x100, ///< external if the stream is being captured, else none; asks cuStreamIsCapturing
};
constexpr RecordFlags operator|(RecordFlags a, RecordFlags b) noexcept {
  return RecordFlags(unsigned(a) | unsigned(b));
}
constexpr RecordFlags operator&(RecordFlags a, RecordFlags b) noexcept {
  return RecordFlags(unsigned(a) & unsigned(b));
}

/// How a stream waits for an event: CU_EVENT_WAIT_*, and a choice between them.
enum class WaitFlags : unsigned {
  none = 0,
  external = 1, ///< in a captured stream: a node that waits at each launch of the graph, and no fork or join
  external_in_capture =
      0x100, ///< external if the stream is being captured, else none; asks cuStreamIsCapturing
};
constexpr WaitFlags operator|(WaitFlags a, WaitFlags b) noexcept {
  return WaitFlags(unsigned(a) | unsigned(b));
}
constexpr WaitFlags operator&(WaitFlags a, WaitFlags b) noexcept {
  return WaitFlags(unsigned(a) & unsigned(b));
}

/// An event of the driver, which it destroys unless it borrows it. Move-only; empty when default-made and
/// after a move, close() or release(). An empty event never reaches the driver: its members throw
/// EmptyEvent, their twins return CUDA_ERROR_INVALID_HANDLE.
///
/// A stream handle of a default stream (0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD) means that of the
/// event's own context. Each member has a noexcept twin try_..., which returns the CUresult and throws
/// nothing. A member that throws has done nothing, and the event is as it was. Any member may deliver the
/// fault of earlier device work (DeviceFault).
///
/// Thread-safety: query, wait, synchronize and elapsed_time may run concurrently on one event; record,
/// close, release, assignment and moves need the caller's ordering.
/// Context: each member acts in the event's context and leaves the caller's current context as it was. An
/// event keeps an owned context alive; a borrowed one has to outlive all use of the event, and a primary one
/// must not be reset under it: the driver then mostly answers CUDA_ERROR_CONTEXT_IS_DESTROYED (ContextLost),
/// but reads freed memory for it, and was seen to crash. Destroying and closing an event stay safe: they ask
/// for the context first, and leave the event to a context that is gone.
/// During capture: creation, destruction and elapsed_time harm no capture. record() and wait() on a
/// capturing stream become part of the capture. query() and synchronize() invalidate a capture that this
/// thread began unless it is relaxed, and any other thread's global capture; query_relaxed() and
/// synchronize_for() only one that the event was recorded into.
class DriverEvent {
public:
  using Milliseconds = std::chrono::duration<float, std::milli>;

  DriverEvent() noexcept = default;

  /// A new event in `context`, which it shares. Driver function: cuEventCreate. Throws InvalidValue for
  /// timing together with interprocess, and ContextLost for a destroyed context, unless that is still current
  /// on this thread: what the driver does with one that another thread has destroyed is undefined. It waits,
  /// for ever if need be, while another thread is blocked in a full launch queue of the context.
  explicit DriverEvent(const Context& context, EventFlags flags = EventFlags::none)
      : context_(context), flags_(flags), ownership_(Ownership::owned) {
    if (const CUresult result = create(flags); result != CUDA_SUCCESS) fail_create(result, context, flags);
  }

  /// A new event in the context of `stream`, which is borrowed; in the current context for a default stream.
  /// Driver functions: cuStreamGetCtx or cuCtxGetCurrent, cuCtxGetId, cuEventCreate. Throws InvalidContext if
  /// there is none.
  static DriverEvent for_stream(CUstream stream, EventFlags flags = EventFlags::none,
                                const Driver& driver = Driver::instance());

  /// Takes ownership of `event`, made in `context` with these flags: wait() relies on interprocess being among
  /// them if the event has it. Throws InvalidHandle for null.
  static DriverEvent from_native_handle(const Context& context, CUevent event, EventFlags flags);

  /// An event of another process that exported it: ipc.hpp. The event can be recorded, waited for and asked,
  /// but has no timing and cannot be exported again. Driver function: cuIpcOpenEventHandle. Throws
  /// InvalidContext in the process that exported it, MapFailed for bytes that are no handle. What the event
  /// does once the exporting process has ended is undefined.
  static DriverEvent from_ipc_handle(const Context& context, const IpcHandle& handle);

  /// Refers to `event`, made in `context` with these flags (see from_native_handle), and never destroys it: the
  /// caller keeps it alive. Throws InvalidHandle for null.
  static DriverEvent borrow(const Context& context, CUevent event, EventFlags flags);

  /// The twins of the constructor and of from_ipc_handle(). `out` is assigned on success only.
  static CUresult try_create(DriverEvent& out, const Context& context,
                             EventFlags flags = EventFlags::none) noexcept;
  static CUresult try_from_ipc_handle(DriverEvent& out, const Context& context,
                                      const IpcHandle& handle) noexcept;

  DriverEvent(DriverEvent&& other) noexcept : DriverEvent() { swap(other); }
  DriverEvent& operator=(DriverEvent&& other) noexcept {
    DriverEvent taken(static_cast<DriverEvent&&>(other));
    swap(taken);
    return *this;
  }

  /// Destroys an owned event, also one that is pending. Driver functions: cuCtxGetId, cuEventDestroy. What
  /// fails goes to the error hook; where the context is gone, so is the event. It waits, for ever if need be,
  /// while another thread is blocked in a full launch queue of the context: EventFlags::retire, RetireScope
  /// and retire() are the ways out.
  ~DriverEvent() {
    if (ownership_ == Ownership::owned) destroy();
  }

  /// Marks the work submitted to `stream` so far. Driver functions: cuEventRecord, cuEventRecordWithFlags.
  /// Throws ContextMismatch if the stream is of another context, ExternalOutsideCapture for an external
  /// record on a stream that is not being captured.
  void record(CUstream stream, RecordFlags flags = RecordFlags::none) {
    if (const CUresult result = try_record(stream, flags); result != CUDA_SUCCESS)
      fail_record(result, stream, flags);
  }
  CUresult try_record(CUstream stream, RecordFlags flags = RecordFlags::none) noexcept {
    if (__builtin_expect(is_default_stream(stream), false)) return record_default(stream, flags);
    return call_record(stream, flags);
  }

  /// The same, and says whose default stream `stream` means: handle 0 is another stream in each context, and a
  /// program with several devices may have it for all of them. Any other stream may be given too. Throws
  /// ContextMismatch for another context than the event's, InvalidContext for an empty one.
  void record(const Context& context, CUstream stream, RecordFlags flags = RecordFlags::none);
  CUresult try_record(const Context& context, CUstream stream,
                      RecordFlags flags = RecordFlags::none) noexcept;

  /// Makes later work of `stream` wait on the device until what this event marks now has completed; returns
  /// at once. No wait if never recorded. Driver function: cuStreamWaitEvent. Throws ExternalOutsideCapture as
  /// record(), RecordedInCapture if the event was last recorded in a capture that has ended,
  /// StreamCaptureIsolation if a captured stream would wait for work outside its capture.
  ///
  /// An event with EventFlags::interprocess, also an imported one, can be waited for by streams of its own
  /// context and of the green contexts of that device: in any other context the driver crashes the process.
  /// Such a wait is refused before the driver is reached, with ContextMismatch. For this, waits for
  /// interprocess events ask cuStreamIsCapturing, cuCtxGetId and cuStreamGetCtx, and if the context has another
  /// handle, record an event made for the purpose on the stream, to learn whether it is a green one. Graph
  /// nodes and WaitFlags::external in a capture have no such limit.
  void wait(CUstream stream, WaitFlags flags = WaitFlags::none) const {
    if (const CUresult result = try_wait(stream, flags); result != CUDA_SUCCESS)
      fail_wait(result, stream, flags);
  }
  CUresult try_wait(CUstream stream, WaitFlags flags = WaitFlags::none) const noexcept {
    if (__builtin_expect(is_default_stream(stream), false)) return wait_default(stream, flags);
    return call_wait(stream, flags);
  }

  /// The same for a default stream of `context`, which may be another context than the event's; any other stream
  /// may be given too. Throws ContextMismatch for a context of another driver, InvalidContext for an empty one.
  /// Context: `context` is made current for the call if `stream` is a default one.
  void wait(const Context& context, CUstream stream, WaitFlags flags = WaitFlags::none) const;
  CUresult try_wait(const Context& context, CUstream stream,
                    WaitFlags flags = WaitFlags::none) const noexcept;

  /// Marks the work submitted to all streams of `context`, which has to be the event's, or of a green
  /// context of it, so far. Driver functions: cuCtxRecordEvent (CUDA 12.5), cuGreenCtxRecordEvent (12.4).
  /// Throws NotSupported on an older driver, ContextMismatch.
  /// During capture: if any stream of the context is being captured, throws StreamCaptureUnsupported, and
  /// every such capture is invalidated, whatever its mode and thread.
  void record_context(const Context& context);
  void record_context(CUgreenCtx context);
  CUresult try_record_context(const Context& context) noexcept;
  CUresult try_record_context(CUgreenCtx context) noexcept;

  /// Makes later work of all streams of `context`, those made afterwards included, wait for this event.
  /// Driver functions: cuCtxWaitEvent (CUDA 12.5), cuGreenCtxWaitEvent (12.4). Throws, and during capture, as
  /// record_context(); ContextMismatch also for an interprocess event and another context, as wait() does, for
  /// which an event made for the purpose is recorded by record_context() first.
  void wait_context(const Context& context) const;
  void wait_context(CUgreenCtx context) const;
  CUresult try_wait_context(const Context& context) const noexcept;
  CUresult try_wait_context(CUgreenCtx context) const noexcept;

  /// True once the marked work has completed, or if never recorded; false while it has not. Driver function:
  /// cuEventQuery. Throws RecordedInCapture or CapturedEvent if it was last recorded in a capture.
  bool query() const {
    const CUresult result = try_query();
    if (result == CUDA_SUCCESS) return true;
    if (result != CUDA_ERROR_NOT_READY) fail_query(result, "cuEventQuery");
    return false;
  }
  CUresult try_query() const noexcept { return table().cuEventQuery_v2000(event_); }

  /// As query(), in relaxed capture mode: harms no capture but one that this event was recorded into.
  /// Driver functions: cuThreadExchangeStreamCaptureMode twice, cuEventQuery.
  bool query_relaxed() const;
  CUresult try_query_relaxed() const noexcept;

  /// Waits on the host until the marked work has completed. Driver function: cuEventSynchronize. Throws as
  /// query().
  void synchronize() const {
    if (const CUresult result = try_synchronize(); result != CUDA_SUCCESS)
      fail_query(result, "cuEventSynchronize");
  }
  CUresult try_synchronize() const noexcept { return table().cuEventSynchronize_v2000(event_); }

  /// As synchronize() for at most that long: false if the time is over. It asks at least once, by
  /// query_relaxed(), spinning at first, then yielding, then sleeping for up to a millisecond between
  /// questions; so it never waits in the driver. Takes any std::chrono::duration, and a time_point of any clock
  /// (time_limit.hpp). The non-throwing overloads return CUDA_ERROR_NOT_READY when the time is over.
  bool synchronize_for(TimeLimit timeout) const;
  bool synchronize_until(Deadline deadline) const;
  CUresult try_synchronize_for(TimeLimit timeout) const noexcept;
  CUresult try_synchronize_until(Deadline deadline) const noexcept;

  /// The device's time between this event and `end`, negative if `end` was first. Driver function:
  /// cuEventElapsedTime (v2 where the driver has it). Throws TimingDisabled, NeverRecorded, ContextMismatch
  /// or RecordedInCapture, which say of which event, CapturedEvent if that capture is still active, and
  /// NotReady if either has not completed.
  Milliseconds elapsed_time(const DriverEvent& end) const {
    Milliseconds time;
    if (const CUresult result = try_elapsed_time(time, end); result != CUDA_SUCCESS)
      fail_elapsed(result, end);
    return time;
  }
  CUresult try_elapsed_time(Milliseconds& out, const DriverEvent& end) const noexcept {
    if (__builtin_expect(&table() != &end.table(), false)) return CUDA_ERROR_INVALID_HANDLE;
    float milliseconds = 0;
    const CUresult result = table().cuEventElapsedTime_v12080(&milliseconds, event_, end.event_);
    out = Milliseconds(milliseconds);
    return result;
  }

  /// Destroys an owned event now; throws what the destructor would report. The event is empty afterwards in
  /// any case. Driver functions: cuCtxGetId, cuEventDestroy. It can wait as the destructor does, and retires
  /// nothing. Throws ContextIsDestroyed if the context is gone, and the event with it.
  void close();
  CUresult try_close() noexcept;

  /// The event as other processes can open it: ipc.hpp. It must have been made with EventFlags::interprocess,
  /// and exist for as long as they use it. Driver function: cuIpcGetEventHandle. Throws InvalidHandle for an
  /// event that is not interprocess or is itself imported.
  IpcHandle ipc_handle() const;
  CUresult try_ipc_handle(IpcHandle& out) const noexcept;

  /// Gives the handle away undestroyed, null if empty; the event is empty afterwards.
  CUevent release() noexcept;

  CUevent native_handle() const noexcept { return event_; }
  const Context& context() const noexcept { return context_; }
  EventFlags flags() const noexcept { return flags_; }

  void swap(DriverEvent& other) noexcept;
  friend void swap(DriverEvent& a, DriverEvent& b) noexcept { a.swap(b); }

  explicit operator bool() const noexcept { return event_ != nullptr; }
  /// The same event of the same driver, whoever owns it.
  friend bool operator==(const DriverEvent& a, const DriverEvent& b) noexcept {
    return a.event_ == b.event_ && &a.table() == &b.table();
  }
  friend bool operator!=(const DriverEvent& a, const DriverEvent& b) noexcept { return !(a == b); }

private:
  enum class Ownership : unsigned { borrowed, owned }; // an empty event owns nothing
  DriverEvent(const Context& context, CUevent event, EventFlags flags, Ownership ownership) noexcept
      : context_(context), event_(event), flags_(flags), ownership_(ownership) {}

  const DriverTable& table() const noexcept { return context_.driver().table(); }
  CUresult call_record(CUstream stream, RecordFlags flags) noexcept {
    if (flags == RecordFlags::none) return table().cuEventRecord_v2000(event_, stream);
    if (flags == RecordFlags::external_in_capture) return record_as_captured(stream);
    return table().cuEventRecordWithFlags_v11010(event_, stream, static_cast<unsigned>(flags));
  }
  CUresult call_wait(CUstream stream, WaitFlags flags) const noexcept {
    if (flags == WaitFlags::external_in_capture) return wait_as_captured(stream);
    if (__builtin_expect((flags_ & EventFlags::interprocess) != EventFlags::none, false))
      return wait_interprocess(stream, flags);
    return table().cuStreamWaitEvent_v3020(stream, event_, static_cast<unsigned>(flags));
  }
  CUresult record_as_captured(CUstream stream) noexcept;
  CUresult wait_as_captured(CUstream stream) const noexcept;
  CUresult wait_interprocess(CUstream stream, WaitFlags flags) const noexcept;
  static constexpr unsigned driver_flags(EventFlags flags) noexcept {
    constexpr EventFlags own = EventFlags::timing | EventFlags::retire;
    const bool timing = (flags & EventFlags::timing) != EventFlags::none;
    return (unsigned(flags) & ~unsigned(own)) | (timing ? 0U : unsigned{CU_EVENT_DISABLE_TIMING});
  }
  CUresult create(
      EventFlags flags) noexcept { // of a guard, what is needed where the context is current, as it mostly is
    CUcontext current;
    const CUresult asked = table().cuCtxGetCurrent_v4000(&current);
    if (__builtin_expect(asked != CUDA_SUCCESS || current != context_.native_handle(), false))
      return create_slow(asked);
    return table().cuEventCreate_v2000(&event_, driver_flags(flags));
  }
  CUresult create_slow(CUresult asked) noexcept;
  void destroy() noexcept;
  CUresult record_default(CUstream stream, RecordFlags flags) noexcept;
  CUresult wait_default(CUstream stream, WaitFlags flags) const noexcept;

  // Why the driver refused is found out here, after it did.
  [[noreturn, gnu::cold]] static void fail_create(CUresult result, const Context& context, EventFlags flags);
  [[noreturn, gnu::cold]] void fail_record(CUresult result, CUstream stream, RecordFlags flags) const;
  [[noreturn, gnu::cold]] void fail_wait(CUresult result, CUstream stream, WaitFlags flags,
                                         const Context* context = nullptr) const;
  [[noreturn, gnu::cold]] void fail_context(CUresult result, const char* call, const Context* context) const;
  [[noreturn, gnu::cold]] void fail_query(CUresult result, const char* call) const;
  [[noreturn, gnu::cold]] void fail_elapsed(CUresult result, const DriverEvent& end) const;

  Context context_; // empty in an empty event, whose calls therefore end in the table of no driver
  CUevent event_ = nullptr;
  EventFlags flags_ = EventFlags::none;
  Ownership ownership_ = Ownership::borrowed;
};

} // namespace cuevent
#pragma GCC visibility pop
