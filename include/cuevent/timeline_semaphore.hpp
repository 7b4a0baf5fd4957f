// SPDX-License-Identifier: MIT
/// \file
/// \brief TimelineSemaphore: a number that only rises, signalled and awaited by streams, threads
/// and processes.
///
/// Values, signals and waits:
/// - A semaphore begins at its initial value. Values are at most `max_value`.
/// - A wait for a value ends when the semaphore has that value or a higher one.
/// - All work that a stream has completed before its signal is visible to every thread, stream, device and
///   process that has seen the value.
/// - Order the streams that signal, or the value can fall: a stream's signal is a plain store when
///   the stream reaches it. cuevent refuses what it can know to be wrong: a value that is already
///   reached, a lower value on the same stream, the value of another pending signal, and a signal
///   of the host that is not below all pending signals of streams of all processes.
/// - A signal of a stream is pending until its value is reached. At most 1,992 signals of a
///   semaphore can be pending.
///
/// Memory and contexts:
/// - Each semaphore has a page of 16 KB, which its context pins. The page stays pinned after the
///   destructor, because a stream may still look at it. It stays pinned until the context ends, or
///   until close(). So reuse semaphores. The page of a context that has ended is freed when the
///   next semaphore is made.
/// - The end of the context unpins the page for the streams of all contexts of this process. So the context
///   must outlive all signals and waits, including those on streams of other contexts and devices. A
///   semaphore keeps an owned context alive.
///
/// Other processes: docs/between-processes.md.
#pragma once

#include <cuevent/array_view.hpp>
#include <cuevent/context.hpp>
#include <cuevent/stream_ref.hpp>
#include <cuevent/time_limit.hpp>

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

struct SemaphoreState;
class TimelineSemaphore;

/// Whether the signal must be submitted before the wait.
enum class WaitOrder : unsigned char {
  after_signal, ///< the wait is refused if no signal of the value is submitted yet
  /// The wait is submitted in any case. A waiting stream can hold up other streams of the context,
  /// because the driver runs all streams over a few connections (CUDA_DEVICE_MAX_CONNECTIONS, 8 by
  /// default). If the signal depends on work of such a stream, all of them wait forever. A signal
  /// of a host that waits for no stream is safe.
  before_signal,
};

/// The state of the participants of a semaphore.
enum class TimelineStatus : unsigned char {
  active,
  participant_died, ///< a process died without leaving, or a handle was closed before it was imported
  abandoned,        ///< abandon() was called; values no longer mean anything
};

/// A semaphore and a value, for waits for several semaphores.
///
///     TimelineSemaphore first(context), second(context);
///     second.signal(stream, 5);
///     const std::size_t index = TimelineSemaphore::wait_any({{first, 1}, {second, 5}}, 1s);
///     assert(index == 1);
///
/// Thread-safety: a plain value. The semaphore must outlive it.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
struct TimelinePoint {
  TimelinePoint(const TimelineSemaphore& of, std::uint64_t reached) noexcept
      : semaphore(&of), value(reached) {}

  const TimelineSemaphore* semaphore;
  std::uint64_t value;
};

/// A 64-bit value that only rises. Streams of all devices and threads of all processes can signal
/// it and wait for it. For the progress of one stream, use a TimelineFence: docs/choosing.md. Move-only.
///
///     TimelineSemaphore semaphore(context);
///     semaphore.signal(stream, 1);           // when `stream` gets here
///     semaphore.wait(other, 1);              // `other` waits on the device
///     assert(semaphore.wait_for(1, 1s));     // the host waits
///
/// Thread-safety: members may run concurrently. The caller orders signals with other signals, and
/// orders close(), assignment and moves with all members.
/// Context: acts in the semaphore's context, and leaves the caller's current context unchanged.
/// During capture: signal() and wait() refuse a capturing stream. No member harms a capture.
class TimelineSemaphore {
public:
  static constexpr std::uint64_t max_value = ~std::uint64_t{0} >> 1;
  /// value() of an abandoned semaphore.
  static constexpr std::uint64_t released_value = max_value + 1;

  /// An empty semaphore. A semaphore is also empty after a move or close(). Members throw InvalidHandle, even
  /// for a value of 0, except the noexcept members: value() and submitted() return 0, status() returns
  /// TimelineStatus::active, and abandon() does nothing.
  TimelineSemaphore() noexcept = default;

  /// A semaphore with the value `initial`. It shares the context. Driver functions: cuCtxGetId,
  /// cuCtxGetDevice, cuDeviceGetAttribute, cuMemHostRegister, cuMemHostGetDevicePointer.
  /// Throws:
  /// - InvalidValue for a value above max_value.
  /// - NotSupported if the device lacks 64-bit memory operations.
  /// - OperatingSystem if there is no descriptor or no memory left for a memfd.
  explicit TimelineSemaphore(const Context& context, std::uint64_t initial = 0);
  [[nodiscard]] static CUresult try_create(TimelineSemaphore& out, const Context& context,
                                           std::uint64_t initial = 0) noexcept;

  /// Joins the semaphore of a descriptor from export_handle(), usually in another process. Owns the
  /// descriptor if it succeeds. Driver functions: as the constructor.
  /// Throws:
  /// - InvalidValue for a descriptor of something else, or one that cannot be written to.
  /// - NotSupported for the semaphore of a version of cuevent with another layout.
  /// - InvalidHandle for a handle that was imported before: export one handle for each process.
  /// - As the constructor.
  [[nodiscard]] static TimelineSemaphore import(const Context& context, int descriptor);
  [[nodiscard]] static CUresult try_import(TimelineSemaphore& out, const Context& context,
                                           int descriptor) noexcept;

  TimelineSemaphore(TimelineSemaphore&& other) noexcept { swap(other); }
  TimelineSemaphore& operator=(TimelineSemaphore&& other) noexcept {
    TimelineSemaphore taken(static_cast<TimelineSemaphore&&>(other));
    swap(taken);
    return *this;
  }

  /// Makes no driver call, unless this semaphore is the last owner of its context. Signals and
  /// waits of streams stay in force. A shared semaphore without pending signals of streams leaves at once.
  /// Otherwise it leaves once the signals are made, so that a death before that is still noticed: the thread
  /// of cuevent checks every 100 ms, and exit() waits up to 100 ms for the signals. _exit() and exec() do not
  /// wait, so wait for the signals before calling them.
  ~TimelineSemaphore();

  /// Frees the page now. The caller promises that no stream of this process still has a signal or a wait of
  /// this semaphore, for example because the caller has seen the last value. Driver functions:
  /// cuMemHostUnregister, which may wait for the work of the context, in relaxed mode
  /// (cuThreadExchangeStreamCaptureMode). Throws their errors.
  void close();
  [[nodiscard]] CUresult try_close() noexcept;

  /// Submits a signal: the stream sets `value` when it has completed all earlier work. A default
  /// stream belongs to the semaphore's context, or to the context named for it. Driver functions:
  /// cuStreamIsCapturing, cuStreamGetId, cuStreamWriteValue64. If this throws, nothing is
  /// submitted.
  /// Throws:
  /// - InvalidValue for a value that is above max_value, already reached, not above an earlier
  ///   signal of the same stream, or the value of another pending signal.
  /// - OutOfMemory if 1,992 signals are pending.
  /// - SemaphoreAbandoned.
  /// - StreamCaptureUnsupported on a stream that is being captured, because each launch of the
  ///   graph would set the value back. Signal after the launch instead.
  void signal(StreamRef stream, std::uint64_t value);
  [[nodiscard]] CUresult try_signal(StreamRef stream, std::uint64_t value) noexcept;

  /// Signals from the host, at once. No driver call.
  /// Throws:
  /// - InvalidValue for a value that is above max_value, not above value(), or not below a pending
  ///   signal of a stream of any process, which would lower the value again.
  /// - SemaphoreAbandoned.
  /// - OutOfMemory if 1,992 signals are pending.
  void signal(std::uint64_t value);
  [[nodiscard]] CUresult try_signal(std::uint64_t value) noexcept;

  /// Makes later work on `stream` wait on the device until `value` is reached. Does nothing if it
  /// is reached already. A default stream belongs to the semaphore's context, or to the context named for it.
  /// Driver functions: cuStreamIsCapturing, cuStreamWaitValue64.
  /// Throws:
  /// - InvalidValue for a value above max_value, and with WaitOrder::after_signal if no process has signalled
  ///   or submitted `value` or a higher value yet. Then use wait_when_submitted().
  /// - SemaphoreAbandoned.
  /// - StreamCaptureUnsupported on a stream that is being captured.
  void wait(StreamRef stream, std::uint64_t value, WaitOrder order = WaitOrder::after_signal) const;
  [[nodiscard]] CUresult try_wait(StreamRef stream, std::uint64_t value,
                                  WaitOrder order = WaitOrder::after_signal) const noexcept;

  /// Waits on the host until a signal of `value` or more was submitted by any process, and then
  /// submits the wait as wait() does. So the stream waits only for signals that are submitted. Returns false
  /// on timeout. Throws as wait() and wait_for(). The non-throwing overload returns CUDA_ERROR_NOT_READY on
  /// timeout.
  [[nodiscard]] bool wait_when_submitted(StreamRef stream, std::uint64_t value, TimeLimit timeout) const;
  [[nodiscard]] CUresult try_wait_when_submitted(StreamRef stream, std::uint64_t value,
                                                 TimeLimit timeout) const noexcept;

  /// Waits on the host until `value` is reached or the timeout is over. Returns false on timeout.
  /// The thread sleeps, spins and yields as in TimelineFence::wait_for(); the signal of a host
  /// wakes it at once. Once per millisecond it checks that the context has no fault. Throws
  /// SemaphoreAbandoned, and the error of the context. The non-throwing overload returns
  /// CUDA_ERROR_NOT_READY on timeout. Driver functions: cuCtxGetId, cuStreamIsCapturing.
  [[nodiscard]] bool wait_for(std::uint64_t value, TimeLimit timeout) const;
  [[nodiscard]] CUresult try_wait_for(std::uint64_t value, TimeLimit timeout) const noexcept;

  /// Waits on the host until all points are reached. Returns false on timeout. Sees signals of hosts
  /// and devices up to 1 ms late. Throws as wait_for().
  [[nodiscard]] static bool wait_all(ArrayView<TimelinePoint> points, TimeLimit timeout);
  [[nodiscard]] static CUresult try_wait_all(ArrayView<TimelinePoint> points, TimeLimit timeout) noexcept;
  /// Waits on the host until one of the points is reached, and returns the index of the first that
  /// is, or `none` on timeout. Throws as wait_for(), and InvalidValue if there are no points.
  static constexpr std::size_t none = ~std::size_t{0};
  [[nodiscard]] static std::size_t wait_any(ArrayView<TimelinePoint> points, TimeLimit timeout);
  [[nodiscard]] static CUresult try_wait_any(std::size_t& index, ArrayView<TimelinePoint> points,
                                             TimeLimit timeout) noexcept;

  /// The value: one load, no driver call. released_value if the semaphore is abandoned; a stream's
  /// signal that was still queued can then lower it for up to 100 ms.
  std::uint64_t value() const noexcept { return __atomic_load_n(word_, __ATOMIC_ACQUIRE); }
  /// Whether `value` is reached. Also true if the semaphore is abandoned.
  [[nodiscard]] bool reached(std::uint64_t value_to_reach) const noexcept {
    return value() >= value_to_reach;
  }
  /// The highest value that any process has signalled or submitted to a stream. No driver call.
  std::uint64_t submitted() const noexcept;

  /// Makes a descriptor for one other process: send it over a Unix socket, or let a child inherit
  /// it. The caller owns the descriptor, and closes it once it is sent: until then the receiver
  /// seems to live. It is closed by exec, unless the caller clears FD_CLOEXEC. Processes with
  /// exported or imported semaphores have a thread of cuevent, "cuevent-guard", which makes no driver calls.
  /// The library or plugin that contains cuevent stays loaded from then on: docs/lifetime.md. No driver
  /// call. Throws OperatingSystem if there are no descriptors left, if /proc is not mounted, or after 63
  /// handles.
  [[nodiscard]] int export_handle();
  [[nodiscard]] CUresult try_export_handle(int& descriptor) noexcept;

  /// The state of the participants at this moment: a death shows as soon as the kernel has ended the process.
  /// A few system calls; no driver call.
  [[nodiscard]] TimelineStatus status() const noexcept;

  /// Releases all waits, on hosts and devices, in all processes. This cannot be undone. Host waits throw
  /// SemaphoreAbandoned. Streams go on, with data that may be incomplete. All processes keep the semaphore
  /// released against signals of streams that are still queued. No driver call.
  void abandon() noexcept;

  /// From now on, this process abandons the semaphore when it finds that a participant died. It finds
  /// that within 150 ms, even while all its threads are blocked in the driver, and within 1 ms in a wait on
  /// the host. No driver call.
  void abandon_on_death();
  [[nodiscard]] CUresult try_abandon_on_death() noexcept;

  const Context& context() const noexcept { return context_; }

  void swap(TimelineSemaphore& other) noexcept;
  friend void swap(TimelineSemaphore& a, TimelineSemaphore& b) noexcept { a.swap(b); }

  explicit operator bool() const noexcept { return state_ != nullptr; }

private:
  TimelineSemaphore(const Context& context, SemaphoreState& state) noexcept;

  const DriverTable& table() const noexcept { return context_.driver().table(); }
  CUresult submit_signal(const Context& context, CUstream stream, std::uint64_t value) noexcept;
  CUresult submit_wait(CUstream stream, std::uint64_t value, WaitOrder order) const noexcept;
  CUresult fault() const noexcept;
  CUresult outcome(std::uint64_t value) const noexcept;
  template <class Check>
  static CUresult wait_for_points(ArrayView<TimelinePoint> points, TimeLimit timeout, Check check) noexcept;
  [[noreturn, gnu::cold]] static void fail_points(CUresult result, ArrayView<TimelinePoint> points,
                                                  const char* call);
  friend struct Explanation;
  [[noreturn, gnu::cold]] void fail(CUresult result, const char* call, const char* advice = nullptr) const;
  [[noreturn, gnu::cold]] static void fail_create(CUresult result, const Context& context);
  [[noreturn, gnu::cold]] static void fail_import(CUresult result, const Context& context);
  [[noreturn, gnu::cold]] void fail_close(CUresult result) const;
  [[noreturn, gnu::cold]] void fail_wait_for(CUresult result) const;
  [[noreturn, gnu::cold]] void fail_export(CUresult result) const;
  [[noreturn, gnu::cold]] void fail_abandon_on_death(CUresult result) const;
  [[noreturn, gnu::cold]] void fail_signal(CUresult result, std::uint64_t value) const;
  [[noreturn, gnu::cold]] void fail_wait(CUresult result, std::uint64_t value) const;

  static constexpr std::uint64_t nothing_ = 0; // the value of an empty semaphore

  Context context_;
  const std::uint64_t* word_ = &nothing_;
  SemaphoreState* state_ = nullptr;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
