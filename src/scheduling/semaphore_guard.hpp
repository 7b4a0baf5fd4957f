// SPDX-License-Identifier: MIT
// The semaphores of this process, and the thread that guards the
// shared ones. Internal to the library.
#pragma once

#include "core/fork_lock.hpp"
#include "scheduling/semaphore_state.hpp"

#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

/// All semaphores of this process, with the destroyed ones whose context lives. The thread runs
/// while there is a semaphore to guard: a shared one, or an abandoned one that a queued signal may lower.
/// It makes no driver call, so it also works while all other threads are blocked in the driver. It looks at
/// every guarded semaphore each 100 ms, and also each 10 ms while streams have pending signals of it:
/// - If the process asked for it and a participant died, it abandons the semaphore. Asking about a lock is a
///   system call, so it asks when the kernel says that a file was closed. If the kernel cannot say that, it
///   asks each 100 ms.
/// - If the semaphore is abandoned, it undoes queued signals of streams, for a while each 1 ms.
/// - If the semaphore was destroyed here, it leaves once the streams of this process have made all
///   their signals. An exit handler waits up to 100 ms for them.
///
/// Lives forever, because semaphores may outlive every static object.
class Semaphores {
public:
  static Semaphores& instance() noexcept { return *only; }
  [[gnu::constructor(first_constructor)]] static void make() noexcept;
  /// False if there was no memory when the library was loaded. Then there can be no semaphore.
  static bool are_made() noexcept { return only != nullptr; }

  /// Returns false if there is no memory for an exit handler. Throws std::bad_alloc.
  bool add(SemaphoreState& state);
  /// Begins to guard. Returns false if the thread cannot start.
  bool guard(SemaphoreState& state) noexcept;
  /// The semaphore was destroyed. Deletes the state if it is not registered.
  void retire(SemaphoreState& state) noexcept;
  /// Frees the destroyed semaphores of contexts that have ended. The context of `newest` must be
  /// current, in relaxed mode. Driver function, for each other context: cuMemHostGetDevicePointer.
  void free_ended(const SemaphoreState& newest) noexcept;

  /// Returns 0 or an errno.
  int export_handle(SemaphoreState& state, int& descriptor) noexcept;

  template <class Lock>
  void each_fork_lock(Lock lock) {
    lock(mutex_);
    PendingSignals::each_fork_lock(lock);
  }
  void forked() noexcept;

private:
  static inline constinit Semaphores* only = nullptr;

  bool start_thread() noexcept;
  void leave_at_exit() noexcept;
  void run() noexcept;
  long long look_at_all(bool every) noexcept;
  long long look_at(SemaphoreState& state) noexcept;
  bool looks_for_death(SemaphoreState& state) noexcept;
  void sleep(long long nanoseconds) noexcept;
  void note_closed(int watch) noexcept;
  void stop_watching(SemaphoreState& state) noexcept;
  void leave(SemaphoreState& state) noexcept;
  void erase(SemaphoreState& state) noexcept;

  ForkLock mutex_;
  std::vector<SemaphoreState*> states_;
  ClosedFiles closed_files_;
  unsigned looks_ = 0; // at all semaphores
  bool running_ = false;
  bool has_more_ = false; // to guard than the thread saw when its look began
  bool leaves_at_exit_ = false;
};

}} // namespace cuevent::CUEVENT_ABI
