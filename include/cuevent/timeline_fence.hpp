// SPDX-License-Identifier: MIT
/// \file
/// \brief TimelineFence: the progress of a stream as a number that costs one load to read.
///
/// Tickets, streams and contexts:
/// - A ticket is reached once the stream has completed all work submitted before the signal. When
///   a ticket is reached, so are all earlier ones.
/// - Host memory that this work wrote is visible to a thread that saw the ticket reached.
/// - Each ticket is the one before plus 1. The first may be any number. Ticket 0 is always reached.
/// - A member that throws has done nothing and consumes no ticket.
/// - A default stream handle means a stream of the fence's context. A fence of
///   CU_STREAM_PER_THREAD belongs to the first thread whose signal succeeds. On other threads
///   signal() throws InvalidHandle.
/// - The stream must outlive signal(), status() and wait_for().
/// - A fence keeps an owned context alive. A borrowed context must outlive every use of the fence,
///   even reached(), because the counter ends with the context. Only the destructor stays safe.
/// - On a device without 64-bit memory operations the counter has 32 bits. Tickets still have 64
///   bits, but a stream must reach a wait() before another 2^31 tickets are reached.
#pragma once

#include <cuevent/context.hpp>
#include <cuevent/time_limit.hpp>

#include <cstdint>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

struct FenceSlot;

/// A counter in pinned host memory that one stream raises. Use it if many threads ask, or ask
/// often, how far a stream has got. A TimelineSemaphore can have several signallers and reach other
/// processes: docs/choosing.md. Move-only.
///
///     TimelineFence fence(context, stream);
///     const std::uint64_t ticket = fence.signal();
///     if (fence.reached(ticket)) std::puts("done"); // one load, from any thread
///
/// Thread-safety: members may run concurrently. The caller orders signal() with other signals, and
/// orders assignment and moves with all members.
/// Context: acts in the fence's context and leaves the caller's current context unchanged.
/// During capture: signal() and wait() refuse a capturing stream. No member harms a capture.
class TimelineFence {
public:
  /// An empty fence. A fence is also empty after a move. signal(), wait() and wait_for() throw
  /// InvalidHandle for any ticket, and status() returns CUDA_ERROR_INVALID_HANDLE. completed() and
  /// signalled() return 0.
  TimelineFence() noexcept = default;

  /// A fence for `stream`, which belongs to `context`. The fence shares the context. Driver
  /// functions: cuCtxGetId, cuStreamGetCtx unless it is a default stream, and cuMemHostAlloc when the context
  /// needs another page of counters. Throws ContextLost if the context is destroyed, ContextMismatch if
  /// the stream belongs to another context, OutOfMemory.
  TimelineFence(const Context& context, CUstream stream);
  [[nodiscard]] static CUresult try_create(TimelineFence& out, const Context& context,
                                           CUstream stream) noexcept;

  TimelineFence(TimelineFence&& other) noexcept { swap(other); }
  TimelineFence& operator=(TimelineFence&& other) noexcept {
    TimelineFence taken(static_cast<TimelineFence&&>(other));
    swap(taken);
    return *this;
  }

  /// Makes no driver call, unless this fence is the last owner of its context. The counter is
  /// reused once all its tickets are reached. Streams that wait for a ticket keep waiting.
  ~TimelineFence();

  /// Submits the next ticket to the stream and returns it. What a signal costs: docs/choosing.md.
  /// Driver functions: cuStreamIsCapturing, cuStreamWriteValue64 or cuStreamWriteValue32; also
  /// cuStreamGetId for the first signal, or for every signal on CU_STREAM_PER_THREAD. Throws
  /// StreamCaptureUnsupported on a stream that is being captured, because each launch of the graph
  /// would set the counter back. Record an event with RecordFlags::external there instead.
  std::uint64_t signal();
  [[nodiscard]] CUresult try_signal(std::uint64_t& ticket) noexcept;

  /// Whether the stream has reached `ticket`. One load, no driver call. A fault of the stream does
  /// not show here: call status().
  [[nodiscard]] bool reached(std::uint64_t ticket) const noexcept { return completed() >= ticket; }

  /// The newest ticket that is reached. Never decreases. No driver call.
  std::uint64_t completed() const noexcept {
    if (__builtin_expect(narrow_, false)) return completed_narrow();
    return __atomic_load_n(counter_, __ATOMIC_ACQUIRE);
  }

  /// The newest ticket that signal() has returned, or that the device has reached already. No driver call.
  std::uint64_t signalled() const noexcept;

  /// Makes later work on `stream` wait on the device until `ticket` is reached. `stream` may
  /// belong to any context and device. Does nothing for the fence's own stream or for a ticket
  /// that is already reached. Driver functions: cuStreamIsCapturing, cuStreamWaitValue64 or
  /// cuStreamWaitValue32; also cuStreamGetId if the fence's stream has the same handle,
  /// because a later stream can reuse the handle.
  /// Throws:
  /// - InvalidValue for a ticket that signal() has not returned yet, because the streams could
  ///   then wait for each other.
  /// - StreamCaptureUnsupported on a stream that is being captured.
  void wait(CUstream stream, std::uint64_t ticket) const;
  [[nodiscard]] CUresult try_wait(CUstream stream, std::uint64_t ticket) const noexcept;

  /// Waits on the host until `ticket` is reached or the timeout is over. Returns false on timeout.
  /// `ticket` may be one that is not signalled yet. The fence learns the length of regular waits,
  /// as DriverEvent::synchronize_for() does: the call then sleeps until shortly before the expected
  /// end. Other waits spin, yield and sleep. The call checks status() every 1 ms and before it
  /// gives up, so a fault ends the wait. Throws the error of status(). The non-throwing overload
  /// returns CUDA_ERROR_NOT_READY on timeout.
  [[nodiscard]] bool wait_for(std::uint64_t ticket, TimeLimit timeout) const;
  [[nodiscard]] CUresult try_wait_for(std::uint64_t ticket, TimeLimit timeout) const noexcept;

  /// Returns CUDA_SUCCESS while the stream can make progress, and a sticky code once the driver
  /// has noticed a fault, which takes up to 0.3 s. Driver functions: cuCtxGetId,
  /// cuStreamIsCapturing. It does not call cuStreamQuery, which would invalidate a capture that
  /// another thread has just begun on the stream.
  [[nodiscard]] CUresult status() const noexcept;

  const Context& context() const noexcept { return context_; }
  CUstream stream() const noexcept { return stream_; }

  void swap(TimelineFence& other) noexcept;
  friend void swap(TimelineFence& a, TimelineFence& b) noexcept { a.swap(b); }

  explicit operator bool() const noexcept { return slot_ != nullptr; }

private:
  const DriverTable& table() const noexcept { return context_.driver().table(); }
  std::uint64_t completed_narrow() const noexcept;
  CUresult submit_signal(std::uint64_t& ticket) noexcept;
  CUresult submit_wait(CUstream stream, std::uint64_t ticket) const noexcept;
  CUresult find_id(unsigned long long& id) const noexcept;
  CUresult find_own(CUstream stream, bool& own) const noexcept;
  friend struct Explanation;
  [[noreturn, gnu::cold]] static void fail_create(CUresult result, const Context& context);
  [[noreturn, gnu::cold]] void fail_signal(CUresult result) const;
  [[noreturn, gnu::cold]] void fail_wait(CUresult result, std::uint64_t ticket) const;
  [[noreturn, gnu::cold]] void fail_wait_for(CUresult result) const;

  static constexpr std::uint64_t nothing_ = 0; // the counter of an empty fence

  Context context_;
  CUstream stream_ = nullptr;
  const std::uint64_t* counter_ = &nothing_; // unused if narrow_
  FenceSlot* slot_ = nullptr;
  bool narrow_ = false; // the counter has 32 bits
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
