// Events that are used again: a pool of them, and leases that return themselves.
#pragma once

#include <cuevent/driver_event.hpp>
#include <cuevent/time_limit.hpp>

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
namespace cuevent {

class [[gnu::visibility("hidden")]] EventPoolState;

/// An event on lease from an EventPool, to which it returns when this is destroyed, on whichever thread.
/// Move-only; empty when default-made and after a move or detach().
///
/// A lease starts as never recorded, whatever the event's last user did with it: until its first record(), its
/// query, wait, synchronize and elapsed_time throw NeverRecorded, and their non-throwing overloads return
/// CUDA_ERROR_INVALID_HANDLE. Those of an empty lease throw EmptyEvent. Otherwise they are DriverEvent's, driver
/// functions and errors included. What is waited for stays so: a stream that waits for the event goes on to do
/// that when the lease has ended.
///
/// There are no external records and waits: their graph would refer to the event after its return. A graph, and
/// whatever else is to have the event for longer than the lease, gets it by detach().
///
/// Thread-safety: as DriverEvent: query, wait, synchronize and elapsed_time may run concurrently on one lease;
/// record, ipc_handle, detach, moves and the end need the caller's ordering.
/// Context: the event is in the pool's, and keeps an owned one alive; an event that is retired keeps it alive until
/// collect(), which can then end the context. Once it is lost, record and the rest throw ContextLost; the lease ends
/// silently all the same.
/// During capture: as DriverEvent. A lease may end in the middle of the capture that it was recorded in: its next
/// user's record makes it an ordinary event again.
class PooledEvent {
public:
  using Milliseconds = DriverEvent::Milliseconds;

  PooledEvent() noexcept = default;
  PooledEvent(PooledEvent&& other) noexcept {
    assign(other);
    other.forget();
  }
  PooledEvent& operator=(PooledEvent&& other) noexcept {
    PooledEvent taken(static_cast<PooledEvent&&>(other));
    swap(taken);
    return *this;
  }

  /// Gives the event back. It never waits in the driver: beyond the pool's max_idle, after the pool's end and
  /// after ipc_handle() the event is retired, for collect() to destroy (retired_events.hpp), and otherwise
  /// no driver function is called.
  ~PooledEvent() {
    if (event_ != nullptr) give_back();
  }

  void record(CUstream stream) {
    if (event_ == nullptr) fail_unrecorded("cuEventRecord");
    event_->record(stream);
    recorded_ = true;
  }
  CUresult try_record(CUstream stream) noexcept {
    if (__builtin_expect(event_ == nullptr, false)) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult result = event_->try_record(stream);
    if (result == CUDA_SUCCESS) recorded_ = true;
    return result;
  }

  /// As record(stream), and says whose default stream is meant. `context` has to be the pool's, whichever the stream
  /// is: throws ContextMismatch for another one, InvalidContext for an empty one.
  void record(const Context& context, CUstream stream);
  CUresult try_record(const Context& context, CUstream stream) noexcept;

  /// Says that the event has been recorded by other means, as a launch attribute records it.
  void mark_recorded() noexcept { recorded_ = event_ != nullptr; }

  /// Whether this lease has recorded the event.
  bool recorded() const noexcept { return recorded_; }

  void wait(CUstream stream) const { recorded_event("cuStreamWaitEvent").wait(stream); }
  CUresult try_wait(CUstream stream) const noexcept {
    return recorded_ ? event_->try_wait(stream) : CUDA_ERROR_INVALID_HANDLE;
  }

  /// As DriverEvent::wait(context, stream): of a default stream, that of `context`, which may be any.
  void wait(const Context& context, CUstream stream) const {
    recorded_event("cuStreamWaitEvent").wait(context, stream);
  }
  CUresult try_wait(const Context& context, CUstream stream) const noexcept {
    return recorded_ ? event_->try_wait(context, stream) : CUDA_ERROR_INVALID_HANDLE;
  }

  bool query() const { return recorded_event("cuEventQuery").query(); }
  CUresult try_query() const noexcept { return recorded_ ? event_->try_query() : CUDA_ERROR_INVALID_HANDLE; }

  bool query_relaxed() const { return recorded_event("cuEventQuery").query_relaxed(); }
  CUresult try_query_relaxed() const noexcept {
    return recorded_ ? event_->try_query_relaxed() : CUDA_ERROR_INVALID_HANDLE;
  }

  void synchronize() const { recorded_event("cuEventSynchronize").synchronize(); }
  CUresult try_synchronize() const noexcept {
    return recorded_ ? event_->try_synchronize() : CUDA_ERROR_INVALID_HANDLE;
  }

  /// For any duration, and until any clock's time_point: time_limit.hpp.
  bool synchronize_for(TimeLimit timeout) const {
    return recorded_event("cuEventQuery").synchronize_for(timeout);
  }
  bool synchronize_until(Deadline deadline) const {
    return recorded_event("cuEventQuery").synchronize_until(deadline);
  }
  CUresult try_synchronize_for(TimeLimit timeout) const noexcept {
    return recorded_ ? event_->try_synchronize_for(timeout) : CUDA_ERROR_INVALID_HANDLE;
  }
  CUresult try_synchronize_until(Deadline deadline) const noexcept {
    return recorded_ ? event_->try_synchronize_until(deadline) : CUDA_ERROR_INVALID_HANDLE;
  }

  /// The device's time between this event and `end`, of pools with EventFlags::timing.
  Milliseconds elapsed_time(const PooledEvent& end) const {
    return recorded_event("cuEventElapsedTime").elapsed_time(end.recorded_event("cuEventElapsedTime"));
  }
  CUresult try_elapsed_time(Milliseconds& out, const PooledEvent& end) const noexcept {
    return recorded_ && end.recorded_ ? event_->try_elapsed_time(out, *end.event_)
                                      : CUDA_ERROR_INVALID_HANDLE;
  }

  /// The event as other processes can open it, of a pool with EventFlags::interprocess: ipc.hpp. As they may use
  /// it for ever, it does not return to the pool; it lasts as long as the lease, or as what detach() returns.
  /// Before the first record() they see what its last user recorded. Driver function: cuIpcGetEventHandle.
  IpcHandle ipc_handle();
  CUresult try_ipc_handle(IpcHandle& out) noexcept;

  /// Takes the event out of the pool: it is the caller's, and never comes back. The lease is empty afterwards.
  /// For a graph: graph.retain(std::move(lease).detach()). No driver call.
  DriverEvent detach() && noexcept;

  /// The event itself, for what only reads its handle or context; an empty one if the lease is empty. Before the
  /// first record it marks what its last user recorded, and may still be pending for them or refuse to be asked.
  const DriverEvent& event() const noexcept { return event_ != nullptr ? *event_ : none(); }

  void swap(PooledEvent& other) noexcept {
    PooledEvent taken(static_cast<PooledEvent&&>(other));
    other.assign(*this);
    assign(taken);
    taken.forget();
  }
  friend void swap(PooledEvent& a, PooledEvent& b) noexcept { a.swap(b); }

  explicit operator bool() const noexcept { return event_ != nullptr; }

private:
  friend class EventPool;
  PooledEvent(DriverEvent* event, EventPoolState* pool) noexcept : event_(event), pool_(pool) {}

  const DriverEvent& recorded_event(const char* call) const {
    if (!recorded_) fail_unrecorded(call);
    return *event_;
  }
  void assign(const PooledEvent& other) noexcept {
    event_ = other.event_;
    pool_ = other.pool_;
    recorded_ = other.recorded_;
    exported_ = other.exported_;
  }
  void forget() noexcept {
    event_ = nullptr;
    recorded_ = exported_ = false;
  }
  void give_back() noexcept;
  static const DriverEvent& none() noexcept;
  [[noreturn, gnu::cold]] void fail_unrecorded(const char* call) const;

  DriverEvent* event_ = nullptr;
  EventPoolState* pool_ = nullptr; // kept by the event
  bool recorded_ = false;          // by this lease, which is then not empty
  bool exported_ = false;
};

/// Events of one context and one kind, kept for use again, as to make and to destroy one waits for other threads
/// in the driver. Each thread keeps up to 64 idle events for itself, so that acquiring and returning one is done
/// without a driver call, an allocation, a lock, or a write to memory that other threads use; behind them is a
/// reserve which all threads share, and with which they exchange 32 at a time. What a thread keeps goes to the
/// reserve when the thread ends. On Linux before 4.14 threads keep nothing, as events could not be taken from them.
///
/// Thread-safety: any thread, also concurrently; moves, assignment and the end need the caller's ordering with
/// the members, but not with the leases, which may go on and end at any time, also after the pool.
/// Context: members act in the pool's, and leave the caller's current context as it was.
/// During capture: harmless, but for wait_stream(), which becomes part of the capture.
class EventPool {
public:
  static constexpr std::size_t default_max_idle = 65'536;

  /// An empty pool, which has no context: its members throw InvalidContext.
  EventPool() noexcept = default;

  /// A pool of events of `context`, which it shares, made with `flags`; it starts with none. It keeps at most
  /// `max_idle` idle events, and retires what is returned beyond that. Room for up to 64 events that a thread has
  /// taken for itself counts towards the limit. Throws InvalidContext for an empty Context. No driver call.
  explicit EventPool(const Context& context, EventFlags flags = EventFlags::none,
                     std::size_t max_idle = default_max_idle);
  /// The non-throwing overload. `out` is assigned on success only.
  static CUresult try_create(EventPool& out, const Context& context, EventFlags flags = EventFlags::none,
                             std::size_t max_idle = default_max_idle) noexcept;

  EventPool(EventPool&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  EventPool& operator=(EventPool&& other) noexcept {
    EventPool taken(static_cast<EventPool&&>(other));
    swap(taken);
    return *this;
  }

  /// Destroys all idle events, those that other threads keep included; those on lease are retired when they
  /// return. It can wait as ~DriverEvent does, unless they were made with EventFlags::retire or a RetireScope
  /// exists. Where the context is lost it does nothing, silently.
  ~EventPool() {
    if (state_ != nullptr) close();
  }

  /// An idle event, or a new one if this thread and the reserve have none. Driver function then: cuEventCreate,
  /// which waits, indefinitely if need be, while another thread is blocked on a full launch queue of the context;
  /// reserve() beforehand is the way out. Throws then as DriverEvent's constructor.
  PooledEvent acquire();
  /// The non-throwing overload. `out` is assigned on success only.
  CUresult try_acquire(PooledEvent& out) noexcept;

  /// Makes events until at least `count` are idle, and promises them to all threads: as long as at most `count` leases
  /// are added to those that exist now, acquire() makes no event, whichever threads acquire and return them. If the
  /// reserve is empty, acquire() takes events that other threads keep. The promise ends with trim(), and an event that
  /// is detached or exported leaves it. Driver function: cuEventCreate. Throws InvalidValue, and makes none, if
  /// `count` is more than max_idle; what it has made when a creation fails stays.
  void reserve(std::size_t count);
  CUresult try_reserve(std::size_t count) noexcept;

  /// Destroys the idle events of the reserve and of this thread, and ends what reserve() has promised; other threads
  /// keep theirs, 64 each at most. It can wait as the destructor.
  void trim() noexcept;

  /// Makes later work of stream `later` wait on the device for all work that has been submitted to `earlier` so
  /// far; returns at once. `earlier` is of the pool's context; a default stream is that of this context. Nothing
  /// at all if both are the same handle. Driver functions: cuEventRecord, cuStreamWaitEvent, and those of
  /// acquire(). Throws as acquire(), DriverEvent::record() and wait().
  /// During capture: if `earlier` is being captured, `later` joins the capture; if only `later` is, throws
  /// StreamCaptureIsolation, and the capture is invalidated.
  void wait_stream(CUstream later, CUstream earlier);
  CUresult try_wait_stream(CUstream later, CUstream earlier) noexcept;

  /// The same, and says whose default streams are meant. `context_of_earlier` has to be the pool's, whichever the
  /// stream is, and `context_of_later` may be any: throws ContextMismatch otherwise, InvalidContext for an empty
  /// one. Nothing is submitted if both the streams and the contexts are the same.
  void wait_stream(const Context& context_of_later, CUstream later, const Context& context_of_earlier,
                   CUstream earlier);
  CUresult try_wait_stream(const Context& context_of_later, CUstream later, const Context& context_of_earlier,
                           CUstream earlier) noexcept;

  /// What the pool has done so far. Threads keep their own; what they do meanwhile may be counted or not.
  struct Counters {
    std::uint64_t created = 0; ///< events made
    std::uint64_t reused = 0;  ///< acquired that were idle
    std::size_t idle = 0;      ///< now, in the reserve and kept by threads
    /// The most events outside of the reserve at once: those on lease, and what threads kept then (up to 64 each).
    std::size_t high_water = 0;
  };
  Counters counters() const noexcept;

  /// Empty for an empty pool.
  Context context() const noexcept;
  EventFlags flags() const noexcept;
  std::size_t max_idle() const noexcept;

  void swap(EventPool& other) noexcept {
    EventPoolState* const state = state_;
    state_ = other.state_;
    other.state_ = state;
  }
  friend void swap(EventPool& a, EventPool& b) noexcept { a.swap(b); }

  explicit operator bool() const noexcept { return state_ != nullptr; }

private:
  PooledEvent acquire_slow();
  void close() noexcept;

  EventPoolState* state_ = nullptr; // lives on for as long as a lease or a thread's cache needs it
};

} // namespace cuevent
#pragma GCC visibility pop
