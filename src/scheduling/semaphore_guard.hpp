// SPDX-License-Identifier: MIT
// The semaphores of this process, and the thread that guards the
// shared ones. Internal to the library.
#pragma once

#include "core/fork_lock.hpp"
#include "scheduling/semaphore_state.hpp"

#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

/// All semaphores of this process, with the destroyed ones whose context lives. The thread runs
/// while there is a semaphore to guard. It makes no driver call, so it also works while all other
/// threads are blocked in the driver. For each guarded semaphore, at least every 10 ms:
/// - If the process asked for it and a participant died, it abandons the semaphore.
/// - If the semaphore is abandoned, it undoes signals of streams that were still queued.
/// - If the semaphore was destroyed here, it leaves once the streams of this process have made all
///   their signals. An exit handler waits up to 100 ms for them.
///
/// Lives forever, because semaphores may outlive every static object.
class Semaphores {
public:
  static Semaphores& instance();

  /// Throws std::bad_alloc.
  void add(SemaphoreState& state);
  /// Begins to guard. Returns false if the thread cannot start.
  bool guard(SemaphoreState& state) noexcept;
  bool abandon_on_death(SemaphoreState& state) noexcept;
  /// Does once what the thread does when a participant died.
  void look_for_death(SemaphoreState& state) noexcept;
  /// The semaphore was destroyed. Deletes the state if it is not registered.
  void retire(SemaphoreState& state) noexcept;
  /// Frees the destroyed semaphores of contexts that have ended. The context of `newest` must be
  /// current, in relaxed mode. Driver function, for each other context: cuMemHostGetDevicePointer.
  void free_ended(const SemaphoreState& newest) noexcept;

  /// Returns 0 or an errno.
  int export_handle(SemaphoreState& state, int& descriptor) noexcept;
  bool participant_died(const SemaphoreState& state) noexcept;

  template <class Lock>
  void each_fork_lock(Lock lock) {
    lock(mutex_);
    PendingSignals::each_fork_lock(lock);
  }
  void forked() noexcept;

private:
  Semaphores() noexcept;
  void leave_at_exit() noexcept;
  void run() noexcept;
  bool look_at_all(long long& sleep) noexcept;
  void leave(SemaphoreState& state) noexcept;
  void erase(SemaphoreState& state) noexcept;

  ForkLock mutex_;
  std::vector<SemaphoreState*> states_;
  bool running_ = false;
};

}} // namespace cuevent::CUEVENT_ABI
