// SPDX-License-Identifier: MIT
// A semaphore in this process: its page, its registration with the
// driver, and what this process has submitted. Internal to the library.
#pragma once

#include "core/fork_lock.hpp"
#include "scheduling/closed_files.hpp"

#include <cuevent/context.hpp>
#include <cuevent/timeline_participant.h>

#include <atomic>
#include <cstdint>
#include <iterator>
#include <vector>

namespace cuevent { inline namespace CUEVENT_ABI {

/// The signals that this process has submitted to streams and that may still be pending, the newest
/// last.
class PendingSignals {
public:
  explicit PendingSignals(const cuevent_timeline_page& page) noexcept
      : page_(page),
        mutex_(locks_[reinterpret_cast<std::uintptr_t>(this) / sizeof(PendingSignals) % std::size(locks_)]) {}

  /// Adds a signal before it is submitted. Returns false if the same stream has signalled a higher
  /// value, or if the semaphore is abandoned. So after an abandonment, none() knows all signals that may
  /// come. Throws std::bad_alloc.
  bool add(unsigned long long stream, std::uint64_t value);
  /// Removes a signal that was not submitted.
  void remove(std::uint64_t value) noexcept;
  /// Forgets the signals that are reached. Returns whether none is left. After an abandonment, the
  /// word no longer shows which stores are made, so all that were pending then stay.
  bool none() noexcept;

  ForkLock& fork_lock() noexcept { return mutex_; }
  template <class Lock>
  static void each_fork_lock(Lock lock) {
    for (ForkLock& each : locks_)
      lock(each);
  }

private:
  void forget_reached() noexcept; // under the lock

  struct Signal {
    unsigned long long stream;
    std::uint64_t value;
  };
  // Semaphores share a few locks: a fork holds all locks, and a program may have thousands of semaphores.
  static inline constinit ForkLock locks_[16];

  const cuevent_timeline_page& page_;
  ForkLock& mutex_;
  std::vector<Signal> signals_;
};

/// Lives until its context ends, because a stream may still look at the page. If it is not
/// registered, it ends with its TimelineSemaphore.
struct SemaphoreState {
  SemaphoreState(const Context& home, const cuevent_timeline& opened) noexcept
      : table(&home.driver().table()), context(home.native_handle()), context_id(home.id()), timeline(opened),
        pending(*opened.page) {}
  SemaphoreState(const SemaphoreState&) = delete;
  SemaphoreState& operator=(const SemaphoreState&) = delete;
  ~SemaphoreState() { cuevent_timeline_close(&timeline); }

  cuevent_timeline_page& page() const noexcept { return *timeline.page; }
  std::uint64_t value() const noexcept { return cuevent_timeline_value(timeline.page); }
  bool abandoned() const noexcept { return cuevent_timeline_is_abandoned(timeline.page) != 0; }

  const DriverTable* const table;
  CUcontext const context;
  const unsigned long long context_id; // a later context may get the same handle
  /// `lock` changes under the lock of Semaphores. `memory` stays while a TimelineSemaphore has the state.
  cuevent_timeline timeline;
  PendingSignals pending;
  bool registered = false; // the driver has the address, so nothing else may get the address

  // Under the lock of Semaphores
  bool in_use = true;            // a TimelineSemaphore has it
  bool guarded = false;          // the guard's thread looks at it
  bool soon = false;             // the guard's thread looks again before its next look at all
  int busy_rounds = 0;           // of the guard's thread, after the semaphore was abandoned
  int watch = ClosedFiles::none; // tells the guard's thread about deaths
  int death_rounds = 0;          // of the guard's thread, after a participant may have died

  std::atomic<bool> abandon_on_death{false};
};

/// Abandons the semaphore if this process asked for it and a participant died.
void abandon_if_died(SemaphoreState& state) noexcept;

/// A failure of the kernel or of the driver.
struct PageResult {
  CUresult result = CUDA_SUCCESS;
  int error = 0; // errno, if the kernel or the page refused
};

/// Makes a page, pins it, and adds it to Semaphores.
PageResult make_semaphore(const Context& context, std::uint64_t initial, SemaphoreState*& out) noexcept;
/// Joins the page of a descriptor. If it fails, the caller keeps the descriptor.
PageResult import_semaphore(const Context& context, int descriptor, SemaphoreState*& out) noexcept;

/// Unpins and frees the page. If it fails, nothing has changed.
CUresult close_semaphore(const Context& context, SemaphoreState& state) noexcept;

/// The result for an errno of the page's functions.
CUresult result_of_page(int error) noexcept;

}} // namespace cuevent::CUEVENT_ABI
