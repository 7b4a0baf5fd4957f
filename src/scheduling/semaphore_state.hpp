// SPDX-License-Identifier: MIT
// A semaphore in this process: its page, its registration with the
// driver, and what this process has submitted. Internal to the library.
#pragma once

#include <cuevent/context.hpp>
#include <cuevent/timeline_participant.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace cuevent {

/// The signals that this process has submitted to streams and that may still be pending, the newest
/// last.
class PendingSignals {
public:
  /// Adds a signal before it is submitted. Returns false if the stream has a signal of this value
  /// or a higher one. Throws std::bad_alloc.
  bool add(unsigned long long stream, std::uint64_t value, std::uint64_t reached);
  /// Removes a signal that was not submitted.
  void remove(unsigned long long stream, std::uint64_t value) noexcept;
  /// Whether a pending signal would lower the semaphore after a signal of `value`.
  bool any_below(std::uint64_t value, std::uint64_t reached) noexcept;
  /// Whether no signal can be pending, whatever the semaphore has reached.
  bool none() const noexcept;
  /// Whether all signals are reached.
  bool all_reached(std::uint64_t reached) const noexcept;

private:
  void forget(std::uint64_t reached) noexcept;

  struct Signal {
    unsigned long long stream;
    std::uint64_t value;
  };
  mutable std::mutex mutex_;
  std::vector<Signal> signals_;
};

/// Lives until its context ends, because a stream may still look at the page. If it is not
/// registered, it ends with its TimelineSemaphore.
struct SemaphoreState {
  SemaphoreState(const Context& home, const cuevent_timeline& opened) noexcept
      : table(&home.driver().table()), context(home.native_handle()), context_id(home.id()),
        timeline(opened) {}
  SemaphoreState(const SemaphoreState&) = delete;
  SemaphoreState& operator=(const SemaphoreState&) = delete;
  ~SemaphoreState() { cuevent_timeline_close(&timeline); }

  cuevent_timeline_page& page() const noexcept { return *timeline.page; }
  std::uint64_t value() const noexcept { return cuevent_timeline_value(timeline.page); }
  bool abandoned() const noexcept { return cuevent_timeline_is_abandoned(timeline.page) != 0; }

  const DriverTable* const table;
  CUcontext const context;
  const unsigned long long context_id; // a later context may get the same handle
  cuevent_timeline timeline;           // its descriptors change under the lock of Semaphores
  PendingSignals pending;
  bool registered = false; // the driver has the address, so nothing else may get the address

  // Under the lock of Semaphores
  bool in_use = true;   // a TimelineSemaphore has it
  bool guarded = false; // the guard's thread looks at it
  bool abandon_on_death = false;
  int busy_rounds = 0; // of the guard's thread, after the semaphore was abandoned
};

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

} // namespace cuevent
