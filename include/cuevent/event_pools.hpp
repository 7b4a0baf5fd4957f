// SPDX-License-Identifier: MIT
// EventPools: one EventPool for each context, found by the stream.
#pragma once

#include <cuevent/event_pool.hpp>
#include <cuevent/stream_ref.hpp>

#include <cstddef>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// Pools of events for a program with several contexts or devices. The stream selects the pool, so an event
/// always belongs to the context of its stream. A pool is made when a context is first used, and ends with
/// the context. All pools have the same flags, the same `max_idle` and the same FreshLease.
///
///     EventPools pools(driver);
///     PooledEvent done = pools.acquire(stream);
///     done.record(stream);
///     pools.wait_stream(other, stream); // the streams may belong to different devices
///
/// Once a thread has used a context, acquire() and the end of a lease take no lock and allocate
/// nothing, as for EventPool.
///
/// The pools do not keep a context alive. A context must not end while a call here uses one of its
/// streams. A lease whose context has ended may only be destroyed: once another context has been
/// created, the driver can crash in every other call. The memory of a pool whose context has ended is freed
/// when another context is first used, by trim() or by the destructor.
///
/// Thread-safety: any thread, concurrently. The caller orders moves, assignment and destruction
/// with the members. Leases may end at any time, even after the pools.
/// Context: acts in the context of the stream and leaves the caller's current context unchanged. In
/// calls that do not name a context, a default stream means one of the current context.
/// During capture: harmless, except for wait_stream(), which becomes part of the capture.
class EventPools {
public:
  /// An empty object without a driver. acquire(), reserve() and wait_stream() throw InvalidContext. The
  /// other members do nothing, and return empty values.
  EventPools() noexcept = default;

  /// For contexts of `driver`. Each pool makes its events with `flags`, `fresh` says what a lease does before
  /// its first record(), and each pool keeps at most `max_idle` idle events: see EventPool. No driver call.
  explicit EventPools(const Driver& driver, EventFlags flags = EventFlags::none,
                      FreshLease fresh = FreshLease::refuses,
                      std::size_t max_idle = EventPool::default_max_idle);
  /// The non-throwing overload. `out` is assigned on success only.
  [[nodiscard]] static CUresult try_create(EventPools& out, const Driver& driver,
                                           EventFlags flags = EventFlags::none,
                                           FreshLease fresh = FreshLease::refuses,
                                           std::size_t max_idle = EventPool::default_max_idle) noexcept;

  EventPools(EventPools&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  EventPools& operator=(EventPools&& other) noexcept {
    EventPools taken(static_cast<EventPools&&>(other));
    swap(taken);
    return *this;
  }

  /// Ends each pool, as ~EventPool does.
  ~EventPools() {
    if (state_ != nullptr) close();
  }

  /// An event of the context of `stream`. Driver functions: cuStreamGetCtx, unless it is a default stream;
  /// cuCtxGetId; cuEventCreate if no event of that context is idle. Creating an event can wait, as in
  /// EventPool::acquire(). Throws as EventPool::acquire(), InvalidContext for a default
  /// stream if no context is named or current, ContextMismatch if the named context belongs to another
  /// driver, or the stream to another context.
  [[nodiscard]] PooledEvent acquire(StreamRef stream) {
    return stream.context() == nullptr ? acquire_of(stream.native_handle()) : acquire_slow(stream);
  }
  /// An event of the current context, for work whose stream is not known yet. As acquire(stream) for a
  /// default stream. Driver function: cuCtxGetId, and in addition cuEventCreate if no event is idle.
  [[nodiscard]] PooledEvent acquire_current() { return acquire(CU_STREAM_LEGACY); }
  /// Non-throwing overloads. `out` is assigned on success only.
  [[nodiscard]] CUresult try_acquire_current(PooledEvent& out) noexcept {
    return try_acquire(out, CU_STREAM_LEGACY);
  }
  [[nodiscard]] CUresult try_acquire(PooledEvent& out, StreamRef stream) noexcept;

  /// Makes later work on `later` wait on the device for all work submitted to `earlier` so far.
  /// Returns at once. The streams may belong to different contexts and devices. A default stream is the one
  /// of the current context, unless another is named. Does nothing if both are the same stream. Driver
  /// functions: cuEventRecord, cuStreamWaitEvent, and as acquire(). Throws as acquire(), and as
  /// DriverEvent::record() and wait().
  /// During capture: as EventPool::wait_stream().
  void wait_stream(StreamRef later, StreamRef earlier);
  [[nodiscard]] CUresult try_wait_stream(StreamRef later, StreamRef earlier) noexcept;

  /// As EventPool::reserve(), for the pool of `context`.
  void reserve(const Context& context, std::size_t count);
  [[nodiscard]] CUresult try_reserve(const Context& context, std::size_t count) noexcept;

  /// As EventPool::trim(), for every pool.
  void trim() noexcept;

  /// The counters of the pool of `context`, all 0 if there is none. No driver call.
  EventPool::Counters counters(const Context& context) const noexcept;
  /// The same for the handle of a context, all 0 also for null and for a context that has ended. Driver
  /// function: cuCtxGetId.
  EventPool::Counters counters(CUcontext context) const noexcept;
  /// The sums over all contexts that have a pool. The high-water marks of the contexts may be of different
  /// times. No driver call.
  EventPool::Counters counters() const noexcept;

  /// The number of contexts that have a pool. No driver call.
  std::size_t size() const noexcept;

  void swap(EventPools& other) noexcept {
    State* const state = state_;
    state_ = other.state_;
    other.state_ = state;
  }
  friend void swap(EventPools& a, EventPools& b) noexcept { a.swap(b); }

  explicit operator bool() const noexcept { return state_ != nullptr; }

private:
  friend struct Explanation;
  class [[gnu::visibility("hidden")]] State;

  PooledEvent acquire_of(CUstream stream);
  PooledEvent acquire_slow(StreamRef stream);
  [[gnu::visibility("hidden")]] CUresult lease_slow(PooledEvent& out, StreamRef stream) noexcept;
  void close() noexcept;
  // Called only after a failure, to find out why the call was refused.
  [[noreturn, gnu::cold]] void fail_acquire(CUresult result, StreamRef stream) const;
  [[noreturn, gnu::cold, gnu::noinline, gnu::visibility("hidden")]] void
  fail_acquire(CUresult result, const char* call, CUstream stream) const;
  [[noreturn, gnu::cold]] void fail_reserve(CUresult result, const Context& context, std::size_t count) const;
  [[noreturn, gnu::cold]] void fail_wait_stream(CUresult result, StreamRef later, StreamRef earlier) const;

  State* state_ = nullptr;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
