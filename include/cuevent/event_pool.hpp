// SPDX-License-Identifier: MIT
/// \file
/// \brief EventPool: reuses events. PooledEvent: a lease, which returns its event to the pool.
/// lease.hpp says how leases differ from a DriverEvent.
///
/// How a pool keeps events:
/// - Each thread caches up to 64 idle events. With a cached event, acquiring and returning need no
///   driver call, no allocation and no lock, and write no memory that other threads use.
/// - All threads share a reserve of idle events, and exchange 32 events at a time with it.
/// - When a thread ends, its cache goes to the reserve.
/// - On Linux before 4.14, threads cache no events.
#pragma once

#include <cuevent/shared_event.hpp>
#include <cuevent/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

class EventPools;

/// An event on lease from an EventPool. The destructor returns it, on any thread. It has the members
/// of Lease and EventRef, and converts to EventRef. Move-only; empty when default-constructed, and
/// after a move, share(), detach() or release().
///
///     PooledEvent done = pool.acquire();
///     done.record(stream);
///     done.wait(other); // `other` keeps waiting after the lease has ended
///
/// Thread-safety: query, wait, synchronize and elapsed_time may run concurrently on one lease. The
/// caller orders all other members.
/// Context: as DriverEvent, in the pool's context. A retired event keeps an owned context alive
/// until destroy_retired().
/// During capture: as DriverEvent. A lease may end inside the capture that recorded it.
class PooledEvent : public Lease {
public:
  /// An empty lease. Its members throw EmptyEvent.
  PooledEvent() noexcept = default;
  PooledEvent(PooledEvent&& other) noexcept : Lease(other) { other.forget(); }
  PooledEvent& operator=(PooledEvent&& other) noexcept {
    PooledEvent taken(static_cast<PooledEvent&&>(other));
    swap(taken);
    return *this;
  }

  /// Returns the event to the pool. Never waits in the driver. No driver call.
  /// The event is retired instead, and destroy_retired() destroys it (retired_events.hpp), in three
  /// cases:
  /// - The pool already has `max_idle` idle events.
  /// - The pool has ended.
  /// - ipc_handle() was called.
  ~PooledEvent() {
    if (*this) give_back(leased_event());
  }

  /// Makes a lease that can be copied. This lease is empty afterwards. No driver call, no
  /// allocation.
  [[nodiscard]] SharedEvent share() && noexcept {
    SharedEvent shared(*this);
    forget();
    return shared;
  }

  /// Exports the event for other processes: ipc.hpp. The pool must have EventFlags::interprocess.
  /// Other processes may use the event indefinitely, so it does not return to the pool. It lives
  /// as long as the lease, or as the event that detach() returns. Before the first record(), other
  /// processes see what the event's last user recorded. Driver function: cuIpcGetEventHandle.
  [[nodiscard]] IpcHandle ipc_handle();
  [[nodiscard]] CUresult try_ipc_handle(IpcHandle& out) noexcept;

  /// Takes the event out of the pool for good. The caller owns it, and the lease is empty
  /// afterwards. Before the first record(), the event marks what its last user recorded. To give it to a
  /// graph: graph.add_record(std::move(lease).detach()). No driver call.
  [[nodiscard]] DriverEvent detach() && noexcept;

  /// Gives up the lease, and returns it as one word: null for an empty lease. This lease is empty
  /// afterwards. The word knows its event, its pool and whether the event was recorded, so a class can keep
  /// it as a `void*` without these headers. The event stays on lease until adopt(); without it, the event
  /// and the memory of the pool leak. No driver call, no allocation.
  [[nodiscard]] void* release() && noexcept {
    void* const word = *this ? &leased_event() : nullptr;
    forget();
    return word;
  }

  /// Makes the lease that `word` was before release(), on any thread, even after the end of the pool. The
  /// word must be from the same version of cuevent, and each may come back once. Returns an empty lease for
  /// null. To end the lease, ignore the result. No driver call, no allocation.
  static PooledEvent adopt(void* word) noexcept {
    PooledEvent lease;
    if (word != nullptr) lease.resume(*static_cast<LeasedEvent*>(word));
    return lease;
  }

  /// Refers to the event of a released lease, to record it, to wait for it and so on. The lease stays in
  /// `word`. Returns an empty reference for null. No driver call.
  [[nodiscard]] static EventRef borrow(void* word) noexcept {
    return word != nullptr ? EventRef(*static_cast<LeasedEvent*>(word)) : EventRef();
  }

  // What is not a word, such as a CUevent, converts to `void*` too.
  template <class Other>
  static PooledEvent adopt(Other* word) = delete;
  template <class Other>
  static EventRef borrow(Other* word) = delete;

  void swap(PooledEvent& other) noexcept { Lease::swap(other); }
  friend void swap(PooledEvent& a, PooledEvent& b) noexcept { a.swap(b); }

private:
  friend class EventPool;
  friend class EventPools;
  explicit PooledEvent(LeasedEvent& event) noexcept : Lease(event) {}
};

/// What query, wait and synchronize do for a lease that has not recorded its event.
enum class FreshLease : unsigned char {
  /// They throw NeverRecorded. This finds code that asks for work before it has recorded that work.
  refuses,
  /// They act as for a new DriverEvent: a query returns true, and a wait has no effect. Use it for code
  /// that was written for events of its own. Each pool then makes one more event, which is never recorded.
  reads_new,
};

/// Keeps the events of one context and kind for reuse. Use it for events that live briefly:
/// creating and destroying an event can wait for other threads in the driver.
///
///     EventPool pool(context);
///     PooledEvent done = pool.acquire();
///     done.record(stream);
///
/// Thread-safety: any thread, concurrently. The caller orders moves, assignment and destruction
/// with the members. Leases may end at any time, even after the pool.
/// Context: acts in the pool's context and leaves the caller's current context unchanged.
/// During capture: harmless, except for wait_stream(), which becomes part of the capture.
class EventPool {
public:
  static constexpr std::size_t default_max_idle = 65'536;

  /// An empty pool without a context. acquire(), reserve() and wait_stream() throw InvalidContext. The
  /// other members do nothing, and return empty values.
  EventPool() noexcept = default;

  /// A pool of events of `context`, which are made with `flags`. The pool shares the context and
  /// starts with no events. It keeps at most `max_idle` idle events, and retires further events that are
  /// returned. The cache of a thread occupies up to 64 of the `max_idle` places, even while the
  /// cache is empty. `fresh` says what a lease does before its first record(). No driver call, unless
  /// `fresh` is reads_new: cuEventCreate. Throws InvalidContext for an empty Context, and with reads_new as
  /// the constructor of DriverEvent.
  explicit EventPool(const Context& context, EventFlags flags = EventFlags::none,
                     FreshLease fresh = FreshLease::refuses, std::size_t max_idle = default_max_idle);
  /// The non-throwing overload. `out` is assigned on success only.
  [[nodiscard]] static CUresult try_create(EventPool& out, const Context& context,
                                           EventFlags flags = EventFlags::none,
                                           FreshLease fresh = FreshLease::refuses,
                                           std::size_t max_idle = default_max_idle) noexcept;

  EventPool(EventPool&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  EventPool& operator=(EventPool&& other) noexcept {
    EventPool taken(static_cast<EventPool&&>(other));
    swap(taken);
    return *this;
  }

  /// Destroys all idle events, including those cached by other threads. Events on lease are
  /// retired when they return. The call can wait as ~DriverEvent does, unless the events have
  /// EventFlags::retire or a RetireScope exists. If the context is lost, the call does nothing.
  /// Driver functions: cuCtxGetId, cuEventDestroy.
  ~EventPool() {
    if (state_ != nullptr) close();
  }

  /// Returns an idle event, or a new one if neither this thread nor the reserve has one. Driver
  /// function for a new event: cuEventCreate. Creating an event waits, indefinitely if necessary,
  /// while another thread is blocked on a full launch queue of the context. To avoid that wait,
  /// call reserve() beforehand. Throws as the constructor of DriverEvent.
  [[nodiscard]] PooledEvent acquire();
  /// The non-throwing overload. `out` is assigned on success only.
  [[nodiscard]] CUresult try_acquire(PooledEvent& out) noexcept;

  /// Creates events until at least `count` are idle, and reserves them for all threads. As long as
  /// the number of leases grows by at most `count`, acquire() creates no event, regardless of
  /// which threads acquire and return. If the reserve is empty, acquire() takes events from the
  /// caches of other threads. The reservation ends with trim(). An event that is detached or
  /// exported leaves the reservation. Driver function: cuEventCreate. Throws InvalidValue, and creates
  /// nothing, if `count` is more than `max_idle` or 2^31. If a creation fails, the events created before
  /// remain.
  void reserve(std::size_t count);
  [[nodiscard]] CUresult try_reserve(std::size_t count) noexcept;

  /// Destroys the idle events of the reserve and of this thread, and ends the reservation. Other
  /// threads keep their caches of up to 64 events each. The call can wait as the destructor does.
  /// Driver functions: cuCtxGetId, cuEventDestroy.
  void trim() noexcept;

  /// Makes later work on `later` wait on the device for all work submitted to `earlier` so far.
  /// Returns at once. `earlier` must belong to the pool's context, which is also the context of a default
  /// stream if none is named. Does nothing if both are one stream. Driver functions: cuCtxGetId,
  /// cuEventRecord, cuStreamWaitEvent, and as acquire(). Throws as acquire(), DriverEvent::record() and
  /// DriverEvent::wait(), and ContextLost if the context is gone.
  /// During capture: if `earlier` is being captured, `later` is forked into the capture. If only
  /// `later` is being captured, throws StreamCaptureIsolation and invalidates the capture.
  void wait_stream(StreamRef later, StreamRef earlier);
  [[nodiscard]] CUresult try_wait_stream(StreamRef later, StreamRef earlier) noexcept;

  /// What the pool has done so far. Operations of other threads that run during the call may or
  /// may not be counted.
  struct Counters {
    std::uint64_t created = 0; ///< events created
    std::uint64_t reused = 0;  ///< idle events that were acquired
    std::size_t idle = 0;      ///< idle now, in the reserve and the thread caches
    /// The most events outside the reserve at any one time: events on lease plus the thread
    /// caches, which hold up to 64 events each.
    std::size_t high_water = 0;
  };
  /// The counters of this pool. No driver call.
  Counters counters() const noexcept;

  /// The pool's context, empty for an empty pool. No driver call.
  Context context() const noexcept;
  EventFlags flags() const noexcept;
  std::size_t max_idle() const noexcept;
  FreshLease fresh() const noexcept;

  void swap(EventPool& other) noexcept {
    EventPoolState* const state = state_;
    state_ = other.state_;
    other.state_ = state;
  }
  friend void swap(EventPool& a, EventPool& b) noexcept { a.swap(b); }

  explicit operator bool() const noexcept { return state_ != nullptr; }

private:
  friend struct Explanation;
  PooledEvent acquire_slow();
  void close() noexcept;
  // Called only after a failure, to find out why the call was refused.
  [[noreturn, gnu::cold]] static void fail_create(CUresult result, const Context& context, EventFlags flags);
  [[noreturn, gnu::cold]] void fail_acquire(CUresult result) const;
  [[noreturn, gnu::cold]] void fail_reserve(CUresult result, std::size_t count) const;
  [[noreturn, gnu::cold]] void fail_wait_stream(CUresult result, StreamRef later, StreamRef earlier) const;

  EventPoolState* state_ = nullptr; // outlives the pool while a lease or a thread's cache needs it
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
