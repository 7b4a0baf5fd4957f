// Retired events: set aside where they could not be destroyed, and destroyed later.
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
  [[nodiscard("an unnamed scope ends at once")]] RetireScope() noexcept;
  RetireScope(const RetireScope&) = delete;
  RetireScope& operator=(const RetireScope&) = delete;
  ~RetireScope();

private:
  const void* thread_;
};

/// Destroys all events that have been retired, by retire(), EventFlags::retire or a RetireScope, or by a graph
/// that is done with them, and returns how many. Nothing else destroys the former; the end of any Graph or
/// GraphExec also destroys what graphs have released so far. Driver function: cuEventDestroy; what fails goes
/// to the error hook.
/// Thread-safety: any thread, also concurrently.
/// Context: needs and changes none.
/// During capture: harmless.
std::size_t collect() noexcept;

} // namespace cuevent
#pragma GCC visibility pop
