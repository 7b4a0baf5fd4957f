// TimelineFence: how far a stream has got, as a number that costs one load to read.
#pragma once

#include <cuevent/context.hpp>
#include <cuevent/time_limit.hpp>

#include <cstdint>

#pragma GCC visibility push(default)
namespace cuevent {

struct FenceSlot;

/// A counter in pinned host memory that one stream raises. signal() submits the next number to the stream and
/// returns it, the ticket; a ticket is reached once the stream has done all that was submitted to it before
/// the signal, and with it is every earlier ticket. What that work wrote to host memory is then visible to
/// whoever saw the ticket reached. Tickets rise by one; the first need not be 1. 0 is no ticket, and always
/// reached. Move-only; empty when default-made and after a move.
///
/// Against an untimed DriverEvent a signal costs about 0.6 us more on the host and 1.6 us more on the device
/// than a record. In return it is asked by one load, about a nanosecond from any number of threads, where
/// cuEventQuery takes 0.1 to 1.3 us, and 6 to 16 us with 16 threads; one fence serves all work of its stream; and
/// asking cannot harm a capture. So take it for what is asked often or by many threads, and an event for what
/// is asked seldom, timed, or recorded in a graph.
///
/// A stream handle of a default stream (0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD) means that of the fence's
/// own context. A fence of CU_STREAM_PER_THREAD is for that stream of the first thread whose signal succeeds: on
/// other threads signal() throws InvalidHandle. What throws has done nothing, and consumes no ticket.
///
/// The counter has a cache line of its own in a page of pinned memory, which is kept for later fences of the
/// context, at most as many as existed at once, and goes when the context does. Where the device lacks 64-bit
/// memory operations the counter has 32 bits, which are extended on the host: tickets have 64 bits all the
/// same, but a stream has to come to a wait() before another 2^31 tickets have been reached.
///
/// Thread-safety: reached, completed, signalled, wait, wait_for and status may run concurrently, also with
/// signal; signal, assignment and moves need the caller's ordering.
/// Context: each member acts in the fence's context and leaves the caller's current context as it was. A
/// fence keeps an owned context alive. A borrowed one has to outlive all use of the fence: its counter goes
/// with it, so that even reached() would read freed memory. Only to destroy a fence stays safe. Its stream
/// has to outlive signal(), status() and wait_for().
/// During capture: signal() and wait() refuse a stream that is being captured, and the capture goes on. All
/// else harms no capture, whichever stream is captured by whichever thread in whichever mode.
class TimelineFence {
public:
  TimelineFence() noexcept = default;

  /// A fence of `stream`, which is of `context`. Driver functions: cuCtxGetId; for the first of many also
  /// cuMemHostAlloc. Throws ContextLost if the context is destroyed, OutOfMemory.
  TimelineFence(const Context& context, CUstream stream);
  static CUresult try_create(TimelineFence& out, const Context& context, CUstream stream) noexcept;

  TimelineFence(TimelineFence&& other) noexcept { swap(other); }
  TimelineFence& operator=(TimelineFence&& other) noexcept {
    TimelineFence taken(static_cast<TimelineFence&&>(other));
    swap(taken);
    return *this;
  }

  /// Calls no driver function, except to end a context whose last owner this is. Tickets that are not reached
  /// keep the counter from other fences until they are, and streams that wait for them go on as they do.
  ~TimelineFence();

  /// Submits the next ticket to the stream. Driver functions: cuStreamIsCapturing, cuStreamWriteValue64 or
  /// 32, and cuStreamGetId the first time, or each time for CU_STREAM_PER_THREAD. Throws
  /// StreamCaptureUnsupported on a stream that is being captured: a replay of the graph would set the counter
  /// back. Record an event with RecordFlags::external there.
  std::uint64_t signal();
  CUresult try_signal(std::uint64_t& ticket) noexcept;

  /// Whether the stream has got to `ticket`: one load, and no driver function. A fault of the stream does not
  /// show here: it is as if the stream went on for ever.
  bool reached(std::uint64_t ticket) const noexcept { return completed() >= ticket; }

  /// The newest ticket that is reached. It never falls. No driver function.
  std::uint64_t completed() const noexcept {
    if (__builtin_expect(narrow_, false)) return completed_narrow();
    return __atomic_load_n(counter_, __ATOMIC_ACQUIRE);
  }

  /// The newest ticket that signal() has returned. No driver function.
  std::uint64_t signalled() const noexcept;

  /// `stream` waits on the device until `ticket` is reached; it may be of any context and device. Does
  /// nothing for the fence's own stream, and for a ticket that is reached. Driver functions:
  /// cuStreamIsCapturing, cuStreamWaitValue64 or 32; cuStreamGetId if the handle is the one of the fence's stream,
  /// since a later stream can have it. Throws InvalidValue for a ticket that signal() has not
  /// returned yet, since the streams could wait for each other, and StreamCaptureUnsupported on a stream that
  /// is being captured.
  void wait(CUstream stream, std::uint64_t ticket) const;
  CUresult try_wait(CUstream stream, std::uint64_t ticket) const noexcept;

  /// The host waits for `ticket`, which need not be signalled yet; false: timed out. It spins for 50 us, then
  /// yields and sleeps between looks at the counter, and asks status() every millisecond and once before it
  /// gives up, so that a fault ends it. Throws what status() returns. The non-throwing overload returns
  /// CUDA_ERROR_NOT_READY when the time is over.
  bool wait_for(std::uint64_t ticket, TimeLimit timeout) const;
  CUresult try_wait_for(std::uint64_t ticket, TimeLimit timeout) const noexcept;

  /// CUDA_SUCCESS as long as the stream can get on, also while it has work to do; the sticky code once the
  /// driver has noticed a fault, which takes it up to 0.3 s. Driver functions: cuCtxGetId,
  /// cuStreamIsCapturing, and not cuStreamQuery, which would invalidate a capture of the stream that another
  /// thread has just begun.
  CUresult status() const noexcept;

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
  [[noreturn, gnu::cold]] void fail_signal(CUresult result) const;
  [[noreturn, gnu::cold]] void fail_wait(CUresult result, std::uint64_t ticket) const;

  static constexpr std::uint64_t nothing_ = 0; // the counter of an empty fence

  Context context_;
  CUstream stream_ = nullptr;
  const std::uint64_t* counter_ = &nothing_; // not used where narrow
  FenceSlot* slot_ = nullptr;
  bool narrow_ = false; // the counter has 32 bits
};

} // namespace cuevent
#pragma GCC visibility pop
