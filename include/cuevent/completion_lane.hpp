// SPDX-License-Identifier: MIT
/// \file
/// \brief CompletionLane: a stream that is registered with a CompletionQueue.
#pragma once

#include <cuevent/callback.hpp>
#include <cuevent/completion_token.hpp>

#include <cstddef>
#include <new>
#include <type_traits>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

class CompletionAwaitable;
class CompletionQueue;
class [[gnu::visibility("hidden")]] CompletionQueueState;

/// A stream that is registered with a queue: CompletionQueue::lane(). A submission then takes only
/// the capture check and the record. An empty lane refuses submissions with
/// CUDA_ERROR_INVALID_HANDLE.
///
///     CompletionQueue queue(context);
///     CompletionLane lane = queue.lane(stream);
///     lane.when_complete([](CUresult result) { assert(result == CUDA_SUCCESS); });
///     while (queue.pending() != 0) queue.poll();
///
/// A lane may outlive neither its queue nor its stream; the queue may move. docs/queues.md says
/// what happens if the driver reuses the handle of a destroyed stream.
/// Thread-safety: a plain value; copies may submit concurrently.
/// Context: as CompletionQueue::when_complete.
/// During capture: as CompletionQueue::when_complete.
class CompletionLane {
public:
  /// The largest size of a callback, in bytes.
  static constexpr std::size_t callback_size = 48;

  CompletionLane() noexcept = default;

  /// As CompletionQueue::when_complete, for this stream. Driver functions: cuStreamIsCapturing,
  /// cuEventRecord, and cuEventCreate if no event is idle. For CU_STREAM_PER_THREAD, which is a
  /// different stream on each thread, also cuCtxGetId and cuStreamGetId.
  template <class Callback>
  void when_complete(Callback&& callback, CompletionToken* token = nullptr) const {
    if (is_null_callback<std::decay_t<Callback>>(callback))
      fail_null_callback("CompletionQueue::when_complete");
    const char* call = nullptr;
    if (const CUresult result = submit_callback(static_cast<Callback&&>(callback), token, call);
        result != CUDA_SUCCESS)
      fail(result, call);
  }
  template <class Callback>
  [[nodiscard]] CUresult try_when_complete(Callback&& callback,
                                           CompletionToken* token = nullptr) const noexcept {
    if (is_null_callback<std::decay_t<Callback>>(callback)) return CUDA_ERROR_INVALID_VALUE;
    const char* call = nullptr;
    return submit_callback(static_cast<Callback&&>(callback), token, call);
  }

  /// As CompletionQueue::completion(), for this stream.
  [[nodiscard]] CompletionAwaitable completion(CompletionToken* token = nullptr) const noexcept;

  /// The stream, or null for an empty lane. No driver call.
  CUstream stream() const noexcept { return stream_; }
  explicit operator bool() const noexcept { return state_ != nullptr; }

private:
  friend class CompletionQueue;
  friend class CompletionQueueState;
  friend struct CallbackNode;
  friend struct Explanation;

  /// Runs a stored callback and destroys it. Calls moved(by) once the storage is free, and then
  /// the callback.
  using Run = void (*)(void* callback, CUresult result, void (*moved)(void* by), void* by);

  /// A callback on its way to its storage.
  struct Source {
    void* from;
    void (*move)(void* to, void* from) noexcept;
    Run run;
  };

  /// The caller's callback without its type.
  template <class Callback>
  struct Erased {
    using Kept = std::decay_t<Callback>;
    static_assert(std::is_invocable_v<Kept&, CUresult>, "a callback is called with a CUresult");
    // NOLINTNEXTLINE(misc-redundant-expression): for some callbacks both sides are the same number
    static_assert(sizeof(Kept) <= callback_size && alignof(Kept) <= alignof(std::max_align_t),
                  "a callback has at most 48 bytes: let it hold a pointer to what it works on");
    static_assert(std::is_nothrow_constructible_v<Kept, Callback> &&
                      std::is_nothrow_move_constructible_v<Kept>,
                  "a callback must be taken over without throwing: give it by std::move");

    Source source() noexcept { return {this, move, run}; }

    static void move(void* to, void* from) noexcept {
      ::new (to) Kept(static_cast<Callback&&>(static_cast<Erased*>(from)->given));
    }
    static void run(void* callback, CUresult result, void (*moved)(void* by), void* by) {
      Kept& stored = *static_cast<Kept*>(callback);
      Kept kept(static_cast<Kept&&>(stored));
      stored.~Kept();
      moved(by);
      static_cast<void>(kept(result));
    }

    Callback&& given;
  };

  CompletionLane(CompletionQueueState* state, CUstream stream) noexcept : state_(state), stream_(stream) {}

  template <class Callback>
  CUresult submit_callback(Callback&& callback, CompletionToken* token, const char*& call) const noexcept {
    Erased<Callback> erased{static_cast<Callback&&>(callback)};
    return submit(erased.source(), token, call);
  }
  CUresult submit(const Source& source, CompletionToken* token, const char*& call) const noexcept;
  [[noreturn, gnu::cold]] void fail(CUresult result, const char* call) const;
  [[noreturn, gnu::cold]] void fail_when_complete(CUresult result) const;

  CompletionQueueState* state_ = nullptr;
  CUstream stream_ = nullptr;
  unsigned long long id_ = 0; // of the stream. If 0, each submission queries it.
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
