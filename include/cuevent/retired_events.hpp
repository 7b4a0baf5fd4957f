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

/// Destroys all events that have been retired, by retire() or by a graph that is done with them, and
/// returns how many. Making and closing an event, and destroying a Graph or GraphExec, do it too; recording
/// and asking never do. Driver function: cuEventDestroy; what fails goes to the error hook.
/// Thread-safety: any thread, also concurrently.
/// Context: needs and changes none.
/// During capture: harmless.
std::size_t collect() noexcept;

} // namespace cuevent
#pragma GCC visibility pop
