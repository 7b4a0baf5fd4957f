// CompletionQueue: callbacks for the work of streams, run by whoever polls once the work has completed.
#pragma once

#include <cuevent/context.hpp>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(default)
namespace cuevent {

/// Runs a callback when the work that a stream has been given so far is complete. It has no thread: the
/// callbacks run inside poll(), on the thread that calls it, so somebody has to. Stands on EventPool: behind
/// each callback is an untimed event, recorded where it was submitted; poll() asks only for the oldest of each
/// stream.
///
/// Each callback runs exactly once, whatever happens, in the order of submission for one stream, and is given
///   - CUDA_SUCCESS when its work is complete;
///   - the sticky code once the device has faulted or the context is lost: all that are pending get that;
///   - CUDA_ERROR_NOT_INITIALIZED in the child of a fork, which also runs all that were pending at the fork, except
///     one that another thread was running then;
///   - what else cuEventQuery may answer;
///   - CUDA_ERROR_NOT_READY at the end of the queue, which waits for nothing: the work may still be under way.
///     To let it complete first: while (queue.pending() != 0) queue.poll();
/// What a callback throws ends there, and the error hook is told: the result of a DriverError, of anything else
/// CUDA_ERROR_UNKNOWN. Callbacks may submit again, also to this queue; when that is being destroyed, it refuses.
///
/// A callback is anything that can be called with a CUresult and moved without throwing, of up to 48 bytes; so
/// a lambda that holds a reference to what it works on. It and its event are kept in places that are used
/// again: once there are enough of them, a submission allocates nothing, and calls no driver function but those
/// named below. Empty if default-made or moved from: it refuses with CUDA_ERROR_INVALID_HANDLE, and poll() finds
/// nothing.
///
/// Thread-safety: when_complete, completion, reserve, pending and poll from any thread, without locks but where
/// memory is allocated; moves and destruction need the caller's ordering. A callback may destroy the queue: the
/// poll that runs it then does what is left to do.
/// Context: acts in that of the queue, which a default stream (0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD) is of
/// too, and leaves the caller's current context as it was. Callbacks find that of the thread that polls.
/// During capture: a submission for a capturing stream is refused, and the capture unharmed; other submissions
/// and poll() harm no capture. Callbacks run in the capture mode of the thread that polls.
class CompletionQueue {
public:
  /// The largest callback.
  static constexpr std::size_t callback_size = 48;

  class Completion;

  CompletionQueue() noexcept = default;

  /// A queue for streams of `context`, which it shares, or of its green contexts. Calls no driver function.
  explicit CompletionQueue(const Context& context);
  /// The non-throwing overload of the constructor: `out` is assigned on success only.
  static CUresult try_create(CompletionQueue& out, const Context& context) noexcept;

  CompletionQueue(CompletionQueue&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  CompletionQueue& operator=(CompletionQueue&& other) noexcept {
    CompletionQueue taken(std::move(other));
    std::swap(state_, taken.state_);
    return *this;
  }

  /// Polls once more, and then runs the callbacks that are still pending, with CUDA_ERROR_NOT_READY.
  /// Driver functions: those of poll(), cuEventDestroy.
  ~CompletionQueue() {
    if (state_ != nullptr) end();
  }

  /// Makes room for `callbacks` to be pending, events included: while no more are, submissions by any threads make no
  /// event. Driver function: cuEventCreate. Throws InvalidValue for more than 2^31 - 64.
  void reserve(std::size_t callbacks);
  CUresult try_reserve(std::size_t callbacks) noexcept;

  /// Has `callback` run, by poll(), once the work submitted to `stream` so far is complete. A callback that is
  /// refused is neither moved from nor run. Driver functions: cuStreamIsCapturing, cuStreamGetId, cuEventRecord;
  /// cuEventCreate where no event is idle. Throws StreamCaptureUnsupported for a capturing stream,
  /// StreamCaptureInvalidated for one whose capture is invalidated, ContextMismatch for a stream of another
  /// context.
  template <class Callback>
  void when_complete(CUstream stream, Callback&& callback) {
    Erased<Callback> erased{static_cast<Callback&&>(callback)};
    const char* call = nullptr;
    if (const CUresult result = submit(stream, erased.source(), call); result != CUDA_SUCCESS)
      fail(result, call, stream);
  }
  template <class Callback>
  CUresult try_when_complete(CUstream stream, Callback&& callback) noexcept {
    Erased<Callback> erased{static_cast<Callback&&>(callback)};
    const char* call = nullptr;
    return submit(stream, erased.source(), call);
  }

  /// The same, and says whose default stream is meant. `context` has to be the queue's, whichever the stream is:
  /// throws ContextMismatch for another one, InvalidContext for an empty one.
  template <class Callback>
  void when_complete(const Context& context, CUstream stream, Callback&& callback) {
    if (const CUresult result = check(context); result != CUDA_SUCCESS) fail_context(result);
    when_complete(stream, static_cast<Callback&&>(callback));
  }
  template <class Callback>
  CUresult try_when_complete(const Context& context, CUstream stream, Callback&& callback) noexcept {
    const CUresult result = check(context);
    return result == CUDA_SUCCESS ? try_when_complete(stream, static_cast<Callback&&>(callback)) : result;
  }

  /// For coroutines: const CUresult result = co_await queue.completion(stream); waits for the work submitted to
  /// `stream` when it is awaited, and goes on inside poll(), with what a callback would be given. Where
  /// try_when_complete() refuses, it goes on at once, with the refusal.
  [[nodiscard]] Completion completion(CUstream stream) noexcept;
  /// The same, and says whose default stream is meant, as when_complete(context, stream, callback).
  [[nodiscard]] Completion completion(const Context& context, CUstream stream) noexcept;

  /// Runs the callbacks whose work is complete, and returns how many; 0 if another poll is under way, which may
  /// be the one that runs the caller. Never waits. A sweep costs one question for each stream that has callbacks
  /// pending, and one for each callback that it runs. Driver functions: cuEventQuery,
  /// cuThreadExchangeStreamCaptureMode.
  std::size_t poll() noexcept;

  /// The callbacks submitted that have not returned yet.
  std::size_t pending() const noexcept;

  explicit operator bool() const noexcept { return state_ != nullptr; }

private:
  class [[gnu::visibility("hidden")]] State;

  /// A callback on its way to where it is kept.
  struct Source {
    void* from;
    void (*move)(void* to, void* from) noexcept;
    void (*run)(void* callback, CUresult result); // and destroys it
  };

  /// A callback as the caller gave it, without its type.
  template <class Callback>
  struct Erased {
    using Kept = std::decay_t<Callback>;
    static_assert(std::is_invocable_v<Kept&, CUresult>, "a callback is called with a CUresult");
    // NOLINTNEXTLINE(misc-redundant-expression): for some callbacks both sides are the same number
    static_assert(sizeof(Kept) <= callback_size && alignof(Kept) <= alignof(std::max_align_t),
                  "a callback has at most 48 bytes: let it hold a pointer to what it works on");
    static_assert(std::is_nothrow_constructible_v<Kept, Callback>,
                  "a callback must be taken over without throwing: give it by std::move");

    Source source() noexcept { return {this, move, run}; }

    static void move(void* to, void* from) noexcept {
      ::new (to) Kept(static_cast<Callback&&>(static_cast<Erased*>(from)->given));
    }
    static void run(void* callback, CUresult result) {
      struct End {
        Kept& kept;
        ~End() { kept.~Kept(); }
      } end{*static_cast<Kept*>(callback)};
      static_cast<void>(end.kept(result));
    }

    Callback&& given;
  };

  explicit CompletionQueue(State* state) noexcept : state_(state) {}

  CUresult check(const Context& context) const noexcept;
  CUresult submit(CUstream stream, const Source& source, const char*& call) noexcept;
  [[noreturn, gnu::cold]] void fail_context(CUresult result) const;
  [[noreturn, gnu::cold]] void fail(CUresult result, const char* call, CUstream stream) const;
  void end() noexcept;

  State* state_ = nullptr;
};

/// What co_await waits for. The queue must stay where it is until it is awaited, and may be moved afterwards.
/// Thread-safety, context, and during capture: as CompletionQueue::when_complete.
class CompletionQueue::Completion {
public:
  Completion(CompletionQueue& queue, CUstream stream) noexcept : queue_(queue), stream_(stream) {}
  /// One that is not waited for: it goes on at once, with `refused`.
  Completion(CompletionQueue& queue, CUstream stream, CUresult refused) noexcept
      : queue_(queue), stream_(stream), result_(refused), refused_(refused != CUDA_SUCCESS) {}

  bool await_ready() const noexcept { return refused_; }
  template <class Handle> // std::coroutine_handle<...>, without its header
  bool await_suspend(Handle coroutine) noexcept {
    const CUresult refused = queue_.try_when_complete(stream_, [this, coroutine](CUresult result) {
      result_ = result;
      coroutine.resume();
    });
    if (refused == CUDA_SUCCESS) return true; // and the coroutine, this with it, may have gone on elsewhere
    result_ = refused;
    return false;
  }
  CUresult await_resume() const noexcept { return result_; }

private:
  CompletionQueue& queue_;
  CUstream stream_;
  CUresult result_ = CUDA_ERROR_NOT_READY;
  bool refused_ = false;
};

inline CompletionQueue::Completion CompletionQueue::completion(CUstream stream) noexcept {
  return {*this, stream};
}

inline CompletionQueue::Completion CompletionQueue::completion(const Context& context,
                                                               CUstream stream) noexcept {
  return {*this, stream, check(context)};
}

} // namespace cuevent
#pragma GCC visibility pop
