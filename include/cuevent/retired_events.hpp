// SPDX-License-Identifier: MIT
/// \file
/// \brief Retired events: set aside now, destroyed later by destroy_retired().
///
/// Events are retired by:
/// - retire(), EventFlags::retire and RetireScope.
/// - An EventPool: events that are returned beyond `max_idle`, after ipc_handle() or after the end
///   of the pool.
/// - Graphs: events that a graph kept.
///
/// A retired event keeps an owned context alive. If it is the last owner, destroying it also ends
/// the context, with cuCtxDestroy or cuDevicePrimaryCtxRelease. To choose when a context ends,
/// call destroy_retired() before you drop your last Context.
#pragma once

#include <cuevent/driver_event.hpp>

#include <cstddef>

#pragma GCC visibility push(default)
namespace cuevent {

/// Sets `event` aside for destroy_retired() to destroy. Use it on threads that must not wait in the
/// driver: cuEventDestroy waits while another thread is blocked on a full launch queue of the
/// context. No driver call. If there is no memory to remember the event, the event leaks and the
/// error hook is told.
/// Thread-safety: any thread.
/// Context: needs none and changes none.
/// During capture: harmless.
void retire(DriverEvent&& event) noexcept;

/// Retires every event that this thread destroys while the scope exists. Use it around code that
/// must not wait in the driver. Scopes nest. For a single event, use EventFlags::retire.
///
///     const RetireScope scope;
///     event = DriverEvent(); // retires the old event instead of destroying it
///     assert(retired_events() == 1);
///
/// Thread-safety: belongs to the thread that made it and must not live across a co_await.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
class RetireScope {
public:
  [[nodiscard]] RetireScope() noexcept;
  RetireScope(const RetireScope&) = delete;
  RetireScope& operator=(const RetireScope&) = delete;
  ~RetireScope();

private:
  const void* thread_;
};

/// Destroys all retired events and returns their number. The destructors of Graph and GraphExec
/// also destroy the events that graphs have released so far. Nothing else destroys retired events.
/// Driver functions: cuEventDestroy, and cuCtxDestroy or cuDevicePrimaryCtxRelease for the last
/// owner of a context. Errors go to the error hook.
/// Thread-safety: any thread, concurrently.
/// Context: leaves the caller's current context unchanged. Contexts that only retired events kept
/// alive end.
/// During capture: harmless.
std::size_t destroy_retired() noexcept;

/// The former name of destroy_retired(). It goes with 1.0.
[[deprecated("call destroy_retired()")]] std::size_t collect() noexcept;

/// The number of events that destroy_retired() would destroy now. No driver call.
/// Thread-safety: any thread. Events that other threads retire or destroy during the call may
/// or may not be counted.
/// Context: needs none and changes none.
/// During capture: harmless.
std::size_t retired_events() noexcept;

} // namespace cuevent
#pragma GCC visibility pop
