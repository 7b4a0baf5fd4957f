// SPDX-License-Identifier: MIT
/// \file
/// \brief CompletionQueue: runs callbacks for completed stream work, inside poll().
///
/// Each callback runs exactly once, in order of submission per stream unless it is cancelled. It
/// receives one of these results:
/// - CUDA_SUCCESS: its work has completed.
/// - A sticky code: the device has faulted or the context is lost. All pending callbacks receive
///   it.
/// - CUDA_ERROR_NOT_INITIALIZED: the process is a forked child. Every callback that was pending at
///   the fork receives it, except one that another thread was running.
/// - CompletionToken::cancelled: its token has cancelled it.
/// - CUDA_ERROR_NOT_READY: the queue was destroyed, and the work may still be pending.
/// - Any other result of a driver call of poll().
#pragma once

#include <cuevent/completion_awaitable.hpp>
#include <cuevent/completion_lane.hpp>
#include <cuevent/completion_token.hpp>
#include <cuevent/context.hpp>
#include <cuevent/poll_limit.hpp>
#include <cuevent/stream_ref.hpp>

#include <chrono>
#include <cstddef>
#include <utility>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// Runs a callback once the work submitted to a stream so far has completed. Use it for host code
/// that follows device work. The queue has no thread: callbacks run inside poll(), on the thread
/// that polls. wait_for() lets a thread sleep, and so does arm() in event loops.
///
///     CompletionQueue queue(context);
///     queue.when_complete(stream, [](CUresult result) { assert(result == CUDA_SUCCESS); });
///     while (queue.pending() != 0) queue.poll();
///
/// Thread-safety: any thread, concurrently. The caller orders moves and destruction. A callback
/// may destroy the queue.
/// Context: acts in the queue's context. Callbacks see the current context of the polling thread.
/// During capture: a submission for a capturing stream is refused. No member harms a capture.
class CompletionQueue {
public:
  using Completion = CompletionAwaitable;
  using Lane = CompletionLane;

  /// The largest size of a callback, in bytes.
  static constexpr std::size_t callback_size = Lane::callback_size;

  /// An empty queue. A queue is also empty after a move. It refuses submissions with
  /// CUDA_ERROR_INVALID_HANDLE, and its poll() returns 0.
  CompletionQueue() noexcept = default;

  /// A queue for streams of `context` and of its green contexts. The queue shares `context`. No
  /// driver call.
  explicit CompletionQueue(const Context& context);
  /// The non-throwing overload of the constructor. `out` is assigned on success only.
  [[nodiscard]] static CUresult try_create(CompletionQueue& out, const Context& context) noexcept;

  CompletionQueue(CompletionQueue&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  CompletionQueue& operator=(CompletionQueue&& other) noexcept {
    CompletionQueue taken(std::move(other));
    std::swap(state_, taken.state_);
    return *this;
  }

  /// Polls once more, then runs the callbacks that are still pending with CUDA_ERROR_NOT_READY.
  /// The call does not wait for their work, and callbacks can no longer submit to this queue.
  /// Driver functions: as poll(), and cuEventDestroy.
  ///
  /// Polls may still be running a callback, on this thread and on others. The last such poll then does all of
  /// this in place of the destructor. All other calls must have returned.
  ~CompletionQueue() {
    if (state_ != nullptr) end();
  }

  /// Makes room, including events, for `callbacks` pending callbacks. Up to that number,
  /// submissions create no event, regardless of the thread. Driver function: cuEventCreate. Throws
  /// InvalidValue for more than 2^31 - 64.
  void reserve(std::size_t callbacks);
  [[nodiscard]] CUresult try_reserve(std::size_t callbacks) noexcept;

  /// Runs `callback` inside poll() once the work submitted to `stream` so far has completed. A
  /// default stream means one of the queue's context. With room available, the call allocates no
  /// memory. If the call fails, `callback` is neither moved from nor run. Driver functions:
  /// cuStreamIsCapturing, cuCtxGetId, cuStreamGetId, cuEventRecord, and cuEventCreate if no event is
  /// idle.
  ///
  /// Requirements for `callback`:
  /// - It can be called with a CUresult.
  /// - It can be moved without throwing.
  /// - Its size is at most 48 bytes. A larger one can hold a pointer to its data.
  /// - It returns or throws. The process ends if it calls pthread_exit, or if its thread is cancelled.
  ///
  /// `token`, if not null, can cancel the callback. It is assigned before the callback can run, so
  /// the callback may destroy it. A token costs two atomic operations, and no memory.
  ///
  /// A callback may submit again, including to this queue. An exception from a callback goes to
  /// the error hook: with its result if it is a DriverError, else as CUDA_ERROR_UNKNOWN.
  ///
  /// Throws:
  /// - StreamCaptureUnsupported for a capturing stream.
  /// - StreamCaptureInvalidated for a stream whose capture is invalidated.
  /// - ContextMismatch for a stream of another context, or if another context is named for it.
  /// - ContextLost if the context is gone.
  /// - InvalidValue for a null function.
  template <class Callback>
  void when_complete(StreamRef stream, Callback&& callback, CompletionToken* token = nullptr) {
    if (const CUresult result = check(stream); result != CUDA_SUCCESS) fail_context(result);
    on(stream).when_complete(static_cast<Callback&&>(callback), token);
  }
  template <class Callback>
  [[nodiscard]] CUresult try_when_complete(StreamRef stream, Callback&& callback,
                                           CompletionToken* token = nullptr) noexcept {
    if (const CUresult result = check(stream); result != CUDA_SUCCESS) return result;
    return on(stream).try_when_complete(static_cast<Callback&&>(callback), token);
  }

  /// Registers `stream`, so that later submissions take two driver calls instead of four. Driver
  /// functions: cuStreamIsCapturing, cuCtxGetId, cuStreamGetId; for a stream that is given with its context
  /// also cuStreamGetCtx. Throws as when_complete(stream, callback). A stream of another context that is
  /// given without a context is refused by the first submission.
  [[nodiscard]] Lane lane(StreamRef stream);
  [[nodiscard]] CUresult try_lane(Lane& out, StreamRef stream) noexcept;

  /// For coroutines: const CUresult result = co_await queue.completion(stream). The await waits
  /// for the work submitted to `stream` so far. The coroutine resumes inside poll() with the
  /// result that a callback would receive. If try_when_complete() fails, the coroutine resumes at
  /// once with that result. `token`, if not null, can cancel the wait: the coroutine then resumes
  /// with CompletionToken::cancelled.
  [[nodiscard]] Completion completion(StreamRef stream, CompletionToken* token = nullptr) noexcept {
    const CUresult result = check(stream);
    return result == CUDA_SUCCESS ? Completion(on(stream), token) : Completion(result);
  }

  /// Runs the callbacks whose work has completed, and returns their number. Never waits. Driver
  /// functions: cuCtxGetId, cuEventQuery, cuThreadExchangeStreamCaptureMode.
  /// - A poll makes one query for each stream with pending callbacks, and one for each callback
  ///   that it runs. It runs no callback that is submitted during the poll.
  /// - Several threads may poll. While one of them runs a callback, the others run callbacks of
  ///   other streams. So callbacks of different streams run concurrently; callbacks of one stream do not.
  /// - Only one thread at a time queries events. Meanwhile the polls of other threads return 0, and
  ///   write no memory that threads share. So does a poll if all pending callbacks are running.
  /// - At most 32 callbacks run at the same time.
  /// - A poll inside a callback of the same queue returns 0.
  /// - A poll asks whether the context exists before its first query, and again after each callback. It
  ///   queries no event of a lost context. No other thread may end the context during a poll.
  /// - Callbacks run in the capture mode of the polling thread.
  std::size_t poll() noexcept;
  /// As poll(), up to `limit`. The time is the driver's: steady_clock, or the clock of a simulated
  /// driver. If a poll stops at its limit, the next one begins with other streams. So neither one stream nor
  /// cancellations can keep other streams waiting.
  std::size_t poll(const PollLimit& limit) noexcept;

  /// Polls until this thread has run a callback, and returns the number of callbacks that it ran.
  /// Returns 0 after `timeout`. Returns 0 at once inside a callback of the same queue, and for an empty
  /// queue.
  /// - If the work repeats, the thread sleeps until shortly before the expected end of the work, and
  ///   then spins. Otherwise it backs off: it spins for 50 us, yields up to 1 ms, and then sleeps for
  ///   a tenth of the time waited so far.
  /// - A sleep lasts at most 1 ms. Submissions and cancellations by other threads do not end it.
  /// - While no callback is pending, the thread checks every 1 ms whether another thread has submitted.
  ///
  /// Driver functions: as poll(). To sleep without this polling, use arm().
  std::size_t wait_for(TimeLimit timeout) noexcept;

  /// A file descriptor for epoll, poll, libuv or Asio. It is readable when the queue should be polled, and
  /// until the first arm(). Each call returns the same one. The queue owns the descriptor: wait for it, but
  /// neither read nor close it. No driver call.
  ///
  /// The end of the queue makes the descriptor readable and closes it. epoll forgets a closed
  /// descriptor. A thread that may sleep in epoll while another one destroys the queue adds a
  /// duplicate, dup(queue.native_handle()), which stays readable.
  ///
  /// Throws:
  /// - OperatingSystem if the kernel makes no timer, for example because the process has too many
  ///   descriptors.
  /// - NotInitialized in a forked child.
  [[nodiscard]] int native_handle();
  [[nodiscard]] CUresult try_native_handle(int& out) noexcept;

  /// Prepares for a sleep. Call poll() until it returns 0, then arm(), then sleep until native_handle()
  /// is readable, then poll() again.
  ///
  ///     CompletionQueue queue(context);
  ///     while (!queue.arm()) queue.poll();
  ///
  /// Returns false if the thread should poll again: another thread has submitted or polls now, the last
  /// poll stopped at its limit, or work should end within the next microseconds. Otherwise the
  /// descriptor becomes readable, at the latest:
  /// - for a submission: at once; usually also for a cancellation.
  /// - for work that completes, faults, or loses its context: `most_late` after that, or 0.1 % of the
  ///   time since the last submission or callback, whichever is longer, but at most 50 ms. If earlier
  ///   work repeated and this work ends before its expected end, 1 ms after that.
  /// - at the end of the queue.
  ///
  /// The descriptor can become readable for no reason. Add to these times the time that the system takes to
  /// wake a thread. An armed queue adds nothing to any stream, and has no thread: a timer wakes the caller,
  /// which then polls. If no callback waits for work, the timer is off, and the queue uses no processor time.
  /// No driver call. Throws as native_handle().
  ///
  /// Several threads may arm a queue and sleep. The descriptor only says that a poll can run something: no
  /// thread is woken when pending() falls to 0, or when a callback does something on another thread. With
  /// EPOLLEXCLUSIVE, epoll may wake only one thread, and no other thread watches the device while that thread
  /// runs a callback. docs/queues.md has a loop for several threads.
  [[nodiscard]] bool arm(TimeLimit most_late = std::chrono::microseconds(100));
  /// Returns CUDA_ERROR_NOT_READY if arm() would return false.
  [[nodiscard]] CUresult try_arm(TimeLimit most_late = std::chrono::microseconds(100)) noexcept;

  /// The number of submitted callbacks that have not returned yet. No driver call.
  std::size_t pending() const noexcept;

  explicit operator bool() const noexcept { return state_ != nullptr; }

private:
  using State = CompletionQueueState;

  explicit CompletionQueue(State* state) noexcept : state_(state) {}

  Lane on(StreamRef stream) const noexcept { return Lane(state_, stream.native_handle()); }
  CUresult check(StreamRef stream) const noexcept {
    return stream.context() != nullptr ? check(*stream.context()) : CUDA_SUCCESS;
  }
  CUresult check(const Context& context) const noexcept;
  CUresult make_lane(Lane& lane, bool named, const char*& call) noexcept;
  friend struct Explanation;
  [[noreturn, gnu::cold]] static void fail_create(CUresult result, const Context& context);
  [[noreturn, gnu::cold]] void fail_reserve(CUresult result) const;
  [[noreturn, gnu::cold]] void fail_when_complete(CUresult result, StreamRef stream) const;
  [[noreturn, gnu::cold]] void fail_context(CUresult result) const;
  [[noreturn, gnu::cold]] void fail_timer(CUresult result) const;
  void end() noexcept;

  State* state_ = nullptr;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
