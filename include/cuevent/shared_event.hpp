// SPDX-License-Identifier: MIT
// SharedEvent: a lease with several holders.
#pragma once

#include <cuevent/lease.hpp>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

/// A lease that can be copied. The destructor of the last copy returns the event to the pool, on
/// any thread, as ~PooledEvent does. Use it if several threads or objects wait for one event. It
/// has the members of Lease and EventRef, and converts to EventRef.
///
///     const SharedEvent done = pool.acquire().share();
///     done.record(stream);
///     std::thread waiter([done] { done.synchronize(); });
///     waiter.join();
///
/// A holder that sees the event recorded also sees what the recording thread did before the
/// record. A holder that asks earlier gets NeverRecorded.
///
/// Thread-safety: distinct objects may be used on any thread, including copies of one lease. The
/// caller orders assignment and destruction with other uses of the same object.
/// Context: as PooledEvent.
/// During capture: as PooledEvent.
class SharedEvent : public Lease {
public:
  /// An empty lease. Its members throw EmptyEvent.
  SharedEvent() noexcept = default;
  /// Allocates nothing and takes no lock. No driver call.
  SharedEvent(const SharedEvent& other) noexcept : Lease(other) {
    if (other) __atomic_fetch_add(&other.leased_event().holders, 1, __ATOMIC_RELAXED);
  }
  SharedEvent(SharedEvent&& other) noexcept : Lease(other) { other.forget(); }
  SharedEvent& operator=(SharedEvent other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedEvent() {
    if (*this && drop()) give_back(leased_event());
  }

  void swap(SharedEvent& other) noexcept { Lease::swap(other); }
  friend void swap(SharedEvent& a, SharedEvent& b) noexcept { a.swap(b); }

private:
  friend class PooledEvent;
  /// Becomes the first holder.
  explicit SharedEvent(const Lease& lease) noexcept : Lease(lease) {
    if (*this) __atomic_store_n(&leased_event().holders, 1, __ATOMIC_RELAXED);
  }
  /// Returns true if this was the last holder.
  bool drop() const noexcept { return __atomic_fetch_sub(&leased_event().holders, 1, __ATOMIC_ACQ_REL) == 1; }
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
