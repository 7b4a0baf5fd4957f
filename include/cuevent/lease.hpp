// SPDX-License-Identifier: MIT
/// \file
/// \brief Lease: what a PooledEvent (event_pool.hpp) and a SharedEvent (shared_event.hpp) have in
/// common.
///
/// How a lease differs from a DriverEvent:
/// - It starts as never recorded, regardless of the event's last user. Until its first record(),
///   query, wait, synchronize and elapsed_time throw NeverRecorded. Their non-throwing overloads
///   return CUDA_ERROR_INVALID_HANDLE. With FreshLease::reads_new (event_pool.hpp) they do what a new
///   DriverEvent does.
/// - It cannot see records that are made by other means, such as the driver's own cuEventRecord. Tell it with
///   mark_recorded().
/// - It refuses external records and waits, and everything else that would outlive the lease, with
///   NotSupported: docs/pools.md. Use PooledEvent::detach() for an event that must outlive the lease.
/// - When its context is lost, its members throw ContextLost, but its destructor is silent.
#pragma once

#include <cuevent/event_ref.hpp>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

class [[gnu::visibility("hidden")]] EventPoolState;

/// An event of a pool, and what its lease knows about it. For the library only.
struct alignas(64) LeasedEvent : PoolEvent { // a cache line, because threads lease neighbouring events
  LeasedEvent(DriverEvent&& event, const DriverEvent* its_fresh, EventPoolState& its_pool) noexcept
      : PoolEvent(static_cast<DriverEvent&&>(event), its_fresh), pool(&its_pool) {}

  EventPoolState* pool; // kept alive by the event
  unsigned holders = 0; // the number of SharedEvents
  bool exported = false;
};

/// An event on lease from a pool. A PooledEvent or a SharedEvent ends the lease. A lease converts to
/// EventRef.
///
/// Thread-safety: as the PooledEvent or SharedEvent.
/// Context: as PooledEvent.
/// During capture: as PooledEvent.
class Lease : public EventAccess {
public:
  /// Tells the lease that its event was recorded by other means, for example by a library that got
  /// native_handle(). Call it after that record: from then on, the members act on the event as it is, and
  /// without a record they would show the work of its last user. A lease that should read as complete before
  /// its first record does not need this call, but FreshLease::reads_new. Applies to all holders. No driver
  /// call.
  void mark_recorded() const noexcept { note_record(); }

  /// Whether this lease has recorded the event. No driver call.
  bool recorded() const noexcept { return leased() && !unrecorded(); }

  /// The event itself, to read its handle or context. Returns an empty event for an empty lease.
  /// Before the first record() the event still marks the work of its last user: it may be pending,
  /// and a query may throw, also with FreshLease::reads_new. No driver call.
  const DriverEvent& event() const noexcept { return *owner_; }

protected:
  Lease() noexcept = default;
  explicit Lease(LeasedEvent& event) noexcept : EventAccess(event) {
    set_checks(event, checks(event) | DriverEvent::leased | DriverEvent::unrecorded);
  }
  // Refers to the same event, so the caller decides which lease ends it.
  Lease(const Lease&) noexcept = default;
  Lease& operator=(const Lease&) noexcept = default;
  ~Lease() = default;

  /// Only for a lease that is not empty: the owner of its event is always a LeasedEvent.
  LeasedEvent& leased_event() const noexcept { return static_cast<LeasedEvent&>(*owner_); }
  /// Becomes the lease that `event` is on already.
  void resume(LeasedEvent& event) noexcept {
    event_ = event.native_handle();
    owner_ = &event;
  }
  void forget() noexcept { *this = Lease(); }
  void swap(Lease& other) noexcept {
    const Lease lease(other);
    other = *this;
    *this = lease;
  }
  static void give_back(LeasedEvent& event) noexcept;
};

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
