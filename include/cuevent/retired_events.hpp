// Retired events: set aside where they could not be destroyed, and destroyed later.
//
// A retired event keeps its context alive if its Context owns. The last of them can so be the last owner, and then
// collect(), or the end of a Graph or GraphExec, ends the context: cuCtxDestroy or cuDevicePrimaryCtxRelease, on the
// thread that calls it. To end a context at a time of your choice, call collect() before you drop your Context. Events
// are retired by retire(), by EventFlags::retire and RetireScope, by an EventPool (what is returned beyond max_idle,
// after ipc_handle(), or after the pool's end), and by graphs for what they kept.
#pragma once

#include <cuevent/driver_event.hpp>

#include <cstddef>

#pragma GCC visibility push(default)
namespace cuevent {

/// Sets `event` aside for collect() to destroy; makes no driver call. For a thread that must not wait in
/// the driver: cuEventDestroy does while another thread is blocked in a full launch queue of the context.
/// Thread-safety: any thread. Context, and during capture: harmless. Where there is no memory to remember
/// it by, the event is leaked, and the error hook told so.
void retire(DriverEvent&& event) noexcept;

/// While one exists, the events that are destroyed on this thread are retired. Scopes nest. To have a single
/// event retired wherever it is destroyed, make it with EventFlags::retire.
/// Thread-safety: belongs to the thread that made it, and must not live across a co_await.
/// Context, and during capture: harmless; no driver call.
class RetireScope {
public:
  [[nodiscard]] RetireScope() noexcept;
  RetireScope(const RetireScope&) = delete;
  RetireScope& operator=(const RetireScope&) = delete;
  ~RetireScope();

private:
  const void* thread_;
};

/// Destroys all events that have been retired, and returns how many. The end of any Graph or GraphExec also destroys
/// what graphs have released so far; nothing else destroys retired events. Driver functions: cuEventDestroy, and for
/// the last owner of a context cuCtxDestroy or cuDevicePrimaryCtxRelease; what fails goes to the error hook.
/// Thread-safety: any thread, also concurrently.
/// Context: needs none current and changes none; ends those that only retired events have kept alive.
/// During capture: harmless.
std::size_t collect() noexcept;

/// How many events collect() would destroy now. Each may keep its context alive. No driver call.
/// Thread-safety: any thread; what others retire and collect meanwhile may be counted or not.
/// Context, and during capture: harmless.
std::size_t retired_events() noexcept;

} // namespace cuevent
#pragma GCC visibility pop
