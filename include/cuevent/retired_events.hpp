// SPDX-License-Identifier: MIT
/// \file
/// \brief Retired events: set aside now, destroyed later by destroy_retired().
///
/// Who retires an event, and who destroys it then:
/// - The program, with retire(), EventFlags::retire or RetireScope. Only destroy_retired() destroys
///   the event.
/// - An EventPool, if the event is returned beyond `max_idle`, after ipc_handle() or after the end
///   of the pool. Only destroy_retired() destroys the event.
/// - A graph that owned the event and has ended: see Graph::retain(), StreamCapture::record() and
///   the captured stages of StageTimer. The first of these destroys the event: destroy_retired(), the
///   destructor of any owned Graph, the destructor of any GraphExec, the first stage of a StageTimer in a
///   later capture. A RetireScope does not prevent this.
/// - A graph that kept another object or a callback and has ended: see Graph::retain() and
///   Graph::when_destroyed(). Only destroy_retired() ends the object and runs the callback.
///
/// A retired event keeps an owned context alive. If it is the last owner, destroying it also ends
/// the context, with cuCtxDestroy or cuDevicePrimaryCtxRelease. To choose when a context ends,
/// call destroy_retired() before you drop your last Context.
#pragma once

#include <cuevent/driver_event.hpp>

#include <cstddef>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// The base of what destroy_retired() ends. Graph::retain() and Graph::when_destroyed() derive from
/// it; programs do not use it.
/// Thread-safety: the caller orders all uses of one object.
/// Context: needs none and changes none.
/// During capture: harmless; no driver call.
struct RetiredObject {
  void (*end)(RetiredObject* self) = nullptr; ///< ends what `self` holds, and deletes `self`
  RetiredObject* next = nullptr;
  bool holds = false; ///< whether there is something to end
};

/// Sets `event` aside for destroy_retired() to destroy. Use it on threads that must not wait in the
/// driver: cuEventDestroy waits while another thread is blocked on a full launch queue of the
/// context. No driver call. If there is no memory to remember the event, the event leaks, and
/// CUDA_ERROR_OUT_OF_MEMORY goes to the error hook.
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

/// Destroys all retired events and all objects that ended graphs kept, and runs the callbacks of
/// Graph::when_destroyed(). Returns the number of all three. The list at the top of this file says what else
/// destroys some of the events. Driver functions: cuEventDestroy, and cuCtxDestroy or
/// cuDevicePrimaryCtxRelease for the last owner of a context. Errors and exceptions of callbacks go to the
/// error hook.
/// Thread-safety: any thread, concurrently. Destructors and callbacks run on the calling thread.
/// Context: leaves the caller's current context unchanged. Contexts that only retired events kept
/// alive end.
/// During capture: harmless.
std::size_t destroy_retired() noexcept;

/// The number that destroy_retired() would return now. No driver call.
/// Thread-safety: any thread. Events and objects that other threads retire or destroy during the call may
/// or may not be counted.
/// Context: needs none and changes none.
/// During capture: harmless.
std::size_t retired_events() noexcept;

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
