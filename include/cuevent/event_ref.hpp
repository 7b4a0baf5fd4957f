// SPDX-License-Identifier: MIT
/// \file
/// \brief EventRef: a reference to an event that somebody else owns.
#pragma once

#include <cuevent/driver_event.hpp>

#pragma GCC visibility push(default)
namespace cuevent { inline namespace CUEVENT_ABI {

class EventRef;

/// What an event of a pool has in addition. For the library only.
struct PoolEvent : DriverEvent {
  PoolEvent(DriverEvent&& event, const DriverEvent* its_fresh) noexcept
      : DriverEvent(static_cast<DriverEvent&&>(event)), fresh(its_fresh) {}

  const DriverEvent* fresh; // what a lease reads until it has recorded; null if it refuses
};

/// What can be done with an event through an EventRef or a lease.
///
/// Thread-safety: as EventRef. Context: as EventRef. During capture: as EventRef.
class EventAccess {
public:
  using Milliseconds = DriverEvent::Milliseconds;

  /// As DriverEvent::record(). Driver functions: cuEventRecord,
  /// cuEventRecordWithFlags.
  void record(StreamRef stream, RecordFlags flags = RecordFlags::none) const {
    if (const CUresult result = try_record(stream, flags); result != CUDA_SUCCESS)
      fail_record(result, stream, flags);
  }
  [[nodiscard]] CUresult try_record(StreamRef stream, RecordFlags flags = RecordFlags::none) const noexcept {
    if (__builtin_expect(stream.needs_context() || flags != RecordFlags::none, false))
      return record_otherwise(stream, flags);
    const CUresult result = table().cuEventRecord_v2000(event_, stream.native_handle());
    if (result == CUDA_SUCCESS) note_record();
    return result;
  }

  /// As DriverEvent::wait(). Driver function: cuStreamWaitEvent.
  void wait(StreamRef stream, WaitFlags flags = WaitFlags::none) const {
    if (const CUresult result = try_wait(stream, flags); result != CUDA_SUCCESS)
      fail_wait(result, stream, flags);
  }
  [[nodiscard]] CUresult try_wait(StreamRef stream, WaitFlags flags = WaitFlags::none) const noexcept {
    const DriverTable& driver = table();
    const bool other = (checks() & (DriverEvent::unrecorded | DriverEvent::interprocess)) != 0;
    if (__builtin_expect(stream.needs_context() || flags != WaitFlags::none || other, false))
      return wait_otherwise(stream, flags);
    return driver.cuStreamWaitEvent_v3020(stream.native_handle(), event_, 0);
  }

  /// As DriverEvent::query(). Driver function: cuEventQuery.
  [[nodiscard]] bool query() const {
    const CUresult result = try_query();
    if (result == CUDA_SUCCESS) return true;
    if (result != CUDA_ERROR_NOT_READY) fail_query(result, "cuEventQuery");
    return false;
  }
  [[nodiscard]] CUresult try_query() const noexcept {
    const DriverTable& driver = table(); // read once, which the check would prevent
    return unrecorded() ? query_fresh() : driver.cuEventQuery_v2000(event_);
  }

  /// As DriverEvent::query_relaxed(). Driver functions: cuThreadExchangeStreamCaptureMode twice,
  /// cuEventQuery.
  [[nodiscard]] bool query_relaxed() const;
  [[nodiscard]] CUresult try_query_relaxed() const noexcept;

  /// As DriverEvent::synchronize(). Driver function: cuEventSynchronize.
  void synchronize() const {
    if (const CUresult result = try_synchronize(); result != CUDA_SUCCESS)
      fail_query(result, "cuEventSynchronize");
  }
  [[nodiscard]] CUresult try_synchronize() const noexcept {
    const DriverTable& driver = table();
    return unrecorded() ? synchronize_fresh() : driver.cuEventSynchronize_v2000(event_);
  }

  /// As DriverEvent::synchronize_for() and synchronize_until(): takes any duration, or a
  /// time_point of any clock.
  [[nodiscard]] bool synchronize_for(TimeLimit timeout) const;
  [[nodiscard]] bool synchronize_until(Deadline deadline) const;
  [[nodiscard]] CUresult try_synchronize_for(TimeLimit timeout) const noexcept;
  [[nodiscard]] CUresult try_synchronize_until(Deadline deadline) const noexcept;

  /// As DriverEvent::elapsed_time(end). Driver function: cuEventElapsedTime.
  Milliseconds elapsed_time(const EventAccess& end) const {
    Milliseconds time{};
    if (const CUresult result = try_elapsed_time(time, end); result != CUDA_SUCCESS)
      fail_elapsed(result, end);
    return time;
  }
  Milliseconds elapsed_time(const DriverEvent& end) const { return elapsed_time(EventAccess(end)); }
  [[nodiscard]] CUresult try_elapsed_time(Milliseconds& out, const EventAccess& end) const noexcept {
    const DriverEvent &start_owner = *owner_, &end_owner = *end.owner_; // each read once
    const bool either_unrecorded = (checks(start_owner) | checks(end_owner)) < 0;
    const DriverTable& driver = start_owner.table();
    if (__builtin_expect(either_unrecorded || &driver != &end_owner.table(), false))
      return CUDA_ERROR_INVALID_HANDLE;
    float milliseconds; // written by the driver if it succeeds
    const CUresult result = driver.cuEventElapsedTime_v12080(&milliseconds, event_, end.event_);
    if (result == CUDA_SUCCESS) out = Milliseconds(milliseconds);
    return result;
  }
  [[nodiscard]] CUresult try_elapsed_time(Milliseconds& out, const DriverEvent& end) const noexcept {
    return try_elapsed_time(out, EventAccess(end));
  }

  /// The handle, null if there is none. No driver call.
  CUevent native_handle() const noexcept { return event_; }
  /// The context of the event. Empty for a CUevent, because the driver does not tell it. No driver
  /// call.
  const Context& context() const noexcept { return owner_->context_; }
  /// The driver of the event. No driver call.
  const Driver& driver() const noexcept { return owner_->context_.driver(); }
  /// The flags that the event was made with. Returns EventFlags::none for a CUevent, because the
  /// driver does not tell them. No driver call.
  EventFlags flags() const noexcept { return owner_->flags_; }
  /// True for a reference to a lease, whose event returns to its pool. No driver call.
  bool leased() const noexcept { return (checks() & DriverEvent::leased) != 0; }

  explicit operator bool() const noexcept { return event_ != nullptr; }
  /// True if both refer to the same event of the same driver, regardless of who owns it.
  friend bool operator==(EventRef a, EventRef b) noexcept;
  friend bool operator!=(EventRef a, EventRef b) noexcept;

protected:
  friend struct Explanation;

  const DriverTable& table() const noexcept { return owner_->table(); }

  // A thread that sees the event recorded also sees what the recording thread did before.
  static int checks(const DriverEvent& owner) noexcept {
    return __atomic_load_n(&owner.checks_, __ATOMIC_ACQUIRE);
  }
  int checks() const noexcept { return checks(*owner_); }
  static void set_checks(DriverEvent& owner, int checks) noexcept {
    __atomic_store_n(&owner.checks_, static_cast<short>(checks), __ATOMIC_RELEASE);
  }
  bool unrecorded() const noexcept { return checks() < 0; }
  // Threads that note a record at once all write one value: no other bit changes meanwhile.
  void note_record() const noexcept {
    if (__builtin_expect(unrecorded(), false)) set_checks(*owner_, checks() & ~int{DriverEvent::unrecorded});
  }

  [[gnu::visibility("hidden")]] static DriverEvent owner_of_plain_events(const DriverTable& table) noexcept;
  /// Whether only a CUevent is known, so that its owner is the one above.
  bool plain() const noexcept { return event_ != owner_->event_; }
  [[gnu::visibility("hidden")]] DriverEvent borrowed() const noexcept;

  template <class Call>
  [[gnu::visibility("hidden")]] CUresult on_plain(StreamRef stream, const Call& call) const noexcept;
  /// For a lease that has not recorded its event: what the lease reads instead, or null.
  [[gnu::visibility("hidden")]] const DriverEvent* fresh() const noexcept;
  /// Whether the lease refuses to be read, because it has not recorded its event.
  [[gnu::visibility("hidden")]] bool refuses() const noexcept;
  /// The event that this call reads, borrowed. Empty if the lease refuses.
  [[gnu::visibility("hidden")]] DriverEvent readable() const noexcept;
  [[gnu::cold]] CUresult query_fresh() const noexcept;
  [[gnu::cold]] CUresult synchronize_fresh() const noexcept;

  CUresult record_otherwise(StreamRef stream, RecordFlags flags) const noexcept;
  CUresult wait_otherwise(StreamRef stream, WaitFlags flags) const noexcept;

  // Called only after a failure, to find out why the call was refused.
  [[noreturn, gnu::cold]] void fail_record(CUresult result, StreamRef stream, RecordFlags flags) const;
  [[noreturn, gnu::cold]] void fail_wait(CUresult result, StreamRef stream, WaitFlags flags) const;
  [[noreturn, gnu::cold]] void fail_query(CUresult result, const char* call) const;
  [[noreturn, gnu::cold]] void fail_elapsed(CUresult result, const EventAccess& end) const;

  static const DriverEvent none_;

  EventAccess() noexcept : event_(nullptr), owner_(const_cast<DriverEvent*>(&none_)) {}
  explicit EventAccess(const DriverEvent& event) noexcept
      : event_(event.event_), owner_(const_cast<DriverEvent*>(&event)) {}
  EventAccess(const EventAccess&) noexcept = default;
  EventAccess& operator=(const EventAccess&) noexcept = default;
  ~EventAccess() = default;

  CUevent event_;
  // Has the driver, the context and the flags. Only `checks_` of a lease is written, which is never const.
  DriverEvent* owner_;
};

/// A reference to an event that somebody else owns, for functions that only use the event. The
/// owner can be a DriverEvent, a lease (lease.hpp) or a program that has only a CUevent. Two
/// words; copy it freely. The owner must outlive the calls. The members act as in DriverEvent, with these
/// differences:
/// - For a lease that has not recorded its event, query, wait, synchronize and elapsed_time throw
///   NeverRecorded, and their non-throwing overloads return CUDA_ERROR_INVALID_HANDLE. With
///   FreshLease::reads_new only elapsed_time does.
/// - For a lease, an external record or wait throws NotSupported, because the graph would outlive the lease.
///   So does every other call that gives the event to a graph or to a launch attribute. In a stream that is
///   not being captured, external_in_capture means none.
/// - For a CUevent, a default stream is one of the current context, as for the driver. If the event was made
///   with CU_EVENT_INTERPROCESS, use DriverEvent::borrow() instead, because some waits for such an event
///   crash the process.
///
///     const EventRef done = event; // or a lease, or a CUevent that somebody else owns
///     done.record(stream);
///     done.wait(other);
///
/// Thread-safety: as the event that it refers to. Distinct references may be used on any thread.
/// Context: acts in the event's context and leaves the caller's current context unchanged.
/// During capture: as DriverEvent.
class EventRef : public EventAccess {
public:
  /// Refers to no event. The members throw EmptyEvent, and their non-throwing overloads return
  /// CUDA_ERROR_INVALID_HANDLE.
  EventRef() noexcept = default;

  /// Refers to `event`, which must not move, close or be assigned while the reference is in use. Even a
  /// reference to a const event can record the event: that changes the driver's event, but not the object.
  EventRef(const DriverEvent& event) noexcept : EventAccess(event) {}

  /// Refers to the event of a lease.
  EventRef(const EventAccess& event) noexcept : EventAccess(event) {}

  /// Refers to an event that the program made by other means, or to none if `event` is null. No
  /// driver call. For native_handle() of a lease, nothing checks that the lease lasts long enough.
  explicit EventRef(CUevent event, const Driver& driver) noexcept;

private:
  friend struct KeptTable;
};

inline bool operator==(EventRef a, EventRef b) noexcept {
  return a.event_ == b.event_ && &a.table() == &b.table();
}
inline bool operator!=(EventRef a, EventRef b) noexcept { return !(a == b); }

inline DriverEvent::Milliseconds DriverEvent::elapsed_time(const EventAccess& end) const {
  return EventRef(*this).elapsed_time(end);
}
inline CUresult DriverEvent::try_elapsed_time(Milliseconds& out, const EventAccess& end) const noexcept {
  return EventRef(*this).try_elapsed_time(out, end);
}

}} // namespace cuevent::CUEVENT_ABI
#pragma GCC visibility pop
